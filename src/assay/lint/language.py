"""Recognise requirements that are not in English, which the rules on wording cannot read."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Final

from assay.criterion import Criterion
from assay.lint.findings import Hit
from assay.lint.lexicon import LONGEST, words

# The rules that only find English words.
WORDING_RULES: Final = (
    "R001",
    "R002",
    "R004",
    "R005",
    "R006",
    "R007",
    "R008",
    "R010",
    "R012",
    "R013",
)
_WORD: Final = re.compile(r"[^\W\d_]+")


def find_other_languages(criteria: Sequence[Criterion]) -> Iterator[tuple[int, Hit]]:
    """Yield one note if criteria are not in English, with the index of the first of them."""
    foreign = [
        index
        for index, criterion in enumerate(criteria)
        if criterion.requirement is not None and not is_english(criterion.requirement)
    ]
    if not foreign:
        return
    if len(foreign) == 1:
        subject = "this criterion does not seem to be in English"
    else:
        subject = (
            f"{len(foreign)} criteria, of which this is the first, do not seem to be in English"
        )
    message = f"{subject}, and the rules on wording ({', '.join(WORDING_RULES)}) know English only"
    yield foreign[0], Hit("R014", message, "read their wording yourself")


def is_english(requirement: str) -> bool:
    """Return False if a text has several common words of other languages and fewer English ones.

    Another script is not English either.

    >>> is_english("Nennt die Frist"), is_english("Names the period"), is_english("期限を示す")
    (False, True, False)
    """
    all_words = _WORD.findall(requirement[:LONGEST].casefold())
    letters = "".join(all_words)
    other_letters = [
        letter for letter in letters if not unicodedata.name(letter, "").startswith("LATIN")
    ]
    if len(other_letters) > len(letters) / 2:
        return False
    english_count = sum(word in words("english") for word in all_words)
    foreign_count = sum(word in words("other_languages") for word in all_words)
    return foreign_count < 2 or foreign_count <= english_count
