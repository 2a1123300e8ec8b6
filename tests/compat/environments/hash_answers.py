"""Answers after a mark, and texts without one."""

import verifiers as vf
from datasets import Dataset

ROWS = [
    {"question": "marked", "answer": "6"},
    {"question": "unmarked", "answer": "7"},
    {"question": "boxed", "answer": " 8 "},
]
REPLIES = {"marked": ["so\n#### 6"], "unmarked": ["7"], "boxed": ["\\boxed{ 8 }"]}


def hashed(completion, answer) -> float:
    return float(vf.extract_hash_answer(completion[-1]["content"]) == answer)


def boxed(completion, answer) -> float:
    return float(vf.extract_boxed_answer(completion[-1]["content"]) == answer)


def load_environment() -> vf.Environment:
    return vf.SingleTurnEnv(
        dataset=Dataset.from_list(ROWS), rubric=vf.Rubric(funcs=[hashed, boxed])
    )
