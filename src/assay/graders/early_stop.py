"""Ask about criteria in rounds, and stop when the rest cannot change the result."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

from assay.aggregation import Scale, totals_from_share
from assay.criterion import Criterion
from assay.graders.composite import Composite
from assay.graders.grader import JudgeSource, scores_from
from assay.graders.judge_input import JudgeInput
from assay.report import CriterionReport, EvaluationReport, Score, aggregate, make_line
from assay.types import OnError

# A score this far below the threshold reaches it: the difference is a rounding error.
_THRESHOLD_TOLERANCE = 1e-9
# Scores are compared after rounding to this many decimals.
_COMPARED_DECIMALS = 9


class EarlyStop(Composite):
    """Asks in rounds, most decisive criteria first, and stops when the result is decided.

    Without a `threshold`, vetoes (`required`) are asked about first, and a failed one may decide
    the score. With a `threshold`, the score is 1 if the score of all criteria would reach it, and 0
    if not. Lines that were not asked about have no value, no error and `asked=False`.

    >>> from assay import PerCriterionGrader, Rubric
    >>> from assay.testing import FakeModel
    >>> model = FakeModel("UNMET")
    >>> rubric = Rubric.from_dict([
    ...     {"requirement": "Is polite", "weight": 3}, {"requirement": "Is legal", "required": True}
    ... ])
    >>> report = rubric.grade_sync("Pay up.", EarlyStop(PerCriterionGrader(model)))
    >>> report.score, report.vetoed_by, report.unneeded, len(model.calls)
    (0.0, ('is_legal',), 1, 1)
    """

    returns_report = True

    def __init__(
        self, judge: JudgeSource, *, threshold: float | None = None, normalize: bool | None = None
    ) -> None:
        """`threshold` is compared with the score: 0 to 1, or the raw sum with `normalize=False`."""
        super().__init__([judge], normalize=normalize)
        self.threshold = threshold

    async def answer(
        self, judge_input: JudgeInput, criteria: list[Criterion], *, on_error: OnError
    ) -> EvaluationReport:
        """Return the report on all criteria, of which some may not have been asked about."""
        [grader] = self.inner
        progress = _Progress(criteria, self.scale, self.threshold)
        while indices := progress.choose_next():
            to_ask = [criteria[index] for index in indices]
            scores = await scores_from(grader, judge_input, to_ask, on_error=on_error)
            progress.scores.update(zip(indices, scores, strict=True))
        return progress.build_report()


class _Progress:
    """The scores so far of one response, and what they say about the result.

    A result is decided if it is the same for the best and the worst scores that the open criteria
    can get. All scores in between then lead to it too, since better scores never lower the sum.
    """

    def __init__(
        self, criteria: list[Criterion], scale: Scale | None, threshold: float | None
    ) -> None:
        self.criteria = criteria
        # The scores so far by the index of the criterion, failed ones included.
        self.scores: dict[int, Score] = {}
        self._scale: Scale | None = scale
        self._threshold = threshold

    def choose_next(self) -> list[int]:
        """Return the indices of the criteria to ask about in the next round; none to stop.

        A criterion is open if it was not asked about yet. Vetoes are asked about first. Without a
        threshold, all others follow at once; with one, those that could decide the result.

        Criteria that do not count towards the score are asked about in the last round, which has
        all open criteria.
        """
        open_indices = [index for index in range(len(self.criteria)) if index not in self.scores]
        counted = [index for index in open_indices if self.criteria[index].counts]
        if not counted:
            return open_indices  # all others have a score, so this is the last round
        if self._is_decided(self._get_known_scores()):
            return []
        vetoes = [index for index in counted if self.criteria[index].required]
        has_other_criteria = len(vetoes) < len(counted)
        if vetoes and has_other_criteria:
            return vetoes
        if self._threshold is None:
            return open_indices
        decisive = self._find_decisive(counted)
        is_last_round = len(decisive) == len(counted)
        if is_last_round:
            return open_indices
        return decisive

    def _get_known_scores(self) -> dict[int, Score]:
        """Return the scores that did not fail. A failed one could have been anything."""
        return {index: score for index, score in self.scores.items() if score.error is None}

    def _find_decisive(self, counted: Sequence[int]) -> list[int]:
        """Return the indices of the fewest criteria that could decide the result together.

        They are taken in order of falling weight from `counted`, the open criteria that count.
        Criteria could decide the result if, after their best or their worst scores, the others
        cannot change it.
        """
        by_falling_weight = sorted(counted, key=lambda index: -abs(self.criteria[index].weight))
        # Find the smallest count by bisection. It works because more criteria can decide whatever
        # fewer can. All criteria together always can.
        too_few = 0
        enough = len(by_falling_weight)
        while enough - too_few > 1:
            middle = (too_few + enough + 1) // 2
            if self._could_decide(by_falling_weight[:middle]):
                enough = middle
            else:
                too_few = middle
        return sorted(by_falling_weight[:enough])

    def _could_decide(self, indices: Sequence[int]) -> bool:
        """Whether the best or the worst scores of these criteria would decide the result."""
        known = self._get_known_scores()
        for assumption in (_Assumption(best=True), _Assumption(best=False)):
            assumed = {index: assumption.score(self.criteria[index]) for index in indices}
            if self._is_decided(known | assumed):
                return True
        return False

    def _is_decided(self, known: Mapping[int, Score]) -> bool:
        """Whether the result is the same whatever the criteria without a known score get."""
        counted = [index for index, criterion in enumerate(self.criteria) if criterion.counts]
        if all(index in known for index in counted):
            return True
        has_usual_values = all(0 <= (score.value or 0.0) <= 1 for score in known.values())
        if not has_usual_values:
            # The unknown scores may be below 0 or above 1 too, so their extremes are not known.
            return False
        results: set[tuple[Any, ...]] = set()
        for assumption in self._list_extremes():
            report = self._aggregate(known, assumption)
            results.add(self._get_result(report))
        return len(results) == 1

    def _list_extremes(self) -> "list[_Assumption]":
        """Return the assumptions about the open criteria that give the highest and lowest results.

        These are the best and the worst scores. A criterion that does not apply changes the result
        in another way: its weight is left out when the score is normalised. So if "not applicable"
        is allowed, the list also has the cases in which the open criteria of positive weight do not
        apply, those of negative weight (the faults) do not, or both.
        """
        applies_options = [True]
        if any(criterion.allow_na for criterion in self.criteria):
            applies_options = [True, False]
        assumptions: list[_Assumption] = []
        for best in (True, False):
            for wanted_apply, faults_apply in product(applies_options, repeat=2):
                assumptions.append(_Assumption(best, wanted_apply, faults_apply))
        return assumptions

    def _get_result(self, report: EvaluationReport) -> tuple[Any, ...]:
        """Return the result of a report in a form in which results can be compared.

        With a threshold, it is whether the report passes; without, it is the rounded numbers.
        """
        if self._threshold is not None:
            return self._passes(report), report.scored
        numbers: list[float | None] = []
        for number in (report.score, report.raw_score):
            rounded = None if number is None else round(number, _COMPARED_DECIMALS)
            numbers.append(rounded)
        return *numbers, bool(report.vetoed_by)

    def _aggregate(
        self, known: Mapping[int, Score], assumption: "_Assumption | None" = None
    ) -> EvaluationReport:
        """Return the report on the known scores, with assumed scores for all other criteria.

        By default, the best scores are assumed.
        """
        if assumption is None:
            assumption = _Assumption(best=True)
        lines: list[CriterionReport] = []
        for index, criterion in enumerate(self.criteria):
            score = known.get(index)
            if score is None:
                score = assumption.score(criterion)
            lines.append(make_line(criterion, score))
        return aggregate(lines, self.criteria, scale=self._scale)

    def _passes(self, report: EvaluationReport) -> bool | None:
        """Whether the score reaches the threshold; None if one of them is missing."""
        if report.score is None or self._threshold is None:
            return None
        return report.score >= self._threshold - _THRESHOLD_TOLERANCE

    def build_report(self) -> EvaluationReport:
        """Return the report with all lines; with a threshold, the score is 1, 0 or None."""
        if self._is_decided(self._get_known_scores()):
            return self._build_decided_report()
        return self._build_undecided_report()

    def _build_undecided_report(self) -> EvaluationReport:
        """Return the report if questions failed whose answers could have changed the result.

        The report counts them as errors. With a threshold it has no score, since it is not known
        whether the threshold is reached.
        """
        report = self._aggregate(self.scores).model_copy(update={"report": self._build_lines()})
        if self._threshold is None:
            return report
        return report.model_copy(update={"score": None, "raw_score": None})

    def _build_decided_report(self) -> EvaluationReport:
        """Return the report for the case that the known scores decide the result.

        A criterion without a known score was not asked about, or the question failed. Both count as
        "unneeded" and not as errors.
        """
        # The unknown scores are assumed to be the best. Any others would give the same result.
        report = self._aggregate(self._get_known_scores())
        lines = self._build_lines()
        counted = [line for line in lines if line.counted]
        answered_count = sum(line.answered for line in counted if line.applies)
        unneeded_count = sum(not line.answered for line in counted)
        changes: dict[str, Any] = {
            "report": lines,
            # Failed questions are not counted as asked: with them the report would have no score.
            "asked": answered_count,
            "answered": answered_count,
            "unneeded": unneeded_count,
        }
        passes = self._passes(report)
        if passes is not None:
            changes |= self._get_pass_or_fail(passes)
        return report.model_copy(update=changes)

    def _build_lines(self) -> list[CriterionReport]:
        """Return one line per criterion, also for those that were not asked about."""
        unasked = Score(reason="not asked: the result was decided without it", asked=False)
        lines: list[CriterionReport] = []
        for index, criterion in enumerate(self.criteria):
            score = self.scores.get(index, unasked)
            lines.append(make_line(criterion, score))
        return lines

    def _get_pass_or_fail(self, passes: bool) -> dict[str, Any]:
        """Return the fields of the report with a threshold, by whether the response passes it.

        The score is 1 or 0. The weighted sum is as if the response met all criteria, or none.
        """
        weights = [criterion.weight for criterion in self.criteria if criterion.counts]
        totals = totals_from_share(float(passes), weights)
        raw_score = totals.raw
        if self._scale == "raw":
            raw_score = float(passes)  # on this scale, the raw score is the score
        return {
            "score": float(passes),
            "raw_score": raw_score,
            "llm_raw_score": None,
            "gain": totals.gain,
            "loss": totals.loss,
        }


class _Assumption(NamedTuple):
    """What the answers to all open criteria are assumed to be.

    A criterion of negative weight describes a fault; all others describe what is wanted.
    """

    best: bool  # True assumes the best scores that the criteria can get, False the worst
    wanted_apply: bool = True  # whether wanted criteria with `allow_na` apply
    faults_apply: bool = True  # whether faults with `allow_na` apply

    def score(self, criterion: Criterion) -> Score:
        """Return the assumed score of a criterion."""
        is_fault = criterion.weight < 0
        applies = self.faults_apply if is_fault else self.wanted_apply
        if criterion.allow_na and not applies:
            return Score.not_applicable()
        # It is best if what is wanted is there (1), or if the fault is not (0).
        if self.best:
            return Score(0.0 if is_fault else 1.0)
        return Score(1.0 if is_fault else 0.0)
