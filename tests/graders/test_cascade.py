"""A cascade asks a cheap judge first, and the next one only about what is in doubt."""

from typing import Any

import pytest

from assay import Autograder, Cascade, Criterion, Panel, PerCriterionGrader, Rubric, Samples, Score
from assay.testing import FakeModel

DOWN = ConnectionError("down")


class Unsure(Autograder):
    """A judge with a given disagreement for each criterion."""

    def __init__(self, **apart: Any) -> None:
        super().__init__()
        self.apart = apart

    async def judge(self, to_grade: str, rubric: list[Criterion], query: Any = None) -> Any:
        return [Score(1.0, "at a glance", "MET", None, (), self.apart[c.name]) for c in rubric]


def asked(model: FakeModel) -> list[str]:
    return [user.partition("<criterion>")[2].partition("<")[0] for _, user in model.calls]


async def test_doubtful_criteria_go_to_the_next_judge(make_rubric: Any) -> None:
    """A disagreement above 0.1, or an unknown one, is in doubt; other answers are kept."""
    cheap = Unsure(holds_1=0.0, holds_2=0.1, holds_3=0.18, holds_4=None)
    dear = FakeModel("UNMET")
    cascade = Cascade([cheap, PerCriterionGrader(dear)])
    report = await make_rubric(1, 1, 1, 1).grade("x", judge=cascade)
    assert asked(dear) == ["Holds 3", "Holds 4"]
    assert [line.value for line in report.report] == [1.0, 1.0, 0.0, 0.0]


async def test_a_line_lists_the_answers_of_all_judges(make_rubric: Any) -> None:
    """The line lists the answer of each judge; its reason is the last judge's."""
    cascade = Cascade([Unsure(holds_1=0.5), PerCriterionGrader(FakeModel("UNMET", reason="no"))])
    [line] = (await make_rubric(1).grade("x", judge=cascade)).report
    assert [(step.name, step.verdict) for step in line.lines] == [
        ("Unsure", "MET"),
        ("FakeModel", "UNMET"),
    ]
    assert line.reason == "no"
    assert [(step.requirement, step.counted) for step in line.lines] == [(None, False)] * 2


async def test_doubt_can_be_set(make_rubric: Any) -> None:
    """With `doubt=0.5` a disagreement of 0.5 is accepted."""
    dear = FakeModel("UNMET")
    cascade = Cascade([Unsure(holds_1=0.5, holds_2=0.6), PerCriterionGrader(dear)], doubt=0.5)
    await make_rubric(1, 1).grade("x", judge=cascade)
    assert asked(dear) == ["Holds 2"]


async def test_disagreeing_samples_go_to_the_next_judge(make_rubric: Any) -> None:
    """The samples agree about the first criterion and differ about the second."""
    cheap = FakeModel(["MET", "MET", "MET", "UNMET"])
    dear = FakeModel("MET")
    cascade = Cascade([Samples(PerCriterionGrader(cheap), 2), PerCriterionGrader(dear)])
    await make_rubric(1, 1).grade("x", judge=cascade)
    assert asked(dear) == ["Holds 2"]


async def test_a_failed_first_judge_is_replaced_by_the_next(make_rubric: Any) -> None:
    """The next judge is asked instead."""
    cascade = Cascade([PerCriterionGrader(FakeModel(DOWN)), PerCriterionGrader(FakeModel("MET"))])
    report = await make_rubric(1).grade("x", judge=cascade)
    assert (report.score, report.report[0].lines[0].error) == (1.0, "ConnectionError: down")


async def test_a_failed_last_judge_is_an_error(make_rubric: Any, grade_partially: Any) -> None:
    """The doubtful answer of the first judge does not replace it."""
    cascade = Cascade([Unsure(holds_1=0.5, holds_2=0.0), PerCriterionGrader(FakeModel(DOWN))])
    report = await grade_partially(make_rubric(1, 1), cascade)
    assert [line.value for line in report.report] == [None, 1.0]
    assert report.report[0].error == "ConnectionError: down"


async def test_raise_gives_the_last_judge_s_exception(make_rubric: Any) -> None:
    """Exceptions of earlier judges are not raised."""
    rubric = make_rubric(1, on_error="raise")
    failing = PerCriterionGrader(FakeModel(DOWN))
    with pytest.raises(ConnectionError):
        await rubric.grade("x", judge=Cascade([Unsure(holds_1=0.5), failing]))
    fine = Cascade([failing, PerCriterionGrader(FakeModel("MET"))])
    assert (await rubric.grade("x", judge=fine)).score == 1.0


async def test_three_steps(make_rubric: Any) -> None:
    """The judges are asked about 3, 2 and 1 criteria."""
    middle = Unsure(holds_2=0.0, holds_3=0.9)
    dear = FakeModel("UNMET")
    steps = [Unsure(holds_1=0.0, holds_2=0.9, holds_3=0.9), middle, PerCriterionGrader(dear)]
    report = await make_rubric(1, 1, 1).grade("x", judge=Cascade(steps))
    assert asked(dear) == ["Holds 3"]
    assert [len(line.lines) for line in report.report] == [0, 2, 3]
    assert report.score == pytest.approx(2 / 3)


async def test_without_doubt_the_next_judge_is_not_asked() -> None:
    """The second judge is not called at all."""
    dear = FakeModel("MET")
    cascade = Cascade([Panel([PerCriterionGrader(FakeModel("MET"))] * 2), PerCriterionGrader(dear)])
    assert (await Rubric([{"requirement": "Is short"}]).grade("x", judge=cascade)).score == 1.0
    assert dear.calls == []


@pytest.mark.parametrize("doubt", [-0.1, 1, 2])
def test_doubt_has_bounds(doubt: float) -> None:
    """With `doubt=1` no criterion would ever be in doubt."""
    with pytest.raises(ValueError, match="doubt is"):
        Cascade([PerCriterionGrader()], doubt=doubt)
