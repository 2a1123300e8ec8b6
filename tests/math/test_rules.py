"""The page of rules says what happens, of us and of math-verify."""

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

from assay.isolation import shared_pool
from assay.math import MathOptions, verify
from assay.math.words import NOTATIONS, WORDS, TableRow

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "score-mathematics.md"
ROW = re.compile(r"^\|(.*?)\| `(.*)` \| `(.*)` \| (yes|no) \| (yes|no) \|$", re.MULTILINE)
ROWS = [
    (gold.replace(r"\|", "|"), answer.replace(r"\|", "|"), ours == "yes", theirs == "yes")
    for _, gold, answer, ours, theirs in ROW.findall(PAGE.read_text())
]


def test_the_page_has_rows():
    assert len(ROWS) > 80


@pytest.mark.parametrize(("gold", "answer", "ours"), [row[:3] for row in ROWS])
def test_a_rule_holds(gold: str, answer: str, ours: bool):
    """What the page says of a pair is the verdict on it, and no failure stands behind a no."""
    verdict = verify(gold, answer)
    assert verdict.equal is ours, verdict
    assert verdict.decided, verdict


def tool() -> Any:
    path = PAGE.parents[2] / "tools" / "math_rules.py"
    spec = importlib.util.spec_from_file_location("math_rules", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_holds_the_tables_of_words_units_and_notations():
    """As `python tools/math_rules.py` writes them from the code."""
    page = PAGE.read_text(encoding="utf-8")
    assert tool().with_tables(page) == page


@pytest.mark.parametrize("row", [*WORDS, *tool().unit_rows(), *NOTATIONS], ids=lambda row: row.kind)
def test_a_row_of_a_table_shows_what_its_entries_do(row: TableRow):
    """Its example is the verdict."""
    verdict = verify(row.gold, row.answer)
    assert verdict.equal is row.same, verdict


@pytest.mark.slow
def test_the_page_says_what_math_verify_says():
    """The last column is math-verify's own verdict."""
    pool = shared_pool()
    wrong = []
    for gold, answer, _, theirs in ROWS:
        outcome = pool.call(bare_verdict, gold, answer, timeout=60)
        if outcome.value is not theirs:
            wrong.append((gold, answer, outcome))
    assert not wrong


def bare_verdict(gold: str, answer: str) -> bool:
    import logging

    from math_verify import parse, verify

    logging.disable(logging.CRITICAL)
    sides = [parse(f"\\boxed{{{side}}}", parsing_timeout=None) for side in (gold, answer)]
    return verify(*sides, timeout_seconds=None)


@pytest.mark.parametrize(
    ("options", "gold", "answer", "equal"),
    [
        (MathOptions(tolerance=0.01), "3.14", r"\pi", True),
        (MathOptions(rounding=2), r"\frac{1}{3}", "0.33", True),
        (MathOptions(units=False), "5", r"5\text{ cm}", False),
        (MathOptions(ordered_tuples=False), "(1,2)", "(2,1)", True),
        (MathOptions(assignments=False), "3", "x=3", False),
        (MathOptions(rename_variables=True), "2x+1", "2y+1", True),
        (MathOptions(positive=True), r"\sqrt{x^2}", "x", True),
        (MathOptions(solved=True), "x=2", "2x+3=7", False),
        (MathOptions(solved=True), "x=5", "x=2+3", False),
        (MathOptions(solved=True), "x=5", "2+3=x", False),
        (MathOptions(solved=True), "x=5", "2+3", False),
        (MathOptions(solved=True), "5", "x=2+3", False),
        (MathOptions(symbolic=False), r"\sum_{k=1}^{n} k", r"\frac{n(n+1)}{2}", False),
    ],
)
def test_an_option_changes_one_rule(options: MathOptions, gold: str, answer: str, equal: bool):
    """Each matter of taste is an option, and its default is the other way."""
    assert verify(gold, answer, options=options).equal is equal
    assert verify(gold, answer).equal is not equal
