"""One group of rubrics is that of two environments."""

import verifiers as vf
from datasets import Dataset

REPLIES = {"Again?": ["4"], "And again?": ["5"]}


def right(completion, answer) -> float:
    return float(completion[-1].content == answer)


def load_environment() -> vf.Environment:
    group = vf.RubricGroup(rubrics=[vf.Rubric(funcs=[right])])
    rows = [Dataset.from_list([{"question": question, "answer": "4"}]) for question in REPLIES]
    return vf.EnvGroup(envs=[vf.SingleTurnEnv(dataset=each, rubric=group) for each in rows])
