"""Parse a completion as plain text, or as what follows its thought, and reward keeping a parser's format."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from assay.messages import completion_text, last_with_role, message_text, with_role
from assay.types import Messages


def identity(value: Any) -> Any:
    return value


class Parser:
    """Reads an answer out of a completion: the whole text through `extract_fn`. Those with equal settings are equal.

    >>> Parser(str.strip).parse_answer([{"role": "assistant", "content": " 4 "}])
    '4'
    """

    def __init__(self, extract_fn: Callable[[str], Any] = identity) -> None:
        if not callable(extract_fn):
            raise TypeError(f"extract_fn is {extract_fn!r}: pass a function that takes a text")
        self.extract_fn = extract_fn

    def parse(self, text: Messages) -> Any:
        """What one text holds; of messages, what the last one of the assistant says."""
        return self.extract_fn(completion_text(text))

    def parse_answer(self, completion: Messages | None) -> Any:
        """The answer in a plain text, or in the last assistant message; None when there is none."""
        if isinstance(completion, str):
            return self.parse(completion)
        last = None if completion is None else last_with_role(completion, "assistant")
        return None if last is None else self.parse(message_text(last))

    def get_assistant_messages(self, messages: Messages) -> list[Any]:
        """What the model said, in order. A plain text has no messages."""
        return with_role(messages, "assistant")

    def get_user_messages(self, messages: Messages) -> list[Any]:
        return with_role(messages, "user")

    def get_system_messages(self, messages: Messages) -> list[Any]:
        return with_role(messages, "system")

    def get_tool_messages(self, messages: Messages) -> list[Any]:
        return with_role(messages, "tool")

    def format_score(self, completion: Messages | None) -> float:
        """How well a completion keeps the format, from 0 to 1. No format is asked for here: 1.0."""
        return 1.0

    def get_format_reward_func(self) -> "FormatReward":
        """`format_score` as a reward function that can be pickled."""
        return FormatReward(self)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        # Equal parsers share a class; what else a subclass holds may not be hashable.
        return hash(type(self))

    def __repr__(self) -> str:
        settings = ((name, value) for name, value in vars(self).items() if not name.startswith("_"))
        shown = ", ".join(
            f"{name}={getattr(value, '__name__', repr(value))}" for name, value in settings
        )
        return f"{type(self).__name__}({shown})"


@dataclass(unsafe_hash=True)  # a program may give it another `__name__`
class FormatReward:
    """A reward function: how well a completion keeps the format of `parser`."""

    parser: Parser
    __name__ = "format_reward_func"

    def __call__(self, completion: Messages | None, **kwargs: Any) -> float:
        return self.parser.format_score(completion)


def mean_score(completion: Messages | None, score: Callable[[str], float]) -> float:
    """The mean of `score` over a plain text or every assistant message; 0.0 when there is none."""
    if isinstance(completion, str):
        return float(score(completion))
    replies = [] if completion is None else with_role(completion, "assistant")
    scores = [score(message_text(reply)) for reply in replies]
    return sum(scores) / len(scores) if scores else 0.0


OPENING, CLOSING = "<think>", "</think>"


class ThinkParser(Parser):
    """Reads the text after the last `</think>`; a thought that never ends has no answer. No opening tag is needed.

    >>> ThinkParser().parse("<think>2+2</think> 4"), ThinkParser().parse("<think>2+2 is 4, so")
    ('4', '')
    """

    def parse(self, text: Messages) -> Any:
        """The stripped text after the thought, through `extract_fn`; `""` when none has ended."""
        _, closing, answer = completion_text(text).rpartition(CLOSING)
        return self.extract_fn(answer.strip()) if closing and OPENING not in answer else ""

    def format_score(self, completion: Messages | None) -> float:
        """Return the share of assistant messages that are one thought and then an answer; 0.0 without one."""
        return mean_score(completion, _is_thought_then_answer)


class MaybeThinkParser(Parser):
    """Reads the text after the last `</think>`, or the whole text when there is no thought at all.

    >>> [MaybeThinkParser().parse(text) for text in ("4", "<think>2+2</think> 4", "<think>2+2 is 4, so")]
    ['4', '4', '']
    """

    def __init__(
        self, extract_fn: Callable[[str], Any] = identity, accept_unfinished: bool = False
    ) -> None:
        super().__init__(extract_fn)
        self.accept_unfinished = (
            accept_unfinished  # whether a thought that was cut off may be read as an answer
        )

    def parse(self, text: Messages) -> Any:
        """The stripped text outside the thought, through `extract_fn`; `""` when it is unfinished."""
        answer = completion_text(text).rpartition(CLOSING)[2]
        if OPENING in answer and not self.accept_unfinished:
            return ""
        return self.extract_fn(answer.strip())


def _is_thought_then_answer(text: str) -> bool:
    once = text.count(OPENING) == 1 and text.count(CLOSING) == 1
    return once and text.lstrip().startswith(OPENING) and bool(text.rpartition(CLOSING)[2].strip())
