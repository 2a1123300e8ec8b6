"""One line of the result: what was measured, against what, and whether the target holds."""

from dataclasses import dataclass
from typing import Literal

NOT_MEASURED = "not measured"
_EDGE = 1e-9


@dataclass(frozen=True)
class Target:
    """A bound on the ratio assay / peer."""

    bound: float
    side: Literal["at least", "at most"]

    def holds(self, ratio: float) -> bool:
        if self.side == "at least":
            return ratio >= self.bound - _EDGE
        return ratio <= self.bound + _EDGE

    def __str__(self) -> str:
        return f"{'≥' if self.side == 'at least' else '≤'} {as_ratio(self.bound, digits=3)}"


@dataclass(frozen=True)
class Limit:
    """A bound on assay's own figure, in the unit of its row."""

    bound: float
    side: Literal["at least", "at most"]
    unit: str

    def holds(self, figure: float) -> bool:
        return figure >= self.bound if self.side == "at least" else figure <= self.bound

    def __str__(self) -> str:
        return f"{'≥' if self.side == 'at least' else '≤'} {as_figure(self.bound, self.unit)}"


@dataclass(frozen=True)
class Row:
    """A measured pair. A missing figure is None, and a row without one never meets a target."""

    measure: str
    ours: float | None
    theirs: float | None
    unit: str
    against: str = ""
    """Whose figure `theirs` is; empty when the row holds only one figure."""
    target: Target | Limit | None = None

    @property
    def ratio(self) -> float | None:
        """assay's figure over the other's; None unless both were measured."""
        if self.ours is None or not self.theirs:
            return None
        return self.ours / self.theirs

    @property
    def result(self) -> str:
        if self.target is None:
            return "-"
        held = self.ours if isinstance(self.target, Limit) else self.ratio
        if held is None:
            return NOT_MEASURED
        return "met" if self.target.holds(held) else "missed"

    @property
    def cells(self) -> tuple[str, ...]:
        theirs = f"{self.against} {as_figure(self.theirs, self.unit)}" if self.against else "-"
        ratio = "-" if self.ratio is None else as_ratio(self.ratio)
        target = "-" if self.target is None else str(self.target)
        return (self.measure, as_figure(self.ours, self.unit), theirs, ratio, target, self.result)


@dataclass(frozen=True)
class Table:
    """What does not fit a row: one line a case or a subject, in words and counts."""

    title: str
    headings: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Check:
    """A finding that is no ratio: a count, a share, or who got what right."""

    measure: str
    found: str
    expected: str
    holds: bool | None
    """None when nothing is expected of it."""

    @property
    def cells(self) -> tuple[str, ...]:
        result = "-" if self.holds is None else "met" if self.holds else "missed"
        return (self.measure, self.found, "-", "-", self.expected or "-", result)


HEADINGS = ("measure", "assay", "against", "ratio", "target", "result")


def as_figure(value: float | None, unit: str) -> str:
    """Four digits or so, thousands separated."""
    if value is None:
        return NOT_MEASURED
    number = f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
    return f"{number} {unit}".strip()


def as_ratio(ratio: float, *, digits: int = 4) -> str:
    """`12.3x`, and `1/12.3` below one, which is easier to compare than 0.0813."""
    if 0 < ratio < 1:
        return f"1/{1 / ratio:.{digits}g}"
    return f"{ratio:.{digits}g}x"
