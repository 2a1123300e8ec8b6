"""The runs of the viewer, read from their files."""

import pytest

from assay import Criterion, Rubric
from assay.runs import Journal, Row, Run, RunAbout, score_rows
from assay.viewer.viewed_runs import NotFoundError, ViewedRuns


def is_long(completion):
    return len(completion) > 3


@pytest.fixture
async def viewed_run(tmp_path):
    """2,500 rollouts, every second of which meets the criterion."""
    rubric = Rubric([Criterion(check=is_long, name="long")])
    rows = [{"completion": "long enough" if number % 2 else "no"} for number in range(2500)]
    await score_rows(rubric, rows, folder=tmp_path / "run")
    [viewed_run] = ViewedRuns([tmp_path / "run"]).values()
    return viewed_run


async def test_the_preview_of_a_row_begins_with_the_answer(tmp_path):
    """Not with the reasoning before it, unless there is nothing else."""
    data = [
        {"prompt": "Who?", "completion": "<think>Let me see.</think>\n\nYou."},
        {"prompt": "Who?", "completion": "<think>Let me see."},
    ]
    rubric = Rubric([Criterion(check=is_long, name="long")])
    await score_rows(rubric, data, folder=tmp_path / "run")
    [viewed_run] = ViewedRuns([tmp_path / "run"]).values()
    rows = viewed_run.list_rows("")["rows"]
    assert [row["preview"] for row in rows] == ["You.", "<think>Let me see."]


def test_any_row_of_a_large_run_is_found(viewed_run):
    """By its number, counted from 1."""
    assert viewed_run.describe_row(2400)["text"] == "long enough"
    assert viewed_run.describe_row(2500)["number"] == 2500
    with pytest.raises(NotFoundError, match="there is no row 2501: the run has 2500"):
        viewed_run.describe_row(2501)


async def test_filters_and_sorting_apply_to_all_rows(viewed_run):
    rows = viewed_run.list_rows("verdict:MET", sort="number", descending=True, limit=2)
    assert rows["total"] == 1250
    assert [row["number"] for row in rows["rows"]] == [2500, 2498]


async def test_viewing_a_run_writes_nothing_to_its_folder(viewed_run):
    before = sorted(viewed_run.run.path.iterdir())
    viewed_run.overview()
    viewed_run.list_rows("long")
    assert sorted(viewed_run.run.path.iterdir()) == before


async def test_a_run_can_be_viewed_while_it_is_written(tmp_path):
    """Every request sees the rows saved so far, and whether the run is still being written."""
    rubric = Rubric([Criterion(check=is_long, name="long")])
    with Journal.open(tmp_path / "run", RunAbout.of("score", rubric=rubric)) as journal:
        journal.write(Row("a", fields={"completion": "first"}, number=0))
        [viewed_run] = ViewedRuns([tmp_path / "run"]).values()
        assert (viewed_run.count(), viewed_run.is_live) == (1, True)
        journal.write(Row("b", fields={"completion": "second"}, number=1))
        assert viewed_run.count() == 2
        assert viewed_run.overview()["rows"] == 2
        assert [row["preview"] for row in viewed_run.list_rows("")["rows"]] == ["first", "second"]
    assert not viewed_run.is_live


async def test_a_histogram_has_twenty_bars_of_one_width(viewed_run):
    """Half of the rows have 0, and half have 1, which falls into the last bar."""
    histogram = viewed_run.table.make_histogram("score")
    edges, counts = histogram["edges"], histogram["counts"]
    assert (len(edges), edges[0], edges[-1]) == (21, 0.0, 1.0)
    assert (counts[0], counts[-1], sum(counts)) == (1250, 1250, 2500)


async def test_columns_of_the_data_are_listed_with_the_rows(tmp_path):
    """Columns with the same value in all rows are named, because the table does not show them."""
    rows = [
        {"prompt": "Who?", "completion": "Me.", "answer": "You.", "city": "Rome", "n": {"a": 1}},
        {"prompt": "Why?", "completion": "So.", "answer": "No.", "city": "Bern", "n": {"a": 2}},
    ]
    await score_rows(Rubric([is_long]), rows, folder=tmp_path / "run")
    [viewed_run] = ViewedRuns([tmp_path / "run"]).values()
    overview = viewed_run.overview()
    assert overview["columns"] == ["city", "n"]
    assert {"task", "sample", "cost"} <= set(overview["constant"])
    first, second = viewed_run.list_rows("")["rows"]
    assert (first["prompt"], first["answer"], first["preview"]) == ("Who?", "You.", "Me.")
    assert second["fields"] == {"city": "Bern", "n": '{"a": 2}'}


async def test_the_worst_rows_name_the_verdict_that_cost_most(tmp_path):
    rubric = Rubric.from_dict(
        [
            {"name": "day", "check": {"contains": "Friday"}, "weight": 2},
            {"name": "rude", "check": {"contains": "idiot"}, "weight": -1},
        ]
    )
    rows = [{"completion": text} for text in ("On Friday.", "No, idiot.", "Friday, idiot.")]
    await score_rows(rubric, rows, folder=tmp_path / "run")
    [viewed_run] = ViewedRuns([tmp_path / "run"]).values()
    worst = viewed_run.overview()["worst"]
    assert [row["number"] for row in worst] == [2, 3, 1]
    assert worst[0]["reason"] == "day: 'Friday' does not occur"
    assert worst[1]["reason"].startswith("rude: ")
    assert worst[2]["reason"] == ""


async def test_the_marked_result_of_an_answer_is_extracted(tmp_path):
    """From answer tags, a box, or after ####; a run does not save its parser."""
    texts = [r"So <answer> 7 </answer>.", r"So \boxed{\frac12}.", "So\n#### 42", "So 9."]
    rubric = Rubric([Criterion(check=is_long, name="long")])
    await score_rows(rubric, [{"completion": text} for text in texts], folder=tmp_path / "run")
    [viewed_run] = ViewedRuns([tmp_path / "run"]).values()
    parsed = [viewed_run.describe_row(number)["parsed"] for number in (1, 2, 3, 4)]
    assert parsed == ["7", r"\frac12", "42", None]


async def test_a_run_can_be_opened_by_its_file(tmp_path):
    await score_rows(Rubric([is_long]), [{"completion": "yes"}], folder=tmp_path / "run")
    [viewed_run] = ViewedRuns([Run.open(tmp_path / "run").file.path]).values()
    assert viewed_run.count() == 1
