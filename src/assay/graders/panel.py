"""Let several judges, or several answers of one judge, vote on each criterion."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import ClassVar, Literal, NamedTuple, TypeAlias, Unpack

from assay.aggregation import group_by_key, weighted_sum
from assay.concurrency import FAILURES, run_concurrently
from assay.criterion import Criterion
from assay.errors import JudgeError
from assay.graders.composite import Composite, WrapOptions
from assay.graders.grader import (
    Grader,
    JudgeAnswer,
    JudgeOptions,
    JudgeSource,
    ask_grader,
    complete_report,
    grader_of,
    report_from,
    scores_from,
)
from assay.graders.judge_input import JudgeInput
from assay.graders.verdicts import failed_score, raise_first_error
from assay.report import CriterionReport, EvaluationReport, Score, SubAnswer, make_line
from assay.types import OnError
from assay.wording import suggest_word

Rule: TypeAlias = Literal["majority", "mean", "worst"]
"""The most frequent verdict, the mean value, or the answer that gives the lowest score."""

# Differences between sums of weights up to this are rounding errors.
_WEIGHT_TOLERANCE = 1e-9
# Distances between values are compared after rounding to this many decimals.
_DISTANCE_DECIMALS = 12
# How many failed votes the error of a criterion without an answer quotes.
_MAX_QUOTED_FAILURES = 3


class Panel(Composite):
    """Asks every judge about every criterion, concurrently, and lets them vote.

    The line of a criterion holds the result and how far apart the judges were (`disagreement`);
    its `lines` hold the vote of each judge. A judge that fails is not counted.

    >>> from assay import PerCriterionGrader, Rubric
    >>> from assay.testing import FakeModel
    >>> judges = [PerCriterionGrader(FakeModel(verdict)) for verdict in ("MET", "MET", "UNMET")]
    >>> rubric = Rubric.from_dict([{"requirement": "Is polite"}])
    >>> [line] = rubric.grade_sync("Thank you.", Panel(judges)).report
    >>> line.verdict, line.reason, round(line.disagreement, 2)
    ('MET', '2 of 3 judges: because the rule says so', 0.67)
    """

    allows_reports = True
    noun: ClassVar[str] = "judges"  # what reasons and errors call the voters
    # The kind of each vote in the report, one per judge; empty if all are of the kind "vote".
    sub_answers: tuple[SubAnswer, ...] = ()

    def __init__(
        self,
        judges: Sequence[JudgeSource] | Mapping[str, JudgeSource],
        *,
        rule: Rule = "majority",
        weights: Sequence[float] | None = None,
        quorum: int = 1,
        **options: Unpack[WrapOptions],
    ) -> None:
        """`judges` are graders, models or names of models, or a mapping from names of your own to them.

        `weights`, one per judge, apply to a majority and to a mean. A tie goes to the answer that
        gives the lowest score. A criterion with fewer than `quorum` answers is an error.
        """
        judges_by_name = name_graders(judges)
        judge_count = len(judges_by_name)
        super().__init__(list(judges_by_name.values()), **options)
        if rule not in _RULES:
            raise ValueError(f"rule is {rule!r}: {suggest_word(rule, _RULES)}")
        if not 1 <= quorum <= judge_count:
            raise ValueError(
                f"quorum is {quorum}: give 1 to {judge_count}, the number of {self.noun}"
            )
        report_titles = [grader.title for grader in self.inner if grader.returns_report]
        if report_titles and len(report_titles) < judge_count:
            raise ValueError(
                f"{report_titles[0]} gives one number for all criteria, and others answer each "
                "criterion: use only judges of one kind"
            )
        if self.inner_returns_report and rule == "majority":
            raise ValueError("numbers have no majority: give rule='mean' or rule='worst'")
        if weights is None:
            weights = [1.0] * judge_count
        if len(weights) != judge_count:
            raise ValueError(
                f"there are {len(weights)} weights for {judge_count} judges: give one each"
            )
        if not all(0 < weight < float("inf") for weight in weights):
            raise ValueError(f"weights are {list(weights)}: give finite numbers above 0")
        self.names = tuple(judges_by_name)
        self.weights = tuple(weights)
        self.quorum = quorum
        self.rule: Rule = rule

    async def answer(
        self, judge_input: JudgeInput, criteria: list[Criterion], *, on_error: OnError
    ) -> JudgeAnswer:
        """Return one score per criterion, or one report if the judges give one number for all."""

        async def ask_judge(index: int) -> list[Score]:
            return await self._ask_judge(index, judge_input, criteria)

        scores_by_judge = await run_concurrently(ask_judge, range(len(self.inner)))
        if self.inner_returns_report:
            # Each judge gave one score, for all criteria together.
            numbers = [scores[0] for scores in scores_by_judge]
            return self._combine_reports(numbers, criteria)
        scores: list[Score] = []
        for index, criterion in enumerate(criteria):
            answers = [judge_scores[index] for judge_scores in scores_by_judge]
            scores.append(self._combine(criterion, answers))
        if on_error == "raise":
            raise_first_error(criteria, scores)
        return scores

    async def _ask_judge(
        self, index: int, judge_input: JudgeInput, criteria: list[Criterion]
    ) -> list[Score]:
        """Return the scores of the judge with this index: one per criterion.

        A judge that gives one number for all criteria returns only one score. If the judge fails,
        the scores are failed scores.
        """
        grader = self.inner[index]
        if not self.inner_returns_report:
            return await scores_from(grader, judge_input, criteria)
        try:
            answer = await ask_grader(grader, judge_input, criteria, on_error="raise")
        except FAILURES as error:
            return [failed_score(error)]
        report = report_from(answer, criteria, grader.scale)
        if report.score is None or not report.scored:
            return [Score.failed(JudgeError("it gave no number for the whole"))]
        return [Score(report.score, report.reason)]

    def _combine(self, criterion: Criterion, answers: Sequence[Score]) -> Score:
        """Return the score that a vote on a criterion results in, given one answer per judge."""
        votes: list[Vote] = []
        for index, score in enumerate(answers):
            vote = Vote(voter=self.names[index], score=score, weight=self.weights[index])
            if self.sub_answers:
                # For example "sample": the report says what kind of vote each line is.
                vote = vote._replace(sub_answer=self.sub_answers[index])
            votes.append(vote)
        return combine_votes(criterion, votes, self.rule, quorum=self.quorum, noun=self.noun)

    def _combine_reports(
        self, numbers: Sequence[Score], criteria: list[Criterion]
    ) -> EvaluationReport:
        """Return the report of a vote on one number for all criteria.

        The reason lists the number of each judge, and how far apart they were.
        """
        # The judges vote as if there were only one criterion.
        whole = Criterion(requirement="All criteria together", name="whole")
        score = self._combine(whole, numbers)
        if score.value is None:
            # The type of the error is put in front of the message again when it is reported.
            message = score.error or "there is no number"
            raise JudgeError(message.removeprefix("JudgeError: "))
        names_and_numbers = [
            f"{name} {number.value:.4g}"
            for name, number in zip(self.names, numbers, strict=True)
            if number.value is not None
        ]
        reason = ", ".join(names_and_numbers)
        if score.disagreement is not None:
            reason += f"; {score.disagreement:.4g} apart"
        reason += f"; {score.reason}"
        report = EvaluationReport(score.value, reason=reason)
        # `worth` is set only if the score differs from the weighted sum, and here it does not.
        return complete_report(report, criteria, self.scale).model_copy(update={"worth": None})


class Samples(Panel):
    """Asks one judge several times, and lets its answers vote.

    Each sample has a number, so that a cache keeps all of them. A grader that ignores the options
    of `with_options()` is asked the same question each time.

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
        judge: JudgeSource,
        count: int = 3,
        *,
        rule: Rule = "majority",
        temperature: float | None = 1.0,
        quorum: int = 1,
        **options: Unpack[WrapOptions],
    ) -> None:
        """Ask `judge` for `count` answers to each criterion, at this temperature.

        At temperature 0 all answers would be the same. A criterion with fewer than `quorum` answers
        is an error.
        """
        if count < 1:
            raise ValueError(f"count is {count}: ask at least once")

        def set_sample(index: int, options: JudgeOptions) -> JudgeOptions:
            # If this is itself asked for several samples, each of these needs `count` numbers of
            # its own.
            number = options.sample * count + index
            return replace(options, sample=number, temperature=temperature)

        grader = grader_of(judge)
        samples: dict[str, Grader] = {}
        for index in range(count):
            samples[f"sample {index + 1}"] = self._change_options(
                grader, partial(set_sample, index)
            )
        super().__init__(samples, rule=rule, quorum=quorum, **options)
        self.sub_answers = ("sample",) * count


