"""Ask in steps: what a cheap judge doubts goes to a dearer one, and what cannot change the result is not asked."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, Unpack

from assay.aggregation import Scale, totals_from_share
from assay.criterion import Criterion
from assay.graders.composite import Composite, WrapOptions
from assay.graders.grader import Grader, scores_from
from assay.graders.judge_input import JudgeInput
from assay.graders.panel import Vote, line_of_vote, named
from assay.report import CriterionReport, EvaluationReport, Score, aggregate, make_line
from assay.types import OnError


class Cascade(Composite):
    """Asks the first judge about all criteria, and each next one about those still in doubt.

    A judge is in doubt when it failed, when its answers were further apart than `doubt`, and when
    it cannot say how sure it is: put it in `Expectation`, `Samples`, `Swapped` or a `Panel`, which can.
    What the last judge says counts. The `lines` of a criterion that went up show every step.

    >>> from assay import Panel, PerCriterionGrader, Rubric
    >>> from assay.testing import FakeModel
    >>> split = lambda system, user: "UNMET" if "kind" in user else "MET"
    >>> cheap = Panel([PerCriterionGrader(FakeModel(split)), PerCriterionGrader(FakeModel("MET"))])
    >>> dear = FakeModel("MET")
    >>> rubric = Rubric.from_dict([{"requirement": "Is short"}, {"requirement": "Is kind"}])
    >>> rubric.grade_sync("Thanks!", Cascade([cheap, PerCriterionGrader(dear)])).score
    1.0
    >>> len(dear.calls)
    1
    """

    def __init__(
        self, judges: Sequence[Grader], *, doubt: float = 0.1, **options: Unpack[WrapOptions]
    ) -> None:
        """`judges` go from cheap to dear. One of 10 samples that differs is a `disagreement` of 0.2."""
        if not 0 <= doubt < 1:
            raise ValueError(f"doubt is {doubt}: give 0 to less than 1")
        super().__init__(judges, **options)
        self.names = tuple(named(judges))
        self.doubt = doubt

    async def answer(
        self, judge_input: JudgeInput, criteria: list[Criterion], *, on_error: OnError
    ) -> list[Score]:
        steps: list[list[Vote]] = [[] for _ in criteria]
        left = list(range(len(criteria)))
        for name, judge in zip(self.names, self.inner, strict=True):
            asked = [criteria[place] for place in left]
            rule: OnError = on_error if name == self.names[-1] else "record"
            scores = await scores_from(judge, judge_input, asked, on_error=rule)
            for place, score in zip(left, scores, strict=True):
                steps[place].append(Vote(name, score, kind="escalation"))
            said = zip(left, scores, strict=True)
            # A judge that cannot say how sure it is counts as in doubt.
            left = [
                p
                for p, s in said
                if s.error is not None or s.disagreement is None or s.disagreement > self.doubt
            ]
        found: list[Score] = []
        for criterion, votes in zip(criteria, steps, strict=True):
            last, lines = votes[-1].score, tuple(line_of_vote(criterion, step) for step in votes)
            found.append(last if len(votes) == 1 else last._replace(lines=lines))
        return found


class EarlyStop(Composite):
    """Asks in rounds, what decides most first, and stops when the result is decided.

    Without a `threshold` vetoes (`required`) are asked first, and a failed one may decide all. With one the result is 1 or 0,
    whether the score reaches it. Lines that were not asked have no value, no error and `asked=False`.

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

    gives_whole = True

    def __init__(
        self, grader: Grader, *, threshold: float | None = None, normalize: bool | None = None
    ) -> None:
        """`threshold` is on the scale of the score: 0 to 1, or the sum's with normalize=False."""
        super().__init__([grader], normalize=normalize)
        self.threshold = threshold

    async def answer(
        self, judge_input: JudgeInput, criteria: list[Criterion], *, on_error: OnError
    ) -> EvaluationReport:
        asked = _Questions(criteria, self.scale, self.threshold)
        while batch := asked.next_batch():
            open_criteria = [criteria[place] for place in batch]
            scores = await scores_from(self.inner[0], judge_input, open_criteria, on_error=on_error)
            asked.found.update(zip(batch, scores, strict=True))
        return asked.report()


