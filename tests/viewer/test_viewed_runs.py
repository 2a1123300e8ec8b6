"""Runs on the shelf of a page: a large one can be looked at before it is read to its end."""

import threading

import pytest

from assay import Criterion, Rubric
from assay.runs import score_rows
from assay.viewer.viewed_runs import ViewedRuns


def is_long(completion):
    return len(completion) > 3


@pytest.fixture
async def book(tmp_path):
    """2,500 rows, of which an index takes a thousand at a time; the half of them are met."""
    rubric = Rubric([Criterion(check=is_long, name="long")])
    rows = [{"completion": "long enough" if number % 2 else "no"} for number in range(2500)]
    await score_rows(rubric, rows, folder=tmp_path / "run")
    shelf = ViewedRuns([tmp_path / "run"])
    yield next(iter(shelf.runs.values()))
    shelf.close()


async def test_a_glance_takes_in_what_there_is_time_for(book):
    """No time at all is enough for one piece of the run; the next look goes on from there."""
    assert not book.look(0)
    assert book.rows == 1000
    assert not book.look(0)
    assert book.look()
    assert book.rows == 2500


async def test_the_first_list_of_runs_calls_none_empty(book):
    """Also when it is asked for before anything was read."""
    assert book.heading()["rows"] >= 1000


async def test_an_overview_does_not_wait_for_the_index(book):
    """The means are of all rows, and it says how many rows the table has so far."""
    book.look(0)
    told = book.overview()
    assert told["rows"] == 2500
    assert told["score"]["mean"] == 0.5
    assert 1000 <= told["indexed"] <= 2500


async def test_a_row_that_is_not_read_yet_is_found(book):
    book.look(0)
    assert book.row(2400)["text"] == "long enough"


async def test_reading_on_comes_to_the_end_and_can_be_stopped(book):
    stopped = threading.Event()
    stopped.set()
    book.read_on(stopped)
    assert book.rows == 0
    book.read_on(threading.Event())
    assert book.rows == 2500


async def test_an_index_that_is_broken_is_built_anew(book, tmp_path):
    """One that was kept is read again; one that is no base is thrown away."""
    cache = tmp_path / "cache"
    cache.mkdir()
    for text in (None, b"", b"SQLite format 3\0 and then something else" * 200):
        if text is not None:
            next(cache.glob("*.sqlite")).write_bytes(text)
        shelf = ViewedRuns([book.run.path], cache)
        [kept] = shelf.runs.values()
        assert kept.look()
        assert kept.rows == 2500
        shelf.close()


async def test_two_pages_of_one_run_do_not_share_an_index(book, tmp_path):
    """Both would write it; the second has its own in memory, and the next may have the file again."""
    first, second = (ViewedRuns([book.run.path], tmp_path) for _ in range(2))
    for shelf in (first, second):
        [kept] = shelf.runs.values()
        assert kept.look()
        assert kept.rows == 2500
    assert len(list(tmp_path.glob("*.sqlite"))) == 1
    first.close()
    second.close()
    third = ViewedRuns([book.run.path], tmp_path)
    assert third._locks
    third.close()


async def test_a_histogram_has_twenty_bars_of_one_width(book):
    """Half of the rows have 0, and half have 1, which is in the last bar."""
    book.look()
    drawn = book.index.histogram("score")
    assert (len(drawn["edges"]), drawn["edges"][0], drawn["edges"][-1]) == (21, 0.0, 1.0)
    assert (drawn["counts"][0], drawn["counts"][-1], sum(drawn["counts"])) == (1250, 1250, 2500)


async def test_a_result_is_taken_from_where_an_answer_marks_it(tmp_path):
    """By answer tags, in a box, after ####; a run does not keep its parser."""
    said = [r"So <answer> 7 </answer>.", r"So \boxed{\frac12}.", "So\n#### 42", "So 9."]
    rubric = Rubric([Criterion(check=is_long, name="long")])
    await score_rows(rubric, [{"completion": text} for text in said], folder=tmp_path / "run")
    shelf = ViewedRuns([tmp_path / "run"])
    [book] = shelf.runs.values()
    book.look()
    assert [book.row(number)["parsed"] for number in (1, 2, 3, 4)] == ["7", r"\frac12", "42", None]
    shelf.close()
