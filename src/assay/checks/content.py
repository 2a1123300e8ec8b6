"""Check what the text holds, what pattern it matches, and how long it is."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from assay.checks.check import BuiltinCheck, Count, Flag, Seconds, Text, Texts, unmet
from assay.errors import MissingExtraError, RubricError
from assay.messages import completion_text
from assay.parsers.extract import fences
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


@dataclass(frozen=True)
class Regex(BuiltinCheck):
    r"""The text holds a match of `pattern`; anchor it with `\A…\Z` to match the whole.

    A search that takes longer than `timeout_seconds` is an error, never a no.

    >>> Regex(r"\b\d{4}-\d{2}-\d{2}\b")("Signed on 2024-05-01.")
    True
    """

    pattern: Text
    ignore_case: Flag = False
    multiline: Flag = False
    """Whether `^` and `$` match at every line."""
    dot_all: Flag = False
    """Whether `.` matches a line break too."""
    timeout_seconds: Seconds = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self._compiled

    @cached_property
    def _compiled(self) -> Any:
        letters = {"i": self.ignore_case, "m": self.multiline, "s": self.dot_all}
        return compiled(self.pattern, "".join(letter for letter, is_set in letters.items() if is_set))

    def __call__(self, completion: Messages) -> bool:
        return search(self._compiled, completion_text(completion), self.timeout_seconds)


def compiled(pattern: str, flags: str = "") -> Any:
    """The compiled pattern, or an error that says where it is wrong. Flags are of `i`, `m`, `s`."""
    try:
        import regex
    except ImportError:
        raise MissingExtraError("a regex check", package="regex", extra="checks") from None
    chosen = [getattr(regex, letter.upper()) for letter in flags]
    try:
        return regex.compile(pattern, sum(chosen, regex.V0))
    except regex.error as error:
        raise RubricError(f"the pattern {pattern!r} is no regular expression: {error}") from None
    except (RecursionError, OverflowError):
        raise RubricError(f"the pattern {pattern!r:.100} is too deep or too large") from None


def search(pattern: Any, text: str, seconds: float) -> bool:
    """Whether a compiled pattern occurs in a text; raises `TimeoutError` when that takes too long."""
    try:
        return pattern.search(text, timeout=seconds) is not None
    except TimeoutError:
        raise TimeoutError(
            f"the pattern {pattern.pattern!r:.100} was still searching {len(text):,} characters "
            f"after {seconds:g} s: write it with less backtracking"
        ) from None
