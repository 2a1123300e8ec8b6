"""A reward function raises for one of two rollouts."""

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": "A number?", "answer": "4"}, {"question": "Another?", "answer": "5"}]
REPLIES = {"A number?": ["four"], "Another?": ["5"]}


def distance(completion, answer) -> float:
    return abs(int(completion[-1]["content"]) - int(answer)) + 1


def spoke(completion) -> float:
    return float(bool(completion[-1]["content"]))


def load_environment() -> vf.Environment:
    rubric = vf.Rubric(funcs=[distance, spoke], weights=[1.0, 0.5])
    return vf.SingleTurnEnv(dataset=Dataset.from_list(ROWS), rubric=rubric)
