"""ToolParser: reads rollouts with tools, whichever way their tools are called."""

from collections.abc import Sequence
from typing import Any

from assay.messages import chat_of, message_text, role_of, tool_calls
from assay.parsers import Parser, XMLParser
from assay.types import Message, Messages


class ToolParser(XMLParser):
    """Reads `<reasoning>` and then `<tool>` or `<answer>`; native calls ask for no tags.

    Where tools are called natively, the answer is the last message, unless it has an `<answer>`.

    >>> call = {"id": "1", "function": {"name": "calculator", "arguments": "{}"}}
    >>> chat = [
    ...     {"role": "assistant", "tool_calls": [call]},
    ...     {"role": "tool", "tool_call_id": "1", "content": "42"},
    ...     {"role": "assistant", "content": "42"},
    ... ]
    >>> ToolParser().parse_answer(chat), ToolParser().format_score(chat)
    ('42', 1.0)
    """

    def __init__(self) -> None:
        super().__init__(["reasoning", ("tool", "answer")])

    def parse_answer(self, completion: Messages | None) -> Any:
        """The last `<answer>`; else the last message after native calls; else None."""
        found = super().parse_answer(completion)
        said = [m for m in chat_of(completion) if role_of(m) == "assistant"]
        if found is not None or not any(map(tool_calls, said)) or tool_calls(said[-1]):
            return found
        return message_text(said[-1]).strip() or None

    def format_score(self, completion: Messages | None) -> float:
        """As for an `XMLParser`, over messages without native calls, which have no tags to keep.

        Where there are native calls, other messages need none either.
        """
        chat = chat_of(completion)
        if not any(map(tool_calls, chat)):
            return super().format_score(completion)
        scores = [self._spoken_score(m) for m in without_calls(chat) if role_of(m) == "assistant"]
        return sum(scores) / len(scores) if scores else 0.0

    def _spoken_score(self, message: Message) -> float:
        text = message_text(message)
        return super().format_score(text) if self._tag.search(text) else float(bool(text.strip()))

    def _settings(self) -> list[str]:
        return []


def without_calls(chat: Sequence[Any]) -> list[Any]:
    """The messages that call no tool natively."""
    return [message for message in chat if not tool_calls(message)]


def format_of(completion: Messages, parser: Parser) -> float:
    """How well a completion keeps a parser's format, as far as it is made of words."""
    if isinstance(completion, str) or isinstance(parser, ToolParser):
        return parser.format_score(completion)
    return parser.format_score(without_calls(chat_of(completion)))
