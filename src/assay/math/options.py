"""MathOptions: the rules that are a matter of taste, each with a name and a careful default."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MathOptions:
    """What counts as the same answer. The defaults are math-verify's."""

    rounding: int = 6
    """A decimal equals an exact number that agrees with it to so many places."""
    tolerance: float = 0.0
    """The relative difference between two numbers that is forgiven. 0 forgives none."""
    units: bool = True
    """Whether `5 cm` equals `5`. Different units are different in any case."""
    ordered_tuples: bool = True
    """Whether `(1, 2)` differs from `(2, 1)`. Sets and bare lists have no order."""
    assignments: bool = True
    """Whether `x = 3` equals `3`."""
    rename_variables: bool = False
    """Whether `2x + 1` equals `2y + 1`."""
    symbolic: bool = True
    """Whether undecided pairs go to math-verify in a worker process."""


DEFAULT = MathOptions()
