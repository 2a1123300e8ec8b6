"""Lines: each question of a report with its answer."""

from collections.abc import Sequence
from typing import Any, cast, overload

from pydantic import BaseModel, ConfigDict

from assay.criterion import Criterion
from assay.score import NOT_APPLICABLE, Score


class CriterionReport(BaseModel):
    """One line of a report: a question and its answer."""

    model_config = ConfigDict(frozen=True)

    name: str = ""
    weight: float = 1.0
    requirement: str | None = None
    value: float | None = None
    """Between 0 and 1 for a verdict, any number for a check; None when there is no answer."""
    verdict: str | None = None
    reason: str = ""
    error: str | None = None
    """Why there is no answer; None when there is one."""
    counted: bool = True
    """Whether the line is part of the score, and not a metric or report-only."""
    passed: bool | None = None
    tags: tuple[str, ...] = ()
    lines: tuple["CriterionReport", ...] = ()
    """The lines of a nested rubric, or one a judge where several were asked."""
    disagreement: float | None = None
    """How far apart two of several answers are on average, 0 to 1; None when there was only one."""
    asked: bool = True
    """False when the result was decided without it, so that nobody was asked."""

    @property
    def answered(self) -> bool:
        """Whether someone answered; that a question does not apply is an answer."""
        return self.error is None and self.asked

    @property
    def applies(self) -> bool:
        return self.verdict != NOT_APPLICABLE

    @property
    def said(self) -> str:
        """The answer in a word: the verdict or number, `error`, or `not asked`."""
        if self.error is None and not self.asked:
            return "not asked"
        return _word(self.value, self.verdict, self.error)


class Lines(Sequence[CriterionReport]):
    """The lines of a report, made when somebody looks: a trainer that wants numbers never does."""

    __slots__ = ("_answers", "_criteria", "_made")

    def __init__(self, criteria: Sequence[Criterion], answers: Sequence[float | Score]) -> None:
        self._criteria = criteria
        self._answers = answers
        self._made: list[CriterionReport] | None = None

    @property
    def criteria(self) -> Sequence[Criterion]:
        """The questions, in order."""
        return self._criteria

    @property
    def answers(self) -> Sequence[float | Score]:
        """The answer to each; a bare number comes from a check."""
        return self._answers

    @property
    def errors(self) -> dict[str, str]:
        """Why a question has no answer, by name; found without making a line."""
        if Score not in map(type, self._answers):
            return {}
        pairs = zip(self._criteria, self._answers, strict=True)
        return {c.name: a.error for c, a in pairs if type(a) is Score and a.error is not None}

    @property
    def metrics(self) -> dict[str, float]:
        """The value of every answered question by name, equal names summed; without making a line."""
        metrics: dict[str, float] = {}
        for criterion, answer in zip(self._criteria, self._answers, strict=True):
            value = answer.value if type(answer) is Score else float(answer)  # pyright: ignore[reportArgumentType]
            if value is not None:
                metrics[criterion.name] = metrics.get(criterion.name, 0.0) + value
        return metrics

    def _all(self) -> list[CriterionReport]:
        if self._made is None:
            self._made = [
                line_of(c, answer) for c, answer in zip(self._criteria, self._answers, strict=True)
            ]
        return self._made

    def __len__(self) -> int:
        return len(self._criteria)

    @overload
    def __getitem__(self, index: int) -> CriterionReport: ...
    @overload
    def __getitem__(self, index: slice) -> list[CriterionReport]: ...
    def __getitem__(self, index: int | slice) -> CriterionReport | list[CriterionReport]:
        return self._all()[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._all() == list(cast("Sequence[Any]", other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._all())

    def __reduce__(self) -> tuple[Any, ...]:
        # As plain lines: a criterion may hold a function that cannot be pickled.
        return list, (self._all(),)


def answer_said(criterion: Criterion, answer: float | Score) -> str:
    """What the line of an answer says in a word, found without making it.

    >>> answer_said(Criterion(requirement="Is polite"), True), answer_said(Criterion(requirement="Is polite"), 0.25)
    ('MET', '0.25')
    """
    if isinstance(answer, Score):
        return _word(answer.value, answer.verdict, answer.error)
    if isinstance(answer, bool):
        return criterion.choices[-1 if answer else 0]
    return _word(answer, None, None)


def _word(value: float | None, verdict: str | None, error: str | None) -> str:
    if error is not None:
        return "error"
    return verdict or ("" if value is None else f"{value:.4g}")


def line_of(criterion: Criterion, answer: float | Score) -> CriterionReport:
    """The report line of one answer; a bare number comes from a check."""
    if isinstance(answer, Score):
        value, reason, verdict, error, lines, disagreement = answer
    else:
        value, reason, error, lines, disagreement = float(answer), "", None, (), None
        verdict = criterion.choices[-1 if answer else 0] if isinstance(answer, bool) else None
    return CriterionReport(
        name=criterion.name,
        weight=criterion.weight,
        requirement=criterion.requirement,
        value=value,
        verdict=verdict,
        reason=reason if isinstance(reason, str) else str(reason or ""),  # pyright: ignore[reportUnnecessaryIsInstance]
        error=error,
        counted=criterion.counts,
        passed=None
        if value is None
        else criterion.passes(criterion.values.get(verdict or "", value)),
        tags=criterion.tags,
        lines=tuple(lines),
        disagreement=disagreement,
    )
