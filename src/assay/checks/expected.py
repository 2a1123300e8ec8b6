"""Check the answer that the rubric's parser reads, or the whole text, against what is expected."""

import re
from collections import deque
from decimal import Decimal
from fractions import Fraction
from numbers import Rational, Real
from typing import Any, Literal

from assay.checks.check import BuiltinCheck, Flag, Number, Text, Texts
from assay.concurrency import set_variable
from assay.errors import import_extra
from assay.messages import hide_reasoning, put_reasoning_in_text, visible_text
from assay.parsers import Parser
from assay.parsers.extract import NUMBER_PATTERN
from assay.reasoning import THINKING
from assay.report import Score
from assay.types import Messages
from assay.wording import format_value


class ExactMatch(BuiltinCheck):
    """The answer that the rubric's parser reads is `answer`. A rollout without an `answer` is an error.

    >>> ExactMatch()(" Paris ", answer="Paris"), ExactMatch()("paris", answer="Paris").value
    (True, False)
    """

    ignore_case: Flag = False
    strip: Flag = True

    def __call__(
        self,
        completion: Messages,
        answer: Any,
        parser: Parser | None = None,
        with_reasoning: bool = False,
    ) -> bool | Score:
        expected = required(answer)
        found = read_answer(completion, parser, with_reasoning)
        if found is None:
            return _NO_ANSWER
        if isinstance(found, str) or isinstance(expected, str):
            is_equal = self._folded(found) == self._folded(expected)
        else:
            is_equal = bool(found == expected)
        if is_equal:
            return True
        return Score(False, f"it is {format_value(found)}, not {format_value(expected)}")

    def _folded(self, value: object) -> str:
        text = str(value).strip() if self.strip else str(value)
        return text.casefold() if self.ignore_case else text


class OneOf(BuiltinCheck):
    """The answer that the rubric's parser reads is one of `values`.

    >>> OneOf(["A", "B", "C"])("B")
    True
    """

    values: Texts
    ignore_case: Flag = False

    def __call__(
        self,
        completion: Messages,
        parser: Parser | None = None,
        with_reasoning: bool = False,
    ) -> bool | Score:
        found = read_answer(completion, parser, with_reasoning)
        if found is None:
            return _NO_ANSWER
        text = str(found).strip()
        if self.ignore_case:
            is_listed = text.casefold() in map(str.casefold, self.values)
        else:
            is_listed = text in self.values
        if is_listed:
            return True
        return Score(False, f"{format_value(text)} is not one of {format_value(list(self.values))}")


class NumericEqual(BuiltinCheck):
    """The last number of the answer that the rubric's parser reads is the number `answer`, which has to be one.

    Numbers are read exactly: `1,000`, `-2.5`, `3/4`, `6e23`. They may differ by `tolerance`, or by `relative` times the
    size of `answer`, whichever is more.

    >>> NumericEqual(tolerance=0.01)("about 3.14", answer=3.14159)
    True
    """

    tolerance: Number = 0.0
    relative: Number = 0.0

    def __call__(
        self,
        completion: Messages,
        answer: Any,
        parser: Parser | None = None,
        with_reasoning: bool = False,
    ) -> bool | Score:
        expected = exact(required(answer))
        found = read_answer(completion, parser, with_reasoning)
        if found is None:
            return _NO_ANSWER
        try:
            number = last_number(found) if isinstance(found, str) else exact(found)
        except ValueError as error:
            return Score(False, f"its number cannot be read: {error}")
        if number is None:
            return Score(False, "it holds no number")
        allowed = max(exact(self.tolerance), exact(self.relative) * abs(expected))
        if abs(number - expected) <= allowed:
            return True
        return Score(False, f"its last number is {_show(number)}, not {_show(expected)}")


def _show(number: Fraction) -> str:
    """Return a number for a reason: a short one as it is, a fraction as a decimal."""
    text = str(number)
    if number.denominator == 1 and len(text) <= 20:
        return text
    try:
        return repr(float(number))
    except OverflowError:
        return "a very large number"


