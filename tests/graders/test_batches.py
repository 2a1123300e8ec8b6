"""A few criteria a call: one knob between one and all."""

from typing import Any

import pytest

from assay import PerBatchGrader, PerCriterionGrader, PerCriterionOneShotGrader
from assay.testing import FakeModel


def by_number(system: str, user: str) -> dict[str, Any]:
    """MET for odd requirements, whatever their place in the list."""
    lines = user.partition("<criteria>\n")[2].partition("\n</criteria>")[0].splitlines()
    return {
        "criteria_evaluations": [
            {
                "criterion_number": n,
                "explanation": "so",
                "criterion_status": "MET" if int(line.split()[-1]) % 2 else "UNMET",
            }
            for n, line in enumerate(lines, start=1)
        ]
    }


@pytest.mark.parametrize(
    ("size", "calls"), [(2, 4), (3, 3), (4, 2), (6, 2), (7, 1), (100, 1), (None, 1)]
)
async def test_as_few_calls_as_there_can_be(make_rubric: Any, size: Any, calls: int) -> None:
    """Seven criteria; every answer goes to its own, so odd ones are met: 1 + 3 + 5 + 7 of 28."""
    model = FakeModel(by_number)
    grader = PerBatchGrader(model, size=size)
    report = await make_rubric(*range(1, 8)).grade("x", judge=grader)
    assert (len(model.calls), report.score) == (calls, pytest.approx(16 / 28))


async def test_the_ends_of_the_knob_are_the_two_graders(make_rubric: Any) -> None:
    """Byte for byte the same prompts."""
    for size, kind, answer in [
        (1, PerCriterionGrader, "MET"),
        (None, PerCriterionOneShotGrader, ("MET", "MET", "MET")),
    ]:
        one, other = FakeModel(answer), FakeModel(answer)
        await make_rubric(1, 2, 3).grade("x", judge=PerBatchGrader(one, size=size))
        await make_rubric(1, 2, 3).grade("x", judge=kind(other))
        assert one.calls == other.calls


async def test_a_failed_call_fails_its_batch(make_rubric: Any, grade_partially: Any) -> None:
    """And no other."""
    model = FakeModel([("MET", "MET"), TimeoutError("slow"), ("MET",)])
    report = await grade_partially(make_rubric(1, 1, 1, 1, 1), PerBatchGrader(model, size=2))
    assert [line.answered for line in report.report] == [True, True, False, False, True]


async def test_raise_gives_the_exception(make_rubric: Any) -> None:
    """As the graders at the ends do."""
    rubric = make_rubric(1, 1, 1, on_error="raise")
    with pytest.raises(TimeoutError):
        await rubric.grade("x", judge=PerBatchGrader(FakeModel(TimeoutError()), size=2))


async def test_nothing_to_ask(make_rubric: Any) -> None:
    """No call."""
    model = FakeModel("MET")
    assert (await make_rubric().grade("x", judge=PerBatchGrader(model, size=3))).score is None
    assert model.calls == []


def test_a_batch_holds_something() -> None:
    """0 is refused."""
    with pytest.raises(ValueError, match="size is 0"):
        PerBatchGrader(size=0)
