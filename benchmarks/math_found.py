"""What a measure gives back: rows, tables and remarks."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from math_sets import Sets
from rows import Row, Table
from subjects import Subjects

Figures = dict[str, Any] | None
"""What a worker printed; None when it could not be run."""
MILLI = 1e3


@dataclass(frozen=True)
class Found:
    """The rows of the first table, tables of their own, and sentences under them."""

    rows: list[Row] = field(default_factory=list[Row])
    tables: list[Table] = field(default_factory=list[Table])
    notes: list[str] = field(default_factory=list[str])

    def __add__(self, other: "Found") -> "Found":
        return Found(self.rows + other.rows, self.tables + other.tables, self.notes + other.notes)


@dataclass(frozen=True)
class Measure:
    """A measure by the name `--only` takes."""

    name: str
    run: Callable[[Subjects, Sets], Found]


def figure(figures: Figures, name: str, *, times: float = 1.0) -> float | None:
    """One figure in another unit; None when there is none."""
    value = None if figures is None else figures[name]
    return None if value is None else value * times
