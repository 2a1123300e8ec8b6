"""Rows of data that are too large or too deep to be read: an error of their row, or a sentence."""

import gzip
import json

import pytest

from assay import Criterion, PerCriterionGrader, Rubric
from assay.runs import Run, score_rows
from assay.tables import TableError, rows_of
from assay.testing import FakeModel


def nested(levels: int) -> object:
    value: object = "x"
    for _ in range(levels):
        value = [value]
    return value


DIGITS = "7" * 400


@pytest.mark.parametrize(
    "completion", [int(DIGITS), [{"role": "assistant", "content": int(DIGITS)}]]
)
async def test_a_completion_that_is_an_integer_of_400_digits_is_read_as_its_digits(completion):
    rubric = Rubric.from_dict([{"check": "exact_match"}])
    rows = [{"completion": completion, "answer": DIGITS}, {"completion": "4", "answer": "5"}]
    reports = await rubric.score(rows)
    assert [report.score for report in reports] == [1.0, 0.0]


async def test_an_integer_that_python_cannot_write_is_an_error_of_its_rollout():
    rubric = Rubric.from_dict([{"check": "exact_match"}])
    reports = await rubric.score([{"completion": 10**5000}, {"completion": "4", "answer": "4"}])
    assert [report.score for report in reports] == [None, 1.0]
    assert "thousands of digits" in reports[0].errors["exact_match"]


async def test_a_run_gets_past_an_integer_of_400_digits(tmp_path):
    data = tmp_path / "rows.jsonl"
    data.write_text(
        f'{{"completion": {DIGITS}, "answer": "4"}}\n{{"completion": "4", "answer": "4"}}\n'
    )
    rubric = Rubric.from_dict([{"check": "exact_match"}])
    await score_rows(rubric, rows_of(data), folder=tmp_path / "run")
    assert [row.score for row in Run.open(tmp_path / "run").rows()] == [0.0, 1.0]


DEEP_CALL = {"id": "a", "function": {"name": "search", "arguments": nested(1000)}}
DEEP_MESSAGE = {"role": "assistant", "content": "x", "tool_calls": [DEEP_CALL]}


@pytest.mark.parametrize("options", [{"scope": "step"}, {"scope": "call"}], ids=str)
@pytest.mark.parametrize(
    "deep",
    [
        {"prompt": "q", "completion": [DEEP_MESSAGE]},
        {"prompt": [DEEP_MESSAGE], "completion": "Paris"},
    ],
    ids=["in the completion", "in the prompt"],
)
async def test_a_rollout_nested_1000_levels_deep_is_an_error_of_its_own(options, deep):
    call = {"id": "a", "function": {"name": "search", "arguments": "{}"}}
    plain = {
        "prompt": "q",
        "completion": [{"role": "assistant", "content": "x", "tool_calls": [call]}],
    }
    rubric = Rubric([Criterion(check=lambda step: 1.0, name="fine", **options)])
    reports = await rubric.score([deep, plain])
    assert [report.score for report in reports] == [None, 1.0]
    assert "nested too deep" in reports[0].errors["fine"]


async def test_a_deep_rollout_is_an_error_of_its_own_if_turns_get_credit():
    criterion = Criterion(requirement="It names a city.", name="city", credit="cited")
    judge = PerCriterionGrader(model=FakeModel("MET", judge_id="always met"))
    rows = [{"prompt": "q", "completion": [DEEP_MESSAGE]}, {"prompt": "q", "completion": "Paris"}]
    reports = await Rubric([criterion]).score(rows, judge=judge)
    assert [report.score for report in reports] == [None, 1.0]
    assert "nested too deep" in reports[0].errors["city"]


MIBIBYTE = b" " * 2**20


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("bomb.jsonl.gz", b'{"completion": "'),
        ("bomb.json.gz", b'{"completion": "'),
        ("bomb.csv.gz", b"completion\n"),
    ],
)
def test_a_small_file_that_unpacks_to_a_huge_row_is_refused_with_a_sentence(tmp_path, name, start):
    path = tmp_path / name
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(start)
        for _ in range(129):
            file.write(MIBIBYTE)
    with pytest.raises(TableError, match="longer than 128 MiB"):
        list(rows_of(path))


def test_a_long_row_is_still_read(tmp_path):
    path = tmp_path / "long.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(json.dumps({"completion": "x" * 2**20}).encode())
    [row] = rows_of(path)
    assert len(row["completion"]) == 2**20
