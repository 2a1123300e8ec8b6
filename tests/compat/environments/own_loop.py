"""A subclass of Environment has a rollout of its own, which asks the model twice and scores the better answer."""

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": "2 + 2?", "answer": "4"}]


def replies(messages):
    return "4" if "sure" in messages[-1]["content"] else "five"


class Twice(vf.Environment):
    async def rollout(self, input, client, model, sampling_args=None):
        state = await self.init_state(input, client, model, sampling_args)
        first = await self.get_model_response(state, state["prompt"])
        again = [
            *state["prompt"],
            vf.AssistantMessage(content=first.message.content),
            vf.UserMessage(content="Are you sure?"),
        ]
        second = await self.get_model_response(state, again)
        best = min((first, second), key=lambda response: len(response.message.content))
        state["completion"] = [vf.AssistantMessage(content=best.message.content)]
        state["is_completed"], state["stop_condition"] = True, "asked twice"
        return state


def right(completion, answer) -> float:
    return float(completion[0].content == answer)


def load_environment() -> vf.Environment:
    return Twice(
        dataset=Dataset.from_list(ROWS), rubric=vf.Rubric(funcs=[right]), system_prompt="Add."
    )
