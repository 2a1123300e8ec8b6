r"""Find the answer in a longer text.

Every search is linear in the text. The order is math-verify's: a box before words, words before
formulas, formulas before bare numbers, and of several the last. A bare number must end the text,
or be followed by one word, or by what it counts, at most. A text that names several numbers, and says of none that it is
the answer, has no answer.
"""

import re
from collections import deque
from typing import Final

from assay.math.boxes import find_boxed_answers, find_boxes
from assay.math.units import is_unit_or_label
from assay.math.words import (
    CHANGES,
    DENIALS,
    LEADS,
    LINKS,
    MEASURES,
    RETRACTIONS,
    VERBS,
    list_words,
    makes_another,
)

_SEARCHED_LENGTH: Final = 20_000  # only so much of the end of a text is searched for an answer
_KEYWORD: Final = re.compile(
    r"(?i)\bfinal answer\b[^.\n]{0,100}?\bis\b\s*:?|\banswer\b(?:\s+is\b)?\s*[:=]?"
)
_KEYWORD_REACH: Final = 400  # how many characters behind a keyword are searched
_FORMULA: Final = re.compile(
    # Possessive, and never past a second opening: a million of `\(` is read once, not once for each.
    r"\$\$([^$]{1,600})\$\$|\$([^$\n]{1,400})\$"
    r"|\\\(((?:[^\\]++|\\(?![()]))*+)\\\)|\\\[((?:[^\\]++|\\(?![\[\]]))*+)\\\]"
)
_NUMBER: Final = re.compile(
    r"(?<![\w.])[-+]?[$€£]?\d[\d,]*(?:\.\d+)?(?:\s*/\s*\d+|:\d+)?(?:\s*\\?%)?"
)
_MAX_LABEL_WORDS: Final = 8  # behind a number, to say what it counts
_ENGLISH_WORD: Final = re.compile("[a-zA-Z]+")
_CLAUSE: Final = re.compile(r"[.!?,;](?=\s|$)|\n")
# A retraction opens a sentence or follows a comma: in "what is actually 7" nothing is taken back.
_RETRACTION: Final = re.compile(
    rf"(?i)(?:(?<=[.!?;,\n])|(?<=[.!?;,]\s)|\A)"
    rf"(?:{'|'.join(RETRACTIONS).replace(' ', r',?[ ]')})\b[.,:;!]?"
)
# "comes to 7" states 7, and "from 1 to 7" does not.
_COMES_TO: Final = re.compile(
    r"(?i)\b(?:equals?|amounts?|comes?|evaluates?|simplif(?:y|ies)|reduces?|leads?|adds? up|rounds?"
    r"|sums?|works? out|corresponds?)\s+to\b"
)
# What may stand right before a number that is an answer; the group is its last word.
_BEFORE_ANSWER: Final = re.compile(
    r"(?:^|([a-zA-Z']+)|:|[\d)]\s*=|(?:^|[\s,(])[a-zA-Z]+\s*=|[.!?,;](?=\s)|\n)[\s*_\"]*$"
)
_AFTER_ANSWER: Final = re.compile(r"\s*$|[.,;:!?)\]*\"]*(?:\s+[a-zA-Z(*]|\s*$)|\s*[\\]?\$")
_DIGIT: Final = re.compile(r"\d")


def find_final_answer(text: str) -> str | None:
    """Return the part of a longer text that is its answer; None if nothing looks like one."""
    text = text[-_SEARCHED_LENGTH:]
    if find_boxes(text):
        return find_boxed_answers(text)
    text = _remove_retracted(text)
    candidate = _find_after_keyword(text) or _find_last(text)  # a formula or a number
    if candidate is None or not _is_stated(candidate):
        return None
    if candidate.re is _FORMULA:
        return _get_formula_text(candidate)
    return candidate[0] if _stands_alone(candidate) else None


def _remove_retracted(text: str) -> str:
    """Return what follows the last "no wait" or "actually", or the text if it has none of those.

    Nothing is left of a text that takes its answer back without giving another.
    """
    retraction = _find_last_match(_RETRACTION, text)
    if retraction is None:
        return text
    rest = text[retraction.end() :]
    gives_new_answer = _DIGIT.search(rest) or _FORMULA.search(rest)
    if gives_new_answer:
        return rest
    is_denied = not DENIALS.isdisjoint(list_words(text[retraction.start() :]))
    return "" if is_denied else text


