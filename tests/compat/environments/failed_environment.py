"""The environment raises an error of the package in the middle of a rollout."""

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": "Fetch.", "answer": "x"}, {"question": "Stay.", "answer": "x"}]
REPLIES = {"Fetch.": ["running", "back"], "Stay.": ["sitting", "lying"]}


class Dog(vf.MultiTurnEnv):
    async def setup_state(self, state):
        if state["prompt"][-1]["content"] == "Stay.":
            raise vf.ToolError("no lead")

    async def env_response(self, messages, state, **kwargs):
        raise vf.InfraError("the ball is lost")


def obeyed(state) -> float:
    return float(state.get("error") is None) + len(state["completion"])


def load_environment() -> vf.Environment:
    return Dog(dataset=Dataset.from_list(ROWS), max_turns=3, rubric=vf.Rubric(funcs=[obeyed]))
