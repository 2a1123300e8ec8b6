"""What every part of `trust.py` gives back, and how a figure is held against another."""

from collections.abc import Sequence

from rows import Check, Table

from assay.trust import Estimate, Question, Resampling

Found = tuple[list[Check], list[Table]]

FIRST = ("1", "2")
"""Which response is better; the order says nothing."""
PREFERENCE = Question("preference", FIRST)
FEW = Resampling(resamples=500)


def value_of(estimate: Estimate) -> float:
    """The figure, which is there."""
    assert estimate.value is not None, estimate.reason
    return estimate.value


def same(what: str, ours: Sequence[float], theirs: Sequence[float], digits: int) -> Check:
    """A check that figures agree to so many digits."""
    holds = all(abs(o - t) <= 0.5001 * 10**-digits for o, t in zip(ours, theirs, strict=True))
    shown = (" / ".join(f"{figure:.{digits}f}" for figure in side) for side in (ours, theirs))
    return Check(what, *shown, holds)
