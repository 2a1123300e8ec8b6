"""Panels, samples and both orders: how votes are combined, and how disagreement is measured."""

from typing import Any

import pytest

from assay import (
    Autograder,
    Cascade,
    Criterion,
    EvaluationReport,
    JudgeError,
    Panel,
    PerCriterionGrader,
    PerCriterionOneShotGrader,
    Rubric,
    RubricAsJudgeGrader,
    Samples,
    Score,
    Swapped,
)
from assay.graders import LengthPenalty
from assay.graders.panel import Vote, combine_votes, find_nearest_choice, measure_disagreement
from assay.testing import FakeModel

DOWN = ConnectionError("down")
SCALE = Criterion(requirement="Is clear", choices=("poor", "fair", "good"))
NA = Score.not_applicable()


def judges(*answers: Any) -> list[Autograder]:
    """Return one judge per answer; it gives this answer to every question."""
    return [PerCriterionGrader(FakeModel(answer)) for answer in answers]


def votes(*scores: Score | float, weights: Any = None) -> list[Vote]:
    all_scores = [score if isinstance(score, Score) else Score(score) for score in scores]
    return [
        Vote(f"judge {n}", score, weight)
        for n, (score, weight) in enumerate(
            zip(all_scores, weights or [1.0] * len(all_scores), strict=True)
        )
    ]


def verdict(word: str) -> Score:
    return Score(SCALE.values[word], f"it is {word}", word)


@pytest.mark.parametrize(
    ("rule", "weight", "answers", "value", "apart"),
    [
        ("majority", 1, ["MET", "MET", "UNMET"], 1.0, 2 / 3),
        ("majority", 1, ["MET", "UNMET", "UNMET"], 0.0, 2 / 3),
        ("majority", 1, ["MET", "MET", "MET"], 1.0, 0.0),
        ("majority", 1, ["MET", "UNMET"], 0.0, 1.0),
        ("majority", -1, ["MET", "UNMET"], 1.0, 1.0),
        ("mean", 1, ["MET", "MET", "UNMET"], 2 / 3, 2 / 3),
        ("mean", 1, ["MET", "MET", "MET", "UNMET"], 0.75, 0.5),
        ("worst", 1, ["MET", "MET", "UNMET"], 0.0, 2 / 3),
        ("worst", -1, ["UNMET", "UNMET", "MET"], 1.0, 2 / 3),
    ],
)
async def test_rules(
    make_rubric: Any, rule: Any, weight: float, answers: list[str], value: float, apart: float
) -> None:
    """A tie gives the lower score. If one of three judges differs, two of three pairs differ."""
    report = await make_rubric(weight).grade("x", judge=Panel(judges(*answers), rule=rule))
    [line] = report.report
    assert line.value == pytest.approx(value)
    assert line.disagreement == pytest.approx(apart)
    assert report.disagreements == {"holds_1": pytest.approx(apart)}


@pytest.mark.parametrize(
    ("rule", "value"), [("majority", 0.0), ("mean", pytest.approx(0.4)), ("worst", 0.0)]
)
async def test_weights_of_judges(make_rubric: Any, rule: Any, value: Any) -> None:
    """With weights 3, 1 and 1 the first judge is the majority, and the mean is (1 + 1) / 5."""
    panel = Panel(judges("UNMET", "MET", "MET"), rule=rule, weights=[3, 1, 1])
    assert (await make_rubric(1).grade("x", judge=panel)).report[0].value == value


async def test_a_line_lists_the_votes(make_rubric: Any) -> None:
    """Votes are listed by name, and they survive writing the report and reading it back."""
    panel = Panel(
        {"strict": judges("UNMET")[0], "kind": judges("MET")[0], "third": judges(DOWN)[0]}
    )
    report = await make_rubric(1).grade("x", judge=panel)
    [line] = report.report
    assert [(vote.name, vote.verdict, vote.error) for vote in line.lines] == [
        ("strict", "UNMET", None),
        ("kind", "MET", None),
        ("third", None, "ConnectionError: down"),
    ]
    written = report.model_dump()["report"][0]
    assert (written["disagreement"], written["lines"][1]["name"]) == (1.0, "kind")
    assert EvaluationReport.from_dict(report.to_dict()).report == report.report


