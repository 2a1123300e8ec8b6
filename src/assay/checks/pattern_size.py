"""Estimate how large a regular expression is, before it is compiled or searched for."""

import re
from typing import Final

from assay.errors import RubricError
from assay.wording import format_value

MAX_SIZE: Final = 10_000  # of a pattern that comes with a row, unless the caller says otherwise
# A search does not look at the clock while it compares letters in any case. Its time grows with
# the size of the pattern times the characters of the text, and at its start with a power of the size.
_SHORT_SIZE: Final = 100
_SHORT_PRODUCT: Final = 2_000_000

_MAX_DIGITS: Final = 9  # of a number of repetitions; a longer one is as good as this many digits
_REPETITION: Final = re.compile(r"\{(\d+)(?:,\d*)?\}")
# A set of characters without another one inside, or an escaped character.
_SET: Final = re.compile(r"\[\^?\]?(?:\\.|[^\[\]\\])*+\]", re.DOTALL)
_ESCAPED: Final = re.compile(r"\\.", re.DOTALL)
# In verbose mode, spaces and comments may stand inside of a repetition: `a{9 9 9}`.
_VERBOSE: Final = re.compile(r"\(\?[a-zA-Z0-9]*x")
# In these, brackets may not be what they seem: comments, and sets inside of sets.
_UNUSUAL: Final = re.compile(r"\(\?#|\(\?[a-zA-Z0-9]*V|\[[^\]]*\[")


def measure_pattern(pattern: str) -> int:
    """Return the size of a pattern. Raise `RubricError` if it cannot be told."""
    if _VERBOSE.search(pattern):
        raise RubricError(
            f"the pattern {format_value(pattern)} is verbose (`(?x)`), so its size cannot be told: "
            "write it without spaces and comments"
        )
    return estimate_pattern_size(pattern)


def refuse_large_pattern(pattern: str) -> None:
    """Raise `RubricError` if a pattern that comes with a row would take much time or memory."""
    size = measure_pattern(pattern)
    if size > MAX_SIZE:
        raise RubricError(
            f"the pattern {format_value(pattern)} has the size {size:,} with its repetitions written "
            f"out, and one that comes with a row may have {MAX_SIZE:,}: shorten it"
        )


def is_short_search(pattern: str, text: str) -> bool:
    """Return whether a search takes little time even if it cannot be interrupted."""
    size = estimate_pattern_size(pattern)
    return size <= _SHORT_SIZE and size * len(text) <= _SHORT_PRODUCT


def estimate_pattern_size(pattern: str) -> int:
    """Return how large a regular expression is once its repetitions are written out.

    A number of repetitions multiplies what it repeats, and only the smallest number is written out.

    >>> estimate_pattern_size("a{500}"), estimate_pattern_size("(ab{10}){20}x{0,99}")
    (500, 221)
    """
    if _UNUSUAL.search(pattern):
        size = len(pattern)
        for repetition in _REPETITION.finditer(pattern):
            size *= max(1, int(repetition[1][:_MAX_DIGITS]))
        return size
    group_sizes = [0]  # of the groups around the current position; the first one is the pattern
    last_size = 0  # of the last item, which a repetition would repeat
    index = 0
    while index < len(pattern):
        character = pattern[index]
        token = None
        if character == "\\":
            token = _ESCAPED.match(pattern, index)
        elif character == "[":
            token = _SET.match(pattern, index)
        repetition = _REPETITION.match(pattern, index)
        if repetition:
            repeated_size = last_size * max(1, int(repetition[1][:_MAX_DIGITS]))
            group_sizes[-1] += repeated_size - last_size
            last_size = repeated_size
            index = repetition.end()
            continue
        if character == "(":
            group_sizes.append(0)
            last_size = 0
        elif character == ")" and len(group_sizes) > 1:
            last_size = max(1, group_sizes.pop())
            group_sizes[-1] += last_size
        elif character not in "*+?|":
            last_size = 1
            group_sizes[-1] += 1
        index = token.end() if token else index + 1
    return sum(group_sizes)
