"""What a server tells about its rubric, and what it found, as a rubric's doors need it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from assay.report import CriterionReport, EvaluationReport, aggregate
from assay.server.refusals import ServerRefused

AROUND: Final = 64
"""Bytes of a request around its rollouts."""


@dataclass(frozen=True)
class Description:
    """A rubric as its server describes it."""

    hash: str
    lines: tuple[CriterionReport, ...]
    """One a criterion, without an answer."""
    compares: tuple[str, ...]
    """The criteria that weigh the rollouts of a request against each other."""
    max_batch: int
    max_bytes: int

    @classmethod
    def of(cls, data: Any) -> "Description":
        """The description in a reply."""
        try:
            lines = (
                CriterionReport(name=c["name"], weight=c["weight"], counted=c["counts"])
                for c in data["criteria"]
            )
            compares = tuple(data["compares"])
            return cls(data["rubric"], tuple(lines), compares, data["max_batch"], data["max_bytes"])
        except (KeyError, TypeError, ValueError) as error:
            raise ServerRefused(f"that is no reward server of ours: {error!r}") from None

    def failed(self, error: str) -> EvaluationReport:
        """The report on a rollout that could not be scored at all."""
        return aggregate([line.model_copy(update={"error": error}) for line in self.lines])

    def cuts(self, rows: Sequence[bytes], most: int) -> list[int]:
        """Where to cut rows into requests that the server takes; rows that compare stay together."""
        size = sum(map(len, rows)) + len(rows) + AROUND
        if self.compares:
            if len(rows) > self.max_batch or size > self.max_bytes:
                raise ValueError(
                    f"{self.compares[0]!r} compares rollouts with each other, and {len(rows)} of "
                    f"{size} bytes are more than the server takes at once ({self.max_batch}, "
                    f"{self.max_bytes}): score group by group"
                )
            return [0, len(rows)]
        cuts, size = [0], AROUND
        for place, row in enumerate(rows):
            size += len(row) + 1
            is_full = place - cuts[-1] >= min(most, self.max_batch) or size > self.max_bytes
            if is_full and place > cuts[-1]:
                cuts.append(place)
                size = AROUND + len(row) + 1
        return [*cuts, len(rows)]