async def test_a_vote_is_a_line_of_its_voter() -> None:
    """It has the voter's name and weight; of the criterion it has only the answer."""
    criterion = Criterion(requirement="Is kind", weight=-4, tags=("tone",))
    panel = Panel({"strict": judges("MET")[0], "kind": judges("UNMET")[0]}, weights=[3, 1])
    [line] = (await Rubric([criterion]).grade("x", judge=panel)).report
    assert (line.name, line.requirement, line.weight) == ("is_kind", "Is kind", -4)
    fields = [(v.name, v.requirement, v.weight, v.tags, v.counted) for v in line.lines]
    assert fields == [("strict", None, 3.0, (), False), ("kind", None, 1.0, (), False)]
    # Whether it passes is still a question of the criterion: a fault that is there does not.
    assert [vote.passed for vote in line.lines] == [False, True]


async def test_judges_without_names_are_called_by_their_model(make_rubric: Any) -> None:
    """Equal names are numbered."""
    report = await make_rubric(1).grade("x", judge=Panel(judges("MET", "MET")))
    assert [vote.name for vote in report.report[0].lines] == ["FakeModel", "FakeModel_2"]


async def test_a_failed_judge_is_named_and_the_others_count(make_rubric: Any) -> None:
    """The reason counts two of the two judges that answered, not two of three."""
    report = await make_rubric(1).grade("x", judge=Panel(judges("MET", DOWN, "MET")))
    [line] = report.report
    assert (line.value, line.disagreement, report.scored) == (1.0, 0.0, True)
    assert line.reason.startswith("2 of 2 judges, 1 failed (FakeModel_2: ConnectionError: down): ")


async def test_a_judge_that_fails_on_one_criterion_counts_on_the_others(make_rubric: Any) -> None:
    """Two judges answer the first criterion, and one answers the second."""
    half = PerCriterionGrader(FakeModel(lambda s, u: "MET" if "Holds 1" in u else DOWN))
    report = await make_rubric(1, 1).grade("x", judge=Panel([half, *judges("UNMET")], rule="mean"))
    assert [line.value for line in report.report] == [0.5, 0.0]
    assert [line.disagreement for line in report.report] == [1.0, None]


async def test_no_judge_answered(make_rubric: Any, grade_partially: Any) -> None:
    """The line has an error and no value, and still lists the votes."""
    report = await grade_partially(make_rubric(-1), Panel(judges(DOWN, DOWN)))
    [line] = report.report
    assert (line.value, report.score, len(line.lines)) == (None, None, 2)
    assert line.error.startswith("JudgeError: 0 of 2 judges answered (FakeModel: ConnectionError")


async def test_a_quorum(make_rubric: Any, grade_partially: Any) -> None:
    """One answer of three is too few for a quorum of two."""
    report = await grade_partially(make_rubric(1), Panel(judges("MET", DOWN, DOWN), quorum=2))
    assert "1 of 3 judges answered, but 2 are needed" in report.report[0].error
    enough = await make_rubric(1).grade("x", Panel(judges("MET", "MET", DOWN), quorum=2))
    assert enough.score == 1.0


async def test_raise_is_for_criteria_without_an_answer(make_rubric: Any) -> None:
    """One judge may fail; if all fail, the error names the criterion."""
    rubric = make_rubric(1, on_error="raise")
    assert (await rubric.grade("x", judge=Panel(judges("MET", DOWN)))).score == 1.0
    with pytest.raises(JudgeError, match=r"'holds_1' has no answer: .*0 of 1 judges"):
        await rubric.grade("x", judge=Panel(judges(DOWN)))


async def test_grading_without_a_rubric_keeps_the_votes(make_rubric: Any) -> None:
    """`grade()` of the panel itself keeps disagreement and lines."""
    report = await Panel(judges("MET", "UNMET")).grade("x", list(make_rubric(1).criteria))
    assert (report.report[0].disagreement, len(report.report[0].lines)) == (1.0, 2)


async def test_panels_of_panels(make_rubric: Any) -> None:
    """Any grader can be a judge; the votes of the inner panel are lines below its own vote."""
    inner = Panel(judges("MET", "MET", "UNMET"))
    report = await make_rubric(1).grade("x", judge=Panel([inner, *judges("MET")]))
    [line] = report.report
    assert (line.value, line.disagreement) == (1.0, 0.0)
    assert [vote.disagreement for vote in line.lines] == [pytest.approx(2 / 3), None]
    assert len(line.lines[0].lines) == 3


