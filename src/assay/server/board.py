"""Board: numbers that several processes write down side by side, and any of them can add up.

One row of numbers a process, in memory they all see. Nobody writes in another's row, so there are no locks;
a process that takes a dead one's place goes on with its row, so counts never fall.
"""

import math
import mmap
import os
import tempfile
from collections.abc import Sequence
from typing import Any, NamedTuple

WIDTH = 8
"""Bytes of a number."""


class Family(NamedTuple):
    """Numbers of one name, told apart by labels."""

    name: str
    kind: str
    """`counter`, `gauge` or `histogram`."""
    help: str
    labels: Sequence[str] = ("",)
    """As Prometheus writes them: `route="score",status="200"`."""
    bounds: Sequence[float] = ()
    """The upper bounds of a histogram's buckets; the last bucket has none, and then comes the sum."""

    @property
    def width(self) -> int:
        """Numbers that one set of labels takes."""
        return len(self.bounds) + 2 if self.kind == "histogram" else 1


class Board:
    """Rows of numbers, one a process, for these families."""

    def __init__(
        self, families: Sequence[Family], rows: int = 1, memory: mmap.mmap | None = None
    ) -> None:
        self._families = families
        self._starts: dict[tuple[str, str], int] = {}
        size = 0
        for family in families:
            for labels in family.labels:
                self._starts[family.name, labels] = size
                size += family.width
        self._rows = rows
        self._size = size
        # Aligned and eight bytes wide, so that nobody reads half a number.
        self._numbers: Any = memoryview(memory or bytearray(rows * size * WIDTH)).cast("d")

    @staticmethod
    def shared_file(families: Sequence[Family], rows: int) -> int:
        """A file descriptor of memory for so many rows, to be handed to other processes."""
        with tempfile.TemporaryFile() as file:
            file.truncate(rows * sum(f.width * len(f.labels) for f in families) * WIDTH)
            return os.dup(file.fileno())

    @classmethod
    def at(cls, file: int, families: Sequence[Family], rows: int) -> "Board":
        """The board in the memory behind a file descriptor."""
        return cls(families, rows, mmap.mmap(file, 0))

    def row(self, place: int) -> "Row":
        """The row of one process."""
        return Row(self._numbers[place * self._size : (place + 1) * self._size], self._starts)

    def total(self, name: str, labels: str = "") -> float:
        """What all rows come to."""
        return self._total(self._starts[name, labels])

    def fewest(self, name: str, *, besides: int) -> float:
        """The least in any row but this one and the last, which is the supervisor's."""
        place = self._starts[name, ""]
        others = (row for row in range(self._rows - 1) if row != besides)
        return min((self._numbers[row * self._size + place] for row in others), default=math.inf)

    def _total(self, place: int) -> float:
        return sum(self._numbers[row * self._size + place] for row in range(self._rows))

    def text(self) -> str:
        """All of it, as Prometheus reads it."""
        lines: list[str] = []
        for family in self._families:
            lines += [f"# HELP {family.name} {family.help}", f"# TYPE {family.name} {family.kind}"]
            for labels in family.labels:
                lines += self._lines(family, labels)
        return "\n".join([*lines, ""])

    def _lines(self, family: Family, labels: str) -> list[str]:
        start = self._starts[family.name, labels]
        if family.kind != "histogram":
            braced = f"{{{labels}}}" if labels else ""
            return [f"{family.name}{braced} {_written(self._total(start))}"]
        lines: list[str] = []
        reached = 0.0
        for place, bound in enumerate([*map(_written, family.bounds), "+Inf"]):
            reached += self._total(start + place)
            joined = f"{labels}," if labels else ""
            lines.append(f'{family.name}_bucket{{{joined}le="{bound}"}} {_written(reached)}')
        total = self._total(start + len(family.bounds) + 1)
        lines.append(f"{family.name}_sum{{{labels}}} {_written(total)}")
        lines.append(f"{family.name}_count{{{labels}}} {_written(reached)}")
        return lines


class Row:
    """The numbers of one process."""

    def __init__(self, numbers: Any, starts: dict[tuple[str, str], int]) -> None:
        self.numbers = numbers
        self._starts = starts

    def place(self, name: str, labels: str = "") -> int:
        """Where a number stands, to be looked up once."""
        return self._starts[name, labels]

    def set(self, name: str, value: float, labels: str = "") -> None:
        self.numbers[self._starts[name, labels]] = value

    def add(self, name: str, amount: float = 1.0, labels: str = "") -> None:
        self.numbers[self._starts[name, labels]] += amount

    def get(self, name: str, labels: str = "") -> float:
        return self.numbers[self._starts[name, labels]]


def _written(number: float) -> str:
    return str(int(number)) if float(number).is_integer() else repr(number)
