"""Counting without a number: several, many, enough."""

from collections.abc import Iterator

from assay.criterion import Criterion
from assay.trust.lint_finding import Hit
from assay.trust.lint_levels import explains_levels
from assay.trust.lint_lexicon import both_forms, pattern, words
from assay.trust.lint_text import NUMBERS, Text

_GIVES = both_forms(
    words(
        "give provide have use include offer present mention list cite name add contain show suggest consider "
        "cover discuss describe explain make recommend propose identify quote ask compare write explore address "
        "state"
    )
)
_ANYWHERE = pattern(
    r"(?<!the\s)(?<!these\s)(?<!those\s)(?<![\w-])"
    r"(?P<amount>several|numerous|plenty of|lots of|a lot of|a few"
    r"|(?<!how\s)(?<!as\s)(?<!so\s)many(?! (?:people|times|a)\b)"
    r"|a (?:large |good |fair |sufficient )?(?:number|handful|multitude) of"
    r"|(?:sufficient|adequate) (?:numbers? of|examples|sources|references|citations|studies|cases)"
    r"|enough(?= (?!to\b|that\b|for\b|so\b)[\w-]+))"
)
_THINGS = r"(?:[\w-]+ ){0,2}[\w-]*(?:s|context|detail|evidence|data|background|information|humou?r|feedback)\b"
_GIVEN = pattern(
    r"(?:^\W*|\b<gives> (?:at least )?)"
    r"(?P<amount>various|a (?:wide |broad )?(?:variety|range|series|wealth) of"
    r"|some(?= (?!<some>\b)(?:of (?:the|its|these|those) )?" + _THINGS + "))",
    gives=_GIVES,
    some=words(
        "people number form kind sort way point extent degree time other cases reason users patients day experts "
        "readers countries"
    ),
)
"""Words that count only where the response is to give what they count."""
_PURPOSE = pattern(r"[^.;]*?\s(?:to|so that|that|for) \w+")
_SAID = pattern(r"[^.;]{0,40}\((?:[^()]*\b)?(?:\d|<number>\b)[^()]*\)|[^.;]*: \S+", number=NUMBERS)


def uncounted(criterion: Criterion, text: Text) -> Iterator[Hit]:
    """A count that no number bounds."""
    if text.is_bounded or explains_levels(criterion, text):
        return
    for found in (*_ANYWHERE.finditer(text.own), *_GIVEN.finditer(text.own)):
        amount = " ".join(found["amount"].lower().split())
        after = text.own[found.end() :]
        if _SAID.match(after) or (amount == "enough" and _PURPOSE.match(after)):
            continue
        yield Hit(
            "R004",
            f"'{amount}' names no number",
            f"say how many, such as 'at least two' for '{amount}'",
        )
        return
