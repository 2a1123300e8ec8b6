"""A rubric has its own score_rollout, and rollouts are scored each by itself."""

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": "Yes or no?", "answer": "yes"}, {"question": "No or yes?", "answer": "no"}]
REPLIES = {"Yes or no?": ["yes"], "No or yes?": ["maybe"]}
OPTIONS = {"independent_scoring": True}


class Doubled(vf.Rubric):
    async def score_rollout(self, state):
        await super().score_rollout(state)
        state["reward"] = 2 * state["reward"] - 1


def exact(completion, answer) -> float:
    return float(completion[-1]["content"] == answer)


def load_environment() -> vf.Environment:
    return vf.SingleTurnEnv(dataset=Dataset.from_list(ROWS), rubric=Doubled(funcs=[exact]))
