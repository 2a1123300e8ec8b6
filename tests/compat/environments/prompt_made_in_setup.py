"""The prompt, the answer and the info are made when a rollout begins, and the results show what was asked."""

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": "Add the numbers.", "answer": "unknown", "info": {"numbers": [2, 3]}}]
REPLIES = {"Add the numbers.": ["6", "5", "never said"]}


class Adding(vf.MultiTurnEnv):
    async def setup_state(self, state):
        numbers = state["info"]["numbers"]
        state["prompt"] = [*state["prompt"], vf.UserMessage(content=f"They are {numbers}.")]
        state["answer"] = str(sum(numbers))
        state["info"] = {**state["info"], "made": True}

    async def env_response(self, messages, state, **kwargs):
        if messages[-1].content == state["answer"]:
            state["final_env_response"] = [{"role": "user", "content": "Right."}]
        return [{"role": "user", "content": "Look again."}]


def right(completion, answer, info) -> float:
    said = [message.content for message in completion if message.role == "assistant"]
    return float(info["made"] and said[-1] == answer) / len(said)


def load_environment() -> vf.Environment:
    # No limit, as it is with -1.
    return Adding(dataset=Dataset.from_list(ROWS), rubric=vf.Rubric(funcs=[right]), max_turns=0)
