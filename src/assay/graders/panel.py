"""Let several judges, or several answers of one judge, vote on each criterion."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import ClassVar, Literal, NamedTuple, TypeAlias, TypeVar

from assay.aggregation import weighted_sum
from assay.concurrency import FAILURES, is_stop, side_by_side
from assay.criterion import Criterion
from assay.errors import JudgeError
from assay.graders.autograder import Autograder, Composite, JudgeAnswer, JudgeOptions, as_whole, named, scores_from
from assay.graders.length import LengthPenalty
from assay.graders.verdicts import refuse_errors
from assay.report import CriterionReport, EvaluationReport, Score, line_of
from assay.types import OnError
from assay.wording import did_you_mean

Item = TypeVar("Item")
Rule: TypeAlias = Literal["majority", "mean", "worst"]
"""The verdict of most, the mean value, or the answer that leaves the lowest score."""

RULES: tuple[Rule, ...] = ("majority", "mean", "worst")


class Vote(NamedTuple):
    """Who said what, and how much it counts."""

    who: str
    score: Score
    weight: float = 1.0


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
    noun: ClassVar[str] = "judges"
    """What those who vote are called."""

    def __init__(
        self,
        judges: Sequence[Autograder] | Mapping[str, Autograder],
        *,
        rule: Rule = "majority",
        weights: Sequence[float] | None = None,
        quorum: int = 1,
        normalize: bool | None = None,
        length_penalty: LengthPenalty | None = None,
    ) -> None:
        """`judges` may be given by name; `weights`, one a judge, count in a majority and a mean.

        A tie goes to the answer that leaves the lowest score, and `worst` always does. With fewer
        than `quorum` answers a criterion has none.
        """
        by_name = named(judges)
        super().__init__(list(by_name.values()), normalize=normalize, length_penalty=length_penalty)
        if rule not in RULES:
            raise ValueError(f"rule is {rule!r}: {did_you_mean(rule, RULES)}")
        if not 1 <= quorum <= len(by_name):
            raise ValueError(f"quorum is {quorum}: give 1 to {len(by_name)}, the {self.noun} there are")
        wholes = [grader.title for grader in self.inner if grader.gives_whole]
        if wholes and len(wholes) < len(self.inner):
            raise ValueError(
                f"{wholes[0]} gives one number for all criteria, and others here an answer to each: "
                "let those vote that give the same"
            )
        if self.judges_whole and rule == "majority":
            raise ValueError("numbers have no majority: give rule='mean' or rule='worst'")
        self.names = tuple(by_name)
        self.rule: Rule = rule
        self.weights = _weights(weights, len(by_name))
        self.quorum = quorum

    async def ask(self, to_grade: str, criteria: list[Criterion], query: str | None, on_error: OnError) -> JudgeAnswer:
        """One score a criterion, or one report for the whole; fails when too few have answered."""
        if self.judges_whole:
            return await self._whole(to_grade, criteria, query)

        async def asked(place: int) -> list[Score]:
            listed = self._listed(place, criteria)
            scores = await scores_from(self.inner[place], to_grade, listed, query)
            return self._listed(place, scores)

        answers = await side_by_side(asked, range(len(self.inner)))
        scores = [
            self._outcome(criterion, [scores[place] for scores in answers]) for place, criterion in enumerate(criteria)
        ]
        if on_error == "raise":
            refuse_errors(criteria, scores)
        return scores

    def _listed(self, place: int, items: list[Item]) -> list[Item]:
        """Things in the order in which the grader at this place is given them, or back again."""
        return items

    async def _whole(self, to_grade: str, criteria: list[Criterion], query: str | None) -> EvaluationReport:
        """The report that the judges' numbers come to; its reason says which they were, and how far apart."""

        async def asked(place: int) -> Score:
            return await _number_from(self.inner[place], to_grade, self._listed(place, criteria), query)

        scores = await side_by_side(asked, range(len(self.inner)))
        score = self._outcome(_WHOLE, scores)
        if score.value is None:
            raise JudgeError((score.error or "there is no number").removeprefix("JudgeError: "))
        pairs = zip(self.names, scores, strict=True)
        given = ", ".join(f"{who} {s.value:.4g}" for who, s in pairs if s.value is not None)
        apart = "" if score.disagreement is None else f"; {score.disagreement:.4g} apart"
        reason = f"{given}{apart}; {score.reason}"
        whole = as_whole(EvaluationReport(score.value, reason=reason), criteria, self.scale)
        # The number of a vote is the sum itself: no formula moved the score off it.
        return replace(whole, worth=None)

    def _outcome(self, criterion: Criterion, scores: Sequence[Score]) -> Score:
        votes = list(map(Vote, self.names, scores, self.weights))
        return outcome(criterion, votes, self.rule, quorum=self.quorum, noun=self.noun)


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
        grader: Autograder,
        count: int = 3,
        *,
        rule: Rule = "majority",
        temperature: float | None = 1.0,
        quorum: int = 1,
        normalize: bool | None = None,
        length_penalty: LengthPenalty | None = None,
    ) -> None:
        """`temperature` is what a model is asked with: at 0 all samples would be one."""
        if count < 1:
            raise ValueError(f"count is {count}: ask at least once")
        self._refuse(grader)

        def sample(number: int) -> Autograder:
            def change(options: JudgeOptions) -> JudgeOptions:
                # Samples of samples have numbers of their own too.
                own = options.sample * count + number
                return replace(options, sample=own, temperature=temperature)

            return grader.with_options(change)

        super().__init__(
            {f"sample {number + 1}": sample(number) for number in range(count)},
            rule=rule,
            quorum=quorum,
            normalize=normalize,
            length_penalty=length_penalty,
        )


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

    def __init__(
        self,
        grader: Autograder,
        *,
        rule: Rule = "mean",
        quorum: int = 1,
        normalize: bool | None = None,
        length_penalty: LengthPenalty | None = None,
    ) -> None:
        """With `quorum=2` a criterion has no answer when one of the orders has none."""
        self._refuse(grader)
        turned = grader.with_options(lambda options: replace(options, reverse=not options.reverse))
        if turned is grader:
            raise ValueError(
                f"{grader.title} puts its questions in its own way, so its choices cannot be turned "
                "round: use a grader that asks a model through `model=` or `generate_fn=`"
            )
        super().__init__(
            {"usual order": grader, "opposite order": turned},
            rule=rule,
            quorum=quorum,
            normalize=normalize,
            length_penalty=length_penalty,
        )

    def _listed(self, place: int, items: list[Item]) -> list[Item]:
        return items[::-1] if place else items


