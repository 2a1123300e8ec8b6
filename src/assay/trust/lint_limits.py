"""Limits: how long a whole response may be, as a criterion says it."""

from typing import Final, NamedTuple

from assay.trust.lint_lexicon import pattern, words

_LEAST: Final = words("at_least more_than over no_fewer_than no_less_than a_minimum_of")
_MOST: Final = words(
    "at_most no_more_than no_longer_than fewer_than less_than under up_to a_maximum_of not_exceed"
)
_LIMIT = pattern(
    r"(?:(?P<least><least>)|<most>) (?P<number>\d[\d,]*) "
    r"(?P<unit>word|sentence|character|paragraph|line|page|bullet point|item)s?\b",
    least=_LEAST,
    most=_MOST,
)
_WHOLE = pattern(
    r"^\W*(?:(?:the|this) )?(?:\w+ ){0,2}?(?:<has> )*$",
    has=words(
        "is are be has have contain contains use uses must should not in with fit fits stay stays"
    ),
)
"""What stands before a limit of the whole, and not of each paragraph or of the summary at the end."""
_REST = pattern(r"\s*(?:long|in length|in total|overall)?\s*[.!]?\s*$")


class Limit(NamedTuple):
    """A number of words, sentences and the like that a response must have, or may not pass."""

    is_least: bool
    number: int
    unit: str


def limit_of(requirement: str) -> Limit | None:
    """The limit that a criterion sets to the whole response; None when it sets none.

    >>> limit_of("The response is at most 200 words long")
    Limit(is_least=False, number=200, unit='word')
    >>> limit_of("The second paragraph has at most 200 words and no list")
    """
    found = _LIMIT.search(requirement[:1000])
    if found is None or not _WHOLE.match(requirement[: found.start()]):
        return None
    if not _REST.match(requirement, found.end()):
        return None
    number = int(found["number"].replace(",", ""))
    return Limit(found["least"] is not None, number, found["unit"].lower())
