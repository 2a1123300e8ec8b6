"""Summary: what a run comes to. What has no score is counted first, and kept out of every mean."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from assay.criterion import BINARY
from assay.runs.folder import write_json
from assay.runs.means import NO_ESTIMATE, MeanEstimate
from assay.runs.passes import PassRates
from assay.runs.spending import NOTHING, Spending


def _empty() -> dict[Any, Any]:
    return {}


BINARY_VERDICTS = frozenset(BINARY)


@dataclass(frozen=True)
class CriterionSummary:
    """How the answers to one criterion came out."""

    weight: float | None
    """None when rows weigh it differently."""
    value: MeanEstimate
    """The mean of its values, over the rollouts where it has one."""
    met: int = 0
    unmet: int = 0
    not_applicable: int = 0
    errors: int = 0
    unneeded: int = 0
    """Not asked, since the result was decided without it."""
    verdicts: Mapping[str, int] = field(default_factory=_empty)
    """How often a model gave each verdict, from worst to best; empty where code answers."""

    @property
    def is_scale(self) -> bool:
        """Whether verdicts of its own tell more than that it is met or not."""
        return not BINARY_VERDICTS.issuperset(self.verdicts)


@dataclass(frozen=True)
class TaskSummary:
    """One task of several."""

    rollouts: int
    scored: int
    reward: MeanEstimate
    score: MeanEstimate


@dataclass(frozen=True)
class Summary:
    """What a run comes to.

    >>> Summary.from_dict(Summary(rollouts=3, scored=2, unscored=1).to_dict()).unscored
    1
    """

    rollouts: int = 0
    examples: int = 0
    scored: int = 0
    """Rollouts whose counted criteria all have an answer. Only these are in means."""
    unscored: int = 0
    failed: int = 0
    """Of the unscored, those where there was nothing to score, as when generation failed."""
    errors: Mapping[str, int] = field(default_factory=_empty)
    """Errors by kind."""
    errors_by_criterion: Mapping[str, Mapping[str, int]] = field(default_factory=_empty)
    """Errors by criterion and kind; under `rollout` why there was nothing to score."""
    reward: MeanEstimate = NO_ESTIMATE
    score: MeanEstimate = NO_ESTIMATE
    criteria: Mapping[str, CriterionSummary] = field(default_factory=_empty)
    tags: Mapping[str, MeanEstimate] = field(default_factory=_empty)
    """The score over the criteria of each tag alone."""
    tasks: Mapping[str, TaskSummary] = field(default_factory=_empty)
    passes: Mapping[int, PassRates] = field(default_factory=_empty)
    """pass@k and pass^k by k, a rollout being a success when its score reaches `threshold`."""
    threshold: float = 1.0
    spent: Spending = NOTHING
    timing: Mapping[str, float] = field(default_factory=_empty)
    """Seconds by part, added up over the rollouts that were timed."""
    altered: int = 0
    """Rows with a field that JSON could not hold as it was."""
    complete: bool = True
    """Whether the run went through; False when it was stopped and can be resumed."""

    def with_fields(self, **changes: Any) -> "Summary":
        """A copy with some fields changed."""
        return replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return _form().dump_python(self, mode="json")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Summary":
        """The summary that `to_dict` was made from."""
        return _form().validate_python(data)

    def save(self, path: Path, size: int) -> None:
        """Write it to a file, with how many bytes of rows it tells of."""
        write_json(path, {"of": size, **self.to_dict()})

    @classmethod
    def saved(cls, path: Path, size: int) -> "Summary | None":
        """What `save` wrote; None when nothing did, or when it does not tell of all rows."""
        try:
            data = json.loads(path.read_bytes())
            return cls.from_dict(data) if data["of"] == size else None
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            # It can be worked out again from the rows, whatever happened to it.
            return None


@cache
def _form() -> TypeAdapter[Summary]:
    return TypeAdapter(Summary)
