"""Lists: two things to be mentioned, of which a response may mention one."""

import re
from typing import Final

from assay.trust.lint_lexicon import PAIRED, both_forms, pattern, words
from assay.trust.lint_text import BLANK

_MENTIONS: Final = both_forms(
    words(
        "mention name list include explain describe report identify provide give state discuss cover address "
        "contain preserve cite define specify outline summarize summarise show quote offer present"
    )
)
_NOUNS = r"<determiner> (?:[\w'’-]+ ){0,3}[\w'’-]+"
_LIST = pattern(
    r"(?:^|\b(?:it|that|to|should|must|and|response|answer|reply|text|message) )(?:\w+ly )?<mentions> "
    rf"(?P<things>{_NOUNS}(?:, {_NOUNS})*,? (?:and|as well as) {_NOUNS})",
    mentions=_MENTIONS,
    determiner=words(
        "the a an its their his her each every at_least_one at_least_two at_least_three"
    ),
)
_BOTH = pattern(
    r"\b<mentions> both (?:the )?(?P<one>[\w'’-]+(?: [\w'’-]+){0,3}) and (?:the )?(?P<two>[\w'’-]+)",
    mentions=_MENTIONS,
)
_TOGETHER = pattern(
    r"\b(?:<relation>|compar\w+|relat\w+|combin\w+|distinguish\w*|match\w*|merg\w*|join\w*|swap\w*)\b",
    relation=words(
        "between versus vs difference trade-off trade-offs tradeoff distinction contrast ratio sum product link "
        "intersection overlap balance connection interaction"
    ),
)
"""What makes two things one: a relation between them."""
_NAMES = re.compile(rf"[{BLANK}\d=+]|\band\s+[A-Z]")


def two_objects(own: str) -> list[str]:
    """The things that a criterion wants mentioned, when they are several and not one set; else none.

    >>> two_objects("Names the dose and the route")
    ['the dose', 'the route']
    >>> two_objects("Explains the difference between the mean and the median")
    []
    """
    found = _LIST.search(own)
    if found is not None and not _is_one(found[0], found["things"]):
        things = re.split(r",\s+(?:and\s+)?|\s+and\s+|\s+as\s+well\s+as\s+", found["things"])
        ends = frozenset((things[0].split()[-1].lower(), things[-1].split()[-1].lower()))
        if ends not in PAIRED:
            return things
    both = _BOTH.search(own)
    if both is not None and not _is_one(own[: both.end()], both[0]):
        return [both["one"], both["two"]]
    return []


def _is_one(said: str, things: str) -> bool:
    """Whether a relation holds the things together, or they are the names and numbers of one answer."""
    return _TOGETHER.search(said) is not None or _NAMES.search(things) is not None