def _weights(weights: Sequence[float] | None, count: int) -> tuple[float, ...]:
    given = tuple([1.0] * count if weights is None else weights)
    if len(given) != count:
        raise ValueError(f"there are {len(given)} weights for {count} judges: give one each")
    if not all(0 < weight < float("inf") for weight in given):
        raise ValueError(f"weights are {list(given)}: give finite numbers above 0")
    return given


_WHOLE = Criterion(requirement="All criteria together", name="whole")


async def _number_from(grader: Autograder, to_grade: str, criteria: list[Criterion], query: str | None) -> Score:
    """A grader's one number for all criteria, with its reason."""
    try:
        answer = await grader.answer(to_grade, criteria, query, on_error="raise")
    except FAILURES as error:
        if is_stop(error):
            raise
        return Score.failed(error)
    report = grader.report_of(answer, criteria)
    if report.score is None or not report.scored:
        return Score.failed(JudgeError("it gave no number for the whole"))
    return Score(report.score, report.reason)


def outcome(criterion: Criterion, votes: Sequence[Vote], rule: Rule, *, quorum: int = 1, noun: str = "judges") -> Score:
    """The answer that these come to. Those who failed are not counted, and it says so.

    `noun` is what the voters are called. With fewer than `quorum` answers there is none.
    """
    given = [vote for vote in votes if vote.score.error is None]
    lines = tuple(line_of_vote(criterion, vote) for vote in votes)
    if len(given) < max(1, quorum):
        return Score.failed(_too_few(votes, len(given), quorum, noun))._replace(lines=lines)
    score = _RULES[rule](criterion, given)
    return score._replace(
        reason=_reason(score, given, votes, noun),
        lines=lines,
        disagreement=disagreement([vote.score for vote in given]),
    )


