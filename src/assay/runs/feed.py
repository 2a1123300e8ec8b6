"""Feed: rows as they come in, each with its key and its rubric; those left out that are done."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from assay.errors import AssayError
from assay.runs.errors import RunRefused
from assay.runs.keys import Hashes, Numbering
from assay.runs.row import Key, Row
from assay.runs.row_rubrics import RowRubrics, unreadable
from assay.runs.ways import Way
from assay.wording import short_repr

_NOBODY = Way()


class Pending(NamedTuple):
    """A row that waits, and who scores it."""

    key: Key
    row: dict[str, Any]
    scorer: Any
    """None where nothing is to be scored."""
    way: Way
    is_done: bool = False
    """Whether it is saved already, and only there for others to be compared with."""
    error: str | None = None
    """Why there is nothing to score: its rubric cannot be read, or it has no completion."""
    saved: Row | None = None
    """What an earlier run saved of it."""
    number: int | None = None
    """Its place in the data, from 0."""


class Feed:
    """What is to be scored, in units: a row, or the rollouts of an example that are compared."""

    def __init__(
        self,
        rows: Iterable[Mapping[str, Any]],
        rubrics: RowRubrics,
        has: Callable[[Key], bool],
        numbering: Numbering | None = None,
    ) -> None:
        self._rows = rows
        self._rubrics = rubrics
        self._has = has
        self._number = numbering or Numbering()
        self._seen = Hashes()
        self.broken: AssayError | None = None
        """Why the rows ended too soon. What came before it is scored; then it is for you to raise."""

    def units(self) -> Iterator[list[Pending]]:
        """Rows in order, without those that are done."""
        try:
            yield from self._units()
        except AssayError as error:
            self.broken = error

    def _units(self) -> Iterator[list[Pending]]:
        group: list[Pending] = []
        for pending in self._pending():
            is_compared = bool(pending.way.compares)
            if group and not (is_compared and pending.key[0] == group[0].key[0]):
                yield from _undone(group)
                group = []
            if is_compared:
                if not group:
                    self._refuse_apart(pending)
                group.append(pending)
            elif not pending.is_done:
                yield [pending]
        yield from _undone(group)

    def _pending(self) -> Iterator[Pending]:
        for row in self._rows:
            if not isinstance(row, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise RunRefused(f"row {self._number.rows} is {short_repr(row)}: give a mapping")
            fields: dict[str, Any] = row if isinstance(row, dict) else dict(row)
            number = self._number.rows
            yield self.pending(self._number.key_of(fields), fields)._replace(number=number)

    def pending(self, key: Key, row: dict[str, Any], saved: Row | None = None) -> Pending:
        """A row with whoever scores it."""
        is_done = self._has(key)
        number = None if saved is None else saved.number
        try:
            scorer, way = self._rubrics.of(row)
        except AssayError as error:
            why = unreadable(error, f"example {key[0]}")
            return Pending(key, row, None, _NOBODY, is_done, why, saved, number)
        if "completion" in row and row["completion"] is None:
            return Pending(key, row, None, way, is_done, _without_completion(key), saved, number)
        return Pending(key, row, scorer, way, is_done, None, saved, number)

    def _refuse_apart(self, first: Pending) -> None:
        """Refuse rollouts of an example that do not stand together: they could not be compared."""
        name, example = first.way.compares, first.key[0]
        if first.row.get("example_id") is None and first.row.get("id") is None:
            raise RunRefused(
                f"criterion {name!r} compares the rollouts of an example, and row {example} does not "
                "say which it belongs to: give every row an `example_id`"
            )
        if not self._seen.add(example):
            raise RunRefused(
                f"criterion {name!r} compares the rollouts of an example, and those of {example!r} do "
                "not stand together: sort the rows by example"
            )


def _without_completion(key: Key) -> str:
    """What is said of a row whose completion is null: nothing was written, which is not an empty text."""
    return (
        f"NoCompletion: the completion of example {key[0]} is null: write it, or leave the row out"
    )


def _undone(group: list[Pending]) -> Iterator[list[Pending]]:
    if not all(pending.is_done for pending in group):
        yield group
