"""A cheap judge first; only what it is not sure of goes up."""

from typing import Any

import pytest

from assay import Autograder, Cascade, Criterion, Panel, PerCriterionGrader, Rubric, Samples, Score
from assay.testing import FakeModel

DOWN = ConnectionError("down")


class Unsure(Autograder):
    """Says how far apart its answers were, by requirement."""

    def __init__(self, **apart: Any) -> None:
        super().__init__()
        self.apart = apart

    async def judge(self, to_grade: str, rubric: list[Criterion], query: Any = None) -> Any:
        return [Score(1.0, "at a glance", "MET", None, (), self.apart[c.name]) for c in rubric]


def asked(model: FakeModel) -> list[str]:
    return [user.partition("<criterion>")[2].partition("<")[0] for _, user in model.calls]


async def test_what_is_in_doubt_goes_up(rubric_of: Any) -> None:
    """Further apart than 0.1, or nobody knows how far; the others stay where they are."""
    cheap = Unsure(holds_1=0.0, holds_2=0.1, holds_3=0.18, holds_4=None)
    dear = FakeModel("UNMET")
    cascade = Cascade([cheap, PerCriterionGrader(dear)])
    report = await rubric_of(1, 1, 1, 1).grade("x", autograder=cascade)
    assert asked(dear) == ["Holds 3", "Holds 4"]
    assert [line.value for line in report.report] == [1.0, 1.0, 0.0, 0.0]


async def test_the_steps_stand_in_the_line(rubric_of: Any) -> None:
    """Those that went up show what each judge said; the reason is the last one's."""
    cascade = Cascade([Unsure(holds_1=0.5), PerCriterionGrader(FakeModel("UNMET", reason="no"))])
    [line] = (await rubric_of(1).grade("x", autograder=cascade)).report
    assert [(step.name, step.verdict) for step in line.lines] == [
        ("Unsure", "MET"),
        ("FakeModel", "UNMET"),
    ]
    assert line.reason == "no"
    assert [(step.requirement, step.counted) for step in line.lines] == [(None, False)] * 2


async def test_doubt_is_yours_to_choose(rubric_of: Any) -> None:
    """At 0.5 a disagreement of 0.5 stays."""
    dear = FakeModel("UNMET")
    cascade = Cascade([Unsure(holds_1=0.5, holds_2=0.6), PerCriterionGrader(dear)], doubt=0.5)
    await rubric_of(1, 1).grade("x", autograder=cascade)
    assert asked(dear) == ["Holds 2"]


async def test_split_panels_and_samples_go_up(rubric_of: Any) -> None:
    """The first two samples agree about one criterion and differ about the other."""
    cheap = FakeModel(["MET", "MET", "MET", "UNMET"])
    dear = FakeModel("MET")
    cascade = Cascade([Samples(PerCriterionGrader(cheap), 2), PerCriterionGrader(dear)])
    await rubric_of(1, 1).grade("x", autograder=cascade)
    assert asked(dear) == ["Holds 2"]


async def test_a_cheap_judge_that_fails_is_no_loss(rubric_of: Any) -> None:
    """The next one is asked."""
    cascade = Cascade([PerCriterionGrader(FakeModel(DOWN)), PerCriterionGrader(FakeModel("MET"))])
    report = await rubric_of(1).grade("x", autograder=cascade)
    assert (report.score, report.report[0].lines[0].error) == (1.0, "ConnectionError: down")


async def test_the_last_judge_failing_is_an_error(rubric_of: Any, partial_report: Any) -> None:
    """What the cheap one was not sure of does not stand in for it."""
    cascade = Cascade([Unsure(holds_1=0.5, holds_2=0.0), PerCriterionGrader(FakeModel(DOWN))])
    report = await partial_report(rubric_of(1, 1), cascade)
    assert [line.value for line in report.report] == [None, 1.0]
    assert report.report[0].error == "ConnectionError: down"


async def test_raise_gives_the_last_judge_s_exception(rubric_of: Any) -> None:
    """That of the judge before it is not raised."""
    rubric = rubric_of(1, on_error="raise")
    failing = PerCriterionGrader(FakeModel(DOWN))
    with pytest.raises(ConnectionError):
        await rubric.grade("x", autograder=Cascade([Unsure(holds_1=0.5), failing]))
    fine = Cascade([failing, PerCriterionGrader(FakeModel("MET"))])
    assert (await rubric.grade("x", autograder=fine)).score == 1.0


async def test_three_steps(rubric_of: Any) -> None:
    """Each asks about less: 3, 2 and 1 criteria."""
    middle = Unsure(holds_2=0.0, holds_3=0.9)
    dear = FakeModel("UNMET")
    steps = [Unsure(holds_1=0.0, holds_2=0.9, holds_3=0.9), middle, PerCriterionGrader(dear)]
    report = await rubric_of(1, 1, 1).grade("x", autograder=Cascade(steps))
    assert asked(dear) == ["Holds 3"]
    assert [len(line.lines) for line in report.report] == [0, 2, 3]
    assert report.score == pytest.approx(2 / 3)


async def test_nothing_in_doubt_asks_nobody_else() -> None:
    """Not even to say that there is nothing."""
    dear = FakeModel("MET")
    cascade = Cascade([Panel([PerCriterionGrader(FakeModel("MET"))] * 2), PerCriterionGrader(dear)])
    assert (await Rubric([{"requirement": "Is short"}]).grade("x", autograder=cascade)).score == 1.0
    assert dear.calls == []


@pytest.mark.parametrize("doubt", [-0.1, 1, 2])
def test_doubt_has_bounds(doubt: float) -> None:
    """With 1 nothing would ever go up."""
    with pytest.raises(ValueError, match="doubt is"):
        Cascade([PerCriterionGrader()], doubt=doubt)
