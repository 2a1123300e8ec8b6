"""What follows a thought: `<think>…</think>` and then the answer."""

from collections.abc import Callable
from typing import Any

from assay.messages import completion_text
from assay.parsers.base import Parser, identity, mean_score
from assay.types import Messages

OPENING, CLOSING = "<think>", "</think>"


class ThinkParser(Parser):
    """Reads the text after the last `</think>`. A thought that never ends has no answer: `""`.

    An opening tag is not asked for: many chat templates end the prompt with it.

    >>> ThinkParser().parse("<think>2+2</think> 4")
    '4'
    >>> ThinkParser().parse("<think>2+2 is 4, so")
    ''
    """

    def parse(self, text: Messages) -> Any:
        """The stripped text after the thought, through `extract_fn`; `""` when none has ended."""
        _, closing, answer = completion_text(text).rpartition(CLOSING)
        return self.extract_fn(answer.strip()) if closing and OPENING not in answer else ""

    def format_score(self, completion: Messages | None) -> float:
        """The share of assistant messages that are one thought and then an answer; 0.0 without one.

        >>> ThinkParser().format_score("<think>2+2</think> 4")
        1.0
        """
        return mean_score(completion, _is_thought_then_answer)


class MaybeThinkParser(Parser):
    """Reads the text after the last `</think>`, or the whole text when there is no thought at all.

    >>> MaybeThinkParser().parse("4"), MaybeThinkParser().parse("<think>2+2</think> 4")
    ('4', '4')
    >>> MaybeThinkParser().parse("<think>2+2 is 4, so")
    ''
    """

    def __init__(
        self, extract_fn: Callable[[str], Any] = identity, accept_unfinished: bool = False
    ) -> None:
        super().__init__(extract_fn)
        self.accept_unfinished = accept_unfinished
        """Whether a thought that was cut off may be read as an answer."""

    def parse(self, text: Messages) -> Any:
        """The stripped text outside the thought, through `extract_fn`; `""` when it is unfinished."""
        answer = completion_text(text).rpartition(CLOSING)[2]
        if OPENING in answer and not self.accept_unfinished:
            return ""
        return self.extract_fn(answer.strip())

    def _settings(self) -> list[str]:
        return super()._settings() + ["accept_unfinished=True"] * self.accept_unfinished


def _is_thought_then_answer(text: str) -> bool:
    once = text.count(OPENING) == 1 and text.count(CLOSING) == 1
    answer = completion_text(text).rpartition(CLOSING)[2]
    return once and text.lstrip().startswith(OPENING) and bool(answer.strip())
