"""The words of a requirement, sorted into what it asks and what it only quotes or reports.

Rules look at words, and a word means something else inside quotation marks, code, a formula, or what the
response is to say about the world: `says that the drug is effective` asks for no effectiveness.
Blanked parts keep their length, so that every place in one text is the same place in the others.
"""

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

from assay.trust.lint_lexicon import ACTS, REPORTING, WORLDLY, pattern, third_person, words

LONGEST: Final = 5_000
"""Characters of a requirement that are read; a longer one is a document."""
BLANK: Final = "¤"
"""Stands for each character that is not the rubric's own words."""

NUMBERS: Final = words(
    "one two three four five six seven eight nine ten eleven twelve fifteen twenty thirty fifty hundred "
    "thousand once twice half dozen"
)

_QUOTED = re.compile(
    r"""
      ```.*?``` | `[^`\n]+`                                   # code
    | \$\$.+?\$\$ | \$[^$\n]+\$ | \\\(.+?\\\) | \\\[.+?\\\]   # formulas
    | "[^"\n]{1,400}" | “[^”]{1,400}” | «[^»]{1,400}» | „[^“”]{1,400}[“”]
    | (?<![\w’']) ['\u2018] (?=\S) [^'’\n]* (?:(?<=\w)['’](?=\w)[^'’\n]*)* (?<=\S) ['’] (?!\w)
    | https?://\S+ | www\.\S+
    """,
    re.DOTALL | re.VERBOSE,
)
_END = r"(?=[.;!?](?: |$)|\n\n|$)"
_REPORTED = pattern(
    r"\b<reporting>(?: <to_whom>){0,4} <that>\b(?P<content>.*?)" + _END
    + r"|\b(?:says?|claims?|argues?|asserts?) (?P<said>.*?)" + _END
    + r"|\b(?:recommend|advis|suggest|encourag|propos)\w* (?:against )?(?P<advised>\w+ing\b.*?)" + _END
    + r"|\b(?:describ|call|label|classif|characteri[sz]|refer)\w*\b[^.;]*?\bas (?P<named>.*?)" + _END,
    reporting=REPORTING,
    to_whom=words("to the a an user users patient customer client reader them student"),
    that=words("that whether if why how what which when where who"),
)  # fmt: skip
_SPEAKS_AGAIN = pattern(
    r"(?:,| and| but| then| as well as) (?:also |then )?<acts>\b",
    acts=REPORTING | frozenset(map(third_person, ACTS - WORLDLY)),
)
_LEVEL = re.compile(
    r"""^\s* (?:[-*•]\s*)? (?:score|level|grade|points?)? \s*
        ["'(]? \d{1,3} ["')]? \s* (?:points?)? \s* [:=–-] \s""",
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)
_BOUND = pattern(
    r"\b<bound> (?:the )?(?:\d|<number>\b)|\b(?:\d+|<number>) (?:or|and) (?:more|fewer|less)\b"
    r"|\b\d+\s*(?:-|–|to)\s*\d+\b",
    bound=words(
        "at_least at_most at_minimum no_more_than no_fewer_than no_less_than not_more_than more_than "
        "less_than fewer_than up_to under over above below within exactly minimum_of maximum_of a_total_of"
    ),
    number=NUMBERS,
)
_EXPLAINED = pattern(
    r": \S+ \S+ \S+|\([^()]*?\S+ \S+[^()]*\)|\b<that_is>(?!\w)|\benough (?:\w+ )?(?:to|that|for)\b",
    that_is=words(
        "that_is i.e. meaning namely defined_as in_the_sense as_measured measured_by so_that such_that "
        "ensuring_that to_the_point"
    ),
)


@dataclass(frozen=True)
class Text:
    """A requirement, and what is left of it when quoted and reported words are blanked."""

    said: str
    """As it stands."""

    @cached_property
    def plain(self) -> str:
        """Without what stands in quotation marks, code and formulas."""
        return _QUOTED.sub(lambda found: BLANK * len(found[0]), self.said)

    @cached_property
    def lead(self) -> str:
        """As `plain`, up to where a list of levels begins."""
        level = _LEVEL.search(self.plain, 1)
        return self.plain if level is None else self.plain[: level.start()]

    @cached_property
    def own(self) -> str:
        """As `lead`, without what the response is to report, either."""
        return _REPORTED.sub(_without_content, self.lead)

    @cached_property
    def is_bounded(self) -> bool:
        """Whether it gives a number as a bound: `at least three`, `2 to 4`."""
        return _BOUND.search(self.plain) is not None

    @cached_property
    def explains_itself(self) -> bool:
        """Whether it goes on to say what it means: after a colon, in brackets, with `that is`."""
        return _EXPLAINED.search(self.plain) is not None


@lru_cache(maxsize=20_000)
def text_of(requirement: str) -> Text:
    """The words of a requirement, read once, with no more than one space or blank line between them."""
    text = re.sub(r"[^\S\n]+", " ", requirement[:LONGEST])
    return Text(re.sub(r" ?\n[ \n]*\n ?", "\n\n", text).strip())


def _without_content(found: re.Match[str]) -> str:
    """The match with what it reports blanked, up to where the rubric speaks again."""
    assert found.lastgroup is not None
    content = found[found.lastgroup]
    again = _SPEAKS_AGAIN.search(content)
    kept = content[again.start() :] if again else ""
    before = found[0][: found.start(found.lastgroup) - found.start()]
    return before + BLANK * (len(content) - len(kept)) + kept