@pytest.mark.parametrize(
    ("rule", "scores", "value", "named"),
    [
        ("majority", ["good", "fair", "fair"], 0.5, "fair"),
        ("majority", ["good", "fair", "poor"], 0.0, "poor"),
        ("majority", ["good", "good", "fair", "fair", "poor"], 0.5, "fair"),
        ("mean", ["good", "good", "fair"], 2.5 / 3, "good"),
        ("mean", ["good", "fair"], 0.75, "fair"),
        ("worst", ["good", "fair"], 0.5, "fair"),
    ],
)
def test_labels_of_a_scale(rule: Any, scores: list[str], value: float, named: str) -> None:
    """The verdict of a mean is the nearest label; of two, the worse."""
    score = combine_votes(SCALE, votes(*map(verdict, scores)), rule)
    assert (score.value, score.verdict) == (pytest.approx(value), named)


@pytest.mark.parametrize(
    ("rule", "scores", "value", "named"),
    [
        ("majority", [NA, NA, verdict("good")], None, "N/A"),
        ("majority", [NA, verdict("good")], 1.0, "good"),
        ("mean", [NA, verdict("good"), verdict("poor")], 0.5, "fair"),
        ("mean", [NA, NA, verdict("good")], None, "N/A"),
        ("mean", [NA, verdict("good")], 1.0, "good"),
        ("worst", [NA, NA, verdict("good")], 1.0, "good"),
        ("worst", [NA, NA], None, "N/A"),
    ],
)
def test_not_applicable_is_an_answer(
    rule: Any, scores: list[Score], value: float | None, named: str
) -> None:
    """It wins only by majority. `worst` ignores it if any judge gave a value."""
    score = combine_votes(SCALE, votes(*scores), rule)
    assert (score.value, score.verdict, score.error) == (value, named, None)


def test_numbers_vote_too() -> None:
    """A custom judge may give numbers without verdicts, here 0.2, 0.2 and 0.8."""
    numbers = votes(0.2, 0.2, 0.8)
    assert combine_votes(SCALE, numbers, "majority").value == 0.2
    assert combine_votes(SCALE, numbers, "mean")[:3] == (pytest.approx(0.4), "3 of 3 judges", None)


@pytest.mark.parametrize(
    ("scores", "apart"),
    [([1.0], None), ([0.0, 0.5, 1.0], 2 / 3), ([NA, 1.0], 1.0), ([NA, NA], 0.0), ([9.0, 2.0], 1.0)],
)
def test_disagreement_is_the_mean_distance_of_two(scores: list[Any], apart: Any) -> None:
    """Distances of 0.5, 0.5 and 1 have the mean 2/3. One answer has no disagreement; 1 is the most."""
    result = measure_disagreement([vote.score for vote in votes(*scores)])
    assert result == (None if apart is None else pytest.approx(apart))


def test_nearest_of_a_fault_is_the_worse_one_too() -> None:
    """Half way between the choices, a fault counts as committed."""
    assert find_nearest_choice(Criterion(requirement="Is rude", weight=-1), 0.5) == "MET"
    assert find_nearest_choice(Criterion(requirement="Is kind"), 0.5) == "UNMET"


async def test_a_veto_passes_by_its_verdict() -> None:
    """2 of 3 say MET: the mean value is 2/3, but the verdict is MET, so there is no veto."""
    rubric = Rubric([Criterion(requirement="Is safe", required=True)])
    report = await rubric.grade("x", judge=Panel(judges("MET", "MET", "UNMET"), rule="mean"))
    assert (report.score, report.vetoed_by) == (pytest.approx(2 / 3), ())


# Samples


async def test_samples_vote(make_rubric: Any) -> None:
    """3 of 5 say MET, so 3 · 2 of 10 pairs differ."""
    model = FakeModel(["MET", "UNMET", "MET", "UNMET", "MET"])
    report = await make_rubric(1).grade("x", judge=Samples(PerCriterionGrader(model), 5))
    [line] = report.report
    assert (line.value, line.disagreement) == (1.0, pytest.approx(0.6))
    assert [vote.name for vote in line.lines] == [f"sample {n}" for n in range(1, 6)]
    assert line.reason.startswith("3 of 5 samples: ")


