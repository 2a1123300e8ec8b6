"""Pairs of answers as people write them: words, units, choices, numerals of other countries."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from assay import MathOptions
from assay.math import verify_many

TABLE = Path(__file__).parents[1] / "cases" / "answer_pairs.jsonl"
ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in TABLE.read_text(encoding="utf-8").splitlines()
]
KINDS = sorted({row["kind"] for row in ROWS})


@pytest.mark.parametrize("solved", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_told_apart_and_accepted_as_a_reader_would(kind: str, solved: bool):
    """Also where an answer must be solved, except in the rows that say so."""
    rows = [row for row in ROWS if row["kind"] == kind]
    pairs = [(row["gold"], row["answer"]) for row in rows]
    verdicts = verify_many(pairs, options=MathOptions(solved=solved))
    wrong: list[Any] = []
    for row, verdict in zip(rows, verdicts, strict=True):
        expected = row["equal"]
        if solved:
            expected = row.get("equal_if_solved", expected)
        if verdict.equal is not expected or not verdict.decided:
            wrong.append((row, verdict))
    assert not wrong


def test_the_table_has_many_pairs_of_both_sorts():
    """At least 400 of each, and none twice."""
    counts = Counter(row["equal"] for row in ROWS)
    assert min(counts.values()) >= 400
    assert len({(row["gold"], row["answer"]) for row in ROWS}) == len(ROWS)
