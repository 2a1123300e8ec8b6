"""Checks of the answer that the rubric's parser reads."""

from dataclasses import dataclass
from typing import Any

from assay.checks.base import BuiltinCheck, unmet
from assay.checks.fields import Flag, Number, Texts
from assay.checks.numbers import exact, last_number
from assay.messages import completion_text
from assay.parsers import Parser
from assay.report import Score
from assay.types import Messages


@dataclass(frozen=True)
class ExactMatch(BuiltinCheck):
    """The answer that the rubric's parser reads is `answer`.

    A rollout without an `answer` is an error.

    >>> ExactMatch()(" Paris ", answer="Paris"), ExactMatch()("paris", answer="Paris")
    (True, False)
    """

    ignore_case: Flag = False
    strip: Flag = True

    def __call__(
        self, completion: Messages, answer: Any, parser: Parser | None = None
    ) -> bool | Score:
        expected = required(answer)
        found = read_answer(completion, parser)
        if found is None:
            return _NO_ANSWER
        if isinstance(found, str) or isinstance(expected, str):
            return self._folded(found) == self._folded(expected)
        return bool(found == expected)

    def _folded(self, value: object) -> str:
        text = str(value).strip() if self.strip else str(value)
        return text.casefold() if self.ignore_case else text


@dataclass(frozen=True)
class OneOf(BuiltinCheck):
    """The answer that the rubric's parser reads is one of `values`.

    >>> OneOf(["A", "B", "C"])("B")
    True
    """

    values: Texts
    ignore_case: Flag = False

    def __call__(self, completion: Messages, parser: Parser | None = None) -> bool | Score:
        found = read_answer(completion, parser)
        if found is None:
            return _NO_ANSWER
        text = str(found).strip()
        if not self.ignore_case:
            return text in self.values
        return text.casefold() in [value.casefold() for value in self.values]


@dataclass(frozen=True)
class NumericEqual(BuiltinCheck):
    """The last number of the answer that the rubric's parser reads is the number `answer`.

    Numbers are read exactly: `1,000`, `-2.5`, `3/4` and `6e23`. They may differ by `tolerance`, or
    by `relative` times the size of `answer`, whichever is more. An `answer` that is no number is
    an error.

    >>> NumericEqual()("It is 1,000.50 in all.", answer="1000.5")
    True
    >>> NumericEqual(tolerance=0.01)("about 3.14", answer=3.14159)
    True
    """

    tolerance: Number = 0.0
    relative: Number = 0.0

    def __call__(
        self, completion: Messages, answer: Any, parser: Parser | None = None
    ) -> bool | Score:
        expected = exact(required(answer))
        found = read_answer(completion, parser)
        if found is None:
            return _NO_ANSWER
        try:
            number = last_number(found) if isinstance(found, str) else exact(found)
        except ValueError as error:
            return unmet(f"its number cannot be read: {error}")
        if number is None:
            return unmet("it holds no number")
        allowed = max(exact(self.tolerance), exact(self.relative) * abs(expected))
        return abs(number - expected) <= allowed


_NO_ANSWER = unmet("the parser reads no answer in it")


def read_answer(completion: Messages, parser: Parser | None) -> Any:
    """The answer as the parser reads it; without a parser, the whole text."""
    return completion_text(completion) if parser is None else parser.parse_answer(completion)


def required(answer: Any) -> Any:
    """The answer to compare with; raises when the rollout has none."""
    if answer is None or (isinstance(answer, str) and not answer.strip()):
        raise ValueError("this rollout has no answer to compare with: give it an `answer`")
    return answer
