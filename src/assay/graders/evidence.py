"""Look up the citations in the reason for a verdict, by address or by quotation, in the judged text.

A quotation that is not there is marked as missing: it shows that the judge did not read carefully.
"""

import re
import unicodedata
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Final

from assay.messages import MEDIA_KINDS, Part
from assay.report import Citation

_MAX_CITATIONS: Final = 500  # looked up for one reason; a reply of usual length cannot hold more
_MAX_REASON_LENGTH: Final = 20_000  # characters in which citations by address are looked for
# A shorter quotation is ignored, unless each of its characters is a word.
_MIN_QUOTE_LENGTH: Final = 3
# A quotation of so many characters may end inside a word, because the judge cut it off.
_MIN_CUT_AT_END: Final = 5
# A quotation of several words with so many characters may also start inside a word. With fewer,
# `is a` would be found in `this apple`.
_MIN_CUT_AT_START: Final = 10

# Text in quotation marks of various languages.
_QUOTATION: Final = re.compile(
    r'"([^"\n]{2,300})"'
    r"|“([^”\n]{2,300})”"
    r"|„([^“”\n]{2,300})[“”]"
    r"|«([^»\n]{2,300})»"
    r"|`([^`\n]{2,300})`"
    r"|「([^」\n]{2,300})」"
    r"|『([^』\n]{2,300})』"
)
# A bracket before an address, as in `[m3.call1: "text"]`.
_OPENING_BRACKET: Final = re.compile(r"[\[［【]\s*(?=m\d)")  # noqa: RUF001
# An address, a quotation, or both. The quotation ends before a closing bracket or another citation,
# and not at the first quotation mark, since quoted JSON has such marks in it.
_CITATION: Final = re.compile(
    r"(?P<address>m\d{1,9}(?:\.[a-z]{1,9}\d{1,9})?\b)?\s*[:：]?\s*"  # noqa: RUF001
    r"(?:"
    r"""["“”„«»「『`'‘](?P<quote>[^\n]{1,500}?)["“”»«」』`'’]"""  # noqa: RUF001
    r"""(?=\s*(?:[\]］】]|[,;，；、]\s*(?:m\d|["“„«「『`'‘])))"""  # noqa: RUF001
    r")?"
    r"\s*[,;，；、]?\s*"  # noqa: RUF001
)
# Characters of scripts that are written without spaces: Thai, Lao, Burmese, Khmer, kana and Chinese;
# and Korean, which adds particles to words without a space. Each of them counts as a word.
_UNSPACED: Final = (
    r"\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"
    r"\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_WORD: Final = re.compile(rf"(?=[^\W_])[{_UNSPACED}]|[^\W_{_UNSPACED}]++")
_ELLIPSIS: Final = re.compile(r"\.\.\.|…")


def citations_of(
    reason: str, parts: Sequence[Part], text: str = "", *, quotes: bool = True
) -> list[Citation]:
    """Return what a reason cites: parts of a conversation by address, and quotations.

    A part is cited as in `[m3.call1: "words"]`. A quotation without an address is looked for in the
    text, then in each part of the response; with `quotes=False` it is ignored. A citation that is
    not there has `found: False`.

    >>> from assay.messages import read_parts
    >>> citations_of('It looks [m2: "I look"] and pays [m7].', read_parts("Where?", "I look."))
    [{'part': 'm2', 'quote': 'I look', 'start': 0, 'end': 6}, {'part': 'm7', 'found': False}]
    """
    citations, rest_of_reason = _cut_bracketed_citations(reason, parts)
    if quotes:
        response = [part for part in parts if not part.in_prompt]
        citations += _look_up_quotations(rest_of_reason, text, response)
    return citations[:_MAX_CITATIONS]


def _cut_bracketed_citations(reason: str, parts: Sequence[Part]) -> tuple[list[Citation], str]:
    """Return the citations in brackets, such as `[m2: "words", m3]`, and the reason without them.

    A bracket may hold several citations. A quotation without an address is then from the same part
    as the citation before it.
    """
    citations: list[Citation] = []
    rest_of_reason = ""
    end = 0  # of the last citation
    for bracket in _OPENING_BRACKET.finditer(reason[:_MAX_REASON_LENGTH]):
        if bracket.start() < end:
            continue  # this bracket is inside the quotation of the last citation
        rest_of_reason += reason[end : bracket.start()]
        end = bracket.end()
        address = ""
        while True:
            citation = _CITATION.match(reason, end)
            if citation is None or not (citation["address"] or citation["quote"]):
                break
            address = citation["address"] or address
            quote = (citation["quote"] or "").replace("&lt;", "<")  # as prompts escape tags
            citations.append(_look_up(address, quote, parts))
            end = citation.end()
    rest_of_reason += reason[end:]
    return citations, rest_of_reason


def has_substance(quote: str) -> bool:
    """Return whether a quotation is more than a space or a punctuation mark or two."""
    quote = quote.strip()
    is_long = len(quote) >= _MIN_QUOTE_LENGTH
    return is_long or any(letter.isalnum() or not letter.isascii() for letter in quote)


def is_found(citation: Citation) -> bool:
    """Whether what is cited is there. Only citations of what is not there have the key `found`."""
    return "found" not in citation


def _look_up(address: str, quote: str, parts: Sequence[Part]) -> Citation:
    """Return a citation of the part or the whole message with this address.

    With a quotation, the citation has its span in the text of the part. If there is no such part
    among `parts`, or the quotation is not in it, the citation has `found: False`.
    """
    cited_parts = [part for part in parts if address in (part.address, part.message)]
    if not quote:
        if cited_parts:
            return {"part": address}
        return {"part": address, "found": False}
    for part in cited_parts:
        if part.kind in MEDIA_KINDS:  # it has no text in which the quotation could be looked for
            return {"part": part.address, "quote": quote}
        span = _find_exact_quote(quote, part.text) or _find_quote(quote, part.text)
        if span is not None:
            start, end = span
            return {"part": part.address, "quote": quote, "start": start, "end": end}
    return {"part": address, "quote": quote, "found": False}


def _find_exact_quote(quote: str, text: str) -> tuple[int, int] | None:
    """Return start and end of a quotation that is in a text character by character; else None.

    A very short word is not looked for: it would be found inside nearly every other word.
    """
    is_short_word = len(quote) < _MIN_QUOTE_LENGTH and _WORD.search(quote) is not None
    if is_short_word:
        return None
    start = text.find(quote)
    if start < 0:
        return None
    return start, start + len(quote)


def _look_up_quotations(reason: str, text: str, response: Sequence[Part]) -> list[Citation]:
    """Return the quotations of a reason, looked up in a text, then in the parts of the response."""
    citations = evidence_of(reason, text)
    # Part by part, and not quotation by quotation, so that each part is indexed only once.
    for part in response:
        for index, citation in enumerate(citations):
            if is_found(citation):
                continue
            citation_in_part = _look_up(part.address, citation.get("quote", ""), [part])
            # A medium has no text, so its citation has no start: the quotation is not from it.
            if "start" in citation_in_part:
                citations[index] = citation_in_part
    return citations


def evidence_of(reason: str, text: str) -> list[Citation]:
    """Return every quotation of a reason, with its span in the text, or with `found: False`.

    Case, punctuation and white space may differ, and an ellipsis may stand for words left out. A
    quotation may end inside a word, and a longer one of several words may also start inside one.

    >>> evidence_of('It says "the capital, Paris".', "The capital: Paris!")
    [{'quote': 'the capital, Paris', 'start': 0, 'end': 18}]
    """
    citations: list[Citation] = []
    for quote in _list_quotes(reason):
        span = _find_quote(quote, text)
        if span is None:
            citations.append({"quote": quote, "found": False})
        else:
            start, end = span
            citations.append({"quote": quote, "start": start, "end": end})
    return citations


def _list_quotes(reason: str) -> list[str]:
    """Return the texts in quotation marks of a reason: each once, in order.

    Very short texts are left out, since they would be found in nearly every response.
    """
    quotes: list[str] = []
    for quotation in _QUOTATION.finditer(reason):
        # The pattern has one group for each kind of quotation marks, and only one of them matched.
        [matched_group] = [group for group in quotation.groups() if group is not None]
        quote = matched_group.strip()
        # Two characters of a script without spaces, such as Chinese, are two words, and enough.
        is_all_words = len(_WORD.findall(quote)) == len(quote)
        is_long_enough = len(quote) >= _MIN_QUOTE_LENGTH or is_all_words
        if is_long_enough and quote not in quotes:
            quotes.append(quote)
            if len(quotes) == _MAX_CITATIONS:
                break
    return quotes


def _find_quote(quote: str, text: str) -> tuple[int, int] | None:
    """Return start and end of a quotation in a text, by its words; None if it is not there.

    Case and punctuation are ignored. If the quotation has ellipses, the passages between them have
    to occur in this order.
    """
    index = _index_words(text)
    first_start: int | None = None
    end = 0  # of the passage before
    for passage in _ELLIPSIS.split(quote):
        words = _WORD.findall(passage.lower())
        if not words:
            continue
        span = index.find(words, end)
        if span is None:
            return None
        start, end = span
        if first_start is None:
            first_start = start
    if first_start is None:
        return None
    return first_start, end


class _WordIndex:
    """Finds words in a text, whatever their case and the punctuation between them.

    `line` holds all words of the text in lower case, with one space between them and at both ends.
    Words are looked for in it, and positions in the line are converted to positions in the text.
    """

    def __init__(self, text: str) -> None:
        """Build the line of all words, and note where each word starts in text and line."""
        matches = list(_WORD.finditer(_lower_keeping_length(text)))
        words = [match[0] for match in matches]
        self.text = text
        self.line = f" {' '.join(words)} "
        # Arrays take less memory than lists.
        self.text_starts = array("q", (match.start() for match in matches))
        # The first word is after the first space; each next one after the word before and a space.
        lengths_with_space = (len(word) + 1 for word in words[:-1])
        self.line_starts = array("q", accumulate(lengths_with_space, initial=1))

    def find(self, words: list[str], start: int) -> tuple[int, int] | None:
        """Return the span in the text of the first occurrence of these words, from `start` on.

        They are looked for as whole words first. If they are not there, the last word may be only
        the beginning of a word in the text, and the first word only the end of one.
        """
        wanted = " ".join(words)
        patterns = [f" {wanted} "]  # a space stands for the end of a word
        if len(wanted) >= _MIN_CUT_AT_END:
            patterns.append(f" {wanted}")
        if len(words) > 1 and len(wanted) >= _MIN_CUT_AT_START:
            patterns.append(f"{wanted} ")
            patterns.append(wanted)

        first_word = bisect_left(self.text_starts, start)  # the first that starts there or later
        if first_word == len(self.text_starts):
            return None
        line_start = self.line_starts[first_word] - 1  # with the space before the word
        for pattern in patterns:
            position = self.line.find(pattern, line_start)
            if position < 0:
                continue
            if pattern.startswith(" "):
                position += 1  # from the space to the word
            span_start = self._text_position(position)
            span_end = self._text_position(position + len(wanted) - 1) + 1
            return span_start, self._skip_marks(span_end)
        return None

    def _text_position(self, line_position: int) -> int:
        """Return the position in the text of a letter of the line."""
        word_index = bisect_right(self.line_starts, line_position) - 1
        position_in_word = line_position - self.line_starts[word_index]
        return self.text_starts[word_index] + position_in_word

    def _skip_marks(self, position: int) -> int:
        """Return the position after accents and vowel signs, which belong to the letter before."""
        while position < len(self.text) and unicodedata.category(self.text[position])[0] == "M":
            position += 1
        return position


# Cached, since all criteria of a report look up quotations in the same text.
_index_words = lru_cache(maxsize=2)(_WordIndex)


def _lower_keeping_length(text: str) -> str:
    """Return the text in lower case, except for letters whose lower case has two characters."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    letters: list[str] = []
    for letter in text:
        small_letter = letter.lower()
        letters.append(small_letter if len(small_letter) == 1 else letter)
    return "".join(letters)
