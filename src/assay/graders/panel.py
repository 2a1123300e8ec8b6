"""Let several judges, or several answers of one judge, vote on each criterion."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations, count
from typing import ClassVar, Literal, NamedTuple, TypeAlias, Unpack

from assay.aggregation import group_by_key, weighted_sum
from assay.concurrency import FAILURES, run_concurrently
from assay.criterion import Criterion
from assay.errors import JudgeError
from assay.graders.composite import Composite, WrapOptions
from assay.graders.grader import (
    Grader,
    JudgeAnswer,
    ask_grader,
    complete_report,
    report_from,
    scores_from,
)
from assay.graders.judge_input import JudgeInput
from assay.graders.verdicts import failed_score, refuse_errors
from assay.report import CriterionReport, EvaluationReport, Score, SubAnswer, make_line
from assay.types import OnError
from assay.wording import suggest_word

Rule: TypeAlias = Literal["majority", "mean", "worst"]
"""The verdict of most, the mean value, or the answer that leaves the lowest score."""


class Vote(NamedTuple):
    """One of several answers to a criterion."""

    who: str  # the name of the voter
    score: Score
    weight: float = 1.0
    kind: SubAnswer = "vote"  # what the answer is to the line that it becomes part of


class Panel(Composite):
    """Asks every judge about every criterion, side by side, and lets them vote.

    The line of a criterion says what came of it and how far apart the judges were
    (`disagreement`); its own `lines` say who voted how. A judge that fails is not counted.

    >>> from assay import PerCriterionGrader, Rubric
    >>> from assay.testing import FakeModel
    >>> judges = [PerCriterionGrader(FakeModel(said)) for said in ("MET", "MET", "UNMET")]
    >>> rubric = Rubric.from_dict([{"requirement": "Is polite"}])
    >>> [line] = rubric.grade_sync("Thank you.", Panel(judges)).report
    >>> line.verdict, line.reason, round(line.disagreement, 2)
    ('MET', '2 of 3 judges: because the rule says so', 0.67)
    """

    takes_wholes = True
    noun: ClassVar[str] = "judges"  # what the voters are called
    kinds: tuple[SubAnswer, ...] = ()  # what each vote is; "vote" for all if empty

    def __init__(
        self,
        judges: Sequence[Grader] | Mapping[str, Grader],
        *,
        rule: Rule = "majority",
        weights: Sequence[float] | None = None,
        quorum: int = 1,
        **options: Unpack[WrapOptions],
    ) -> None:
        """`judges` may be given by name; `weights`, one a judge, count in a majority and a mean.

        A tie goes to the answer that leaves the lowest score. With fewer than `quorum` answers a criterion has none.
        """
        by_name = named(judges)
        super().__init__(list(by_name.values()), **options)
        if rule not in _RULES:
            raise ValueError(f"rule is {rule!r}: {suggest_word(rule, _RULES)}")
        if not 1 <= quorum <= len(by_name):
            raise ValueError(
                f"quorum is {quorum}: give 1 to {len(by_name)}, the {self.noun} there are"
            )
        wholes = [grader.title for grader in self.inner if grader.gives_whole]
        if wholes and len(wholes) < len(self.inner):
            others = "others here an answer to each: let those vote that give the same"
            raise ValueError(f"{wholes[0]} gives one number for all criteria, and {others}")
        if self.asks_for_whole and rule == "majority":
            raise ValueError("numbers have no majority: give rule='mean' or rule='worst'")
        given = tuple([1.0] * len(by_name) if weights is None else weights)
        if len(given) != len(by_name):
            raise ValueError(
                f"there are {len(given)} weights for {len(by_name)} judges: give one each"
            )
        if not all(0 < weight < float("inf") for weight in given):
            raise ValueError(f"weights are {list(given)}: give finite numbers above 0")
        self.names, self.weights, self.quorum = tuple(by_name), given, quorum
        self.rule: Rule = rule

    async def answer(
        self, judge_input: JudgeInput, criteria: list[Criterion], *, on_error: OnError
    ) -> JudgeAnswer:
        """One score a criterion, or one report for the whole; fails when too few have answered."""

        kinds: tuple[SubAnswer, ...] = self.kinds or ("vote",) * len(self.inner)

        async def asked(place: int) -> list[Score]:
            grader = self.inner[place]
            # In the opposite order, criteria that share a call are listed from last to first.
            order = -1 if kinds[place] == "opposite_order" else 1
            listed = criteria[::order]
            if not self.asks_for_whole:
                return (await scores_from(grader, judge_input, listed))[::order]
            try:
                answer = await ask_grader(grader, judge_input, listed, on_error="raise")
            except FAILURES as error:
                return [failed_score(error)]
            report = report_from(answer, listed, grader.scale)
            if report.score is None or not report.scored:
                return [Score.failed(JudgeError("it gave no number for the whole"))]
            return [Score(report.score, report.reason)]

        answers = await run_concurrently(asked, range(len(self.inner)))
        about = (
            [Criterion(requirement="All criteria together", name="whole")]
            if self.asks_for_whole
            else criteria
        )
        scores: list[Score] = []
        for place, criterion in enumerate(about):
            scores_of_voters = [own[place] for own in answers]
            votes = list(map(Vote, self.names, scores_of_voters, self.weights, kinds))
            scores.append(outcome(criterion, votes, self.rule, quorum=self.quorum, noun=self.noun))
        if self.asks_for_whole:
            return self._whole(scores[0], [own[0] for own in answers], criteria)
        if on_error == "raise":
            refuse_errors(criteria, scores)
        return scores

    def _whole(
        self, score: Score, votes: Sequence[Score], criteria: list[Criterion]
    ) -> EvaluationReport:
        """The report of a number for the whole; its reason says what each judge gave, and how far apart they were."""
        if score.value is None:
            raise JudgeError((score.error or "there is no number").removeprefix("JudgeError: "))
        given = [
            f"{who} {s.value:.4g}"
            for who, s in zip(self.names, votes, strict=True)
            if s.value is not None
        ]
        apart = "" if score.disagreement is None else f"; {score.disagreement:.4g} apart"
        reason = f"{', '.join(given)}{apart}; {score.reason}"
        # The number of a vote is the sum itself: no formula moved the score off it.
        report = EvaluationReport(score.value, reason=reason)
        return complete_report(report, criteria, self.scale).model_copy(update={"worth": None})


class Samples(Panel):
    """Asks one judge several times, and lets its answers vote.

    Each sample has a number of its own, so a cache keeps all of them. A judge of your own is
    asked again and again as it is.

    >>> from assay import PerCriterionGrader, Rubric
    >>> from assay.testing import FakeModel
    >>> judge = PerCriterionGrader(FakeModel(["MET", "UNMET", "MET", "MET"]))
    >>> rubric = Rubric.from_dict([{"requirement": "Is polite"}])
    >>> rubric.grade_sync("Thank you.", Samples(judge, 4, rule="mean")).score
    0.75
    """

    noun = "samples"

    def __init__(
        self,
        grader: Grader,
        count: int = 3,
        *,
        rule: Rule = "majority",
        temperature: float | None = 1.0,
        quorum: int = 1,
        **options: Unpack[WrapOptions],
    ) -> None:
        """`temperature` is what a model is asked with: at 0 all samples would be one."""
        if count < 1:
            raise ValueError(f"count is {count}: ask at least once")

        def sample(nth: int) -> Grader:
            # Samples of samples have numbers of their own too.
            return self._change_options(
                grader, lambda o: replace(o, sample=o.sample * count + nth, temperature=temperature)
            )

        samples = {f"sample {number + 1}": sample(number) for number in range(count)}
        super().__init__(samples, rule=rule, quorum=quorum, **options)
        self.kinds = ("sample",) * count


class Swapped(Panel):
    """Asks a judge twice: the second time with criteria and choices in the opposite order.

    A judge that prefers what comes first contradicts itself then, which `disagreement` shows.

    >>> from assay import PerCriterionGrader, Rubric
    >>> from assay.testing import FakeModel
    >>> judge = PerCriterionGrader(FakeModel(["MET", "UNMET"]))
    >>> rubric = Rubric.from_dict([{"requirement": "Is polite"}])
    >>> report = rubric.grade_sync("Thank you.", Swapped(judge))
    >>> report.score, report.disagreements
    (0.5, {'is_polite': 1.0})
    """

    noun = "orders"
    kinds = ("usual_order", "opposite_order")

    def __init__(
        self,
        grader: Grader,
        *,
        rule: Rule = "mean",
        quorum: int = 1,
        **options: Unpack[WrapOptions],
    ) -> None:
        """With `quorum=2` a criterion has no answer when one of the orders has none."""
        cannot = "its choices cannot be turned round"
        turned = self._change_options(
            grader, lambda asked: replace(asked, reverse=not asked.reverse), cannot
        )
        super().__init__(
            {"usual order": grader, "opposite order": turned}, rule=rule, quorum=quorum, **options
        )


def named(graders: Sequence[Grader] | Mapping[str, Grader]) -> dict[str, Grader]:
    """The graders by name: as given, or by title; no name twice."""
    if isinstance(graders, Mapping):
        return dict(graders)
    found: dict[str, Grader] = {}
    for grader in graders:
        base = str(getattr(grader, "title", "?"))
        names = (base if number == 1 else f"{base}_{number}" for number in count(1))
        found[next(name for name in names if name not in found)] = grader
    return found


def outcome(
    criterion: Criterion,
    votes: Sequence[Vote],
    rule: Rule,
    *,
    quorum: int = 1,
    noun: str = "judges",
) -> Score:
    """The answer that these votes come to; failed ones are not counted, and with fewer than `quorum` there is none."""
    given = [vote for vote in votes if vote.score.error is None]
    failed = [vote for vote in votes if vote.score.error is not None]
    lines = tuple(line_of_vote(criterion, vote) for vote in votes)
    if len(given) < max(1, quorum):
        listed = "; ".join(f"{vote.who}: {vote.score.error}" for vote in failed[:3])
        more = f"; and {len(failed) - 3} more" if len(failed) > 3 else ""
        needed = f", and {quorum} must" if quorum > 1 else ""
        error = JudgeError(f"{len(given)} of {len(votes)} {noun} answered{needed} ({listed}{more})")
        return Score.failed(error)._replace(lines=lines)
    score = _RULES[rule](criterion, given)
    # How many agree with the outcome, who failed, and why, in the words of one who agrees.
    like = [vote for vote in given if vote.score.verdict == score.verdict]
    reason = f"{len(like)} of {len(given)} {noun}"
    if failed:
        reason += f", {len(failed)} failed ({failed[0].who}: {failed[0].score.error})"
    if like and like[0].score.reason:
        reason += f": {like[0].score.reason}"
    apart, citations = (
        disagreement([vote.score for vote in given]),
        like[0].score.citations if like else (),
    )
    return score._replace(reason=reason, lines=lines, disagreement=apart, citations=citations)


def disagreement(scores: Sequence[Score]) -> float | None:
    """The mean distance between two of these answers, 0 to 1; None when there are not two. N/A is 1 from any value."""
    pairs = list(combinations([score.value for score in scores], 2))
    apart = [
        float(a is not b) if a is None or b is None else min(1.0, abs(a - b)) for a, b in pairs
    ]
    return sum(apart) / len(apart) if apart else None


def line_of_vote(criterion: Criterion, vote: Vote) -> CriterionReport:
    """A vote as a line under the criterion's own, by the name and weight of the voter."""
    own = {
        "name": vote.who,
        "weight": vote.weight,
        "requirement": None,
        "tags": (),
        "counted": False,
        "sub_answer": vote.kind,
    }
    return make_line(criterion, vote.score).model_copy(update=own)


