"""Texts to grade: words, files, and the rows of tables, each as one rollout with a name."""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from assay.tables import TableError, rows_of

TABLES = (".jsonl", ".ndjson", ".csv", ".tsv", ".parquet")
"""Files with one text a row; a `.json` file may well be the text itself."""

COMPLETION = ("completion", "response", "text", "output")
PROMPT = ("prompt", "query", "question")
"""What the fields of a row are called, most usual first."""

_PATH = re.compile(r"[^\s]*(?:[/\\][^\s]*|\.[A-Za-z]\w{0,4})")


class Text(NamedTuple):
    """One text, as the rollout it is from."""

    name: str
    """The file it is in, or the words themselves."""
    rollout: dict[str, Any]


def texts_of(arguments: Sequence[str], query: str, *, are_words: bool = False) -> list[Text]:
    """The texts that arguments stand for: a file, `-` for standard input, or the words themselves.

    A table, such as a `.jsonl` file, holds one a row. What looks like a path and is none is refused,
    and so is a folder: nobody wants to pay for a judgement of its name.
    """
    found: list[Text] = []
    for argument in arguments:
        words = argument.strip()
        if are_words:
            found.append(_words(argument))
        elif words.endswith(TABLES) and _names(words, Path.is_file):
            found += _rows(words)
        elif words == "-" or _names(words, Path.is_file):
            found.append(_whole(words))
        elif (is_folder := _names(words, Path.is_dir)) or _PATH.fullmatch(words):
            what = "is a folder, and not a file" if is_folder else "is no file"
            raise TableError(f"{words} {what}: name one, or give --text to grade these very words")
        else:
            found.append(_words(argument))
    return [_asked(text, query) for text in found]


def _names(words: str, what: Callable[[Path], bool]) -> bool:
    """Whether words are the name of a file, or of a folder."""
    try:
        return bool(words) and what(Path(words))
    except OSError:  # too long for a name
        return False


def _words(text: str) -> Text:
    shown = " ".join(text.split())
    return Text(f"{shown[:40]!r}{'…' if len(shown) > 40 else ''}", {"completion": text})


def _whole(path: str) -> Text:
    with click.open_file(path, "rb") as file:
        data: bytes = file.read()
    try:
        return Text("standard input" if path == "-" else path, {"completion": data.decode()})
    except UnicodeDecodeError as error:
        raise TableError(f"{path} is no text in UTF-8: {error}") from None


def _rows(path: str) -> Iterator[Text]:
    for number, row in enumerate(rows_of(path), start=1):
        name = f"{path} row {number}"
        completion = _first(row, COMPLETION)
        if completion is None:
            raise TableError(f"{name} has no text: call its field {' or '.join(COMPLETION)}")
        rollout = {**row, "completion": completion}
        prompt = _first(row, PROMPT)
        yield Text(_name(row, name), rollout if prompt is None else rollout | {"prompt": prompt})


def _name(row: dict[str, Any], otherwise: str) -> str:
    own = _first(row, ("id", "name", "example_id"))
    return otherwise if own is None else str(own)


def _first(row: dict[str, Any], names: Sequence[str]) -> Any:
    return next((row[name] for name in names if row.get(name) is not None), None)


def _asked(text: Text, query: str) -> Text:
    asked = text.rollout.get("prompt") or query
    return text._replace(rollout=text.rollout | {"prompt": asked})
