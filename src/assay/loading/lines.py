"""Where things stand in a text: a path such as `("criteria", 3, "weight")` as a line number.

JSON and YAML are both seen as a row of marks, so that one walk serves both.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

Path: TypeAlias = tuple[str | int, ...]
"""The keys and places that lead to a value."""


class Mark(NamedTuple):
    """One step through a text: a mapping or list begins, the innermost ends, or a value stands."""

    kind: Literal["mapping", "list", "end", "value"]
    text: str
    """What the value is, when it is a plain one."""
    line: int


class Node(NamedTuple):
    """A key of a mapping, or an entry of a list."""

    depth: int
    key: str | int
    line: int
    repeated: bool
    """Whether its mapping has had this key before."""


_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|[\[\]{}]|[^\s,:\[\]{}"]++', re.DOTALL)


def json_marks(text: str) -> Iterator[Mark]:
    """The marks of a text that is known to be JSON."""
    line, counted = 1, 0
    for token in _JSON_TOKEN.finditer(text):
        line += text.count("\n", counted, token.start())
        counted = token.start()
        first = token[0][0]
        if first in "{[":
            yield Mark("mapping" if first == "{" else "list", "", line)
        elif first in "}]":
            yield Mark("end", "", line)
        else:
            yield Mark("value", json.loads(token[0]) if first == '"' else token[0], line)


@dataclass
class _Open:
    is_mapping: bool
    length: int = 0
    at_key: bool = True
    keys: set[str] = field(default_factory=set[str])

    def step(self, mark: Mark) -> tuple[str | int, bool] | None:
        """The key that a mark stands for here, and whether it is repeated; None for a value."""
        if not self.is_mapping:
            self.length += 1
            return self.length - 1, False
        self.at_key = not self.at_key
        if self.at_key:
            return None
        repeated = mark.text in self.keys
        self.keys.add(mark.text)
        return mark.text, repeated


def nodes(marks: Iterable[Mark]) -> Iterator[Node]:
    """Every key and entry of a text, in the order they stand in it."""
    opened: list[_Open] = []
    for mark in marks:
        if mark.kind == "end":
            opened.pop()
            continue
        step = opened[-1].step(mark) if opened else None
        if step is not None:
            yield Node(len(opened), step[0], mark.line, step[1])
        if mark.kind != "value":
            opened.append(_Open(mark.kind == "mapping"))


def line_of(path: Path, found: Iterable[Node]) -> int | None:
    """The line of a path, or of as much of it as is there; None when nothing of it is."""
    here: list[str | int] = []
    wanted, best, line = list(path), 0, None
    for node in found:
        here[node.depth - 1 :] = [node.key]
        if node.depth > best and here == wanted[: node.depth]:
            best, line = node.depth, node.line
            if best == len(wanted):
                break
    return line


_TABLE = re.compile(r"\s*\[(\[)?\s*([^\[\]#]+?)\s*\]")
_KEY = re.compile(r"\s*([\w\"'.-]+)\s*=")


def toml_nodes(text: str) -> Iterator[Node]:
    """The tables and keys of a TOML text, as far as a scan by line can tell them."""
    table: list[str | int] = []
    counts: dict[Sequence[str | int], int] = {}
    for number, line in enumerate(_without_long_texts(text).split("\n"), start=1):
        header, key = _TABLE.match(line), _KEY.match(line)
        if header is not None:
            table = _table_path(header, counts)
            for depth, step in enumerate(table, start=1):
                yield Node(depth, step, number, False)
        elif key is not None:
            steps = [part.strip("\"'") for part in key[1].split(".")]
            for depth, step in enumerate(steps, start=len(table) + 1):
                yield Node(depth, step, number, False)


def _table_path(header: re.Match[str], counts: dict[Sequence[str | int], int]) -> list[str | int]:
    """The path of a table; a table of a list gets the next place in it."""
    path: list[str | int] = []
    parts = [part.strip(" \t\"'") for part in header[2].split(".")]
    for part in parts:
        path.append(part)
        if tuple(path) in counts:
            path.append(counts[tuple(path)])
    if header[1]:
        name = tuple(path[:-1]) if isinstance(path[-1], int) else tuple(path)
        counts[name] = counts.get(name, -1) + 1
        path = [*name, counts[name]]
    return path


def _without_long_texts(text: str) -> str:
    """The text with its multi-line strings blanked, lines kept."""
    return re.sub(
        r'"""(?:[^\\]|\\.)*?"""|\'\'\'.*?\'\'\'',
        lambda found: '""' + "\n" * found[0].count("\n"),
        text,
        flags=re.DOTALL,
    )