async def test_samples_of_a_custom_judge(make_rubric: Any) -> None:
    """It is asked once per sample, without changed options."""

    class Wavering(Autograder):
        asked = 0

        async def judge(self, to_grade: str, rubric: list[Criterion], query: Any = None) -> Any:
            self.asked += 1
            return [self.asked % 2 == 0 for _ in rubric]

    report = await make_rubric(1).grade("x", judge=Samples(Wavering(), 4, rule="mean"))
    assert report.score == 0.5


# Both orders


async def test_the_second_order_is_the_opposite_one() -> None:
    """Labels and criteria of a shared call are reversed, and the answers are matched back."""
    model = FakeModel(
        [
            {
                "criteria_evaluations": [
                    {"criterion_idx": 0, "choice": "good"},
                    {"criterion_idx": 1, "choice": "MET"},
                ]
            },
            {
                "criteria_evaluations": [
                    {"criterion_idx": 0, "choice": "MET"},
                    {"criterion_idx": 1, "choice": "poor"},
                ]
            },
        ]
    )
    rubric = Rubric([SCALE, Criterion(requirement="Is short")])
    report = await rubric.grade("x", judge=Swapped(PerCriterionOneShotGrader(model)))
    assert [line.value for line in report.report] == [0.5, 1.0]
    assert report.disagreements == {"is_clear": 1.0, "is_short": 0.0}
    first, second = [user.partition("<criteria>")[2] for _, user in model.calls]
    assert "1. [positive, weight 1, one of: poor | fair | good] Is clear" in first
    assert "1. [positive, weight 1, one of: UNMET | MET] Is short" in second
    assert (
        "2. [positive, weight 1, one of, from the most to the least: good | fair | poor] Is clear"
        in second
    )


async def test_labels_of_single_questions_are_reversed() -> None:
    """The prompt states the order; MET and UNMET, usually not listed, are listed too."""
    model = FakeModel({"choice": "good", "criterion_status": None})
    await Rubric([SCALE]).grade("x", judge=Swapped(PerCriterionGrader(model)))
    assert "<choices>\npoor\nfair\ngood\n</choices>" in model.calls[0][1]
    assert (
        '<choices order="from the most to the least">\ngood\nfair\npoor\n</choices>'
        in model.calls[1][1]
    )
    plain = FakeModel("MET")
    rubric = Rubric([Criterion(requirement="Is short")])
    await rubric.grade("x", judge=Swapped(PerCriterionGrader(plain)))
    assert "<choices" not in plain.calls[0][1]
    assert "<choices>\nUNMET\nMET\n</choices>" in plain.calls[1][1]


async def test_not_applicable_stays_last() -> None:
    """N/A is not part of the scale, so it is not reversed."""
    model = FakeModel({"choice": "N/A"})
    rubric = Rubric([Criterion(requirement="Is kind", choices=("no", "yes"), allow_na=True)])
    await rubric.grade("x", judge=Swapped(PerCriterionGrader(model)))
    assert "\nyes\nno\nN/A\n</choices>" in model.calls[1][1]


async def test_a_split_between_orders_is_a_half(make_rubric: Any) -> None:
    """A split also fails a required criterion."""
    swapped = Swapped(PerCriterionGrader(FakeModel(["MET", "UNMET"])))
    assert (await make_rubric(1).grade("x", judge=swapped)).score == 0.5
    veto = Rubric([Criterion(requirement="Is safe", required=True)])
    swapped = Swapped(PerCriterionGrader(FakeModel(["MET", "UNMET"])))
    assert (await veto.grade("x", judge=swapped)).vetoed_by == ("is_safe",)


# One number for all


async def test_numbers_for_the_whole_have_a_mean(make_rubric: Any) -> None:
    """80, 60 and a failure have the mean 0.7, and the reason lists them."""
    panel = Panel(
        [RubricAsJudgeGrader(FakeModel(number)) for number in (80, 60, DOWN)], rule="mean"
    )
    report = await make_rubric(3, 1).grade("x", judge=panel)
    assert (report.score, report.raw_score) == (pytest.approx(0.7), pytest.approx(2.8))
    assert report.reason.startswith(
        "FakeModel 0.8, FakeModel_2 0.6; 0.2 apart; 2 of 2 judges, 1 failed"
    )


