"""Find the rating scale in a prompt, and the rating in a judge's reply.

A rating is a number, or yes or no, alone on a line or after a label such as `Score:`. Two different
ratings are an error, unless only the last one is called final or overall. Other numbers count only
if there is no such rating.
"""

import math
import re
from typing import Any, Final, NamedTuple

from assay.errors import JudgeError, RubricError
from assay.models.structured import without_thoughts
from assay.wording import format_value

SHOWN_LENGTH = 200  # characters of a reply that an error message shows


def _compile(*patterns: str) -> re.Pattern[str]:
    """Compile a pattern that is written in several parts. It ignores case."""
    return re.compile("".join(patterns), re.IGNORECASE)


class Points(NamedTuple):
    """A scale of points, worst to best."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g}"


def check_points(points: Any) -> Points:
    """Return a pair of numbers as a scale. Raises a `RubricError` for anything else."""
    message = f"points is {format_value(points)}: give the lowest and the highest, as (0, 10)"
    try:
        lowest, highest = points
        low = float(lowest)
        high = float(highest)
    except (TypeError, ValueError):
        raise RubricError(message) from None
    is_scale = math.isfinite(low) and math.isfinite(high) and low < high
    if not is_scale:
        raise RubricError(message)
    return Points(low, high)


# Scales in a prompt: `0-10`, `1 to 5`, `between 0 and 100`.
_RANGE: Final = _compile(
    r"(?<![\w.,/:–-])",
    r"(?:(?<=between )(\d+(?:\.\d+)?) and|(\d+(?:\.\d+)?)\s*(?:-|–|—|to|through|\.\.+))",
    r"\s*(\d+(?:\.\d+)?)",
    r"(?![\w–-]|[.,]\d)",
)
# `out of 10`, `{score}/10`.
_OUT_OF: Final = _compile(r"(?:\bout of\s+|(?<=[\w})])\s*/\s*)(\d+)(?![\w/]|[.,]\d)")
_ABOUT_POINTS: Final = _compile(r"\b(?:scor|scal|rat[ei]|grad|mark|point|number)\w*")


def find_points(prompt: str) -> Points | None:
    """Return the scale that a prompt names; None if it names none.

    If there are several, the widest one is returned, or None if it does not contain all others.

    >>> find_points("Rate the answer from 1 to 5 (1-2: poor, 3-4: fair, 5: good).")
    Points(low=1.0, high=5.0)
    """
    scales: set[Points] = set()
    for line in prompt.splitlines():
        if not _ABOUT_POINTS.search(line):
            continue
        for low_of_between, low, high in _RANGE.findall(line):
            scales.add(Points(float(low_of_between or low), float(high)))
        for high in _OUT_OF.findall(line):
            scales.add(Points(0.0, float(high)))
    scales = {scale for scale in scales if scale.low < scale.high}
    if not scales:
        return None
    widest = max(scales, key=lambda scale: scale.high - scale.low)
    if all(widest.low <= scale.low and scale.high <= widest.high for scale in scales):
        return widest
    return None


_YES_OR_NO: Final = r"(?<![\w'’-])(yes|no)(?![\w'’]|-\w|\.\s*\d)"
_WORD: Final = _compile(_YES_OR_NO)
# Yes or no as the first word of a reply, with a pause after it.
_FIRST_WORD: Final = _compile(r"[^\w\n]*", _YES_OR_NO, r"""[\s*_"'`)]*[.,:;!–—\n-]""")
# `7-8` or `7 or 8`, which is not a rating.
_SEVERAL_NUMBERS: Final = _compile(
    r"(?<![\w.])\d+(?:\.\d+)?\s*(?:[–—-]|\b(?:to|or|through)\b)\s*\d+(?:\.\d+)?(?!\w|\.\d)"
)
# `8`, `8/10`, `8 out of 10`, `80 %`.
_NUMBER: Final = _compile(
    r"(?<![\w.,/–-])",
    r"(?P<value>[+-]?\d+(?:\.\d+)?)",
    r"(?:\s*/\s*(?P<after_slash>\d+(?:\.\d+)?)",
    r"|\s+out\s+of\s+(?P<after_out_of>\d+(?:\.\d+)?)",
    r"|\s*(?P<percent>%|percent\b))?",
    r"(?![\w%]|[.,]\d|\s*[–—-]\s*\d|-\w|\s*/\s*\d)",
)


def read_rating(text: str, points: Points | None = None) -> float:
    """Return the rating in a reply, from 0 to 1.

    With `points`, it is a number on this scale; without, it is yes or no, or a number from 0 to 1.
    `8/10` and `80%` are understood with both. Raises a `JudgeError` if there is no rating, or if it
    is not on the scale.

    >>> read_rating("It misses a step.\\nScore: 8", Points(0, 10)), read_rating("80%"), read_rating("No")
    (0.8, 0.8, 0.0)
    """
    excerpt = repr(text[:SHOWN_LENGTH])
    reply = without_thoughts(text)
    if points is None:
        verdict = _read_yes_or_no(reply, excerpt)
        if verdict is not None:
            return verdict

    numbers = _find_numbers(reply)
    if not numbers:
        expected = "a yes or no, or a number from 0 to 1"
        if points is not None:
            expected = f"one from {points}"
        raise JudgeError(f"the reply offers no verdict ({expected}): {excerpt}")
    rating = numbers[-1].to_rating(points)
    if not 0 <= rating <= 1:
        if points is None:
            problem = "not from 0 to 1; name the scale in the prompt, or pass points="
        else:
            problem = f"not from {points}"
        raise JudgeError(f"the reply gives {numbers[-1].value:g}, which is {problem}: {excerpt}")
    for number in numbers[:-1]:
        other_rating = number.to_rating(points)
        # A number that is not on the scale is about something else.
        is_on_scale = 0 <= other_rating <= 1
        if is_on_scale and other_rating != rating:
            raise JudgeError(
                "the reply gives two different verdicts, "
                f"{number.value:g} and then {numbers[-1].value:g}: {excerpt}"
            )
    return rating


