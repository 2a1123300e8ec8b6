"""Functions name objects of the rubric; lambdas, metrics and negative weights."""

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": "Pick a fruit.", "answer": "fig"}]
REPLIES = {"Pick a fruit.": ["plum"]}


def priced(completion, prices) -> float:
    return prices.get(completion[-1]["content"], 0)


def load_environment() -> vf.Environment:
    rubric = vf.Rubric(funcs=[priced, lambda completion: 2], weights=[0.5, -0.25])
    rubric.add_class_object("prices", {"plum": 3, "fig": 5})
    rubric.add_metric(wrong)
    return vf.SingleTurnEnv(dataset=Dataset.from_list(ROWS), rubric=rubric)


def wrong(completion, answer) -> bool:
    return completion[-1]["content"] != answer
