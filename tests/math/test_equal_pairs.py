"""The table of right answers, of all kinds, each of which is proven and not merely near."""

import json
from pathlib import Path
from typing import Any

import pytest

from assay.math import MathOptions, verify

TABLE = Path(__file__).parents[1] / "cases" / "math_equal.jsonl"
ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in TABLE.read_text(encoding="utf-8").splitlines()
]
EXACT = MathOptions(symbolic=False, rounding=40)
"""Exact arithmetic alone: no simplification by math-verify, which rounds, and no decimal that is near."""


@pytest.mark.parametrize(
    "row", ROWS, ids=lambda row: f"{row['kind']}: {row['gold']} and {row['answer']}"
)
def test_a_right_answer_is_proven(row: dict[str, Any]):
    """A row that is marked as proven is proven by exact arithmetic, and no other row is."""
    assert verify(row["gold"], row["answer"], options=EXACT).equal is row["proven"]


def test_nearly_all_right_answers_are_proven():
    """Of 300 different pairs or more, of thirty kinds, 97 in a hundred."""
    assert len({(row["gold"], row["answer"]) for row in ROWS}) == len(ROWS) >= 300
    assert len({row["kind"] for row in ROWS}) >= 30
    assert sum(row["proven"] for row in ROWS) >= 0.97 * len(ROWS)


@pytest.mark.parametrize(
    "row",
    [row for row in ROWS if row["kind"] == "calculus" and not row["proven"]],
    ids=lambda row: row["answer"],
)
def test_limits_and_sums_without_end_are_left_to_math_verify(row: dict[str, Any]):
    """Its yes on them, confirmed by values, is what there is."""
    assert verify(row["gold"], row["answer"]).equal
