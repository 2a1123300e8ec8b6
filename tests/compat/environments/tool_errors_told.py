"""Tools raise, are unknown, get arguments that they do not take, and return nothing; the model is told in own words."""

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": "Divide!", "answer": "2"}, {"question": "Break it!", "answer": ""}]
REPLIES = {
    "Divide!": [
        [("divide", {"a": 4, "b": 0}), ("divide", {"a": 4, "b": 2})],
        ("note", {"text": "x"}),
        "2.0",
    ],
    "Break it!": [
        ("divide", "{not json"),
        ("divide", {"a": 1, "c": 2}),
        ("no_such_tool", {}),
        ("divide", "[1]"),
        "sorry",
    ],
}


def divide(a: float, b: float = 1.0) -> float:
    """Divide one number by another.

    Args:
        a: What is divided.
        b: What it is divided by.
    """
    return a / b


async def note(text: str) -> None:
    """Write something down."""


def told(error: Exception) -> str:
    return f"{type(error).__name__}!"


def right(completion, answer) -> float:
    return float(bool(answer) and completion[-1].content.startswith(answer))


def load_environment() -> vf.Environment:
    rubric = vf.Rubric(funcs=[right])
    return vf.ToolEnv(
        dataset=Dataset.from_list(ROWS),
        tools=[divide, note],
        rubric=rubric,
        max_turns=5,
        error_formatter=told,
    )
