"""Find what a verdict cites, by address or by quotation, again in what was judged.

A judge that quotes what is not there has not read what it judged, so a quotation that cannot be found is
said to be missing.
"""

import re
import unicodedata
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Final, cast

from assay.lazy import read_toml
from assay.messages import MEDIA_KINDS, Part
from assay.report import Citation

_TABLE: Final[dict[str, str]] = read_toml("assay.graders", "citations.toml")
_QUOTED, _OPENED, _CITED = (
    re.compile(_TABLE[name].replace("\n", "")) for name in ("quoted", "opened", "cited")
)
_UNSPACED: Final = _TABLE["unspaced"].replace("\n", "")
# A word; where words are written without spaces, every letter is one.
_WORD: Final = re.compile(rf"(?=[^\W_])[{_UNSPACED}]|[^\W_{_UNSPACED}]++")
_FEWEST: Final = 3  # characters of a quotation; two do where every letter is a word
_CUT_AT_END: Final = 5
# Characters of a quotation that may end, or begin, inside a word: `is a` is not in `this apple`.
_CUT_AT_START: Final = 10
MOST: Final = 20  # quotations, and citations, that are looked for in one reason
_LONGEST: Final = 20_000  # characters of a reason in which citations are looked for


def citations_of(
    reason: str, parts: Sequence[Part], text: str = "", *, quotes: bool = True
) -> list[Citation]:
    """What a reason cites: parts of a conversation by address, as `[m3.call1: "words"]`, and what else it quotes.

    A quotation without an address is looked for in the text, then in each part of the response; `quotes=False` leaves it.

    >>> from assay.messages import read_parts
    >>> citations_of('It looks [m2: "I look"] and pays [m7].', read_parts("Where?", "I look."))
    [{'part': 'm2', 'quote': 'I look', 'start': 0, 'end': 6}, {'part': 'm7', 'found': False}]
    """
    found: list[Citation] = []
    loose, end = "", 0
    for opened in _OPENED.finditer(reason[:_LONGEST]):
        if opened.start() < end:  # in a quotation
            continue
        at, place = "", opened.end()
        loose += reason[end : opened.start()]
        while (item := _CITED.match(reason, place)) and (item["at"] or item["quote"]):
            at, place = item["at"] or at, item.end()
            found.append(_resolved(at, (item["quote"] or "").replace("&lt;", "<"), parts))
        end = place
    response = [part for part in parts if not part.in_prompt]
    quoted = evidence_of(loose + reason[end:], text) if quotes else []
    for part in response:  # one after the other, so that the words of each are told apart once
        tried = [
            _resolved(part.address, each.get("quote", ""), [part]) if "found" in each else each
            for each in quoted
        ]
        quoted = [new if "start" in new else old for old, new in zip(quoted, tried, strict=True)]
    return [*found, *quoted][:MOST]


def _resolved(at: str, quote: str, parts: Sequence[Part]) -> Citation:
    there = [part for part in parts if at in (part.address, part.message)]
    if there and not quote:
        return {"part": at}
    for part in there:
        if part.kind in MEDIA_KINDS:  # whose words cannot be looked for
            return {"part": part.address, "quote": quote}
        start = part.text.find(quote)
        found = (
            {"start": start, "end": start + len(quote)}
            if start >= 0
            else _found(quote, _words_of(part.text))
        )
        if "start" in found:
            return cast("Citation", {"part": part.address, "quote": quote, **found})
    return {"part": at, "quote": quote, "found": False} if quote else {"part": at, "found": False}


def evidence_of(reason: str, text: str) -> list[Citation]:
    """Every quotation of a reason, with where it stands in the text, or that it does not.

    Case, punctuation and white space may differ; words may be left out for an ellipsis. A
    quotation that was cut may end inside a word, and a longer one of several words may begin inside one.

    >>> evidence_of('It says "the capital, Paris".', "The capital: Paris!")
    [{'quote': 'the capital, Paris', 'start': 0, 'end': 18}]
    """
    quoted = (next(filter(None, found.groups())) for found in _QUOTED.finditer(reason))
    quotes = dict.fromkeys(quote.strip() for quote in quoted)
    long_enough = [
        quote
        for quote in quotes
        if len(quote) >= _FEWEST or len(_WORD.findall(quote)) == len(quote)
    ]
    return [_found(quote, _words_of(text)) for quote in long_enough[:MOST]]


def _found(quote: str, words: "_Words") -> Citation:
    start, end = None, 0
    for part in re.split(r"\.\.\.|…", quote):
        wanted = _WORD.findall(part.lower())
        if not wanted:
            continue
        span = words.find(wanted, end)
        if span is None:
            return {"quote": quote, "found": False}
        start, end = (span[0] if start is None else start), span[1]
    return (
        {"quote": quote, "found": False}
        if start is None
        else {"quote": quote, "start": start, "end": end}
    )


class _Words:
    """The words of a text in one line, with a space before and behind each, and where they stand in the text."""

    def __init__(self, text: str) -> None:
        lowered = text.lower()
        if len(lowered) != len(text):
            # A few letters become two in small letters, and stay as they are: each letter keeps its place.
            lowered = "".join(
                small if len(small := letter.lower()) == 1 else letter for letter in text
            )
        found = list(_WORD.finditer(lowered))
        words = [word[0] for word in found]
        self.text = text
        self.line = f" {' '.join(words)} "
        self.starts = array("q", (word.start() for word in found))  # of each word in the text
        self.places = array("q", accumulate((len(word) + 1 for word in words[:-1]), initial=1))
        """Of each word in the line."""

    def find(self, words: list[str], start: int) -> tuple[int, int] | None:
        """Where these words first stand in this order, from a place of the text on, by plain searches in linear time."""
        wanted = " ".join(words)
        forms = [f" {wanted} "]
        if len(wanted) >= _CUT_AT_END:
            forms.append(f" {wanted}")
        if len(words) > 1 and len(wanted) >= _CUT_AT_START:
            forms += [f"{wanted} ", wanted]
        first = bisect_left(self.starts, start)
        begin = self.places[first] - 1 if first < len(self.starts) else len(self.line)
        for form in forms:
            at = self.line.find(form, begin)
            if at >= 0:
                at += form.startswith(" ")
                end = self._in_text(at + len(wanted) - 1) + 1
                # Accents and vowel signs belong to the letter before them.
                while end < len(self.text) and unicodedata.category(self.text[end])[0] == "M":
                    end += 1
                return self._in_text(at), end
        return None

    def _in_text(self, at: int) -> int:
        """The place in the text of a letter of the line."""
        word = bisect_right(self.places, at) - 1
        return self.starts[word] + at - self.places[word]


_words_of = lru_cache(maxsize=2)(
    _Words
)  # kept, since every line of a report asks for the words of the same text
