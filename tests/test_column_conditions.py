"""`when` can ask for the value of a column."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from assay import PerCriterionGrader, Rubric, RubricFileError
from assay.cli import main
from assay.criterion import ColumnCondition
from assay.lint import lint
from assay.testing import FakeModel

CRITERIA = """
- check: {contains: der}
- requirement: Is fit for children
  when: WHEN
"""


def score(when: str, *rows: dict[str, Any]) -> list[Any]:
    rubric = Rubric.from_yaml(CRITERIA.replace("WHEN", when))
    judge = PerCriterionGrader(FakeModel("MET"))
    return asyncio.run(rubric.score([{"completion": "x", **row} for row in rows], judge=judge))


@pytest.mark.parametrize(
    ("when", "row", "holds"),
    [
        ("{Thema: Kinder}", {"Thema": "Kinder"}, True),
        ("{Thema: Kinder}", {"Thema": "Sport"}, False),
        ("{Thema: Kinder}", {"Thema": ""}, False),
        ("{Thema: Kinder}", {"Thema": None}, False),
        ("{Thema: [Kinder, Jugend]}", {"Thema": "Jugend"}, True),
        ("{Thema: Kinder}", {"Thema": ["Sport", "Kinder"]}, True),
        ("{column: Thema, is: Kinder}", {"Thema": " Kinder "}, True),
        ("{column: info.level, is: [2, 3]}", {"info": {"level": 3}}, True),
        ("{column: info.level, is: 3}", {"info": None}, False),
        ("{level: 3}", {"level": "3"}, True),
        ("{level: 3}", {"level": 3.0}, True),
        ("{urgent: true}", {"urgent": "True"}, True),
        ("{urgent: true}", {"urgent": False}, False),
        ("[{Thema: Kinder}, {urgent: true}]", {"Thema": "Kinder", "urgent": False}, False),
        ("[{Thema: Kinder}, {contains: UNMET}]", {"Thema": "Kinder"}, True),
        ("{column: contains, is: 'yes'}", {"contains": "yes"}, True),
    ],
)
def test_a_criterion_is_asked_where_the_column_has_the_value(
    when: str, row: dict[str, Any], holds: bool
):
    [report] = score(when, row)
    assert report.errors == {}
    assert report.lines[1].verdict == ("MET" if holds else "N/A")


def test_the_line_says_which_value_was_asked_for():
    [report] = score("{Thema: [Kinder, Jugend]}", {"Thema": "Sport"})
    assert report.lines[1].reason == "'Thema' is not Kinder or Jugend"


def test_a_row_without_the_column_is_an_error_that_names_the_columns():
    [report] = score("{Thema: Kinder}", {"theme": "Kinder"})
    assert "no column 'Thema' (columns: theme)" in report.errors["is_fit_for_children"]
    assert not report.scored


def test_checks_have_conditions_too_and_may_be_unmet():
    rubric = Rubric(
        [
            {"check": {"contains": "a"}, "when": {"kind": "a"}, "when_false": "unmet"},
            {"check": {"contains": "b"}},
        ]
    )
    rows = [{"completion": "a b", "kind": kind} for kind in "ab"]
    assert [report.score for report in asyncio.run(rubric.score(rows))] == [1.0, 0.5]


@pytest.mark.parametrize(
    ("when", "message"),
    [
        ("contians", "there is no such criterion: name one of contains"),
        ("{contians: MET}", "there is no such criterion.*for a column write {column: contians"),
        (
            "{contains: 3}",
            "not one of its verdicts.*in quotes; for a column write {column: contains",
        ),
        ("{contains: Kinder}", "not one of its verdicts"),
    ],
)
def test_a_misspelt_criterion_is_not_taken_for_a_column(when: str, message: str):
    with pytest.raises(RubricFileError, match=message):
        Rubric.from_yaml(CRITERIA.replace("WHEN", when))


def test_both_forms_are_the_same_rubric_and_are_written_in_full():
    short = Rubric.from_yaml(CRITERIA.replace("WHEN", "{Thema: Kinder}"))
    full = Rubric.from_yaml(CRITERIA.replace("WHEN", "{column: Thema, is: Kinder}"))
    assert short.criteria[1].when == (ColumnCondition("Thema", ("Kinder",)),)
    assert short.to_dict()["criteria"][1]["when"] == {"column": "Thema", "is": "Kinder"}
    assert short.content_hash == full.content_hash
    assert Rubric.from_dict(short.to_dict()).content_hash == short.content_hash


def test_lint_reads_rubrics_with_conditions_on_columns():
    rubric = Rubric.from_yaml(CRITERIA.replace("WHEN", "{Thema: Kinder}"))
    assert [finding for finding in lint(rubric) if finding.rule == "R009"] == []


def test_the_command_line_says_on_which_column_a_criterion_depends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "r.yaml"
    path.write_text(CRITERIA.replace("WHEN", "[{Thema: [Kinder, Jugend]}, contains]"))
    assert main(["rubric", "show", str(path)]) == 0
    assert "(only if the column Thema is Kinder or Jugend and contains)" in capsys.readouterr().out
