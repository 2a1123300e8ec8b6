"""Rubrics of rows cannot harm other rows: exceeding the budget is an error of the row."""

import json
import random
import re
import subprocess
import sys
import time

import pytest

from assay import Rubric
from assay.checks.pattern_size import estimate_pattern_size
from assay.integrations.step import Step
from assay.runs import RowBudget, RowRubrics, score_rows
from assay.shaping import measure_repetition

SLOW = {"regex": {"pattern": "(a|aa)+$", "timeout_seconds": 1000}}
TEXT = "a" * 5000 + "!"
NORMAL_ROWS = [
    {
        "id": f"honest {number}",
        "completion": "Paris, 12",
        "rubric": [{"check": {"contains": "Paris"}}, {"check": {"regex": r"\d+"}}],
    }
    for number in range(5)
]
TOO_LARGE = {
    "a large pattern": [{"check": {"regex": "a{99999999}"}}],
    "large patterns": [{"check": {"regex": "a{999}" + "b" * n}} for n in range(20)],
    "many criteria": [{"requirement": f"Says {n}"} for n in range(300)],
    "the JSON of many criteria": json.dumps([{"check": "refusal"}] * 100_000),
    "many values": [{"check": {"contains": [f"x{n}" for n in range(20_000)]}}],
    "a long text": [{"requirement": "x" * 300_000}],
    "a verbose pattern with spaces in a number": [{"check": {"regex": "(?x)a{9 9 9 9 9 9 9 9}"}}],
    "a nested pattern": [{"rubric": [{"check": {"regex": {"pattern": "(a{999}){999}"}}}]}],
}
TOO_SLOW = {
    "a slow pattern": [{"check": SLOW}],
    "a slow pattern of a schema": [{"check": {"json_schema": {"schema": {"pattern": "(a|aa)+$"}}}}]
    * 3,
    "a slow isolated check": [{"check": SLOW, "isolate": True, "timeout": 1000}],
    "a search that does not look at the clock": [{"check": {"regex": "(?i)" + "\u017f" * 2000}}],
    "slow patterns for steps": [{"check": SLOW, "scope": "step"}],
    "a slow nested pattern": [{"rubric": [{"check": SLOW}]}],
}


async def score(rubric, **fields):
    """Score a row among normal ones, and return its errors."""
    seen = {}
    rows = [
        *NORMAL_ROWS[:3],
        {"id": "row", "completion": TEXT, "rubric": rubric, **fields},
        *NORMAL_ROWS[3:],
    ]
    rubrics = RowRubrics(budget=RowBudget(seconds=0.2))
    await score_rows(rubrics, rows, on_row=lambda row: seen.update({row.example: row}))
    row = seen.pop("row")
    assert [row.score for row in seen.values()] == [1.0] * 5
    assert row.score is None
    return " ".join(row.errors.values())


@pytest.mark.parametrize("name", TOO_LARGE)
async def test_a_rubric_that_is_too_large_is_an_error_of_its_row(name):
    """It is not built at all."""
    started = time.process_time()
    message = await score(TOO_LARGE[name])
    assert "RowBudget" in message or "its size cannot be told" in message
    assert time.process_time() - started < 2


def nest(rubric, levels, wrap):
    for _ in range(levels):
        rubric = wrap(rubric)
    return rubric


@pytest.mark.parametrize("levels", [150, 1000, 4000])
@pytest.mark.parametrize(
    "wrap", [lambda inner: [inner], lambda inner: [{"rubric": inner}]], ids=["lists", "rubrics"]
)
async def test_a_rubric_that_is_nested_too_deep_is_an_error_of_its_row(levels, wrap):
    assert await score(nest([{"check": "refusal"}], levels, wrap))


async def test_nested_rubrics_do_not_take_exponential_time():
    """Each level once took twice as long as the one inside it: minutes for 20 levels."""
    rubric = nest([{"check": {"contains": "a"}}], 20, lambda inner: [{"rubric": inner}])
    started = time.process_time()
    [report] = await RowRubrics().score([{"completion": "a", "rubric": rubric}])
    assert report.score == 1.0
    assert time.process_time() - started < 5


@pytest.mark.parametrize("name", TOO_SLOW)
async def test_a_rubric_that_is_too_slow_is_an_error_of_its_row(name):
    """All checks of a row share the time, whatever limits the rubric sets."""
    text = json.dumps("a" * 100 + "!") if "schema" in name else TEXT
    completion = [{"role": "assistant", "content": text}] * (5 if "steps" in name else 1)
    assert "Timeout" in await score(TOO_SLOW[name], completion=completion)


async def test_a_regex_search_that_ignores_its_timeout_does_not_block_the_event_loop():
    """A case-insensitive search of 9,000 letters took minutes, whatever the time limit."""
    rubric = [{"check": {"regex": "(?i)" + "\u017f" * 2000}}]
    started = time.thread_time()
    assert "Timeout" in await score(rubric)
    assert time.thread_time() - started < 2


