"""Ratings: the number, or the yes or no, in what a judge wrote freely. One that is sure, or none.

A verdict counts where it is offered: alone on a line, or after a word such as `Score:`. Two different ones in a
reply are an error, unless only the last is called final or overall. Numbers in passing count only when there is no other.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from assay.errors import JudgeError
from assay.models.structured import without_thoughts

SHOWN = 200
"""Characters of a reply that go into a message."""


class Points(NamedTuple):
    """A scale of points, worst to best.

    >>> Points(0, 10).share(8), Points(1, 5).share(3)
    (0.8, 0.5)
    """

    low: float
    high: float

    def share(self, number: float) -> float:
        """Where a number stands between the two, 0 to 1."""
        return (number - self.low) / (self.high - self.low)

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g}"


_FIGURE = r"\d+(?:\.\d+)?"
_RANGE = re.compile(
    rf"(?<![\w.,/:–-])(?:(?<=between )({_FIGURE}) and|({_FIGURE})\s*(?:-|–|—|to|through|\.\.+))"
    rf"\s*({_FIGURE})(?![\w–-]|[.,]\d)",
    re.IGNORECASE,
)
_OUT_OF = re.compile(r"(?:\bout of\s+|(?<=[\w})])\s*/\s*)(\d+)(?![\w/]|[.,]\d)", re.IGNORECASE)
_ABOUT_POINTS = re.compile(r"\b(?:scor|scal|rat[ei]|grad|mark|point|number)\w*", re.IGNORECASE)


def points_in(words: str) -> Points | None:
    """The scale that words to a judge name, such as `Score from 0-10`; None when they name none.

    Of several the one that holds all others is meant; without such a one, none.

    >>> points_in("Rate the answer from 1 to 5 (1-2: poor, 3-4: fair, 5: good).")
    Points(low=1.0, high=5.0)
    """
    found: set[Points] = set()
    for line in words.splitlines():
        if _ABOUT_POINTS.search(line):
            spans = _RANGE.findall(line)
            found |= {Points(float(a or b), float(high)) for a, b, high in spans}
            found |= {Points(0.0, float(high)) for high in _OUT_OF.findall(line)}
    found = {points for points in found if points.low < points.high}
    widest = max(found, key=lambda points: points.high - points.low, default=None)
    if widest is None or any(p.low < widest.low or p.high > widest.high for p in found):
        return None
    return widest


def read_rating(text: str, points: Points | None = None) -> float:
    """What a reply is worth, 0 to 1: by these points, else yes or no, a share, or out of so many.

    `8/10`, `8 out of 10` and `80%` say themselves what they are worth. Raises `JudgeError` when the
    reply offers nothing, or a number that is off the scale; what a thought holds does not count.

    >>> read_rating("It misses a step.\\nScore: 8", Points(0, 10)), read_rating("80%")
    (0.8, 0.8)
    >>> read_rating("Yes, it knows the capital."), read_rating("No")
    (1.0, 0.0)
    """
    answer = without_thoughts(text)
    if points is None:
        word = _only_word(answer, text)
        if word is not None:
            return float(word == "yes")
    worth = _only_number(_SEVERAL.sub("(several numbers)", answer), points, text)
    if worth is None:
        wanted = "a yes or no, or a number from 0 to 1" if points is None else f"one from {points}"
        raise JudgeError(f"the reply offers no verdict ({wanted}): {text[:SHOWN]!r}")
    return worth


class _Number(NamedTuple):
    """A number as it was written: alone, out of another, or in percent."""

    value: float
    out_of: float | None
    percent: bool


_SEVERAL = re.compile(
    rf"(?<![\w.]){_FIGURE}\s*(?:[–—-]|\bto\b|\bor\b|\bthrough\b)\s*{_FIGURE}(?!\w|\.\d)", re.IGNORECASE
)
_NUMBER = re.compile(
    rf"(?<![\w.,/–-])([+-]?{_FIGURE})"
    rf"(?:\s*/\s*({_FIGURE})|\s+out\s+of\s+({_FIGURE})|\s*(%|percent\b))?"
    r"(?![\w%]|[.,]\d|\s*[–—-]\s*\d|-\w|\s*/\s*\d)",
    re.IGNORECASE,
)
_WORD = re.compile(r"(?<![\w'’-])(yes|no)(?![\w'’]|-\w|\.\s*\d)", re.IGNORECASE)
_OPENING = re.compile(rf"[^\w\n]*{_WORD.pattern}[\s*_\"'`)]*[.,:;!–—\n-]", re.IGNORECASE)
_LABEL_WORD = (
    r"\b(?:scored?|rating|rated?|graded?|marks?|points|verdict|judge?ment|decision|overall|"
    r"(?P<weak>answer|result|total|conclusion))\b"
)
_LABELLED = re.compile(_LABEL_WORD, re.IGNORECASE)
_LABEL = re.compile(
    _LABEL_WORD + r"(?:\s*\([^()\n]{0,40}\))?[\s*_`\"':=()\[\]<>-]*"
    r"(?:(?:is|of|as|at|it|this|would|be|an?|the|my|final)\b[\s*_`\"':=(\[-]*){0,4}$",
    re.IGNORECASE,
)
_NEAR = 80
"""Characters before a verdict in which its label must be, and of a line that it can have alone."""


_FINAL = re.compile(r"\b(?:final|overall)\b", re.IGNORECASE)


class _Offer(NamedTuple):
    """A match that is offered as a verdict."""

    match: re.Match[str]
    weak: bool
    """Whether its label may be about something else, as in `The right answer is 4`."""
    final: bool
    """Whether it is called final or overall."""


def _offers(text: str, pattern: re.Pattern[str]) -> Iterator[_Offer]:
    """The matches that are offered as a verdict."""
    # Most long lists of numbers have no label at all, and looking before each for one is dear.
    labelled = _LABELLED.search(text) is not None
    for match in pattern.finditer(text):
        start, end = match.span()
        before = text[max(0, start - _NEAR) : start].rpartition("\n")[2]
        after = text[end : end + _NEAR].partition("\n")[0]
        label = _LABEL.search(before) if labelled else None
        if label is not None:
            yield _Offer(match, label["weak"] is not None, _FINAL.search(before) is not None)
        elif not re.search(r"\w", before + after):
            yield _Offer(match, weak=False, final=False)


def _meant(offers: Sequence[_Offer]) -> list[_Offer]:
    """The offers that must agree, the last of which counts."""
    meant = [offer for offer in offers if not offer.weak] or list(offers)
    if meant and meant[-1].final:
        meant = [offer for offer in meant if offer.final]
    return meant


def _only_word(text: str, reply: str) -> str | None:
    """The yes or no that is offered; one that opens the reply is, if a pause follows."""
    words = [offer.match.group(1).casefold() for offer in _meant(list(_offers(text, _WORD)))]
    opening = _OPENING.match(text)
    if opening is not None:
        words.insert(0, opening.group(1).casefold())
    if len(set(words)) > 1:
        raise _two_verdicts(words[0], words[-1], reply)
    return words[-1] if words else None


def _only_number(text: str, points: Points | None, reply: str) -> float | None:
    """The worth of the number that is offered; else of the only one, however often it is said."""
    numbers = [_number(offer.match) for offer in _meant(list(_offers(text, _NUMBER)))]
    if not numbers:
        others = {_number(match) for match in _NUMBER.finditer(text)}
        return _checked_worth(others.pop(), points, reply) if len(others) == 1 else None
    worth = _checked_worth(numbers[-1], points, reply)
    for number in numbers[:-1]:
        other = _worth(number, points)
        # A number that is off the scale is about something else.
        if 0 <= other <= 1 and other != worth:
            raise _two_verdicts(f"{number.value:g}", f"{numbers[-1].value:g}", reply)
    return worth


def _two_verdicts(first: str, second: str, reply: str) -> JudgeError:
    return JudgeError(f"the reply gives two different verdicts, {first} and then {second}: {reply[:SHOWN]!r}")


def _number(match: re.Match[str]) -> _Number:
    value, slash, words, percent = match.groups()
    other = slash or words
    return _Number(float(value), None if other is None else float(other), percent is not None)


def _worth(number: _Number, points: Points | None) -> float:
    value, out_of, percent = number
    if percent:
        return value / 100
    if out_of is not None and (points is None or out_of != points.high):
        return value / out_of if out_of else -1.0
    return (points or Points(0, 1)).share(value)


def _checked_worth(number: _Number, points: Points | None, text: str) -> float:
    worth = _worth(number, points)
    if not 0 <= worth <= 1:
        scale = points or "0 to 1"
        advice = "" if points else "; name the scale in the prompt, or pass points="
        raise JudgeError(f"the reply gives {number.value:g}, which is not from {scale}{advice}: {text[:SHOWN]!r}")
    return worth
