"""Checks of what the text holds and how long it is."""

from dataclasses import dataclass

from assay.checks.base import BuiltinCheck, unmet
from assay.checks.fields import Count, Flag, Text, Texts
from assay.messages import completion_text
from assay.parsers.fences import fences
from assay.report import Score
from assay.types import Messages


@dataclass(frozen=True)
class Contains(BuiltinCheck):
    """The text holds `value`; of several values all, or with `any_of` at least one.

    >>> Contains("Paris")("It is Paris.")
    True
    >>> Contains(["Paris", "Lyon"])("It is Paris.").reason
    "'Lyon' does not occur"
    """

    value: Text | Texts
    ignore_case: Flag = False
    any_of: Flag = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self._values) == 1:
            object.__setattr__(self, "value", self._values[0])

    @property
    def _values(self) -> tuple[str, ...]:
        return (self.value,) if isinstance(self.value, str) else self.value

    def __call__(self, completion: Messages) -> bool | Score:
        text = completion_text(completion)
        if self.ignore_case:
            text = text.casefold()
            missing = [value for value in self._values if value.casefold() not in text]
        else:
            missing = [value for value in self._values if value not in text]
        if not missing or (self.any_of and len(missing) < len(self._values)):
            return True
        verb = "does" if len(missing) == 1 else "do"
        return unmet(f"{', '.join(map(repr, missing))} {verb} not occur")


@dataclass(frozen=True)
class MaxWords(BuiltinCheck):
    """The text has at most `limit` words, which are what white space separates.

    >>> MaxWords(3)("one two three four").reason
    '4 words, 3 allowed'
    """

    limit: Count

    def __call__(self, completion: Messages) -> bool | Score:
        words = len(completion_text(completion).split())
        return words <= self.limit or unmet(f"{_words(words)}, {self.limit} allowed")


@dataclass(frozen=True)
class MinWords(BuiltinCheck):
    """The text has at least `limit` words, which are what white space separates.

    >>> MinWords(3)("one two three")
    True
    """

    limit: Count

    def __call__(self, completion: Messages) -> bool | Score:
        words = len(completion_text(completion).split())
        return words >= self.limit or unmet(f"{_words(words)}, {self.limit} needed")


@dataclass(frozen=True)
class CodeBlock(BuiltinCheck):
    """The text holds a fenced code block; with `language`, one that is marked so.

    >>> CodeBlock("python")("```python\\nprint(1)\\n```")
    True
    """

    language: Text | None = None

    def __call__(self, completion: Messages) -> bool:
        blocks = fences(completion_text(completion))
        wanted = None if self.language is None else self.language.lower()
        return any(wanted is None or block.language == wanted for block in blocks)


def _words(number: int) -> str:
    return f"{number} word{'' if number == 1 else 's'}"
