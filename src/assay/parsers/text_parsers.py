"""Parse a completion as plain text, or as the text after its reasoning, and reward its format."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from assay.messages import (
    completion_text,
    find_last_with_role,
    hide_reasoning,
    message_text,
    select_role,
    text_with_reasoning,
)
from assay.reasoning import THINKING, ReasoningSection, remove_answer_markers, split_reasoning
from assay.types import Messages

OPENING_TAG = "<think>"
CLOSING_TAG = "</think>"


def identity(value: Any) -> Any:
    """Return the value unchanged: the default of `extract_fn`."""
    return value


class Parser:
    """Reads the answer from a completion: the whole text, passed through `extract_fn`.

    Parsers of the same class with the same settings are equal.

    >>> Parser(str.strip).parse_answer([{"role": "assistant", "content": " 4 "}])
    '4'
    """

    # Whether it finds the answer beside the reasoning itself. Other parsers read a completion
    # without reasoning.
    reads_reasoning: ClassVar[bool] = False

    def __init__(self, extract_fn: Callable[[str], Any] = identity) -> None:
        if not callable(extract_fn):
            raise TypeError(f"extract_fn is {extract_fn!r}: pass a function that takes a text")
        self.extract_fn = extract_fn

    def parse(self, text: Messages) -> Any:
        """Parse one text; of messages, the last one of the assistant."""
        return self.extract_fn(self._read_text(text))

    def parse_answer(self, completion: Messages | None) -> Any:
        """Return the answer in a plain text or in the last assistant message; None without one.

        It is looked for outside of reasoning, unless the rubric says `thinking: shown`.
        """
        if completion is None:
            return None
        visible: Messages = completion
        if self._hides_reasoning:
            visible = hide_reasoning(completion)
        if isinstance(visible, str):
            return self.parse(visible)
        last_message = find_last_with_role(visible, "assistant")
        if last_message is None:
            return None
        return self.parse(self._read_message(last_message))

    @property
    def _hides_reasoning(self) -> bool:
        return not self.reads_reasoning and THINKING.get() != "shown"

    def _read_text(self, completion: Messages) -> str:
        """Return a text as it is; of messages, the text of the last one of the assistant."""
        if isinstance(completion, str):
            return completion
        last_message = find_last_with_role(completion, "assistant")
        if last_message is None:
            return completion_text(completion)
        return self._read_message(last_message)

    def _read_message(self, message: object) -> str:
        """Return the text of a message as this parser reads it."""
        return message_text(message)

    def get_assistant_messages(self, messages: Messages) -> list[Any]:
        """Return the messages of the model, in order. A plain text has no messages."""
        return select_role(messages, "assistant")

    def get_user_messages(self, messages: Messages) -> list[Any]:
        """Return the messages of the user, in order."""
        return select_role(messages, "user")

    def get_system_messages(self, messages: Messages) -> list[Any]:
        """Return the system messages, in order."""
        return select_role(messages, "system")

    def get_tool_messages(self, messages: Messages) -> list[Any]:
        """Return the replies of tools, in order."""
        return select_role(messages, "tool")

    def format_score(self, completion: Messages | None) -> float:
        """Return how well a completion keeps the format, 0…1. This parser has no format: 1.0."""
        return 1.0

    def get_format_reward_func(self) -> "FormatReward":
        """Return `format_score` as a reward function that can be pickled."""
        return FormatReward(self)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        # Equal parsers have the same class. The fields of a subclass may not be hashable.
        return hash(type(self))

    def __repr__(self) -> str:
        settings: list[str] = []
        for name, value in vars(self).items():
            if not name.startswith("_"):
                shown_value = getattr(value, "__name__", repr(value))
                settings.append(f"{name}={shown_value}")
        return f"{type(self).__name__}({', '.join(settings)})"


# Not frozen, because a caller may set another `__name__`.
@dataclass(unsafe_hash=True)
class FormatReward:
    """A reward function: how well a completion keeps the format of `parser`."""

    parser: Parser
    __name__ = "format_reward_func"

    def __call__(self, completion: Messages | None, **kwargs: Any) -> float:
        return self.parser.format_score(completion)


class _ReasoningParser(Parser):
    """Reads messages together with the reasoning in their fields, as if it were in the text."""

    reads_reasoning = True

    def _read_message(self, message: object) -> str:
        return text_with_reasoning(message)


class ThinkParser(_ReasoningParser):
    """Reads the text after the last `</think>`. The opening tag is not required.

    The other markers of reasoning that `assay.reasoning` knows are read too. A completion whose
    reasoning does not end has no answer.

    >>> ThinkParser().parse("<think>2+2</think> 4"), ThinkParser().parse("<think>2+2 is 4, so")
    ('4', '')
    """

    def parse(self, text: Messages) -> Any:
        """Return the stripped text after the reasoning, through `extract_fn`; `""` without one."""
        full_text = self._read_text(text)
        sections = split_reasoning(full_text).sections
        if not sections or not sections[-1].is_closed:
            return ""
        return self.extract_fn(_read_after(full_text, sections[-1]))

    def format_score(self, completion: Messages | None) -> float:
        """Return the share of assistant messages that are reasoning followed by an answer."""
        return average_score(completion, _is_reasoning_then_answer, text_with_reasoning)


def _is_reasoning_then_answer(text: str) -> bool:
    has_one_pair = text.count(OPENING_TAG) == 1 and text.count(CLOSING_TAG) == 1
    starts_with_reasoning = text.lstrip().startswith(OPENING_TAG)
    answer = text.rpartition(CLOSING_TAG)[2].strip()
    return has_one_pair and starts_with_reasoning and answer != ""


class MaybeThinkParser(_ReasoningParser):
    """Reads the text after the last `</think>`, or the whole text if there is no reasoning.

    The other markers of reasoning that `assay.reasoning` knows are read too.

    `accept_unfinished` says whether reasoning that was cut off is read as the answer.

    >>> texts = ["4", "<think>2+2</think> 4", "<think>2+2 is 4, so"]
    >>> [MaybeThinkParser().parse(text) for text in texts]
    ['4', '4', '']
    """

    def __init__(
        self, extract_fn: Callable[[str], Any] = identity, accept_unfinished: bool = False
    ) -> None:
        super().__init__(extract_fn)
        self.accept_unfinished = accept_unfinished

    def parse(self, text: Messages) -> Any:
        """Return the stripped text after the reasoning, through `extract_fn`.

        That is `""` if the reasoning is unfinished.
        """
        full_text = self._read_text(text)
        split = split_reasoning(full_text)
        sections = split.sections
        if self.accept_unfinished:
            sections = [section for section in sections if section.is_closed]
            if not sections:
                return self.extract_fn(full_text.strip())
        if not sections:
            return self.extract_fn(split.answer.strip())
        if not sections[-1].is_closed:
            return ""
        return self.extract_fn(_read_after(full_text, sections[-1]))


def _read_after(text: str, section: ReasoningSection) -> str:
    """Return the stripped text after the last section of reasoning."""
    return remove_answer_markers(text[section.end :]).strip()


def average_score(
    completion: Messages | None,
    score: Callable[[str], float],
    read_text: Callable[[Any], str] = message_text,
) -> float:
    """Return the mean of `score` over all assistant messages, or for a plain text its score.

    Without an assistant message it is 0.0. `read_text` returns the text of a message.
    """
    if completion is None:
        return 0.0
    if isinstance(completion, str):
        return float(score(completion))
    scores = [score(read_text(message)) for message in select_role(completion, "assistant")]
    if not scores:
        return 0.0
    return sum(scores) / len(scores)