class Swapped(Panel):
    """Asks a judge twice: the second time with criteria and choices in the opposite order.

    A judge that prefers what comes first then contradicts itself, which `disagreement` shows.

    >>> from assay import PerCriterionGrader, Rubric
    >>> from assay.testing import FakeModel
    >>> judge = PerCriterionGrader(FakeModel(["MET", "UNMET"]))
    >>> rubric = Rubric.from_dict([{"requirement": "Is polite"}])
    >>> report = rubric.grade_sync("Thank you.", Swapped(judge))
    >>> report.score, report.disagreements
    (0.5, {'is_polite': 1.0})
    """

    noun = "orders"
    sub_answers = ("usual_order", "opposite_order")

    def __init__(
        self,
        judge: JudgeSource,
        *,
        rule: Rule = "mean",
        quorum: int = 1,
        **options: Unpack[WrapOptions],
    ) -> None:
        """Ask `judge` about every criterion in the usual order and in the opposite one.

        `rule` says how the two answers become one. With `quorum=2` a criterion needs both.
        """

        def reverse_choices(options: JudgeOptions) -> JudgeOptions:
            return replace(options, reverse=not options.reverse)

        grader = grader_of(judge)
        opposite = self._change_options(
            grader, reverse_choices, problem_if_ignored="its choices cannot be reversed"
        )
        super().__init__(
            {"usual order": grader, "opposite order": opposite},
            rule=rule,
            quorum=quorum,
            **options,
        )

    async def _ask_judge(
        self, index: int, judge_input: JudgeInput, criteria: list[Criterion]
    ) -> list[Score]:
        """Return the judge's scores in one of the two orders, always in the order of `criteria`."""
        if self.sub_answers[index] == "usual_order":
            return await super()._ask_judge(index, judge_input, criteria)
        # Criteria that share a call are listed from last to first.
        scores = await super()._ask_judge(index, judge_input, criteria[::-1])
        return scores[::-1]


