"""A page: what a command found, in tables and notes, printed in one of three ways."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from assay.cli.colours import painted
from assay.cli.markdown import escaped, markdown_table
from assay.cli.overview import Section
from assay.cli.rows import json_text
from assay.cli.showing import printable
from assay.cli.table import laid_out

if TYPE_CHECKING:
    from assay.trust import Estimate


@dataclass(frozen=True)
class Page:
    """A title, tables under it, and sentences under those; and all of it as data."""

    title: str
    sections: Sequence[Section]
    notes: Sequence[str]
    data: Mapping[str, Any]

    def text(self, layout: str) -> str:
        """The page as `table`, `json` or `markdown`."""
        if layout == "json":
            return json_text(self.data)
        if layout == "markdown":
            parts = [f"## {escaped(self.title)}", *map(markdown_table, self.sections)]
            notes = [f"- {escaped(note)}" for note in self.notes]
        else:
            parts = [painted(printable(self.title), "bold"), *map(laid_out, self.sections)]
            notes = [printable(note) for note in self.notes]
        return "\n\n".join([*parts, "\n".join(notes)] if notes else parts)


def figure(estimate: "Estimate", digits: int = 2) -> str:
    """A figure with its interval, to so many digits."""
    return estimate.to_digits(digits)


def point(estimate: "Estimate") -> str:
    """A figure alone; a dash when there is none."""
    return "–" if estimate.value is None else f"{estimate.value:.2f}"


def chance(p: float | None) -> str:
    """A p-value as people write it.

    >>> chance(0.0312), chance(0.0002), chance(None)
    ('0.031', '< 0.001', '–')
    """
    if p is None:
        return "–"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"
