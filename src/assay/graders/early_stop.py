"""EarlyStop: ask no further once nothing that is left can change the result."""

from collections.abc import Mapping

from assay.aggregation import share_of
from assay.criterion import Criterion
from assay.graders.base import Autograder
from assay.graders.composite import Composite, scores_from
from assay.graders.deciding import Deciding
from assay.report import CriterionReport, EvaluationReport, Score, line_of
from assay.types import OnError


class EarlyStop(Composite):
    """Asks in rounds, what decides most first, and stops when the result is decided.

    Without a `threshold` the result is the score and its sum: vetoes (`required`) are asked first,
    and when one fails in a way that leaves nothing open, the rest is not asked. With one the result
    is 1 or 0, whether the score reaches the threshold. Either way it is the result that asking
    everything would give; only the calls are fewer.

    The result is found by the weighted rule, in place of the rubric's aggregation, and over the judged
    criteria alone. A criterion with a `when` that waits for one of them has no answer.

    Lines that were not asked have no value and no error, and their `asked` is False;
    `report.unneeded` counts them.

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

    judges_whole = True

    def __init__(
        self,
        grader: Autograder,
        *,
        threshold: float | None = None,
        normalize: bool | None = None,
    ) -> None:
        """`threshold` is on the scale of the score: 0 to 1, or the sum's with normalize=False."""
        super().__init__([grader], normalize=normalize)
        self.judges_whole = True
        self.threshold = threshold

    async def ask(
        self, to_grade: str, criteria: list[Criterion], query: str | None, on_error: OnError
    ) -> EvaluationReport:
        """One report for the whole, with a line a criterion."""
        state = _Progress(criteria, Deciding(criteria, self.scale, self.threshold))
        while batch := state.batch(by_parts=self.threshold is not None):
            asked = [criteria[place] for place in batch]
            scores = await scores_from(self.inner[0], to_grade, asked, query, on_error)
            state.found.update(zip(batch, scores, strict=True))
        if self.threshold is None:
            return state.report()
        return _passed(state, criteria, self.scale == "raw")


class _Progress:
    """What has been asked about one text, and what came of it."""

    def __init__(self, criteria: list[Criterion], deciding: Deciding) -> None:
        self.criteria = criteria
        self.deciding = deciding
        self.found: dict[int, Score] = {}

    @property
    def known(self) -> Mapping[int, Score]:
        """The answers; a failed one could have been anything."""
        return {place: score for place, score in self.found.items() if score.error is None}

    @property
    def decided(self) -> bool:
        """Whether the result is known, though some counted answer is not."""
        missing = any(c.counts and p not in self.known for p, c in enumerate(self.criteria))
        return not missing or self.deciding.is_decided(self.known)

    def batch(self, *, by_parts: bool) -> list[int]:
        """Whom to ask next, all at once; nobody when that is of no use."""
        left = [place for place in range(len(self.criteria)) if place not in self.found]
        counted = [place for place in left if self.criteria[place].counts]
        if counted and self.decided:
            return []
        vetoes = [place for place in counted if self.criteria[place].required]
        if vetoes and len(vetoes) < len(counted):
            return vetoes
        if not by_parts or not counted:
            return left
        order = sorted(counted, key=lambda place: -abs(self.criteria[place].weight))
        batch = sorted(order[: self.deciding.fewest(self.known, order)])
        return left if len(batch) == len(counted) else batch

    def report(self) -> EvaluationReport:
        """The report, with the lines that nobody was asked about."""
        lines = [self._line(place, criterion) for place, criterion in enumerate(self.criteria)]
        asked = [line for line in lines if line.counted and line.asked and line.applies]
        answered = sum(line.answered for line in asked)
        if not self.decided:
            return self.deciding.report(self.found).model_copy(update={"report": lines})
        # What is decided is scored, whatever the answers that are missing would have been.
        report = self.deciding.report(self.known)
        unneeded = sum(line.counted and not line.answered for line in lines)
        counts = {"asked": answered, "answered": answered, "unneeded": unneeded}
        return report.model_copy(update={"report": lines, **counts})

    def _line(self, place: int, criterion: Criterion) -> CriterionReport:
        if place in self.found:
            return line_of(criterion, self.found[place])
        reason = "not asked: the result was decided without it"
        return line_of(criterion, Score(reason=reason)).model_copy(update={"asked": False})


def _passed(state: _Progress, criteria: list[Criterion], raw: bool) -> EvaluationReport:
    """The report as pass or fail: all that could be gained, or nothing."""
    report = state.report()
    if not state.decided:
        return report.model_copy(update={"score": None, "raw_score": None})
    passes = state.deciding.passes(report)
    if passes is None:
        return report
    totals = share_of(float(passes), [c.weight for c in criteria if c.counts])
    return report.model_copy(
        update={
            "score": float(passes),
            "raw_score": float(passes) if raw else totals.raw,
            "llm_raw_score": None,
            "gain": totals.gain,
            "loss": totals.loss,
        }
    )
