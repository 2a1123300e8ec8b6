"""EarlyStop stops when the result is decided, and gives the same result as asking everything."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay import (
    Autograder,
    Criterion,
    EarlyStop,
    EvaluationReport,
    Panel,
    PerCriterionGrader,
    Rubric,
    Score,
)
from assay.testing import FakeModel, make_state

SAFE = Criterion(requirement="Is safe", required=True)


class Known(Autograder):
    """Gives fixed answers by name, and records the criteria of each round."""

    def __init__(self, answers: dict[str, Any], **options: Any) -> None:
        super().__init__(**options)
        self.answers = answers
        self.rounds: list[list[str]] = []

    async def judge(self, to_grade: str, rubric: list[Criterion], query: Any = None) -> Any:
        self.rounds.append([criterion.name for criterion in rubric])
        return [self.answers[criterion.name] for criterion in rubric]


def known(*values: Any, **options: Any) -> Known:
    return Known({f"holds_{n}": value for n, value in enumerate(values, start=1)}, **options)


# Vetoes


async def test_a_failed_veto_decides_the_result() -> None:
    """The score is 0 whatever the other answer is, so it is not asked for."""
    rubric = Rubric([Criterion(requirement="Is kind", weight=5), SAFE])
    model = FakeModel("UNMET")
    report = await rubric.grade("x", judge=EarlyStop(PerCriterionGrader(model)))
    assert (report.score, report.raw_score, report.vetoed_by) == (0.0, 0.0, ("is_safe",))
    assert (report.scored, report.asked, report.unneeded, report.coverage) == (True, 1, 1, 0.5)
    kind, safe = report.report
    assert (kind.asked, kind.value, kind.verdict, kind.error) == (False, None, None, None)
    assert kind.reason == "not asked: the result was decided without it"
    assert (safe.asked, safe.value, len(model.calls)) == (True, 0.0, 1)
    assert report.metrics == {"is_safe": 0.0}


async def test_unasked_lines_survive_writing() -> None:
    """The report is written to a dict and read back."""
    rubric = Rubric([Criterion(requirement="Is kind", weight=5), SAFE])
    grader = EarlyStop(PerCriterionGrader(FakeModel("UNMET")))
    report = await rubric.grade("x", judge=grader)
    assert report.to_dict()["report"][0]["asked"] is False
    assert report.to_dict()["unneeded"] == 1
    assert EvaluationReport.from_dict(report.to_dict()).report == report.report


async def test_after_a_passed_veto_everything_is_asked() -> None:
    """All other criteria are asked about in a second round; the sum is 1 + 5 of 6."""
    rubric = Rubric(
        [Criterion(requirement="Is kind", weight=5), SAFE, Criterion(requirement="N", weight=0)]
    )
    grader = Known({"is_kind": True, "is_safe": True, "n": True})
    report = await rubric.grade("x", judge=EarlyStop(grader))
    assert grader.rounds == [["is_safe"], ["is_kind", "n"]]
    assert (report.score, report.raw_score, report.unneeded) == (1.0, 6.0, 0)


async def test_a_cap_above_zero_decides_nothing_by_itself() -> None:
    """With a cap of 0.5 the other criterion can still lower the score."""
    veto = SAFE.with_fields(cap=0.5)
    rubric = Rubric([veto, Criterion(requirement="Is kind", weight=5)])
    grader = Known({"is_safe": False, "is_kind": False})
    report = await rubric.grade("x", judge=EarlyStop(grader))
    assert (report.score, report.unneeded, len(grader.rounds)) == (0.0, 0, 2)


async def test_faults_that_could_lower_the_reward_are_asked() -> None:
    """The score is decided, but the sum is not: it is -3 if the fault is committed."""
    rubric = Rubric([SAFE, Criterion(requirement="Is rude", weight=-3)])
    grader = Known({"is_safe": False, "is_rude": True})
    report = await rubric.grade("x", judge=EarlyStop(grader))
    assert (report.score, report.raw_score, report.unneeded) == (0.0, -3.0, 0)


async def test_a_veto_without_an_answer_vetoes_nothing(grade_partially: Any) -> None:
    """Everything is asked, and the report is partial: a sum of 5 and no score."""
    rubric = Rubric([SAFE, Criterion(requirement="Is kind", weight=5)])
    grader = EarlyStop(Known({"is_safe": Score.failed("TimeoutError: slow"), "is_kind": True}))
    report = await grade_partially(rubric, grader)
    assert (report.score, report.partial_reward, report.errors) == (
        None,
        5.0,
        {"is_safe": "TimeoutError: slow"},
    )


async def test_a_failure_that_cannot_change_the_result_is_kept_as_an_error() -> None:
    """One veto failed and the other has no answer. The score is 0 in any case."""
    rubric = Rubric([SAFE, SAFE.with_fields(name="legal"), Criterion(requirement="Is kind")])
    grader = EarlyStop(Known({"is_safe": False, "legal": Score.failed("TimeoutError: slow")}))
    report = await rubric.grade("x", judge=grader)
    assert (report.score, report.scored, report.unneeded) == (0.0, True, 2)
    assert report.errors == {"legal": "TimeoutError: slow"}


# Thresholds


async def test_it_stops_when_the_threshold_is_reached(make_rubric: Any) -> None:
    """4 + 3 of 10 reach 0.7. The 4 is asked first, since a failure there decides the result."""
    grader = known(True, True, True, True)
    report = await make_rubric(1, 2, 3, 4).grade("x", judge=EarlyStop(grader, threshold=0.7))
    assert grader.rounds == [["holds_4"], ["holds_3"]]
    assert (report.score, report.raw_score, report.unneeded) == (1.0, 10.0, 2)


async def test_it_stops_when_the_threshold_is_out_of_reach(make_rubric: Any) -> None:
    """Without the 4 at most 6 of 10 are possible, so one call is enough."""
    grader = known(True, True, True, False)
    report = await make_rubric(1, 2, 3, 4).grade("x", judge=EarlyStop(grader, threshold=0.7))
    assert (report.score, report.raw_score) == (0.0, 0.0)
    assert (report.metrics, report.unneeded) == ({"holds_4": 0.0}, 3)
    assert grader.rounds == [["holds_4"]]


async def test_rounds_go_on_until_the_result_is_decided(make_rubric: Any) -> None:
    """The 4 alone cannot decide 0.5, so 3 and 4 are asked together. Then the 2 decides."""
    grader = known(True, True, False, True)
    report = await make_rubric(1, 2, 3, 4).grade("x", judge=EarlyStop(grader, threshold=0.5))
    assert (grader.rounds, report.score) == ([["holds_3", "holds_4"], ["holds_2"]], 1.0)


async def test_a_missing_decisive_answer_leaves_it_unscored(
    make_rubric: Any, grade_partially: Any
) -> None:
    """The result is neither a pass nor a fail."""
    grader = EarlyStop(known(True, Score.failed("TimeoutError: slow")), threshold=0.7)
    report = await grade_partially(make_rubric(1, 1), grader)
    assert (report.score, report.raw_score, report.scored) == (None, None, False)


async def test_a_threshold_on_the_sum(make_rubric: Any) -> None:
    """With normalize=False the threshold is in points: 4 reach 3.5."""
    grader = EarlyStop(known(True, True, normalize=False), threshold=3.5)
    report = await make_rubric(1, 4).grade("x", judge=grader)
    assert (report.score, report.raw_score, report.unneeded) == (1.0, 1.0, 1)


@pytest.mark.parametrize("threshold", [0.0, 0.5])
@pytest.mark.parametrize("weights", [(2, 1), (2, -1), (-2, 1), (-2, -1)])
async def test_a_pass_is_open_while_everything_may_be_not_applicable(
    weights: tuple[float, float], threshold: float
) -> None:
    """Any score reaches 0, but if no criterion applies there is no score."""
    criteria = [
        Criterion(requirement=f"Holds {n}", weight=weight, allow_na=True)
        for n, weight in enumerate(weights, start=1)
    ]
    grader = known(Score.not_applicable(), Score.not_applicable())
    stop = EarlyStop(grader, threshold=threshold)
    report = await stop.grade("x", criteria)
    assert sorted(name for names in grader.rounds for name in names) == ["holds_1", "holds_2"]
    assert (report.score, report.raw_score, report.scored) == (None, None, False)


async def test_a_threshold_of_zero_is_reached_by_the_first_criterion_that_applies() -> None:
    """One UNMET is a score of 0, which reaches 0; the other criterion is not asked about."""
    criteria = [
        Criterion(requirement=f"Holds {n}", weight=w, allow_na=True) for n, w in ((1, 2), (2, 1))
    ]
    grader = known(False, Score.not_applicable())
    report = await EarlyStop(grader, threshold=0.0).grade("x", criteria)
    assert (grader.rounds, report.score, report.unneeded) == ([["holds_1"]], 1.0, 1)


async def test_values_above_one_decide_nothing(make_rubric: Any) -> None:
    """A custom judge may give 7; then everything is asked."""
    grader = known(7.0, 0.0)
    report = await make_rubric(1, 1).grade("x", judge=EarlyStop(grader, threshold=0.9))
    assert (report.score, report.unneeded) == (1.0, 0)


async def test_the_reward_of_a_state() -> None:
    """A state whose result was decided early is scored and has an advantage."""
    states = [make_state("one"), make_state("two")]
    model = FakeModel(lambda system, user: "MET" if "two" in user else "UNMET")
    rubric = Rubric(
        [SAFE, Criterion(requirement="Is kind")], judge=EarlyStop(PerCriterionGrader(model))
    )
    await rubric.score_group(states)
    assert [(s["reward"], s["advantage"]) for s in states] == [(0.0, -1.0), (2.0, 1.0)]
    assert "errors" not in states[0]


async def test_beside_a_check(make_rubric: Any) -> None:
    """A check of weight 2 and a pass worth all 4 judged points make 6 of 6."""
    rubric = Rubric([lambda: 1.0, *make_rubric(3, 1).criteria], weights=[2, None, None])
    report = await rubric.grade("x", judge=EarlyStop(known(True, False), threshold=0.7))
    assert (report.raw_score, report.score, report.unneeded) == (6.0, 1.0, 1)


LINE = st.tuples(
    st.integers(-3, 4),
    st.booleans(),
    st.sampled_from([0.0, 0.2, 0.5]),
    st.booleans(),
    st.sampled_from([0.0, 0.5, 1.0, None]),
)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(LINE, min_size=1, max_size=6), st.sampled_from([None, 0.3, 0.5, 0.75]), st.booleans()
)
@pytest.mark.slow
def test_stopping_never_changes_the_result(lines: Any, threshold: float | None, unit: bool) -> None:
    """This holds for any weights, vetoes, caps and answers, including N/A."""
    criteria: list[Criterion] = []
    answers: dict[str, Score] = {}
    for n, (weight, required, cap, allow_na, value) in enumerate(lines):
        name = f"c{n}"
        criteria.append(
            Criterion(
                requirement=name,
                weight=weight,
                required=required,
                cap=cap,
                allow_na=allow_na,
                pass_at=0.5,
            )
        )
        left_out = value is None and allow_na
        answers[name] = Score.not_applicable() if left_out else Score(value or 0.0)
    full = asyncio.run(Known(answers, normalize=unit).grade("x", criteria))
    stop = EarlyStop(Known(answers, normalize=unit), threshold=threshold)
    report = asyncio.run(stop.grade("x", criteria))
    assert report.scored == full.scored
    if threshold is None:
        assert report.score == (None if full.score is None else pytest.approx(full.score))
        assert report.partial_reward == pytest.approx(full.partial_reward)
        assert bool(report.vetoed_by) == bool(full.vetoed_by)
    elif full.score is not None:
        assert report.score == float(full.score >= threshold)


def test_it_gives_one_number_for_all_criteria(make_rubric: Any) -> None:
    """It gives one number, so a panel around it cannot take a majority."""
    with pytest.raises(ValueError, match="have no majority"):
        Panel([EarlyStop(PerCriterionGrader())])
