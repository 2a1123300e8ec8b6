"""A subclass shows the model only the last turns, rewards every step, and renders the completion itself."""

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": "Count!", "answer": "3"}]


def replies(messages):
    return str(1 + int(messages[-1]["content"].split()[-1])) if len(messages) == 2 else "1"


class Forgetful(vf.MultiTurnEnv):
    async def get_prompt_messages(self, state):
        if not state["trajectory"]:
            return state["prompt"]
        said = state["trajectory"][-1]["completion"][-1].content
        return [*state["prompt"], vf.UserMessage(content=f"You said {said}")]

    async def env_response(self, messages, state, **kwargs):
        raise AssertionError("the prompts are made by hand")

    async def add_trajectory_step(self, state, trajectory_step):
        trajectory_step["reward"] = float(trajectory_step["completion"][-1].content) / 10
        trajectory_step["extras"]["place"] = len(state["trajectory"])
        await super().add_trajectory_step(state, trajectory_step)

    async def render_completion(self, state):
        state["completion"] = [
            message for step in state["trajectory"] for message in step["completion"]
        ]


def sum_of_steps(state) -> float:
    return sum(step["reward"] for step in state["trajectory"])


def places(state) -> float:
    return float(sum(step["extras"]["place"] for step in state["trajectory"]))


def load_environment() -> vf.Environment:
    rubric = vf.Rubric(funcs=[sum_of_steps, places], weights=[1.0, 0.0])
    return Forgetful(dataset=Dataset.from_list(ROWS), rubric=rubric, max_turns=3)
