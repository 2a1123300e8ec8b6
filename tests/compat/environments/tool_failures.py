"""What goes wrong with a tool is told to the model, in the words of the error."""

import verifiers as vf
from datasets import Dataset

ROWS = [
    {"question": "raise"},
    {"question": "unknown"},
    {"question": "wrong name"},
    {"question": "no json"},
]
REPLIES = {
    "raise": [("divide", {"a": 1, "b": 0}), "so be it"],
    "unknown": [("multiply", {"a": 1, "b": 2}), "ok"],
    "wrong name": [("divide", {"a": 1, "c": 2}), "ok"],
    "no json": [("divide", "{a: 1"), ("divide", {"a": 4, "b": 2}), "ok"],
}


def divide(a: float, b: float) -> float:
    """Divide a by b."""
    return a / b


def told(completion) -> float:
    return float(sum(len(m["content"]) for m in completion if m["role"] == "tool"))


def load_environment() -> vf.Environment:
    return vf.ToolEnv(
        dataset=Dataset.from_list(ROWS), tools=[divide], max_turns=4, rubric=vf.Rubric(funcs=[told])
    )
