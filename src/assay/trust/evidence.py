"""Evidence: the words of an answer that a verdict quotes, found again in the answer.

A judge that quotes what nobody wrote has not read what it judged, so a quotation that cannot be found is
said to be missing.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

_QUOTED: Final = re.compile(
    r'"([^"\n]{3,300})"|“([^”\n]{3,300})”|«([^»\n]{3,300})»|`([^`\n]{3,300})`'
)
_LETTERS: Final = re.compile(r"[^\W_]+")
MOST: Final = 20
"""Quotations that are looked for in one reason."""


def evidence_of(reason: str, text: str) -> list[dict[str, Any]]:
    """Every quotation of a reason, with where it stands in the text, or that it does not.

    Case, punctuation and white space may differ; words may be left out for an ellipsis.

    >>> evidence_of('It says "the capital, Paris".', "The capital: Paris!")
    [{'quote': 'the capital, Paris', 'start': 0, 'end': 18}]
    """
    quotes = list(quotations(reason))[:MOST]
    plain = _lowered(text) if quotes else ""
    return [_found(quote, plain) for quote in quotes]


def quotations(reason: str) -> Iterator[str]:
    """What stands between quotation marks, each once."""
    quoted = (next(filter(None, found.groups())) for found in _QUOTED.finditer(reason))
    yield from dict.fromkeys(quote.strip() for quote in quoted)


def _found(quote: str, text: str) -> dict[str, Any]:
    parts = [_LETTERS.findall(part.lower()) for part in re.split(r"\.\.\.|…", quote)]
    start, end = None, 0
    for part in filter(None, parts):
        span = _span_of(part, text, end)
        if span is None:
            return {"quote": quote, "found": False}
        start, end = (span[0] if start is None else start), span[1]
    if start is None:
        return {"quote": quote, "found": False}
    return {"quote": quote, "start": start, "end": end}


def _span_of(words: list[str], text: str, start: int) -> tuple[int, int] | None:
    """Where these words first stand, whole and in this order, from `start` on."""
    # A pattern of plain letters goes through five million of them in a hundredth of a second.
    pattern = re.compile(r"[\W_]+".join(map(re.escape, words)))
    found = pattern.search(text, start)
    while found is not None:
        before, after = text[found.start() - 1 : found.start()], text[found.end() : found.end() + 1]
        if not before.isalnum() and not after.isalnum():
            return found.span()
        found = pattern.search(text, found.start() + 1)
    return None


def _lowered(text: str) -> str:
    """The text in small letters, each where it was: a few letters become two, and stay as they are."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(small if len(small := letter.lower()) == 1 else letter for letter in text)