@pytest.mark.parametrize("completion", ["[]", "no JSON"])
def test_the_reason_of_an_isolated_check_is_returned(completion):
    """In a new process, where no earlier isolated check can hide a failure."""
    rubric = [{"check": {"json_schema": {"schema": {"type": "object"}}}}]
    row = {"completion": completion, "rubric": rubric}
    program = (
        "import asyncio, json, sys; from assay.runs import RowRubrics\n"
        "[report] = asyncio.run(RowRubrics().score([json.loads(sys.argv[1])]))\n"
        "print(report.score, report.report[0].reason)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program, json.dumps(row)], capture_output=True, text=True, check=True
    )
    score, _, reason = result.stdout.partition(" ")
    assert score == "0.0"
    assert reason.strip()


FROM_COLUMNS = {
    "a large pattern": ({"regex": "{column}"}, "a{9999999}", "has the size 9,999,999"),
    "a verbose pattern": ({"regex": "{column}"}, "(?x)a{9 9 9 9 9 9 9}", "size cannot be told"),
    "a slow search": ({"regex": "{column}"}, "(?i)" + "\u017f" * 3000, "TimeoutError"),
    "a long text": ({"contains": ["{column}!" * 1000] * 10}, "y" * 1_000_000, "10,000,000"),
}


@pytest.mark.parametrize("name", FROM_COLUMNS)
@pytest.mark.parametrize("is_own", [True, False], ids=["rubric of the row", "rubric for all rows"])
async def test_a_hostile_column_value_is_an_error_of_its_row(name, is_own):
    """A column that is filled into a check may be as hostile as a rubric of the row."""
    check, value, words = FROM_COLUMNS[name]
    criteria = [{"check": check, "name": "filled"}]
    rows = [{"completion": f"yes!{TEXT}", "column": text} for text in ("yes", value)]
    if is_own:
        rows = [{**row, "rubric": criteria} for row in rows]
        rubric = RowRubrics(budget=RowBudget(seconds=0.5))
        words = "RowBudget|its size cannot be told|Timeout|10,000,000"
    else:
        rubric = Rubric.from_dict(criteria)
    started = time.thread_time()
    first, second = await rubric.score(rows)
    assert first.score == (1.0 if "long" not in name else 0.0)
    assert second.score is None
    assert re.search(words, second.errors["filled"])
    assert time.thread_time() - started < 2


async def test_a_requirement_without_a_judge_is_an_error_of_its_row():
    """It once ended the whole run."""
    assert "no judge was named" in await score([{"requirement": "Is kind"}])


async def test_a_check_that_takes_too_much_memory_is_an_error_of_its_row():
    """The worker is stopped at 200 MB."""
    rubric = [{"check": {"json_schema": {"schema": {"pattern": "a{99999999}"}}}}]
    rubrics = RowRubrics(budget=RowBudget(seconds=60, memory=200_000_000))
    [report] = await rubrics.score([{"completion": '"aaa"', "rubric": rubric}])
    assert "MemoryError" in report.errors["json_schema"]


async def test_each_rollout_has_a_budget_of_its_own():
    """The rollout on which the rubric is slow takes nothing from the other one."""
    rubrics = RowRubrics(budget=RowBudget(seconds=0.2))
    rows = [{"completion": text, "rubric": [{"check": SLOW}]} for text in (TEXT, "aaa")]
    first, second = await rubrics.score(rows)
    assert (first.score, second.score) == (None, 1.0)


async def test_trainers_and_servers_use_the_row_budget_of_the_rubric():
    rubric = Rubric([lambda: 0.5])
    rubric.row_budget = RowBudget(criteria=1)
    rows = [{"completion": "x", "rubric": [{"check": "refusal"}] * number} for number in (1, 2)]
    first, second = await Step(rubric, unscored="zero").score([*rows])
    assert (first.reward, second.reward) == (0.0, None)
    assert "criteria of its RowBudget, which is 1" in str(second)


@pytest.mark.parametrize(
    ("pattern", "size"),
    [
        (r"\d{4}-\d{2}-\d{2}", 10),
        ("(ab{10}){20}", 220),
        ("[{5}(]{3}", 3),
        (r"\{9\}", 3),
        ("x{2,999999}", 2),
        ("a{99999999999999999999}", 999_999_999),
    ],
)
def test_the_size_of_a_pattern_includes_its_repetitions(pattern, size):
    assert estimate_pattern_size(pattern) == size


@pytest.mark.parametrize(
    "pattern", ["(?V1)(?:a{1000}[[(]]){1000}", "[[:alpha:](]{1000}", "(?#()(a{1000}){1000}"]
)
def test_misleading_brackets_do_not_lower_the_size_of_a_pattern(pattern):
    largest_repetition = 1_000_000 if pattern.count("1000") == 2 else 1000
    assert estimate_pattern_size(pattern) >= largest_repetition


def test_repetition_equals_the_comparison_of_all_word_sequences():
    """Long sequences once took quadratic time and memory."""
    generator = random.Random(0)
    for _ in range(300):
        words = generator.choices("ab", k=generator.randint(0, 40))
        size = generator.randint(1, 20)
        runs = [tuple(words[start : start + size]) for start in range(len(words) - size + 1)]
        expected = 1 - len(set(runs)) / len(runs) if runs else 0.0
        assert measure_repetition(" ".join(words), size) == expected
    assert measure_repetition("a b c d " * 20_000, 40_000) == 1 - 4 / 40_001
