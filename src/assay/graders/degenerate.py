"""Recognise texts without content, such as a lone colon, and score them without a judge.

Many models call such a text right: a colon, or `Thought process:` with nothing after it
(arXiv 2507.08794).
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import Literal, TypeAlias

from assay.criterion import Criterion
from assay.report import Score
from assay.types import SECTIONS

# What to do about a text without content: give wanted criteria their lowest choice, or ask a judge.
Degenerate: TypeAlias = Literal["lowest", "ask"]

DEGENERATE_REASON = "degenerate answer"  # the start of the reason of such a score

_MAX_ANNOUNCEMENT_LENGTH = 100  # characters; a longer text always has content
_SECTION_TAG = re.compile(rf"</?(?:{'|'.join(SECTIONS)})>", re.IGNORECASE)
_QUOTES = ("'{}'", '"{}"', "`{}`", "‘{}’", "“{}”", "«{}»", "„{}“")  # noqa: RUF001


def score_degenerate_text(text: str, criteria: Sequence[Criterion]) -> dict[int, Score]:
    """Return the scores that a text without content gets without a judge, by criterion index.

    Each score is the lowest choice of its criterion. Two kinds of criteria get no score here, so
    the judge is asked about them: those of negative weight, since "gives no answer" may be the
    fault, and those that quote the text, as in `The answer is ":"`.

    A text with content gets no scores at all.
    """
    problem = explain_degenerate(text)
    if problem is None:
        return {}
    reason = f"{DEGENERATE_REASON}: {problem}; no judge was asked"
    scores: dict[int, Score] = {}
    for index, criterion in enumerate(criteria):
        is_fault = criterion.weight < 0
        if not is_fault and not _quotes_text(criterion, text):
            lowest = criterion.choices[0]  # choices are ordered from worst to best
            scores[index] = Score(criterion.values[lowest], reason, lowest)
    return scores


def _quotes_text(criterion: Criterion, text: str) -> bool:
    """Whether the requirement has this text in quotation marks, as in `The answer is ":"`."""
    bare_text = text.strip().casefold()
    if not bare_text:
        return False
    requirement = (criterion.requirement or "").casefold()
    return any(quotes.format(bare_text) in requirement for quotes in _QUOTES)


def explain_degenerate(text: str) -> str | None:
    """Return why a text has no content; None if it has some.

    For a conversation, pass what the assistant wrote.
    """
    bare_text = text
    if "<" in text:
        bare_text = _SECTION_TAG.sub(" ", text)
    if not bare_text.strip():
        return "it is empty"
    if not any(_has_meaning(character) for character in bare_text):
        return "no word or number in it"
    if len(bare_text) <= _MAX_ANNOUNCEMENT_LENGTH and _is_announcement(bare_text):
        return "it announces an answer but does not give one"
    return None


def _has_meaning(character: str) -> bool:
    """Whether it is a letter, a digit or a symbol such as ∞, and not punctuation or an accent."""
    if character.isalnum():
        return True
    category = unicodedata.category(character)
    is_lone_accent = category == "Sk"
    return category[0] in "LS" and not is_lone_accent


def _is_announcement(text: str) -> bool:
    """Whether a text only announces an answer, such as `Here is the answer:`."""
    normalised = unicodedata.normalize("NFKC", text).casefold()
    without_apostrophes = normalised.replace("'", "").replace("’", "")
    words = re.findall(r"\w+", without_apostrophes.replace("_", " "))
    return " ".join(words) in _read_announcements()


@cache
def _read_announcements() -> frozenset[str]:
    """Read the texts that only announce an answer, such as `here is the answer`.

    They are in lower case, without punctuation, and with single spaces. In the file they are
    separated by `|` or line breaks.
    """
    # Loaded lazily: it is slow to load, and only needed for texts of at most 100 characters.
    from importlib.resources import files

    text = files("assay.graders").joinpath("announcements.txt").read_text(encoding="utf-8")
    announcements = re.split(r"[|\n]", text)
    return frozenset(announcement for announcement in announcements if announcement)
