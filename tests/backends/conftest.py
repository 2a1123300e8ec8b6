"""Rows in files, and rubrics that workers can make."""

import json

import pytest

from assay import Rubric


def has_answer(completion, answer):
    return str(answer) in completion


def short(completion):
    return len(completion) < 12


def fails_at_times(completion):
    if completion.endswith("7"):
        raise ConnectionError("the judge is down")
    return 1.0


def make():
    """What every worker scores with."""
    return Rubric([has_answer, short, fails_at_times], weights=[1, 0.5, 0.25], name="sums"), None


@pytest.fixture
def maker():
    return make


@pytest.fixture
def table(tmp_path):
    """A file of rows; `write(count)` gives its path."""

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
    """All that a run says of its rows, by key."""
    from assay.runs import Run

    def read(folder):
        return {row.key: (row.fields, row.reward, row.errors) for row in Run.open(folder).rows()}

    return read