def nearest(criterion: Criterion, value: float) -> str:
    """The choice that is worth the most like this value; of two as near, the worse one."""
    sign, worths = (1 if criterion.weight >= 0 else -1), criterion.values
    return min(
        criterion.choices,
        key=lambda choice: (round(abs(worths[choice] - value), 12), sign * worths[choice]),
    )


def _majority(criterion: Criterion, given: Sequence[Vote]) -> Score:
    tally = group_by_key(
        (v.score.value if v.score.verdict is None else v.score.verdict, v) for v in given
    )
    most = max(sum(vote.weight for vote in votes) for votes in tally.values())
    leading = [v for v in tally.values() if sum(x.weight for x in v) >= most - 1e-9]
    winner = _worst(criterion, [votes[0] for votes in leading])
    return winner._replace(value=criterion.values.get(winner.verdict or "", winner.value))


def _mean(criterion: Criterion, given: Sequence[Vote]) -> Score:
    held = [vote for vote in given if vote.score.value is not None]
    weight, others = (
        sum(v.weight for v in held),
        sum(v.weight for v in given if v.score.value is None),
    )
    if not held or others > weight:
        return Score.not_applicable()
    value = (
        weighted_sum([vote.weight for vote in held], [vote.score.value or 0.0 for vote in held])
        / weight
    )
    return Score(
        value,
        verdict=nearest(criterion, value) if any(vote.score.verdict for vote in held) else None,
    )


def _worst(criterion: Criterion, given: Sequence[Vote]) -> Score:
    """The answer that leaves the lowest score: of a fault, that it is there."""
    held = [vote.score for vote in given if vote.score.value is not None]
    if not held:
        return given[0].score
    sign = 1 if criterion.weight >= 0 else -1
    return min(held, key=lambda score: sign * (score.value or 0.0))


_RULES = {"majority": _majority, "mean": _mean, "worst": _worst}
