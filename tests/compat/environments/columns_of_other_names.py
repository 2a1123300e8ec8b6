"""Columns that mean something elsewhere are plain columns here: `rubric`, `image`, and the names of fields of a state."""

import verifiers as vf
from datasets import Dataset

COLUMNS = {
    "rubric": [{"criterion": "Names the number.", "points": 3}],
    "image": "cat.png",
    "error": "TypeError",
    "model": "gpt-2",
    "turn": 7,
    "timing": "late",
    "completion": "gold",
    "reward": 0.25,
}
ROWS = [
    {"question": "2 + 2?", "answer": "4", **COLUMNS},
    {"question": "3 + 3?", "answer": "6", **COLUMNS},
]
REPLIES = {"2 + 2?": ["4"], "3 + 3?": ["7"]}


def right(completion, answer) -> float:
    return float(completion[-1].content == answer)


def points(rubric, image) -> float:
    return float(sum(criterion["points"] for criterion in rubric)) + float(image == "cat.png")


def by_name(error, model, turn) -> float:
    return float(error == "TypeError") + float(model == "gpt-2") + turn


def by_keyword(state, **columns) -> float:
    return float(columns["timing"] == "late") + columns["reward"] + float(state["error"] is None)


def load_environment() -> vf.Environment:
    rubric = vf.Rubric(funcs=[right, points, by_name, by_keyword], weights=[1.0, 0.1, 0.1, 0.1])
    return vf.SingleTurnEnv(dataset=Dataset.from_list(ROWS), rubric=rubric)