def disagreement(scores: Sequence[Score]) -> float | None:
    """The mean distance between two of these answers, 0 to 1; None when there are not two.

    For MET and UNMET it is the share of pairs that differ. N/A is as far as can be from a value.

    >>> disagreement([Score(1.0), Score(1.0), Score(0.0)])
    0.6666666666666666
    """
    pairs = list(combinations([score.value for score in scores], 2))
    if not pairs:
        return None
    return sum(_distance(one, other) for one, other in pairs) / len(pairs)


def _distance(one: float | None, other: float | None) -> float:
    if one is None or other is None:
        return float(one is not other)
    return min(1.0, abs(one - other))


def line_of_vote(criterion: Criterion, vote: Vote) -> CriterionReport:
    """A vote as a line under the criterion's own, by the name and weight of the voter."""
    line = line_of(criterion, vote.score)
    own = {"name": vote.who, "weight": vote.weight, "requirement": None, "tags": ()}
    return line.model_copy(update={**own, "counted": False})


def nearest(criterion: Criterion, value: float) -> str:
    """The choice that is worth the most like this value; of two as near, the worse one."""
    sign = 1 if criterion.weight >= 0 else -1
    worths = criterion.values
    return min(criterion.choices, key=lambda choice: (round(abs(worths[choice] - value), 12), sign * worths[choice]))


def _majority(criterion: Criterion, given: Sequence[Vote]) -> Score:
    tally: dict[str | float | None, list[Vote]] = {}
    for vote in given:
        key = vote.score.verdict if vote.score.verdict is not None else vote.score.value
        tally.setdefault(key, []).append(vote)
    most = max(sum(vote.weight for vote in votes) for votes in tally.values())
    leading = [v for v in tally.values() if sum(x.weight for x in v) >= most - 1e-9]
    winner = _worst(criterion, [votes[0] for votes in leading])
    verdict = winner.verdict
    if verdict is None or verdict not in criterion.values:
        return winner
    return winner._replace(value=criterion.values[verdict])


def _mean(criterion: Criterion, given: Sequence[Vote]) -> Score:
    held = [vote for vote in given if vote.score.value is not None]
    weight, others = sum(v.weight for v in held), sum(v.weight for v in given if v not in held)
    if not held or others > weight:
        return Score.not_applicable()
    values = [vote.score.value or 0.0 for vote in held]
    value = weighted_sum([vote.weight for vote in held], values) / weight
    verdict = nearest(criterion, value) if any(vote.score.verdict for vote in held) else None
    return Score(value, verdict=verdict)


def _worst(criterion: Criterion, given: Sequence[Vote]) -> Score:
    """The answer that leaves the lowest score: of a fault, that it is there."""
    held = [vote.score for vote in given if vote.score.value is not None]
    if not held:
        return given[0].score
    sign = 1 if criterion.weight >= 0 else -1
    return min(held, key=lambda score: sign * (score.value or 0.0))


_RULES = {"majority": _majority, "mean": _mean, "worst": _worst}


def _reason(score: Score, given: Sequence[Vote], votes: Sequence[Vote], noun: str) -> str:
    """How many agree with the outcome, who failed, and why, in the words of one who agrees."""
    like = [vote for vote in given if vote.score.verdict == score.verdict]
    counted = f"{len(like)} of {len(given)} {noun}"
    failed = [vote for vote in votes if vote.score.error is not None]
    if failed:
        counted += f", {len(failed)} failed ({failed[0].who}: {failed[0].score.error})"
    words = like[0].score.reason if like else ""
    return f"{counted}: {words}" if words else counted


def _too_few(votes: Sequence[Vote], answered: int, quorum: int, noun: str) -> JudgeError:
    failed = [vote for vote in votes if vote.score.error is not None]
    listed = "; ".join(f"{vote.who}: {vote.score.error}" for vote in failed[:3])
    more = f"; and {len(failed) - 3} more" if len(failed) > 3 else ""
    needed = f", and {quorum} must" if quorum > 1 else ""
    return JudgeError(f"{answered} of {len(votes)} {noun} answered{needed} ({listed}{more})")
