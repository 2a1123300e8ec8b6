"""Deciding: whether answers that are still open can change a result, and how many could settle it.

Adding up is monotone: a better answer never leaves a lower score. So a result is decided once the
best and the worst that could still come lead to the same. The rule is the weighted one, vetoes
included.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from assay.aggregation import Scale
from assay.criterion import Criterion
from assay.report import CriterionReport, EvaluationReport, Score, aggregate, line_of

BEST, WORST, LEFT_OUT = range(3)
"""How an open line may come out."""


class _Case(NamedTuple):
    """How all open lines come out together."""

    wanted: int
    """Those with a positive weight that may turn out not to apply."""
    fault: int
    """Those with a negative one."""
    rest: int


_EXTREMES = (_Case(BEST, BEST, BEST), _Case(WORST, WORST, WORST))
# A line that does not apply leaves the stakes too, so both kinds may go, alone or together.
_WITHOUT = tuple(
    _Case(wanted, fault, rest)
    for rest in (BEST, WORST)
    for wanted, fault in ((LEFT_OUT, rest), (rest, LEFT_OUT), (LEFT_OUT, LEFT_OUT))
)


class Deciding:
    """The criteria of one text, and what each open one could still come to."""

    def __init__(
        self, criteria: Sequence[Criterion], scale: Scale | None, threshold: float | None
    ) -> None:
        self._criteria = criteria
        self._scale: Scale | None = scale
        self._threshold = threshold
        self._ways = [_ways(criterion) for criterion in criteria]
        may_leave = any(criterion.allow_na for criterion in criteria)
        self._cases = _EXTREMES + _WITHOUT if may_leave else _EXTREMES

    def report(self, known: Mapping[int, Score], way: int = BEST) -> EvaluationReport:
        """The report if every answer that is not known came out in this way."""
        lines = [
            line_of(criterion, known[place]) if place in known else self._ways[place][way]
            for place, criterion in enumerate(self._criteria)
        ]
        return aggregate(lines, self._criteria, scale=self._scale)

    def passes(self, report: EvaluationReport) -> bool | None:
        """Whether a report reaches the threshold; None when it has no score."""
        if report.score is None or self._threshold is None:
            return None
        return report.score >= self._threshold - 1e-9

    def is_decided(self, known: Mapping[int, Score]) -> bool:
        """Whether no open answer can change the result. Values outside of 0 to 1 decide nothing."""
        if any(not 0 <= (score.value or 0.0) <= 1 for score in known.values()):
            return False
        lines = {place: line_of(self._criteria[place], score) for place, score in known.items()}
        return len({self._result(lines, case) for case in self._cases}) == 1

    def fewest(self, known: Mapping[int, Score], order: Sequence[int]) -> int:
        """How many of the open ones, in this order, could decide the result by themselves."""

        def could(count: int) -> bool:
            asked = [(place, self._criteria[place].weight >= 0) for place in order[:count]]
            best = {place: Score(float(wanted)) for place, wanted in asked}
            worst = {place: Score(float(not wanted)) for place, wanted in asked}
            return self.is_decided({**known, **best}) or self.is_decided({**known, **worst})

        return 1 + bisect_left(range(1, len(order)), True, key=could)

    def _result(self, known: Mapping[int, CriterionReport], case: _Case) -> Any:
        lines: list[CriterionReport] = []
        for place, criterion in enumerate(self._criteria):
            own = case.wanted if criterion.weight > 0 else case.fault
            way = own if criterion.allow_na else case.rest
            lines.append(known[place] if place in known else self._ways[place][way])
        report = aggregate(lines, self._criteria, scale=self._scale)
        if self._threshold is not None:
            return self.passes(report), report.scored
        return (
            None if report.score is None else round(report.score, 9),
            None if report.raw_score is None else round(report.raw_score, 9),
            bool(report.vetoed_by),
        )


def _ways(criterion: Criterion) -> tuple[CriterionReport, ...]:
    best, worst = (1.0, 0.0) if criterion.weight >= 0 else (0.0, 1.0)
    scores = (Score(best), Score(worst), Score.not_applicable())
    return tuple(line_of(criterion, score) for score in scores)
