"""Find the rubric and the texts that arguments name."""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import click

from assay.cli.options import RubricOptions
from assay.errors import AssayError, RubricError
from assay.loading.document import read_file
from assay.loading.rubric_reader import is_reference
from assay.rubric import Rubric, rubric_at
from assay.runs import Run, RunError
from assay.tables import TableError, rows_of
from assay.wording import described, did_you_mean, short_repr


def rubric_of(rubrics: RubricOptions) -> Rubric:
    """The rubric that is named. A file goes before a module of the same name."""
    name = rubrics.rubric or ""
    if not is_reference(name) or Path(name).is_file():
        return _rubric_in(name, allow_code=rubrics.allow_code)
    module, _, path = name.partition(":")
    return _made(_found(_imported(module), path, name), name)


def _rubric_in(path: str, *, allow_code: bool) -> Rubric:
    """The rubric in a file, or the group of rubrics."""
    if allow_code:
        _look_here_too()
    return rubric_at(read_file(path), allow_code=allow_code)


def _look_here_too() -> None:
    """Have modules of the current folder found, as `python -m` would find them."""
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)


def _imported(name: str) -> ModuleType:
    _look_here_too()
    try:
        return import_module(name)
    except Exception as error:
        # Importing a module runs it, so anything may be raised.
        raise RubricError(f"the module {name} cannot be imported: {described(error)}") from error


def _found(module: ModuleType, path: str, reference: str) -> Any:
    found: Any = module
    for step in path.split("."):
        if not hasattr(found, step):
            known = [name for name in dir(found) if not name.startswith("_")]
            said = did_you_mean(step, known) if known else "it has none at all"
            raise RubricError(f"{reference}: there is no {step!r} in it: {said}")
        found = getattr(found, step)
    return found


def _made(found: Any, reference: str) -> Rubric:
    """A rubric as it is, what a function makes of nothing, or a list of criteria as a rubric."""
    if callable(found) and not isinstance(found, Rubric):
        try:
            found = found()
        except AssayError:
            raise
        except Exception as error:
            # Somebody else's function.
            raise RubricError(
                f"{reference} could not be called without arguments to make a rubric: "
                f"{described(error)}; put a single check in a list"
            ) from error
    if isinstance(found, list | tuple):
        return Rubric(found)  # pyright: ignore[reportUnknownArgumentType]
    if not isinstance(found, Rubric):
        raise RubricError(
            f"{reference} is {short_repr(found)}: name a Rubric, a function that makes one, or a list of criteria"
        )
    return found


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


def opened(path: str) -> Run:
    """The run in a folder; a folder that holds none is a mistake of whoever named it."""
    try:
        return Run.open(path)
    except RunError as error:
        raise click.UsageError(str(error)) from None
