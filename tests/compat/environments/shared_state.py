"""A function leaves what it found in the state for the next, in another rubric too."""

import verifiers as vf
from datasets import Dataset

ROWS = [
    {
        "question": "Two words.",
        "answer": "2",
        "info": {"words": ["one", "two"], "limits": {"low": 1, "high": 2}},
    }
]
REPLIES = {"Two words.": ["one two"]}
OPTIONS = {"state_columns": ["found", "info"]}


async def finds(completion, state, info) -> float:
    state["found"] = [word for word in info["words"] if word in completion[-1]["content"]]
    return len(state["found"]) / info["limits"]["high"]


def enough(state, info) -> float:
    return float(info["limits"]["low"] <= len(state["found"]))


def counted(state, answer) -> float:
    return float(len(state["found"]) == int(answer))


def load_environment() -> vf.Environment:
    group = vf.RubricGroup(
        rubrics=[vf.Rubric(funcs=[finds, enough]), vf.Rubric(funcs=[counted], weights=[0.5])]
    )
    return vf.SingleTurnEnv(dataset=Dataset.from_list(ROWS), rubric=group)
