"""Rubrics of judged criteria, partial reports, and a table of hostile texts."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from assay import EvaluationReport, GradingError, Rubric
from assay.graders import Autograder

CASES = Path(__file__).parents[1] / "cases"

MakeRubric = Callable[..., Rubric]
GradePartially = Callable[[Rubric, Autograder], Awaitable[EvaluationReport]]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize tests that use `attack` with the rows of the injection table."""
    if "attack" in metafunc.fixturenames:
        lines = (CASES / "judge_injection.jsonl").read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines]
        metafunc.parametrize(
            ("attack", "harmless"),
            [pytest.param(row["text"], row["expected"], id=row["case"]) for row in rows],
        )


@pytest.fixture
def make_rubric() -> MakeRubric:
    """Make a rubric of judged criteria with these weights, named `holds_1`, `holds_2`, …"""

    def make(*weights: float, **options: Any) -> Rubric:
        questions = [
            {"requirement": f"Holds {n}", "weight": w} for n, w in enumerate(weights, start=1)
        ]
        return Rubric(questions, **options)

    return make


@pytest.fixture
def grade_partially() -> GradePartially:
    """Grade, and return the report of a grading in which some verdicts are missing."""

    async def grade(rubric: Rubric, grader: Autograder) -> EvaluationReport:
        with pytest.raises(GradingError) as caught:
            await rubric.grade("a text", judge=grader)
        return caught.value.report

    return grade
