"""Functions return truth values, whole numbers, texts of numbers, and nothing."""

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": "Say 3.", "answer": "3"}]
REPLIES = {"Say 3.": ["3"]}


def truth(completion, answer) -> bool:
    return completion[-1]["content"] == answer


def whole(completion) -> int:
    return 3


async def nothing(completion):
    return None


def load_environment() -> vf.Environment:
    rubric = vf.Rubric(funcs=[truth, whole, nothing], weights=[1, 0.5, 2])
    return vf.SingleTurnEnv(dataset=Dataset.from_list(ROWS), rubric=rubric)