def _find_after_keyword(text: str) -> re.Match[str] | None:
    """Return the first formula or number behind the last "answer" in a text."""
    keyword = _find_last_match(_KEYWORD, text)
    if keyword is None:
        return None
    start = keyword.end()
    formula = _FORMULA.search(text, start, start + _KEYWORD_REACH)
    number = _NUMBER.search(text, start, start + _KEYWORD_REACH)
    if formula is not None and number is not None and number.start() < formula.start():
        return number
    return formula or number


def _find_last(text: str) -> re.Match[str] | None:
    """Return the last formula in a text, or else its last number, if the text ends with it.

    A formula that is more than a number is the answer whatever else the text names. A number is the
    answer only if the text names no other number. Behind it may stand a word or a label, which says
    what it counts.
    """
    formula = _find_last_match(_FORMULA, text)
    if formula is not None and _NUMBER.fullmatch(_get_formula_text(formula)) is None:
        return formula
    number = None
    numbers: set[str] = set()
    for number in _NUMBER.finditer(text):
        numbers.add(number[0].strip().rstrip(","))
    if len(numbers) > 1:
        return None
    if formula is not None:
        return formula
    if number is None:
        return None
    words_after = _ENGLISH_WORD.findall(text, number.end())
    if len(words_after) > _MAX_LABEL_WORDS:
        return None
    if len(words_after) > 1 and not is_unit_or_label(" ".join(words_after)):
        return None
    return number


def _find_last_match(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """Return the last match of a pattern in a text; None if there is none."""
    matches = deque(pattern.finditer(text), maxlen=1)  # keeps only the last
    return matches[0] if matches else None


def _get_formula_text(formula: re.Match[str]) -> str:
    """Return a formula without the signs around it: what a group of the pattern has matched."""
    return next((content for content in formula.groups() if content), "").strip()


def _is_stated(match: re.Match[str]) -> bool:
    """Return True if a sentence says that its formula or number is the answer.

    A sentence may also deny it ("it is not 7"), ask about it, or make another number of it ("the
    square root of 7").
    """
    text_before = match.string[max(0, match.start() - 200) : match.start()]
    text_after = match.string[match.end() : match.end() + 200]
    if text_after.startswith("?"):
        return False
    clause_before = _CLAUSE.split(text_before)[-1]
    words_before = list_words(_COMES_TO.sub("exactly", clause_before))
    words_after = list_words(_CLAUSE.split(text_after)[0])
    if not DENIALS.isdisjoint(words_before) or not DENIALS.isdisjoint(words_after):
        return False
    if words_after and makes_another(words_after[0]):
        return False
    # Go back over the words that lead to an answer, to the word that decides: "the square root is
    # 7" states 7, "the square root of 7" and "less than or equal to 7" do not.
    while words_before and words_before[-1] in LEADS:
        lead = words_before.pop()
        if lead in VERBS:
            return True
        if lead == "of" and words_before and words_before[-1] not in LEADS | MEASURES:
            return False  # "the negation of 7" is another number, as "the image of 7" may be
    return not words_before or not makes_another(words_before[-1])


def _stands_alone(number: re.Match[str]) -> bool:
    """Return True if a number is a whole answer, by the text on both sides of it.

    It has to follow a word such as "is", a sign such as "=" or a break, and must not be part of a
    formula or be changed by the words behind it.
    """
    text_before = _COMES_TO.sub("exactly", number.string[: number.start()][-60:])
    text_after = number.string[number.end() :][:60]
    lead = _BEFORE_ANSWER.search(text_before)
    if lead is None or _AFTER_ANSWER.match(text_after) is None:
        return False
    last_word = lead[1]
    if last_word and last_word.casefold() not in LEADS:
        return False
    words_after = list_words(_CLAUSE.split(text_after)[0])
    if not words_after or is_unit_or_label(" ".join(words_after)):
        return True
    return words_after[0] in LINKS and CHANGES.isdisjoint(words_after)
