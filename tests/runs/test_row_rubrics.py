"""Rows that contain their own rubric."""

import json

import pytest

from assay import Criterion, PerCriterionGrader, Rollout, Rubric, State, rows_of
from assay.runs import RowRubrics, Run, score_rows
from assay.testing import FakeModel

PARIS = [{"check": {"contains": "Paris"}}]
ROME = {"name": "rome", "criteria": [{"check": {"contains": "Rome"}, "weight": 2}]}


async def test_each_row_is_scored_by_its_own_rubric(tmp_path):
    """Given as a list, a mapping, or JSON of either; a row without one uses the default rubric."""
    rows = [
        {"completion": "Paris", "rubric": PARIS},
        {"completion": "Paris", "rubric": ROME},
        {"completion": "Rome", "rubric": json.dumps(ROME)},
        {"completion": "Oslo"},
    ]
    rubric = Rubric([lambda completion: 0.5])
    summary = await score_rows(rubric, rows, folder=tmp_path)
    run = Run.open(tmp_path)
    assert [row.score for row in run.rows()] == [1.0, 0.0, 1.0, 0.5]
    assert [row.reward for row in run.rows()] == [1.0, 0.0, 2.0, 0.5]
    assert run.work_out() == summary
    assert summary.criteria["contains"].value.count == 3


@pytest.mark.parametrize(
    ("row_rubric", "words"),
    [
        ([{"requirment": "x"}], "unknown field 'requirment': did you mean 'requirement'?"),
        ([], "No criteria found"),
        ("prose about what is good", "holds 'prose about what is good': give a list of criteria"),
        ("[{]", "Failed to parse JSON"),
        (7, "holds 7: give a list of criteria, or rename the column"),
        ([{"check": "os:getcwd"}], "names code"),
        (
            [{"check": {"contains": "x"}, "weight": float("nan")}],
            "values that a rubric file cannot contain",
        ),
    ],
)
async def test_an_invalid_rubric_is_an_error_of_its_row(tmp_path, row_rubric, words):
    """The error names the row and the problem; the other rows are scored."""
    rows = [
        {"id": "a", "completion": "Paris", "rubric": PARIS},
        {"id": "b", "completion": "", "rubric": row_rubric},
    ]
    summary = await score_rows(None, rows, folder=tmp_path)
    assert (summary.scored, summary.unscored) == (1, 1)
    row = Run.open(tmp_path).row("b")
    assert "the rubric of example b: " in row.errors["rollout"]
    assert words in row.errors["rollout"]


async def test_a_row_without_any_rubric_is_an_error():
    """If there is no default rubric."""
    summary = await score_rows(None, [{"completion": "x"}])
    assert summary.errors_by_criterion == {"rollout": {"RubricError": 1}}
    assert summary.criteria == {}


async def test_rows_with_equal_rubrics_share_one_object():
    """Compared by content, not by identity."""
    rubrics = RowRubrics()
    first, _ = rubrics.of({"rubric": PARIS})
    assert rubrics.of({"rubric": [{"check": {"contains": "Paris"}, "weight": 1.0}]})[0] is not first
    assert rubrics.of({"rubric": json.loads(json.dumps(PARIS))})[0] is first


async def test_row_rubrics_have_the_score_method_of_a_rubric():
    """For code that takes any object with a `score` method."""
    rubrics = RowRubrics(Rubric([lambda: 0.25]))
    rollouts = [
        Rollout(completion="Paris", columns={"rubric": PARIS}),
        {"completion": "Paris"},
        State(input={"rubric": PARIS}, completion="Rome"),
        Rollout(completion="Paris", columns={"rubric": 7}),
    ]
    reports = await rubrics.score(rollouts)
    assert [report.score for report in reports] == [1.0, 0.25, 0.0, None]
    assert "the rubric of row 3: its column 'rubric' holds 7" in reports[3].errors["rubric"]


async def test_a_judged_rubric_of_a_row_uses_the_judge_of_the_run(tmp_path):
    """One call, for the one row that is judged."""
    model = FakeModel("MET")
    rows = [
        {"completion": "some text", "rubric": [{"requirement": "Is kind"}]},
        {"completion": "Paris"},
    ]
    rubric = Rubric.from_dict(PARIS)
    summary = await score_rows(rubric, rows, folder=tmp_path, judge=PerCriterionGrader(model))
    assert (len(model.calls), summary.score.mean) == (1, 1.0)


async def test_null_keys_added_by_parquet_are_ignored(tmp_path):
    """Parquet gives every entry the keys of all of them."""
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [
        {
            "completion": "Paris",
            "rubric": [{"requirement": None, "check": "json_valid", "weight": None}],
        },
        {
            "completion": "{}",
            "rubric": [{"requirement": None, "check": "json_valid", "weight": 2.0}],
        },
    ]
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "rows.parquet")
    seen = []
    await score_rows(None, rows_of(tmp_path / "rows.parquet"), on_row=seen.append)
    assert [(row.errors, row.reward) for row in seen] == [({}, 0.0), ({}, 2.0)]


async def test_rollouts_are_compared_only_by_the_default_rubric():
    """A row with its own is scored alone."""
    rubric = Rubric([Criterion(check=lambda completions: [len(completions)] * len(completions))])
    rows = [
        {"id": "a", "completion": "x"},
        {"id": "a", "completion": "Paris", "rubric": PARIS},
        {"id": "b", "completion": "y"},
        {"id": "b", "completion": "z"},
    ]
    seen = {}
    await score_rows(rubric, rows, on_row=lambda row: seen.update({row.key: row.reward}))
    assert seen == {("a", 0): 1, ("a", 1): 1, ("b", 0): 2, ("b", 1): 2}