class _Questions:
    """What has been asked about one text, what came of it, and whether the rest can change the result.

    Adding up is monotone, so a result is decided once the best and the worst that could still come lead to the same.
    """

    def __init__(
        self, criteria: list[Criterion], scale: Scale | None, threshold: float | None
    ) -> None:
        self.criteria, self._threshold = criteria, threshold
        self._scale: Scale | None = scale
        self.found: dict[int, Score] = {}  # the answers so far, by the place of the criterion

    @property
    def _known(self) -> dict[int, Score]:
        """The answers without those that failed, which could have been anything."""
        return {place: score for place, score in self.found.items() if score.error is None}

    def next_batch(self) -> list[int]:
        """The places to ask about next, all at once; none when that is of no use."""
        left = [place for place in range(len(self.criteria)) if place not in self.found]
        counted, known = [place for place in left if self.criteria[place].counts], self._known
        if counted and self._is_decided(known):
            return []
        vetoes = [place for place in counted if self.criteria[place].required]
        if vetoes and len(vetoes) < len(counted):
            return vetoes
        if self._threshold is None or not counted:
            return left
        order = sorted(counted, key=lambda place: -abs(self.criteria[place].weight))

        def could_decide(count: int) -> bool:
            ends = (
                {place: _end(self.criteria[place], best) for place in order[:count]}
                for best in (True, False)
            )
            return any(self._is_decided(known | end) for end in ends)

        # The fewest, heaviest first, that could decide the result by themselves.
        batch = order[: 1 + bisect_left(range(1, len(order)), True, key=could_decide)]
        return left if len(batch) == len(counted) else sorted(batch)

    def report(self) -> EvaluationReport:
        """The report, with the lines that were not asked about; with a threshold as pass or fail."""
        unasked = Score(reason="not asked: the result was decided without it")
        lines = [
            make_line(criterion, self.found.get(place, unasked)).model_copy(
                update={"asked": place in self.found}
            )
            for place, criterion in enumerate(self.criteria)
        ]
        known, changes = self._known, dict[str, Any](report=lines)
        if not self._is_decided(known):
            changes |= {} if self._threshold is None else {"score": None, "raw_score": None}
            return self._aggregated(self.found).model_copy(update=changes)
        # What is decided is scored, whatever the answers that are missing would have been.
        counted = [line for line in lines if line.counted]
        answered = sum(line.answered for line in counted if line.applies)
        changes |= {
            "asked": answered,
            "answered": answered,
            "unneeded": sum(not line.answered for line in counted),
        }
        report = self._aggregated(known)
        passes = self._passes(report)
        if passes is not None:
            # All that could be gained, or nothing.
            totals = totals_from_share(float(passes), [c.weight for c in self.criteria if c.counts])
            raw = float(passes) if self._scale == "raw" else totals.raw
            changes |= {"score": float(passes), "raw_score": raw, "llm_raw_score": None}
            changes |= {"gain": totals.gain, "loss": totals.loss}
        return report.model_copy(update=changes)

    def _is_decided(self, known: Mapping[int, Score]) -> bool:
        """Whether no open answer can change the result. Values outside of 0 to 1 decide nothing."""
        if all(place in known for place, criterion in enumerate(self.criteria) if criterion.counts):
            return True
        if any(not 0 <= (score.value or 0.0) <= 1 for score in known.values()):
            return False
        # Open lines may all come out as good, or as bad, as can be. Where some may turn out not to apply, which takes
        # their stakes away, also without the wanted ones of these, the faults, or both.
        gone = [(True,), (False,), (True, False)] if any(c.allow_na for c in self.criteria) else []
        results: set[tuple[Any, ...]] = set()
        for best, without in product((True, False), ((), *gone)):
            report = self._aggregated(known, best, without)
            numbers = [None if n is None else round(n, 9) for n in (report.score, report.raw_score)]
            free, held = (*numbers, bool(report.vetoed_by)), (self._passes(report), report.scored)
            results.add(free if self._threshold is None else held)
        return len(results) == 1

    def _aggregated(
        self, known: Mapping[int, Score], best: bool = True, without: Sequence[bool] = ()
    ) -> EvaluationReport:
        """The report if the answers that are not known come out like this; `without` those that are wanted, or not."""
        lines: list[CriterionReport] = []
        for place, criterion in enumerate(self.criteria):
            is_out = criterion.allow_na and (criterion.weight > 0) in without
            open_score = Score.not_applicable() if is_out else _end(criterion, best)
            lines.append(make_line(criterion, known.get(place, open_score)))
        return aggregate(lines, self.criteria, scale=self._scale)

    def _passes(self, report: EvaluationReport) -> bool | None:
        """Whether a report reaches the threshold; None when it has no score, or there is none to reach."""
        if report.score is None or self._threshold is None:
            return None
        return report.score >= self._threshold - 1e-9


def _end(criterion: Criterion, best: bool) -> Score:
    """The best or the worst answer for the response."""
    return Score(float(best is (criterion.weight >= 0)))
