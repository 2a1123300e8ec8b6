"""Spans: where each value of a YAML or JSON text begins and ends, so that it can be edited in place."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, NamedTuple, TypeAlias

from assay.loading.lines import Path

_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|[\[\]{}]|[^\s,:\[\]{}"]++', re.DOTALL)


class Span(NamedTuple):
    """Where a value stands, from its first character up to the one after its last."""

    start: int
    end: int
    key_start: int | None = None
    """Where its key begins; None for an entry of a list."""
    flow: bool = True
    """Whether the mapping or list around it is written in brackets."""
    style: str = ""
    """The quotation mark or block sign of a text; empty for a plain one."""
    anchored: bool = False
    """Whether it has a name that other places repeat it by."""


Kind: TypeAlias = Literal["mapping", "list", "end", "value"]


class _Piece(NamedTuple):
    """One step through a text: a mapping or list begins, the innermost ends, or a value stands."""

    kind: Kind
    text: str
    start: int
    end: int
    flow: bool = True
    style: str = ""
    anchored: bool = False


def spans(text: str, format: str) -> dict[Path, Span]:
    """The span of every value by its path. What an alias repeats has none of its own."""
    walk = _Walk()
    for piece in (_json_pieces if format == "json" else _yaml_pieces)(text):
        walk.take(piece)
    return walk.found


def _json_pieces(text: str) -> Iterator[_Piece]:
    for token in _JSON_TOKEN.finditer(text):
        sign, (start, end) = token[0], token.span()
        if sign in "{[":
            yield _Piece("mapping" if sign == "{" else "list", "", start, end)
        elif sign in "}]":
            yield _Piece("end", "", start, end)
        else:
            value = json.loads(sign) if sign[0] == '"' else sign
            yield _Piece("value", value, start, end, style=sign[0])


def _yaml_pieces(text: str) -> Iterator[_Piece]:
    yaml: Any = import_module("yaml")
    for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        start, end = event.start_mark.index, event.end_mark.index
        if isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            kind = "mapping" if isinstance(event, yaml.MappingStartEvent) else "list"
            yield _Piece(kind, "", start, end, bool(event.flow_style), "", bool(event.anchor))
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            yield _Piece("end", "", start, end)
        elif isinstance(event, yaml.ScalarEvent):
            style = event.style or ""
            yield _Piece("value", event.value, start, end, True, style, bool(event.anchor))
        elif isinstance(event, yaml.AliasEvent):
            yield _Piece("value", "", start, end, anchored=True)


@dataclass
class _Open:
    """A mapping or list that has not ended."""

    path: Path
    is_mapping: bool
    start: int
    key_start: int | None
    flow: bool
    around: bool
    """Whether what is around it is written in brackets."""
    anchored: bool
    length: int = 0
    key: str | None = None
    own_key_start: int | None = None
    last: int = 0
    """Where its last value ends; a block ends there, whatever blank lines follow."""


class _Walk:
    """Notes the span of every value while a text is walked through."""

    def __init__(self) -> None:
        self.found: dict[Path, Span] = {}
        self._opened: list[_Open] = []

    def take(self, piece: _Piece) -> None:
        if piece.kind == "end":
            self._close(piece)
            return
        path, key_start, around = self._place(piece)
        if path is None:
            return
        if piece.kind == "value":
            flow, style = around, piece.style
            self.found[path] = Span(piece.start, piece.end, key_start, flow, style, piece.anchored)
            self._reach(piece.end)
            return
        opened = _Open(
            path,
            piece.kind == "mapping",
            piece.start,
            key_start,
            piece.flow,
            around,
            piece.anchored,
        )
        opened.last = piece.end
        self._opened.append(opened)

    def _place(self, piece: _Piece) -> tuple[Path | None, int | None, bool]:
        """The path of a value, where its key begins, and whether brackets are around it.

        No path for a key.
        """
        if not self._opened:
            return (), None, False
        top = self._opened[-1]
        if not top.is_mapping:
            top.length += 1
            return (*top.path, top.length - 1), None, top.flow
        if top.key is None:
            top.key, top.own_key_start = piece.text, piece.start
            self._reach(piece.end)
            return None, None, top.flow
        path, start = (*top.path, top.key), top.own_key_start
        top.key = None
        return path, start, top.flow

    def _close(self, piece: _Piece) -> None:
        closed = self._opened.pop()
        end = piece.end if closed.flow else closed.last
        self.found[closed.path] = Span(
            closed.start, end, closed.key_start, closed.around, "", closed.anchored
        )
        self._reach(end)

    def _reach(self, end: int) -> None:
        if self._opened:
            self._opened[-1].last = max(self._opened[-1].last, end)
