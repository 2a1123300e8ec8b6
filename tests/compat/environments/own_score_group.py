"""A rubric has its own score_group around that of the class."""

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": "How sure?", "answer": "90"}]
REPLIES = {"How sure?": [{"any of": ["90", "10", "50"]}]}
OPTIONS = {"rollouts_per_example": 3}


class Squared(vf.Rubric):
    async def score_group(self, states):
        await super().score_group(states)
        best = max(state["reward"] for state in states)
        for state in states:
            state["metrics"]["gap"] = best - state["reward"]
            state["reward"] = state["reward"] ** 2


def closeness(completion, answer) -> float:
    return 1 - abs(int(completion[-1]["content"]) - int(answer)) / 100


def load_environment() -> vf.Environment:
    return vf.SingleTurnEnv(dataset=Dataset.from_list(ROWS), rubric=Squared(funcs=[closeness]))
