"""Plain and async tools return numbers, lists and mappings, and are called several at once."""

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": "Sum and list?", "answer": "done"}, {"question": "No tool?", "answer": "none"}]
REPLIES = {
    "Sum and list?": [
        [("add", {"a": 2, "b": 3}), ("look_up", {"key": "x"})],
        ("listed", {"n": 2}),
        "done",
    ],
    "No tool?": ["none"],
}


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def look_up(key: str) -> dict:
    """Look up a key.

    Args:
        key: What to look for.
    """
    return {"key": key, "found": True}


def listed(n: int = 1) -> list:
    """List some records."""
    return [{"a": number} for number in range(n)]


async def right(completion, answer, **kwargs) -> float:
    return float(completion[-1].content == answer)


def read_the_sum(completion) -> float:
    return float(any(m.role == "tool" and m.content == "5" for m in completion))


def load_environment() -> vf.Environment:
    rubric = vf.Rubric(funcs=[right, read_the_sum], weights=[1.0, 0.5])
    return vf.ToolEnv(
        dataset=Dataset.from_list(ROWS), tools=[add, look_up, listed], max_turns=5, rubric=rubric
    )
