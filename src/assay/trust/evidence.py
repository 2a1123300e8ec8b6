"""Find the words that a verdict quotes again in the answer that was judged.

A judge that quotes what is not there has not read what it judged, so a quotation that cannot be found is
said to be missing.
"""

import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

_QUOTED: Final = re.compile(
    r'"([^"\n]{2,300})"|“([^”\n]{2,300})”|„([^“”\n]{2,300})[“”]|«([^»\n]{2,300})»|`([^`\n]{2,300})`'
    r"|「([^」\n]{2,300})」|『([^』\n]{2,300})』"
)
# Thai, Lao, Burmese and Khmer; kana, Chinese characters; and Korean, which adds its particles without a space.
_UNSPACED: Final = (
    r"\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf"
    r"\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_LETTER: Final = rf"[^\W_{_UNSPACED}]"  # of a script that puts spaces between words
_ALONE: Final = re.compile(rf"(?=[^\W_])[{_UNSPACED}]")  # a letter that is a word, as words have no spaces between them
_WORD: Final = re.compile(rf"{_ALONE.pattern}|{_LETTER}++")
_FEWEST: Final = 3  # characters of a quotation; two do where every letter is a word
_CUT_AT_END: Final = 5
_CUT_AT_START: Final = 10
"""Characters of a quotation that may end, or begin, inside a word: `is a` is not in `this apple`."""
MOST: Final = 20  # quotations that are looked for in one reason


def evidence_of(reason: str, text: str) -> list[dict[str, Any]]:
    """Every quotation of a reason, with where it stands in the text, or that it does not.

    Case, punctuation and white space may differ; words may be left out for an ellipsis. A
    quotation that was cut may end inside a word, and a longer one of several words may begin inside one.

    >>> evidence_of('It says "the capital, Paris".', "The capital: Paris!")
    [{'quote': 'the capital, Paris', 'start': 0, 'end': 18}]
    """
    quoted = (next(filter(None, found.groups())) for found in _QUOTED.finditer(reason))
    quotes = dict.fromkeys(quote.strip() for quote in quoted)
    long_enough = [quote for quote in quotes if len(quote) >= _FEWEST or len(_WORD.findall(quote)) == len(quote)]
    small = text.lower()
    if len(small) != len(text):
        # A few letters become two in small letters, and stay as they are: each letter keeps its place.
        small = "".join(low if len(low := letter.lower()) == 1 else letter for letter in text)
    return [_found(quote, small) for quote in long_enough[:MOST]]


def _found(quote: str, text: str) -> dict[str, Any]:
    start, end = None, 0
    for part in re.split(r"\.\.\.|…", quote):
        words = _WORD.findall(part.lower())
        if not words:
            continue
        matches = (form.search(text, end) for form in _forms(words))
        match = next(filter(None, matches), None)
        if match is None:
            return {"quote": quote, "found": False}
        start, end = (match.start() if start is None else start), match.end()
        # Accents and vowel signs belong to the letter before them.
        while end < len(text) and unicodedata.category(text[end])[0] == "M":
            end += 1
    return {"quote": quote, "found": False} if start is None else {"quote": quote, "start": start, "end": end}


def _forms(words: list[str]) -> Iterator[re.Pattern[str]]:
    """What these words look like in a text: whole first, then cut off at the end, at the start, and at both."""
    alone = [_ALONE.fullmatch(word) is not None for word in words]
    # Nothing need stand between words that are written without spaces. What may stand there is no part of a word,
    # so that no text makes a search go back.
    gaps = [r"[\W_]*" if one or other else r"[\W_]+" for one, other in pairwise(alone)]
    middle = "".join(f"{re.escape(word)}{gap}" for word, gap in zip(words, [*gaps, ""], strict=True))
    opening, ending = ("" if alone[0] else rf"(?<!{_LETTER})"), ("" if alone[-1] else rf"(?!{_LETTER})")
    size = len(" ".join(words))
    yield re.compile(f"{opening}{middle}{ending}")
    if size >= _CUT_AT_END:
        yield re.compile(f"{opening}{middle}")
    if len(words) > 1 and size >= _CUT_AT_START:
        yield re.compile(f"{middle}{ending}")
        yield re.compile(middle)
