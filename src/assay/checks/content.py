"""Check what the text holds, what pattern it matches, how long it is, and whether it opens with a stock refusal."""

import re
from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any

from assay.checks.check import BuiltinCheck, Count, Flag, Seconds, Text, Texts, compiled, search
from assay.checks.pattern_size import is_short_search, refuse_large_pattern
from assay.lazy import read_toml
from assay.messages import read_whole_text, visible_text
from assay.parsers.extract import find_fenced_blocks
from assay.report import Score
from assay.types import Messages
from assay.wording import format_count, format_value


class Contains(BuiltinCheck):
    """The text holds `value`; of several values all, or with `any_of` at least one.

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

    def __call__(self, completion: Messages, with_reasoning: bool = False) -> bool | Score:
        text = visible_text(completion, with_reasoning)
        if self.ignore_case:
            text = text.casefold()
        missing: list[str] = []
        for value in self._values:
            searched = value.casefold() if self.ignore_case else value
            if searched not in text:
                missing.append(value)
        if not missing or (self.any_of and len(missing) < len(self._values)):
            return True
        verb = "does" if len(missing) == 1 else "do"
        return Score(False, f"{', '.join(map(repr, missing))} {verb} not occur")


class MaxWords(BuiltinCheck):
    """The text has at most `limit` words, which are what white space separates.

    >>> MaxWords(3)("one two three four").reason
    '4 words, 3 allowed'
    """

    limit: Count

    def __call__(self, completion: Messages, with_reasoning: bool = False) -> bool | Score:
        words = _count_words(completion, with_reasoning)
        if words <= self.limit:
            return True
        return Score(False, f"{format_count(words, 'word')}, {self.limit} allowed")


class MinWords(BuiltinCheck):
    """The text has at least `limit` words, which are what white space separates.

    >>> MinWords(3)("one two three")
    True
    """

    limit: Count

    def __call__(self, completion: Messages, with_reasoning: bool = False) -> bool | Score:
        words = _count_words(completion, with_reasoning)
        if words >= self.limit:
            return True
        return Score(False, f"{format_count(words, 'word')}, {self.limit} needed")


def _count_words(completion: Messages, with_reasoning: bool) -> int:
    """Count words; the markers around reasoning are no words, so its form does not matter."""
    if with_reasoning:
        return len(read_whole_text(completion).split())
    return len(visible_text(completion).split())


class CodeBlock(BuiltinCheck):
    """The text holds a fenced code block; with `language`, one that is marked so.

    >>> CodeBlock("python")("```python\\nprint(1)\\n```")
    True
    """

    language: Text | None = None

    def __call__(self, completion: Messages, with_reasoning: bool = False) -> bool | Score:
        blocks = find_fenced_blocks(visible_text(completion, with_reasoning))
        languages = [language for language, _ in blocks]
        if not languages:
            return Score(False, "there is no fenced code block")
        if self.language is None or self.language.lower() in languages:
            return True
        return Score(False, f"no fenced code block is marked {self.language}")


class Regex(BuiltinCheck):
    r"""The text holds a match of `pattern` (the whole with `\A…\Z`); a search over `timeout_seconds` is an error.

    >>> Regex(r"\b\d{4}-\d{2}-\d{2}\b")("Signed on 2024-05-01.")
    True
    """

    pattern: Text
    ignore_case: Flag = False
    multiline: Flag = False  # whether `^` and `$` match at every line
    dot_all: Flag = False  # whether `.` matches a line break too
    timeout_seconds: Seconds = 1.0

    # A column that is filled in between other characters is a text to find, not a pattern.
    escape_value = staticmethod(re.escape)

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self._compiled

    @cached_property
    def _compiled(self) -> Any:
        flags = ""
        if self.ignore_case:
            flags += "i"
        if self.multiline:
            flags += "m"
        if self.dot_all:
            flags += "s"
        return compiled(self.pattern, flags)

    def __call__(self, completion: Messages, with_reasoning: bool = False) -> bool | Score:
        text = visible_text(completion, with_reasoning)
        if search(self._compiled, text, self.timeout_seconds):
            return True
        return Score(False, f"the pattern {format_value(self.pattern)} does not occur")

    @classmethod
    def refuse_excess(cls, arguments: Mapping[str, Any]) -> None:
        pattern = arguments["pattern"]
        if isinstance(pattern, str):
            refuse_large_pattern(pattern)

    def is_short(self, completion: Messages, with_reasoning: bool = False) -> bool:
        """Return whether the search takes little time even if it cannot be interrupted."""
        return is_short_search(self.pattern, visible_text(completion, with_reasoning))


# The characters at the beginning in which a refusal is found. Further down, the same words are mostly
# about something else.
_OPENING = 400


@cache
def _phrases() -> tuple[str, ...]:
    """Return phrases of refusals in lower case, without contractions and punctuation."""
    phrases: list[str] = []
    for phrases_of_language in read_toml("assay.checks", "refusals.toml").values():
        phrases += phrases_of_language
    return tuple(phrases)


_APOSTROPHES = str.maketrans(dict.fromkeys("\u2018\u2019\u02bc\uff07\u00b4`", "'"))
_CONTRACTIONS = (
    (re.compile(r"\bcan(?:'t| not)\b"), "cannot"),
    (re.compile(r"\bwon't\b"), "will not"),
    (re.compile(r"\bi'm\b"), "i am"),
)


class Refusal(BuiltinCheck):
    """The first 400 characters hold a stock refusal, in nine languages. Yes is bad news, so give it a negative weight.

    A refusal in other words is missed, and a story that opens with one is caught.

    >>> Refusal()("I\u2019m sorry, but I can\u2019t help with that.").reason
    "it says 'i cannot help with'"
    """

    def __call__(self, completion: Messages, with_reasoning: bool = False) -> bool | Score:
        text = visible_text(completion, with_reasoning).lstrip()
        opening = text[:_OPENING].translate(_APOSTROPHES).casefold()
        opening = re.sub(r"[^\w']+", " ", opening)
        for contraction, full in _CONTRACTIONS:
            opening = contraction.sub(full, opening)
        for phrase in _phrases():
            if phrase in opening:
                return Score(True, f"it says {phrase!r}")
        return False
