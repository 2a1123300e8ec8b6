"""Evidence: the words of an answer that a verdict quotes, found again in the answer.

A judge that quotes what nobody wrote has not read what it judged, so a quotation that cannot be found is
said to be missing.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

_QUOTED: Final = re.compile(r'"([^"\n]{3,300})"|“([^”\n]{3,300})”|«([^»\n]{3,300})»|`([^`\n]{3,300})`')
_LETTERS: Final = re.compile(r"[^\W_]+")
MOST: Final = 20
"""Quotations that are looked for in one reason."""


def evidence_of(reason: str, text: str) -> list[dict[str, Any]]:
    """Every quotation of a reason, with where it stands in the text, or that it does not.

    Case, punctuation and white space may differ; words may be left out for an ellipsis.

    >>> evidence_of('It says "the capital, Paris".', "The capital: Paris!")
    [{'quote': 'the capital, Paris', 'start': 0, 'end': 18}]
    """
    words = [(found[0].casefold(), found.start(), found.end()) for found in _LETTERS.finditer(text)]
    return [_found(quote, words) for quote in list(quotations(reason))[:MOST]]


def quotations(reason: str) -> Iterator[str]:
    """What stands between quotation marks, each once."""
    quoted = (next(filter(None, found.groups())) for found in _QUOTED.finditer(reason))
    yield from dict.fromkeys(quote.strip() for quote in quoted)


def _found(quote: str, words: list[tuple[str, int, int]]) -> dict[str, Any]:
    parts = [_LETTERS.findall(part.casefold()) for part in re.split(r"\.\.\.|…", quote)]
    parts = [part for part in parts if part]
    span: tuple[int, int] | None = None
    place = 0
    for part in parts:
        at = _place_of(part, words, place)
        if at is None:
            return {"quote": quote, "found": False}
        place = at + len(part)
        span = (words[at][1] if span is None else span[0], words[place - 1][2])
    if span is None:
        return {"quote": quote, "found": False}
    return {"quote": quote, "start": span[0], "end": span[1]}


def _place_of(part: list[str], words: list[tuple[str, int, int]], start: int) -> int | None:
    for place in range(start, len(words) - len(part) + 1):
        if words[place][0] == part[0] and all(
            words[place + step][0] == word for step, word in enumerate(part)
        ):
            return place
    return None
