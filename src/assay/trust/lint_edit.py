"""Edits: criteria changed where they stand in a file, with every comment and blank line left alone."""

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

from assay.errors import RubricError
from assay.loading.lines import Path
from assay.loading.source import Place, place_of_text
from assay.loading.yaml_text import dump_yaml, load_yaml
from assay.trust.lint_spans import Span, spans


class EditError(RubricError):
    """A change cannot be made in place; the message says why."""


class Change(NamedTuple):
    """What becomes of one criterion."""

    path: Path
    """Where it stands in the file."""
    requirements: tuple[str, ...] = ()
    """Its new requirement; several split it into as many criteria of equal shares of the weight."""
    choices: tuple[str, ...] = ()
    """Its choices in their new order; none when they stay."""
    name: str = ""
    """A name to write down, since others know it by that; empty when none is needed."""


class Edit(NamedTuple):
    """Characters that others take the place of."""

    start: int
    end: int
    text: str


class Editor:
    """A file that is edited in place."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.text = place.source.text
        self.format = place.source.format
        self.found = spans(self.text, self.format) if self.format in ("yaml", "json") else {}

    def edited(self, changes: Sequence[Change]) -> str:
        """The text with these changes made. Raises `EditError` when one cannot be made.

        It is read back, and holds what it should, or it is not handed out.
        """
        text = self.text
        for edit in sorted((e for change in changes for e in self.edits(change)), reverse=True):
            text = text[: edit.start] + edit.text + text[edit.end :]
        read_back = place_of_text(text, self.format, self.place.source.path)
        if read_back.data != _expected(self.place.data, changes):
            raise EditError("it is written in a way that cannot be edited in place: do it by hand")
        return text

    def edits(self, change: Change) -> list[Edit]:
        """What one change puts where."""
        if not self.found:
            raise EditError(f"{self.format.upper()} is not edited in place: do it by hand")
        entry: Mapping[str, Any] = _at(self.place.data, change.path)
        edits = self._reordered(change, entry) if change.choices else []
        if not change.requirements:
            return edits
        parts = parts_of(entry, change)
        edits += self._rewritten(change.path, entry, parts[0])
        if len(parts) > 1:
            edits.append(self._added(change.path, parts[1:]))
        return edits

    def _reordered(self, change: Change, entry: Mapping[str, Any]) -> list[Edit]:
        """Each choice with the words of the one that comes to its place, quotation marks and all."""
        here = [self._span((*change.path, "choices", n)) for n in range(len(change.choices))]
        words = {
            label: self.text[span.start : span.end]
            for label, span in zip(entry["choices"], here, strict=True)
        }
        return [
            Edit(span.start, span.end, words[label])
            for label, span in zip(change.choices, here, strict=True)
        ]

    def _rewritten(
        self, path: Path, before: Mapping[str, Any], after: Mapping[str, Any]
    ) -> list[Edit]:
        """The requirement in its place, fields that are new after it, and a new weight."""
        span = self._span((*path, "requirement"))
        new = "".join(
            self._field(key, value, span) for key, value in after.items() if key not in before
        )
        ending = self._newline if self.text[span.end - 1] == "\n" else ""
        words = self._scalar(after["requirement"], span)
        edits = [Edit(span.start, span.end, f"{words}{new}{ending}")]
        if "weight" in before and after["weight"] != before["weight"]:
            weight = self._span((*path, "weight"))
            edits.append(Edit(weight.start, weight.end, json.dumps(after["weight"])))
        return edits

    def _field(self, key: str, value: Any, beside: Span) -> str:
        if beside.flow:
            name = f'"{key}"' if self.format == "json" else key
            return f", {name}: {json.dumps(value, ensure_ascii=False)}"
        assert beside.key_start is not None
        return f"{self._newline}{' ' * self._column(beside.key_start)}{key}: {_yaml_scalar(value)}"

    def _added(self, path: Path, entries: Sequence[Mapping[str, Any]]) -> Edit:
        """Further entries of the list, after the one that stands there."""
        span = self._span(path)
        if span.flow:
            return Edit(span.end, span.end, "".join(self._flow_entry(e, span) for e in entries))
        dash = self.text.rfind("-", 0, span.start)
        indent = self._column(dash)
        if self.text[dash - indent : dash].strip() or self.text[dash + 1 : span.start].strip():
            raise EditError("its list is written in a way that cannot be edited: do it by hand")
        rows = dump_yaml([dict(entry) for entry in entries]).rstrip("\n").split("\n")
        block = self._newline.join(f"{' ' * indent}{row}" for row in rows)
        if self.text[span.end - 1] == "\n":
            return Edit(span.end, span.end, f"{block}{self._newline}")
        end = self.text.find("\n", span.end)
        end = len(self.text) if end < 0 else end - (self.text[end - 1] == "\r")
        return Edit(end, end, f"{self._newline}{block}")

    def _flow_entry(self, entry: Mapping[str, Any], beside: Span) -> str:
        """An entry in brackets, on lines of its own where the one before it is."""
        column = self._column(beside.start)
        if self.text[beside.start - column : beside.start].strip() or not column:
            return f", {json.dumps(entry, ensure_ascii=False)}"
        inner = "\n" in self.text[beside.start : beside.end]
        rows = json.dumps(entry, ensure_ascii=False, indent=column if inner else None).split("\n")
        start = f",{self._newline}{' ' * column}"
        return start + f"{self._newline}{' ' * column}".join(rows)

    def _span(self, path: Path) -> Span:
        span = self.found.get(path)
        if span is None or span.anchored:
            raise EditError("it is written with an anchor or an alias: do it by hand")
        return span

    def _scalar(self, value: str, span: Span) -> str:
        """A text as the one it replaces is written, where that can hold it."""
        if self.format == "json" or span.style == '"':
            return json.dumps(value, ensure_ascii=False)
        if span.style == "'":
            return "'" + value.replace("'", "''") + "'"
        return _yaml_scalar(value, in_brackets=span.flow)

    def _column(self, place: int) -> int:
        return place - (self.text.rfind("\n", 0, place) + 1)

    @property
    def _newline(self) -> str:
        return "\r\n" if "\r\n" in self.text else "\n"


def _yaml_scalar(value: Any, *, in_brackets: bool = False) -> str:
    """A value as YAML: without quotation marks where it is read back as it is."""
    quoted = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, str) or "\n" in value:
        return quoted
    try:
        data = load_yaml(f"[{value}]\n" if in_brackets else f"key: {value} # \n")
    except RubricError:
        return quoted
    return value if data == ([value] if in_brackets else {"key": value}) else quoted


def parts_of(entry: Mapping[str, Any], change: Change) -> list[dict[str, Any]]:
    """The entries that one becomes. Of several, each has an equal share of the weight."""
    count = len(change.requirements)
    parts: list[dict[str, Any]] = []
    for number, requirement in enumerate(change.requirements, start=1):
        part = deepcopy(dict(entry)) | {"requirement": requirement}
        if change.name:
            part.setdefault("name", change.name)
        if number > 1 and "name" in part:
            part["name"] = f"{part['name']}_{number}"
        if count > 1:
            part["weight"] = round(float(entry.get("weight", 1.0)) / count, 6)
        parts.append(part)
    return parts


def _at(data: Any, path: Path) -> Any:
    for step in path:
        data = data[step]
    return data


def _expected(data: Any, changes: Sequence[Change]) -> Any:
    """What the file should hold afterwards."""
    data = deepcopy(data)
    # From the last to the first: a split moves only what comes after it.
    for change in sorted(changes, key=_position, reverse=True):
        entry: dict[str, Any] = _at(data, change.path)
        if change.choices:
            entry["choices"] = list(change.choices)
        if change.requirements:
            *around, index = change.path
            assert isinstance(index, int)
            _at(data, tuple(around))[index : index + 1] = parts_of(entry, change)
    return data


def _position(change: Change) -> list[str]:
    """Something to sort changes by: numbers by their size."""
    return [f"{step:09}" if isinstance(step, int) else step for step in change.path]