def name_graders(
    judges: Sequence[JudgeSource] | Mapping[str, JudgeSource],
) -> dict[str, Grader]:
    """Return graders by name: the given name, or the title with a number if two are equal."""
    if isinstance(judges, Mapping):
        return {name: grader_of(judge) for name, judge in judges.items()}
    graders_by_name: dict[str, Grader] = {}
    for judge in judges:
        grader = grader_of(judge)
        title = grader.title
        name = title
        number = 1
        while name in graders_by_name:
            number += 1
            name = f"{title}_{number}"
        graders_by_name[name] = grader
    return graders_by_name


class Vote(NamedTuple):
    """One of several answers to a criterion."""

    voter: str  # the name of the judge, sample, order or game
    score: Score
    weight: float = 1.0
    # The kind of its line below the line of the criterion.
    sub_answer: SubAnswer = "vote"


def combine_votes(
    criterion: Criterion,
    votes: Sequence[Vote],
    rule: Rule,
    *,
    quorum: int = 1,
    noun: str = "judges",
) -> Score:
    """Return the score that votes on a criterion result in, with a line for each vote.

    Failed votes are not counted. If fewer than `quorum` votes did not fail, the score is an error.
    `noun` is the word for the voters in the reason.
    """
    answered = [vote for vote in votes if vote.score.error is None]
    failed = [vote for vote in votes if vote.score.error is not None]
    lines = tuple(build_vote_line(criterion, vote) for vote in votes)
    if len(answered) < max(1, quorum):
        message = f"{len(answered)} of {len(votes)} {noun} answered"
        if quorum > 1:
            message += f", but {quorum} are needed"
        error = JudgeError(f"{message} ({_list_failures(failed)})")
        return Score.failed(error)._replace(lines=lines)

    score = _RULES[rule](criterion, answered)
    agreeing = [vote for vote in answered if vote.score.verdict == score.verdict]
    reason = f"{len(agreeing)} of {len(answered)} {noun}"
    if failed:
        reason += f", {len(failed)} failed ({failed[0].voter}: {failed[0].score.error})"
    if agreeing and agreeing[0].score.reason:
        reason += f": {agreeing[0].score.reason}"
    return score._replace(
        reason=reason,
        lines=lines,
        disagreement=measure_disagreement([vote.score for vote in answered]),
        citations=agreeing[0].score.citations if agreeing else (),
    )


