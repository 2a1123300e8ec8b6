"""JSON Lines in: rows with the number of their line, and errors that name file and line."""

import json
import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import IO, Any, cast

from assay.errors import AssayError

LARGEST_CHUNK = 256


class LineError(AssayError):
    """A line of a file is not what it should be."""


@contextmanager
def opened(path: str) -> Generator[IO[bytes]]:
    """The file of that name; `-` is standard input."""
    if path == "-":
        yield sys.stdin.buffer
        return
    if not Path(path).exists():
        raise AssayError(f"File not found: {path}")
    with Path(path).open("rb") as file:
        yield file


def rows(file: Iterable[bytes], name: str, fields: Sequence[str]) -> Iterator[dict[str, Any]]:
    """One mapping a line, each with these fields at least; blank lines are passed over."""
    for number, line in zip(count(1), file, strict=False):
        if line.strip():
            yield _row(line, f"{name}:{number}", fields)


def _row(line: bytes, where: str, fields: Sequence[str]) -> dict[str, Any]:
    try:
        row: object = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise LineError(f"{where}: no JSON: {error}") from None
    if not isinstance(row, dict):
        raise LineError(f"{where}: {line.strip()[:40]!r} is no JSON object: write {_form(fields)}")
    found = cast("dict[str, Any]", row)
    for field in fields:
        if field not in found:
            raise LineError(f"{where}: there is no field {field!r}: write {_form(fields)}")
    return found


def _form(fields: Sequence[str]) -> str:
    return "{" + ", ".join(f'"{field}": ...' for field in fields) + "}"


def chunks(items: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The items in lists that start small, so that the first results come at once.

    When the items end in an error, those before it come first.
    """
    size, chunk = 1, list[dict[str, Any]]()
    try:
        for item in items:
            chunk.append(item)
            if len(chunk) == size:
                yield chunk
                size, chunk = min(2 * size, LARGEST_CHUNK), []
    except AssayError:
        if chunk:
            yield chunk
        raise
    if chunk:
        yield chunk
