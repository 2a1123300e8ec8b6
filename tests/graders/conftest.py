"""Rubrics, and a table of hostile texts as parameters."""

import json
from pathlib import Path
from typing import Any

import pytest

from assay import EvaluationReport, GradingError, Rubric
from assay.graders import Autograder

CASES = Path(__file__).parents[1] / "cases"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test that asks for `attack` the rows of the injection table, each text and outcome."""
    if "attack" in metafunc.fixturenames:
        lines = (CASES / "judge_injection.jsonl").read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines]
        metafunc.parametrize(
            ("attack", "harmless"),
            [pytest.param(row["text"], row["expected"], id=row["case"]) for row in rows],
        )


def rubric_of(*weights: float, **options: Any) -> Rubric:
    """A rubric of judged criteria with these weights: `Holds 1`, `Holds 2`, …"""
    return Rubric(
        [{"requirement": f"Holds {n}", "weight": w} for n, w in enumerate(weights, start=1)],
        **options,
    )


async def partial_report(rubric: Rubric, grader: Autograder) -> EvaluationReport:
    """The report of a grading that did not find every answer."""
    with pytest.raises(GradingError) as caught:
        await rubric.grade("a text", autograder=grader)
    return caught.value.report
