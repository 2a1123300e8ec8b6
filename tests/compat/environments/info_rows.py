"""Rows bring info, as a mapping or as JSON text, and columns that functions name."""

import json

import verifiers as vf
from datasets import Dataset

ROWS = [
    {"question": "Sky?", "answer": "blue", "info": json.dumps({"bonus": 0.5}), "level": 2},
    {"question": "Sun?", "answer": "yellow", "info": json.dumps({"bonus": 0.25}), "level": 3},
]
REPLIES = {"Sky?": ["blue"], "Sun?": ["red"]}


def with_bonus(completion, answer, info) -> float:
    return float(completion[-1]["content"] == answer) + info["bonus"]


def levelled(state, level) -> float:
    return level * state["info"]["bonus"] + state["input"]["level"]


def load_environment() -> vf.Environment:
    return vf.SingleTurnEnv(
        dataset=Dataset.from_list(ROWS), rubric=vf.Rubric(funcs=[with_bonus, levelled])
    )
