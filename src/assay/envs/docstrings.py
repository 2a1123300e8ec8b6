"""What a docstring says of a function and of each argument: in Google's, NumPy's or reST's way."""

import inspect
import re
from collections.abc import Iterator
from typing import NamedTuple

_GOOGLE = re.compile(r"(?:Args|Arguments|Parameters):\s*")
_GOOGLE_NAMED = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")
_NUMPY_NAMED = re.compile(r"\*{0,2}(\w+(?:\s*,\s*\w+)*)\s*(?::.*)?")
_REST = re.compile(r":param\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)")
_SECTION = re.compile(r"[A-Z]\w+(?: \w+)?:\s*|:\w+(?:\s[^:]*)?:.*")
_RULE = re.compile(r"-{3,}\s*")


class Described(NamedTuple):
    """The words about a function, and about each of its arguments."""

    purpose: str
    arguments: dict[str, str]


def described_by(docstring: str | None) -> Described:
    """What a docstring says.

    >>> described_by('''Add two numbers.
    ...
    ...     Args:
    ...         a: The first,
    ...             or the left one.
    ...         b (int): The second.
    ... ''')
    Described(purpose='Add two numbers.', arguments={'a': 'The first, or the left one.', 'b': 'The second.'})
    """
    lines = inspect.cleandoc(docstring or "").splitlines()
    arguments: dict[str, str] = {}
    for name, words in (*_google(lines), *_numpy(lines), *_rest(lines)):
        arguments.setdefault(name, " ".join(words.split()))
    return Described("\n".join(_before_sections(lines)).strip(), arguments)


def _before_sections(lines: list[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        ruled = number + 1 < len(lines) and _RULE.fullmatch(lines[number + 1])
        if ruled or _SECTION.fullmatch(line):
            return
        yield line


def _google(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Indented entries under `Args:`."""
    start = next((n for n, line in enumerate(lines) if _GOOGLE.fullmatch(line)), None)
    if start is None:
        return
    section: list[str] = []
    for line in lines[start + 1 :]:
        if line and not line[0].isspace():
            break
        section.append(line)
    yield from _entries(inspect.cleandoc("\n" + "\n".join(section)).splitlines())


def _entries(lines: list[str]) -> Iterator[tuple[str, str]]:
    """`name: words`, with what is indented below it."""
    name, words = "", ""
    for line in lines:
        found = _GOOGLE_NAMED.fullmatch(line)
        if found:
            if name:
                yield name, words
            name, words = found[1], found[2]
        else:
            words += f" {line}"
    if name:
        yield name, words


def _numpy(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Names under a ruled heading, each with indented words below it."""
    heads = (n for n, line in enumerate(lines[:-1]) if line.strip() == "Parameters")
    start = next((n for n in heads if _RULE.fullmatch(lines[n + 1])), None)
    if start is None:
        return
    names: list[str] = []
    words = ""
    for number, line in enumerate(lines[start + 2 :], start=start + 2):
        if number + 1 < len(lines) and _RULE.fullmatch(lines[number + 1]):
            break
        found = None if line[:1].isspace() else _NUMPY_NAMED.fullmatch(line)
        if found:
            yield from ((name, words) for name in names)
            names, words = re.split(r"\s*,\s*", found[1]), ""
        else:
            words += f" {line}"
    yield from ((name, words) for name in names)


def _rest(lines: list[str]) -> Iterator[tuple[str, str]]:
    """`:param name: words`, with what is indented below it."""
    name, words = "", ""
    for line in (*lines, ":"):
        if name and (line.startswith(":") or not line.strip()):
            yield name, words
            name = ""
        found = _REST.fullmatch(line)
        if found:
            name, words = found[1], found[2]
        elif name:
            words += f" {line}"
