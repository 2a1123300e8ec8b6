"""Vague words: praise and blame with nothing to measure it by."""

import re
from collections.abc import Iterator
from typing import Final

from assay.criterion import Criterion
from assay.trust.lint_finding import Hit
from assay.trust.lint_levels import explains_levels
from assay.trust.lint_lexicon import (
    EVALUATIVE,
    EVALUATIVE_ADVERBS,
    FACTUAL,
    OFTEN_EVALUATIVE,
    SETTLED,
    pattern,
    words,
)
from assay.trust.lint_text import Text

SHORT: Final = 16
"""Words up to which a criterion is about the response, and hardly about a subject of its own."""

_VAGUE = pattern(
    r"(?<![\w-])<vague>(?![\w-])", vague=EVALUATIVE | EVALUATIVE_ADVERBS | OFTEN_EVALUATIVE
)
_VAGUE_NOUN = pattern(
    r"^\W*(?:the )?(?:overall )?(quality|readability|completeness)\s*(?:of\b|:|$)"
)
_OF_RESPONSE = pattern(
    r"(?:^\W*|\b<has> (?:(?:an?|the|\w+ly|very|not|and|,|<quality>)[\s,]+)*)$",
    has=words(
        "is are be being remain remains stay stays seem seems feel feels sound sounds read reads give gives "
        "giving provide provides providing has have use uses using include includes including offer offers "
        "present presents presented write writes draw draws keep keeps make makes demonstrate demonstrates "
        "show shows run runs supported_by in"
    ),
    quality=EVALUATIVE | OFTEN_EVALUATIVE | FACTUAL,
)
"""What stands before praise of the response, rather than before a word of the subject."""
_NO_PRAISE = pattern(
    r"\b<before> $",  # as well, how clear, more efficient than, to clear the cache
    before=words("as how more less not to may might could equally most best least"),
)
_PLAINLY = pattern(
    r" (?:stat|say|nam|mention|indicat|label|mark|identif|distinguish|separat|specif|attribut|cit|refus"
    r"|declin|disclos|denot|differentiat)\w*"
)
"""What is done or not done, however `clearly`."""
_BY_MEANS = pattern(r"\b(?:by|using|without|through|with (?:a|an|the|at|no)) \S+")
_NOT_WELL = pattern(r"\s*[-,]| (?:as|known|over|under|before|after|within)\b")
_FOR_SOMEBODY: Final = words("appropriate suitable accessible understandable clear acceptable") | {
    "easy to understand"
}
"""What can be measured once it is said for whom."""
_SOMEBODY = pattern(
    r"(?: \w+){0,2} (?:for|to) (?:an?|the|\w+) (?!<nobody>\b)\w+",
    nobody=words(
        "topic task context situation user question prompt purpose audience subject case request query"
    ),
)


def vague(criterion: Criterion, text: Text) -> Iterator[Hit]:
    """Praise or blame that two readers would settle differently."""
    if text.explains_itself or text.is_bounded or explains_levels(criterion, text):
        return
    found = list(dict.fromkeys(_vague_words(text.own)))
    if found:
        listed = ", ".join(f"'{word}'" for word in found[:4])
        yield Hit(
            "R002",
            f"{listed} mean{'' if len(found) > 1 else 's'} something else to every reader",
            "say what must be there, or give a number, so that two readers agree",
        )


def _vague_words(own: str) -> Iterator[str]:
    noun = _VAGUE_NOUN.match(own)
    if noun is not None:
        yield noun[1].lower()
    short = len(own.split()) <= SHORT
    for found in _VAGUE.finditer(own):
        word = " ".join(found[0].lower().split())
        before, after = own[: found.start()], own[found.end() :]
        if word in OFTEN_EVALUATIVE and not (short and _OF_RESPONSE.search(before)):
            continue
        if not (_is_in_a_name(found[0], before) or _is_definite(word, before, after)):
            yield word


def _is_in_a_name(word: str, before: str) -> bool:
    """Whether it is written with a capital, though it opens no sentence."""
    return word[0].isupper() and re.search(r"\w[^.!?]*$", before) is not None


def _is_definite(word: str, before: str, after: str) -> bool:
    """Whether what stands around it gives it a meaning that readers share."""
    if _NO_PRAISE.search(before) or _is_settled(word, after):
        return True
    if word == "well":
        return _NOT_WELL.match(after) is not None
    if word in EVALUATIVE_ADVERBS:
        return _PLAINLY.match(after) is not None or _BY_MEANS.search(after) is not None
    return word in _FOR_SOMEBODY and _SOMEBODY.match(after) is not None


def _is_settled(word: str, after: str) -> bool:
    """Whether it is part of a term such as `clear liquid`, or a verb as in `clear the cache`."""
    following = re.match(r"\s+([\w-]+)(?:\s+([\w-]+))?", after)
    if following is None:
        return False
    nearby = [part.lower() for part in following.groups() if part]
    if word in ("clear", "sound", "clean") and nearby[0] in ("the", "a", "an", "its", "all", "out"):
        return True
    terms = SETTLED.get(word, frozenset())
    return any(part in terms or part.removesuffix("s") in terms for part in nearby)
