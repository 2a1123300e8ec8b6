"""ToolUse: one call of a tool that a transcript holds, and how it went."""

import json
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple, cast

from assay.messages import ToolCall, chat_of, message_text, role_of, tool_calls
from assay.parsers import XMLParser
from assay.parsers.xml import every_span
from assay.tools import is_failure
from assay.types import Messages

TAG = "tool"
"""The tag in which a model writes a call, where it has no other way to call."""
RESULT = "result"
"""The tag in which the environment replies to such a call."""
_REPLIES = ("tool", "user")


class ToolUse(NamedTuple):
    """One call of a tool."""

    name: str
    """Empty when the call cannot be read, so that nobody knows which tool was meant."""
    arguments: str
    """As the model wrote them."""
    succeeded: bool | None
    """None when nobody replied."""


def tool_uses(completion: Messages, env_parser: XMLParser) -> list[ToolUse]:
    """The calls in a completion, in order: native `tool_calls`, or JSON in `<tool>` tags.

    A call has succeeded when the reply to it does not begin with `Error:`; one in tags, when the
    reply has a `<result>` that does not.

    >>> chat = [
    ...     {"role": "assistant", "content": '<tool>{"name": "add", "args": {"to": 4}}</tool>'},
    ...     {"role": "user", "content": "<result>Error: add needs two numbers</result>"},
    ... ]
    >>> tool_uses(chat, XMLParser(["result"]))
    [ToolUse(name='add', arguments='{"to": 4}', succeeded=False)]
    """
    uses: list[ToolUse] = []
    for said, replies in _turns(completion):
        calls = tool_calls(said)
        uses += _native(calls, replies) if calls else _tagged(said, replies, env_parser)
    return uses


def _turns(completion: Messages) -> Iterator[tuple[object, list[object]]]:
    """What the model said each time, and the messages up to the next time."""
    if isinstance(completion, str):
        yield completion, []
        return
    said: object = None
    replies: list[object] = []
    for message in chat_of(completion):
        if role_of(message) == "assistant":
            if said is not None:
                yield said, replies
            said, replies = message, []
        elif role_of(message) in _REPLIES:
            replies.append(message)
    if said is not None:
        yield said, replies


def _native(calls: Sequence[ToolCall], replies: Sequence[object]) -> Iterator[ToolUse]:
    """Calls with the replies to them: by their id, and in order where there is none that fits."""
    left = dict(enumerate(reply for reply in replies if role_of(reply) == "tool"))
    by_id: dict[str, deque[int]] = defaultdict(deque)
    for number, reply in left.items():
        by_id[str(field_of(reply, "tool_call_id"))].append(number)
    # Each is looked up, since a model can write thousands of calls.
    answers: dict[int, object] = {}
    for place, call in enumerate(calls):
        if call.id and by_id.get(call.id):
            answers[place] = left.pop(by_id[call.id].popleft())
    others = iter(left.values())
    for place, call in enumerate(calls):
        reply = answers[place] if place in answers else next(others, None)
        succeeded = None if reply is None else not is_failure(message_text(reply))
        yield ToolUse(call.name, call.arguments, succeeded)


def _tagged(said: object, replies: Sequence[object], env_parser: XMLParser) -> Sequence[ToolUse]:
    """Calls in tags, with the results that answer the last of them."""
    text = message_text(said)
    calls = [text[span.start : span.end] for span in every_span(text, TAG)]
    if not calls:
        return ()
    results = [
        result
        for reply in replies
        for result in cast("list[str]", getattr(env_parser.parse_all(message_text(reply)), RESULT))
    ]
    outcomes = [not is_failure(result) for result in results[-len(calls) :]]
    # A reply without a result says that something went wrong; no reply says nothing.
    unknown = False if replies else None
    pairs = zip_longest(reversed(calls), reversed(outcomes), fillvalue=unknown)
    uses = [_read(cast("str", call), outcome) for call, outcome in pairs]
    return uses[::-1]


def _read(call: str, succeeded: Any) -> ToolUse:
    try:
        asked: Any = json.loads(call)
    except (ValueError, RecursionError):
        asked = None
    name = field_of(asked, "name")
    if not isinstance(name, str):
        return ToolUse("", call.strip(), succeeded)
    return ToolUse(name, json.dumps(field_of(asked, "args") or {}), succeeded)


def field_of(thing: object, name: str) -> Any:
    """A field of a mapping, or an attribute of anything else; None when there is none."""
    if isinstance(thing, Mapping):
        return cast("Mapping[str, Any]", thing).get(name)
    return getattr(thing, name, None)