def build_vote_line(criterion: Criterion, vote: Vote) -> CriterionReport:
    """Return a vote as a line below the line of its criterion, with the voter's name and weight."""
    line = make_line(criterion, vote.score)
    return line.model_copy(
        update={
            "name": vote.voter,
            "weight": vote.weight,
            "requirement": None,
            "tags": (),
            "counted": False,
            "sub_answer": vote.sub_answer,
        }
    )


def _list_failures(failed: Sequence[Vote]) -> str:
    """List who failed and why; many failures are not all listed."""
    quoted = failed[:_MAX_QUOTED_FAILURES]
    failures = "; ".join(f"{vote.voter}: {vote.score.error}" for vote in quoted)
    if len(failed) > len(quoted):
        failures += f"; and {len(failed) - len(quoted)} more"
    return failures


def measure_disagreement(scores: Sequence[Score]) -> float | None:
    """Return the mean distance between two of these scores, 0 to 1; None for fewer than two.

    The distance between "not applicable" and a number is 1.
    """
    distances: list[float] = []
    for first, second in combinations([score.value for score in scores], 2):
        if first is not None and second is not None:
            distances.append(min(1.0, abs(first - second)))
        elif first is None and second is None:
            distances.append(0.0)
        else:
            distances.append(1.0)
    if not distances:
        return None
    return sum(distances) / len(distances)


def _find_majority(criterion: Criterion, votes: Sequence[Vote]) -> Score:
    """Return the answer with the most weight; in a tie, the one that gives the lowest score."""

    def get_answer(vote: Vote) -> str | float | None:
        if vote.score.verdict is None:
            return vote.score.value
        return vote.score.verdict

    def add_weights(votes: Sequence[Vote]) -> float:
        return sum(vote.weight for vote in votes)

    votes_by_answer = group_by_key((get_answer(vote), vote) for vote in votes)
    most_weight = max(add_weights(group) for group in votes_by_answer.values())
    leading: list[Vote] = []
    for group in votes_by_answer.values():
        if add_weights(group) >= most_weight - _WEIGHT_TOLERANCE:
            leading.append(group[0])
    winner = _find_worst(criterion, leading)
    if winner.verdict in criterion.values:
        # The vote was on verdicts. So the result has the value of the verdict, and not the expected
        # value that an `Expectation` gave its first voter.
        return winner._replace(value=criterion.values[winner.verdict])
    return winner


def _find_mean(criterion: Criterion, votes: Sequence[Vote]) -> Score:
    """Return the weighted mean of the values, unless most weight is on "not applicable"."""
    weights: list[float] = []
    values: list[float] = []
    weight_without_value = 0.0
    for vote in votes:
        if vote.score.value is None:
            weight_without_value += vote.weight
        else:
            weights.append(vote.weight)
            values.append(vote.score.value)
    total_weight = sum(weights)
    if not values or weight_without_value > total_weight:
        return Score.not_applicable()
    mean = weighted_sum(weights, values) / total_weight
    verdict = None
    has_verdicts = any(vote.score.verdict for vote in votes if vote.score.value is not None)
    if has_verdicts:
        verdict = find_nearest_choice(criterion, mean)
    return Score(mean, verdict=verdict)


def find_nearest_choice(criterion: Criterion, value: float) -> str:
    """Return the choice whose value is nearest; in a tie, the one that gives the lower score."""

    def rank(choice: str) -> tuple[float, float]:
        choice_value = criterion.values[choice]
        # Rounded, so that a value half way between two choices is equally near to both.
        distance = round(abs(choice_value - value), _DISTANCE_DECIMALS)
        return distance, _get_credit(criterion, choice_value)

    return min(criterion.choices, key=rank)


def _find_worst(criterion: Criterion, votes: Sequence[Vote]) -> Score:
    """Return the answer that gives the lowest score: the highest value if the criterion is a fault.

    "Not applicable" is returned only if no vote has a value.
    """
    worst: Score | None = None
    lowest_credit = 0.0
    for vote in votes:
        if vote.score.value is None:
            continue
        credit = _get_credit(criterion, vote.score.value)
        if worst is None or credit < lowest_credit:
            worst = vote.score
            lowest_credit = credit
    if worst is None:
        return votes[0].score
    return worst


def _get_credit(criterion: Criterion, value: float) -> float:
    """Return a value so that more is better: for a fault (a negative weight), its negative."""
    if criterion.weight < 0:
        return -value
    return value


_RULES: dict[Rule, Callable[[Criterion, Sequence[Vote]], Score]] = {
    "majority": _find_majority,
    "mean": _find_mean,
    "worst": _find_worst,
}
