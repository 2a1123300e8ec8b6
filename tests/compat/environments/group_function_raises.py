"""A function of a group raises, and another one does not."""

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": "Say a word.", "answer": "x"}]
REPLIES = {"Say a word.": [{"any of": ["a", "bb"]}]}
OPTIONS = {"rollouts_per_example": 2}


def broken(completions, **kwargs) -> list[float]:
    raise ValueError("no comparison")


def share(completions) -> list[float]:
    lengths = [len(completion[-1]["content"]) for completion in completions]
    return [length / sum(lengths) for length in lengths]


def load_environment() -> vf.Environment:
    rubric = vf.Rubric(funcs=[broken, share], weights=[1.0, 1.0])
    return vf.SingleTurnEnv(dataset=Dataset.from_list(ROWS), rubric=rubric)
