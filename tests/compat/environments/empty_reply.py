"""A model that says nothing."""

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": "Silence?", "answer": ""}]
REPLIES = {"Silence?": [""]}


def quiet(completion) -> float:
    return float(all(not m["content"] for m in completion)) + len(completion)


def load_environment() -> vf.Environment:
    return vf.SingleTurnEnv(dataset=Dataset.from_list(ROWS), rubric=vf.Rubric(funcs=[quiet]))
