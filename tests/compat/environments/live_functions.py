"""Functions and weights are added to the lists of a rubric, changed and taken out after it was made."""

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": "2 + 2?", "answer": "4"}]
REPLIES = {"2 + 2?": ["4"]}


def right(completion, answer) -> float:
    return float(completion[-1].content == answer)


def short(completion) -> float:
    return float(len(completion[-1].content) < 3)


def polite(completion) -> float:
    return float("please" in completion[-1].content)


async def length(completion) -> float:
    return len(completion[-1].content)


def load_environment() -> vf.Environment:
    rubric = vf.Rubric(funcs=[polite, right], weights=[1.0, 1.0])
    rubric.funcs.append(short)
    rubric.weights.append(0.25)
    rubric.add_metric(length)
    environment = vf.SingleTurnEnv(dataset=Dataset.from_list(ROWS), rubric=rubric)
    rubric.weights[1] = 3.0
    rubric.funcs.pop(0)
    rubric.weights.pop(0)
    rubric.add_reward_func(lambda answer: 0.5, weight=2.0)
    return environment
