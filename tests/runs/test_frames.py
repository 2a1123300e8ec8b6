"""Runs as data frames and as figures, with the real packages."""

import math

import pytest

from assay import AssayError, Autograder, Panel, Rubric, Run, Score, score_rows
from assay.trust import Label, agree


class Judge(Autograder):
    """Call a text short below a length, and fail for one word."""

    def __init__(self, length):
        super().__init__()
        self.length = length

    async def judge(self, to_grade, rubric, query=None):
        if to_grade == "trouble":
            raise ConnectionError("the endpoint is gone")
        return [
            Score(
                float(len(to_grade) < self.length),
                "",
                "MET" if len(to_grade) < self.length else "UNMET",
            )
        ] * len(rubric)


ROWS = [
    {"id": "a", "completion": "Paris", "level": 1, "info": {"city": "Paris"}},
    {"id": "b", "completion": "Rome, and more", "level": "two", "info": None},
    {"id": "c", "completion": "trouble", "level": None, "info": {}},
]
RUBRIC = [
    {"name": "paris", "check": {"contains": "Paris"}},
    {"name": "short", "requirement": "Is short"},
]


@pytest.fixture
async def run(tmp_path):
    await score_rows(Rubric.from_dict(RUBRIC, judge=Judge(8)), ROWS, folder=tmp_path / "run")
    return Run.open(tmp_path / "run")


def rows_of_frame(frame):
    """Return the rows of a frame of pandas, Polars or Arrow."""
    if hasattr(frame, "to_pylist"):
        return frame.to_pylist()
    rows = frame.to_dicts() if hasattr(frame, "to_dicts") else frame.to_dict("records")
    return [
        {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in row.items()}
        for row in rows
    ]


@pytest.mark.parametrize("method", ["to_pandas", "to_polars", "to_arrow"])
async def test_a_frame_has_one_row_for_each_rollout_with_its_error(run, method):
    """An unscored rollout has an error, and neither score nor reward."""
    paris, rome, failed = rows_of_frame(getattr(run, method)())
    assert (paris["example"], paris["score"], paris["paris.value"], paris["short.verdict"]) == (
        "a",
        1.0,
        1.0,
        "MET",
    )
    assert (rome["score"], rome["short.verdict"], rome["error"]) == (0.0, "UNMET", None)
    assert failed["score"] is None
    assert failed["reward"] is None
    assert "the endpoint is gone" in failed["error"]


@pytest.mark.parametrize("method", ["to_pandas", "to_polars", "to_arrow"])
async def test_a_column_of_mixed_types_becomes_text(run, method):
    """Typed frames cannot mix numbers and text, and mappings differ in their fields."""
    rows = rows_of_frame(getattr(run, method)())
    assert [row["level"] for row in rows] == ["1", "two", None]
    assert [row["info"] for row in rows] == ['{"city":"Paris"}', None, "{}"]


async def test_the_figure_shows_scores_and_criteria(run):
    """Two axes: the distribution of scores, and each criterion by name."""
    scores, criteria = run.plot().axes
    assert scores.get_title() == "2 scored, 1 unscored"
    assert [label.get_text() for label in criteria.get_yticklabels()] == ["short", "paris"]


async def test_the_figure_marks_criteria_that_describe_faults(tmp_path):
    """They have a colour of their own, which a legend explains."""
    rubric = Rubric.from_dict(
        [
            {"check": {"contains": "thanks"}, "name": "thanks"},
            {"check": {"contains": "idiot"}, "name": "insults", "weight": -1},
        ]
    )
    rows = [{"id": n, "completion": text} for n, text in enumerate(["thanks", "idiot"])]
    await score_rows(rubric, rows, folder=tmp_path / "run")
    figure = Run.open(tmp_path / "run").plot()
    fault, thanks = figure.axes[1].patches
    assert fault.get_facecolor() != thanks.get_facecolor()
    [legend] = figure.legends
    colours = [handle.get_facecolor() for handle in legend.legend_handles]
    assert colours == [thanks.get_facecolor(), fault.get_facecolor()]
    entries = [text.get_text() for text in legend.get_texts()]
    assert entries == ["met: more is better", "happened (negative weight): less is better"]


async def test_the_figure_has_no_legend_without_faults(run):
    assert run.plot().legends == []


async def test_the_figure_shows_the_agreement_with_labels(run):
    """Labels add a third axis, with a bar for each labelled criterion."""
    labels = [Label("a", "short", "MET", rater="r"), Label("b", "short", "UNMET", rater="r")]
    axes = run.plot(agreement=agree(run, labels)).axes
    assert axes[2].get_xlabel() == "kappa with people"


async def test_the_figure_shows_the_agreement_of_panel_judges(tmp_path):
    panel = Panel([Judge(8), Judge(20)])
    await score_rows(Rubric.from_dict(RUBRIC, judge=panel), ROWS[:2], folder=tmp_path / "run")
    axes = Run.open(tmp_path / "run").plot().axes
    assert axes[2].get_xlabel() == "1 − disagreement of judges"


async def test_a_run_without_rows_cannot_be_drawn(tmp_path):
    """The error says why, and what to do."""
    await score_rows(Rubric.from_dict(RUBRIC, judge=Judge(8)), [], folder=tmp_path / "run")
    with pytest.raises(AssayError, match="nothing to draw"):
        Run.open(tmp_path / "run").plot()
