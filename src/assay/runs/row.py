"""Row: one finished rollout, as it is saved."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from assay.report import EvaluationReport
from assay.runs.spending import NOTHING, Spending

Key: TypeAlias = tuple[str, int]
"""What a row goes by: the example, and which of its rollouts this is."""

LARGEST_SAMPLE = 2**53 - 1
"""The largest number of a rollout that every reader of JSON, and the table of the page, holds exactly."""


def _empty() -> dict[str, Any]:
    return {}


@dataclass(frozen=True)
class Row:
    """One finished rollout: what happened, what was found about it, and what that took.

    >>> Row("7", fields={"completion": "Paris", "task": "capitals"}).task
    'capitals'
    """

    example: str
    """The `example_id` or `id` that the row came with, else its number in the input."""
    sample: int = 0
    """Which of several rollouts of the example this is."""
    fields: Mapping[str, Any] = field(default_factory=_empty)
    """Prompt, completion, answer, and every other column, as JSON values."""
    report: EvaluationReport = field(default_factory=EvaluationReport)
    """What scoring gave; empty when there was nothing to score."""
    error: str | None = None
    """Kind and message when there is nothing to score, as when generation failed."""
    spent: Spending = NOTHING
    """What generation and judging took."""
    timing: Mapping[str, float] = field(default_factory=_empty)
    """Seconds, under `generation` and `scoring`, where they were measured."""
    model: str | None = None
    """The id that the endpoint gave the model under test."""
    exchanges: tuple[Mapping[str, Any], ...] = ()
    """What judges were asked and said, word for word, where that is kept."""
    altered: tuple[str, ...] = ()
    """Fields that JSON could not hold as they were, so that what is saved only resembles them."""
    number: int | None = None
    """Its place in the data, from 0, by which a run gives its rows in order; None when that is not known."""

    @classmethod
    def made(
        cls,
        example: str,
        sample: int,
        fields: Mapping[str, Any],
        report: EvaluationReport,
        spent: Spending,
        timing: Mapping[str, float],
        number: int | None,
    ) -> "Row":
        """A scored row. A frozen dataclass sets each field by a call of its own; this sets them at once."""
        row = object.__new__(cls)
        row.__dict__.update(
            example=example,
            sample=sample,
            fields=fields,
            report=report,
            error=None,
            spent=spent,
            timing=timing,
            model=None,
            number=number,
        )
        return row

    def __getattr__(self, name: str) -> Any:
        # A row that was read makes its report when somebody looks: see `RowForm.read`.
        make = self.__dict__.get("_make_report")
        if name != "report" or make is None:
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        report = self.__dict__["report"] = make()
        return report

    def __reduce__(self) -> tuple[Any, ...]:
        names = self.__dataclass_fields__
        return Row, tuple(getattr(self, name) for name in names)

    @property
    def key(self) -> Key:
        return self.example, self.sample

    @property
    def scored(self) -> bool:
        """Whether there is a reward. If not, the rollout is kept out of means."""
        return self.error is None and self.report.scored

    @property
    def reward(self) -> float | None:
        """None when the rollout is unscored."""
        return self.report.raw_score if self.scored else None

    @property
    def score(self) -> float | None:
        """None when the rollout is unscored, or nothing in its rubric counts."""
        return self.report.score if self.scored else None

    @property
    def errors(self) -> dict[str, str]:
        """What went wrong, by criterion; under `rollout` why there is nothing to score."""
        known: dict[str, str] | None = self.__dict__.get("_errors")
        if known is None:
            known = self.report.errors if self.error is None else {"rollout": self.error}
            self.__dict__["_errors"] = known
        return known

    @property
    def task(self) -> str:
        return str(self.fields.get("task") or "default")

    @property
    def tags(self) -> dict[str, float | None]:
        """The score over the criteria of each tag alone."""
        return self.report.tag_scores
