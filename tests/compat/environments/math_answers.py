"""Mathematics in a box, compared by value."""

import verifiers as vf
from datasets import Dataset

ROWS = [
    {"question": "Half?", "answer": "\\frac{1}{2}"},
    {"question": "Third?", "answer": "\\frac{1}{3}"},
]
REPLIES = {"Half?": ["It is \\boxed{0.5}."], "Third?": ["It is \\boxed{\\frac{1}{4}}."]}


def load_environment() -> vf.Environment:
    rubric = vf.MathRubric()
    rubric.add_reward_func(boxed, weight=0.1)
    return vf.SingleTurnEnv(dataset=Dataset.from_list(ROWS), parser=rubric.parser, rubric=rubric)


def boxed(completion) -> float:
    return float("boxed" in completion[-1]["content"])
