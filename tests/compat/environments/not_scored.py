"""Rollouts that are not to be scored get what the rubric has for that case."""

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": "2 + 2?", "answer": "4"}]
REPLIES = {"2 + 2?": ["4"]}


class Marked(vf.Rubric):
    async def dummy_score_rollout(self, state):
        await super().dummy_score_rollout(state)
        state["metrics"] = {"was_skipped": 1.0, "was": state["reward"]}


def never(completion) -> float:
    raise AssertionError("it is not to be called")


def load_environment() -> vf.Environment:
    env = vf.SingleTurnEnv(dataset=Dataset.from_list(ROWS), rubric=Marked(funcs=[never]))
    env.set_score_rollouts(False)
    return env