_NO_ANSWER = Score(False, "the parser reads no answer in it")


def read_answer(
    completion: Messages, parser: Parser | None = None, with_reasoning: bool = False
) -> Any:
    """Return the answer that a parser reads in a completion; the whole text without a parser.

    A parser that does not read reasoning itself is not shown any, unless `with_reasoning` is set.
    """
    if parser is None:
        return visible_text(completion, with_reasoning)
    if with_reasoning:
        with set_variable(THINKING, "shown"):
            return parser.parse_answer(put_reasoning_in_text(completion))
    if getattr(parser, "reads_reasoning", False):
        return parser.parse_answer(completion)
    return parser.parse_answer(hide_reasoning(completion))


def required(answer: Any) -> Any:
    """The answer to compare with; raises when the rollout has none."""
    if answer is None or (isinstance(answer, str) and not answer.strip()):
        raise ValueError("this rollout has no answer to compare with: give it an `answer`")
    return answer


_NUMBER = re.compile(
    rf"(?<![A-Za-z0-9_.])([-+\u2212]?+)({NUMBER_PATTERN})(?:[ ]?/[ ]?({NUMBER_PATTERN}))?+"
)

_MAX_DIGITS = 1000  # longer numbers, and larger exponents, are refused: one `1e999999999` would fill the memory


def exact(value: object) -> Fraction:
    """Return the exact value of a number or of a text that is one, a float as it is written; raises `ValueError`."""
    is_bool = isinstance(value, bool)  # which Python takes for a number
    if isinstance(value, Rational) and not is_bool:
        return Fraction(value)
    if isinstance(value, Real | Decimal) and not is_bool:
        value = str(value)
    match = _NUMBER.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is not None:
        return _fraction(match)
    raise ValueError(f"{value!r:.100} is not a number: write it as 12, 1,250.5, 3/4 or 6e23")


def last_number(text: str) -> Fraction | None:
    """Return the last number in a text, or None. A minus after a letter or digit is none of its."""
    found = deque(_NUMBER.finditer(text), maxlen=1)
    return _fraction(found[0]) if found else None


def _fraction(match: re.Match[str]) -> Fraction:
    sign, above, below = match.groups()
    divisor = _real(below or "1")
    if not divisor:
        raise ValueError(f"{match[0]!r:.100} divides by zero")
    value = _real(above) / divisor
    return -value if sign in ("-", "\u2212") else value


def _real(digits: str) -> Fraction:
    exponent = digits.lower().partition("e")[2]
    if len(digits) > _MAX_DIGITS or abs(int(exponent or 0)) > _MAX_DIGITS:
        raise ValueError(f"the number {digits[:20]}… is too large to compare exactly")
    return Fraction(digits.replace(",", ""))


_MAX_PAIRS = (
    10_000_000_000  # characters times characters that are compared: about half a second of work
)


class Similarity(BuiltinCheck):
    """How alike the text and `to` are, from 0 to 1; without `to`, the text and `answer`.

    `token_sort_ratio` compares whatever the order of the words, `token_set_ratio` whatever their order and number.

    >>> Similarity(method="token_sort_ratio")("sat the cat", answer="the cat sat")
    1.0
    """

    to: Text | None = None
    method: Literal["ratio", "token_sort_ratio", "token_set_ratio"] = "ratio"
    ignore_case: Flag = False

    def __post_init__(self) -> None:
        super().__post_init__()
        _comparison(self.method)

    def __call__(
        self, completion: Messages, answer: Any = None, with_reasoning: bool = False
    ) -> float:
        text = visible_text(completion, with_reasoning)
        other = self.to if self.to is not None else str(required(answer))
        if len(text) * len(other) > _MAX_PAIRS:
            raise ValueError(
                f"{len(text):,} and {len(other):,} characters are too many to compare: shorten one"
            )
        if self.ignore_case:
            text, other = text.casefold(), other.casefold()
        return _comparison(self.method)(text, other) / 100


def _comparison(method: str) -> Any:
    return getattr(import_extra("rapidfuzz.fuzz", "similarity"), method)
