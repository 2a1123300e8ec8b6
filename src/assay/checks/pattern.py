"""Regular expressions that cannot hang: every search has a time limit that really stops it."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from assay.checks.base import BuiltinCheck
from assay.checks.fields import Flag, Seconds, Text
from assay.errors import MissingExtraError, RubricError
from assay.messages import completion_text
from assay.types import Messages


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
        return compiled(
            self.pattern, "".join(letter for letter, is_set in letters.items() if is_set)
        )

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