def _read_yes_or_no(reply: str, excerpt: str) -> float | None:
    """Return 1 for yes, 0 for no, and None if neither of them is a rating in the reply.

    `excerpt` is what an error shows of the reply.
    """
    words = [match.group(1).casefold() for match in _find_ratings(reply, _WORD)]
    first_word = _FIRST_WORD.match(reply)
    if first_word is not None:
        words.insert(0, first_word.group(1).casefold())
    if not words:
        return None
    if len(set(words)) > 1:
        raise JudgeError(
            f"the reply gives two different verdicts, {words[0]} and then {words[-1]}: {excerpt}"
        )
    return 1.0 if words[-1] == "yes" else 0.0


class _Number(NamedTuple):
    """A number in a reply."""

    value: float
    out_of: float | None  # 10 in `8/10`
    is_percentage: bool

    def to_rating(self, points: Points | None) -> float:
        """Return where the number is on the scale, from 0 for the low end to 1 for the high end.

        A number that is not on the scale gives less than 0 or more than 1.
        """
        if self.is_percentage:
            return self.value / 100
        if points is None and self.out_of is None:
            return self.value
        # On a scale from 1 to 5, `4/5` means 4 points, and not four fifths of the scale.
        if points is not None and self.out_of in (None, points.high):
            return (self.value - points.low) / (points.high - points.low)
        if not self.out_of:
            return -1.0  # `8/0` is not on any scale
        return self.value / self.out_of


def _find_numbers(reply: str) -> list[_Number]:
    """Return the numbers in a reply that are ratings, in order.

    These are labelled as a rating, or alone on their line. If there are none, but the reply has
    only one number, that number is the rating.
    """
    # `7-8` and `7 or 8` must be read neither as 7 nor as 8.
    reply = _SEVERAL_NUMBERS.sub("(several numbers)", reply)
    ratings = [_read_number(match) for match in _find_ratings(reply, _NUMBER)]
    if ratings:
        return ratings
    all_numbers = {_read_number(match) for match in _NUMBER.finditer(reply)}
    if len(all_numbers) == 1:
        return list(all_numbers)
    return []


def _read_number(match: re.Match[str]) -> _Number:
    """Return a number with what stands behind it, such as the 10 of `8/10`, or a percent sign."""
    out_of = match["after_slash"] or match["after_out_of"]
    return _Number(
        value=float(match["value"]),
        out_of=float(out_of) if out_of else None,
        is_percentage=match["percent"] is not None,
    )


# What names a rating, as in `Score:`. A weak label may be about something else, as in `The right
# answer is 4`.
_LABEL_NAME: Final = (
    r"\b(?:scored?|rating|rated?|graded?|marks?|points|verdict|judge?ment|decision|overall|"
    r"(?P<weak>answer|result|total|conclusion))\b"
)
_LABEL: Final = _compile(_LABEL_NAME)
# A label directly before the rating, with a remark or a few small words between them.
_LABEL_BEFORE: Final = _compile(
    _LABEL_NAME,
    r"""(?:\s*\([^()\n]{0,40}\))?[\s*_`"':=()\[\]<>-]*""",
    r"""(?:(?:is|of|as|at|it|this|would|be|an?|the|my|final)\b[\s*_`"':=(\[-]*){0,4}$""",
)
_FINAL: Final = _compile(r"\b(?:final|overall)\b")
# Characters before a rating in which its label has to be. A rating counts as alone on its line if
# so many characters on either side have no word in them.
_NEARBY_LENGTH: Final = 80


class _Candidate(NamedTuple):
    """A number or word that may be the rating: it has a label before it, or is alone on its line."""

    match: re.Match[str]
    has_weak_label: bool = False  # such as `answer`, which may be about something else
    is_final: bool = False  # whether it is called final or overall


def _find_ratings(text: str, pattern: re.Pattern[str]) -> list[re.Match[str]]:
    """Return the matches that are ratings, in order; the caller checks that they agree.

    `pattern` matches numbers or words. A rating with a weak label, such as `answer:`, counts only
    if there are no others. If the last rating is called final, only final ratings count.
    """
    candidates = _find_candidates(text, pattern)
    sure_candidates = [candidate for candidate in candidates if not candidate.has_weak_label]
    if sure_candidates:
        candidates = sure_candidates
    if candidates and candidates[-1].is_final:
        candidates = [candidate for candidate in candidates if candidate.is_final]
    return [candidate.match for candidate in candidates]


def _find_candidates(text: str, pattern: re.Pattern[str]) -> list[_Candidate]:
    """Return the matches of a pattern that have a label before them or are alone on their line."""
    candidates: list[_Candidate] = []
    # Looking for a label before each of many numbers is slow, so first see whether there is any.
    has_labels = _LABEL.search(text) is not None
    for match in pattern.finditer(text):
        start, end = match.span()
        # The text on the same line, as far as it is near.
        before = text[max(0, start - _NEARBY_LENGTH) : start].rpartition("\n")[2]
        after = text[end : end + _NEARBY_LENGTH].partition("\n")[0]
        label = _LABEL_BEFORE.search(before) if has_labels else None
        if label is not None:
            has_weak_label = label["weak"] is not None
            is_final = _FINAL.search(before) is not None
            candidates.append(_Candidate(match, has_weak_label, is_final))
            continue
        is_alone = re.search(r"\w", before + after) is None
        if is_alone:
            candidates.append(_Candidate(match))
    return candidates