async def test_the_worst_number_without_normalising(make_rubric: Any) -> None:
    """60 of 100 on weights of 4 is 2.4."""
    two = [RubricAsJudgeGrader(FakeModel(number), normalize=False) for number in (80, 60)]
    report = await make_rubric(3, 1).grade("x", judge=Panel(two, rule="worst"))
    assert (report.score, report.raw_score) == (pytest.approx(2.4), pytest.approx(2.4))


async def test_no_number_at_all(make_rubric: Any, grade_partially: Any) -> None:
    """Every line has the error."""
    panel = Panel([RubricAsJudgeGrader(FakeModel(DOWN))], rule="mean")
    report = await grade_partially(make_rubric(1, 1), panel)
    assert all("0 of 1 judges answered" in error for error in report.errors.values())
    assert len(report.errors) == 2


async def test_orders_of_one_number_for_all(make_rubric: Any) -> None:
    """The second call lists the criteria from last to first."""
    model = FakeModel([80, 60])
    report = await make_rubric(3, 1).grade("x", judge=Swapped(RubricAsJudgeGrader(model)))
    assert report.score == pytest.approx(0.7)
    assert ["weight 3] Holds 1\n2." in user for _, user in model.calls] == [True, False]


# What is refused


class Own(Autograder):
    """A grader that ignores the options of `with_options()`."""

    async def judge(self, to_grade: str, rubric: list[Criterion], query: Any = None) -> Any:
        return ["MET"] * len(rubric)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: Panel([]), ValueError, "no judge to ask"),
        (lambda: Panel([3]), TypeError, "judge is 3: give the name of a model"),
        (lambda: Panel(judges("MET"), rule="mode"), ValueError, "rule is 'mode'"),
        (lambda: Panel(judges("MET"), weights=[1, 2]), ValueError, "2 weights for 1 judges"),
        (lambda: Panel(judges("MET"), weights=[0]), ValueError, "above 0"),
        (lambda: Panel(judges("MET"), quorum=2), ValueError, "give 1 to 1"),
        (lambda: Samples(judges("MET")[0], 0), ValueError, "ask at least once"),
        (lambda: Swapped(Own()), ValueError, "cannot be reversed"),
        (lambda: Panel([RubricAsJudgeGrader(FakeModel(1))]), ValueError, "have no majority"),
        (
            lambda: Panel([RubricAsJudgeGrader(FakeModel(1)), *judges("MET")], rule="mean"),
            ValueError,
            "gives one number for all criteria, and others",
        ),
        (
            lambda: Panel([PerCriterionGrader(FakeModel(), length_penalty=LengthPenalty())]),
            ValueError,
            "give length_penalty to Panel",
        ),
    ],
)
def test_invalid_arguments_are_refused(make: Any, error: type[Exception], words: str) -> None:
    """Errors are raised at construction, before any call."""
    with pytest.raises(error, match=words):
        make()


async def test_normalize_and_length_penalty(make_rubric: Any) -> None:
    """`normalize` comes from the first judge; a length penalty belongs to the panel."""
    raw = Panel([PerCriterionGrader(FakeModel("MET"), normalize=False)])
    assert (await make_rubric(3, 1).grade("x", judge=raw)).score == 4.0
    penalty = LengthPenalty(free_budget=1, max_cap=2)
    long = Panel(judges("MET"), length_penalty=penalty)
    assert (await make_rubric(3, 1).grade("two words", judge=long)).score == 0.5


# What a sub-answer is


async def test_the_answers_behind_a_line_say_what_they_are(make_rubric: Any) -> None:
    """`sub_answer` does not depend on names, and it survives writing the report."""
    judge = PerCriterionGrader(FakeModel("MET"))
    graders = {
        Panel({"sample 1": judge, "b": judge}): ["vote", "vote"],
        Samples(judge, 3): ["sample", "sample", "sample"],
        Swapped(judge): ["usual_order", "opposite_order"],
        Cascade([judge, judge]): ["escalation", "escalation"],
    }
    for grader, kinds in graders.items():
        report = await make_rubric(1).grade("x", judge=grader)
        [line] = report.report
        assert line.sub_answer is None
        assert [answer.sub_answer for answer in line.lines] == kinds
        assert EvaluationReport.from_dict(report.to_dict()).report == report.report
