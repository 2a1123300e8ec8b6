"""Columns: the verdicts of a run, a column a criterion, as the rules about runs read them."""

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from assay.messages import completion_text
from assay.runs import Row
from assay.trust.estimate import Array, np


@dataclass(frozen=True)
class Columns:
    """One row a rollout. A value is NaN where there is no answer, or the question does not apply."""

    examples: Array
    """The number of the example that each row is of."""
    texts: Array
    """The number of the text: rows with one number are of one example and say the same."""
    lengths: Array
    """Characters of the completion."""
    values: Mapping[str, Array]
    """What each criterion's verdict is worth, by name."""

    @cached_property
    def example_count(self) -> int:
        return len(np.unique(self.examples))

    def answered(self, name: str) -> "np.ndarray[tuple[int], np.dtype[np.intp]]":
        """The places of the rows where a criterion has a value."""
        return np.flatnonzero(np.isfinite(self.values[name]))


def columns_of(rows: Iterable[Row]) -> Columns:
    """The columns of a run, in one pass. A row of which nothing could be scored has only gaps."""
    examples, texts, lengths = array("d"), array("d"), array("d")
    example_numbers: dict[str, int] = {}
    text_numbers: dict[tuple[str, str], int] = {}
    found: dict[str, array[float]] = {}
    for place, row in enumerate(rows):
        text = completion_text(row.fields.get("completion"))
        examples.append(example_numbers.setdefault(row.example, len(example_numbers)))
        texts.append(text_numbers.setdefault((row.example, text), len(text_numbers)))
        lengths.append(len(text))
        for line in () if row.error is not None else row.report.lines:
            column = found.setdefault(line.name, array("d"))
            _fill(column, place)
            if len(column) == place:  # a name that stands twice in a group is read once
                column.append(np.nan if line.value is None else line.value)
    for column in found.values():
        _fill(column, len(examples))
    return Columns(
        _numbers(examples),
        _numbers(texts),
        _numbers(lengths),
        {name: _numbers(column) for name, column in found.items()},
    )


def _fill(column: "array[float]", size: int) -> None:
    """Note a gap for each row that had nothing to say."""
    if len(column) < size:
        column.extend([np.nan] * (size - len(column)))


def _numbers(column: "array[float]") -> Array:
    return np.array(column, dtype=np.float64)
