"""One question, one answer, and a function that compares them."""

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": "2 + 2?", "answer": "4"}, {"question": "3 + 3?", "answer": "6"}]
REPLIES = {"2 + 2?": ["4"], "3 + 3?": ["seven"]}


def exact(completion, answer, **kwargs) -> float:
    return 1.0 if completion[-1]["content"] == answer else 0.0


def short(completion) -> float:
    return len(completion[-1]["content"]) / 10


def load_environment(**kwargs) -> vf.Environment:
    rubric = vf.Rubric(funcs=[exact, short], weights=[1.0, 0.5])
    return vf.SingleTurnEnv(
        dataset=Dataset.from_list(ROWS), system_prompt="Only the number.", rubric=rubric, **kwargs
    )
