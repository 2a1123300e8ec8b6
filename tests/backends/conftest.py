"""Files of rows, a rubric that workers can make, and a backend that needs no worker."""

import json
from contextlib import contextmanager

import pytest

from assay import Rubric, rows_of
from assay.backends.worker import ShardFailure, score_shard
from assay.runs import Run, score_rows
from assay.wording import describe_error


def has_answer(completion, answer):
    return str(answer) in completion


def short(completion):
    return len(completion) < 12


def fails_at_times(completion):
    if completion.endswith("7"):
        raise ConnectionError("the judge is down")
    return 1.0


def make_rubric():
    """Make the rubric of every worker. Scores are quarters, whose sums are exact in any order."""
    return Rubric([has_answer, short, fails_at_times], weights=[1, 0.5, 0.5], name="sums"), None


@pytest.fixture
def rubric_maker():
    return make_rubric


class InProcessBackend:
    """A backend in this process, which may stop before a shard as if it were killed.

    With `make`, it scores by the rubric that this returns, and not by a copy, so that a test sees the calls.
    """

    def __init__(self, stop_after=None, make=None):
        self.stop_after = stop_after
        self.make = make
        self.started_shards = []

    @contextmanager
    def open_workers(self):
        yield 1

    def run(self, job, take):
        while (task := take()) is not None:
            if len(self.started_shards) == self.stop_after:
                raise KeyboardInterrupt
            self.started_shards.append(task.shard.number)
            yield self.result(job, task)
            yield None

    def result(self, job, task):
        try:
            return score_shard(job if self.make is None else JobWithRubric(job, self.make), task)
        except Exception as error:  # noqa: BLE001
            return ShardFailure(task.shard.number, describe_error(error))


class JobWithRubric:
    """A job whose rubric is replaced, without a copy."""

    def __init__(self, job, make):
        self.job = job
        self.make_rubric = make

    def __getattr__(self, name):
        return getattr(self.job, name)


@pytest.fixture
def in_process_backend():
    return InProcessBackend


@pytest.fixture
def write_rows(tmp_path):
    """Write a file of rows: `write_rows(count)` returns its path."""

    def write(count, name="rows.jsonl", **columns):
        path = tmp_path / name
        lines = (
            {"prompt": f"{n}?", "completion": f"it is {n}", "answer": n % 5}
            | {key: value(n) for key, value in columns.items()}
            for n in range(count)
        )
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return path

    return write


@pytest.fixture
def rows_of_run():
    """Return all that a run saved of its rows, by key."""

    def read(folder):
        rows = [(row.key, (row.fields, row.reward, row.errors)) for row in Run.open(folder).rows()]
        assert len(dict(rows)) == len(rows)
        return dict(rows)

    return read


@pytest.fixture
def score_in_one_process(rubric_maker, tmp_path):
    """Score the same rows in one process, without shards."""

    async def score(path, rubric=None):
        rubric = rubric or rubric_maker()[0]
        summary = await score_rows(rubric, rows_of(path), folder=tmp_path / "single")
        return tmp_path / "single", summary

    return score
