"""Exchanges with judges as a row keeps them: the shared opening of prompts once, and not each time."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from assay.models.judge_log import LoggedCall


def exchanges_told(kept: Sequence[LoggedCall]) -> tuple[Mapping[str, Any], ...]:
    """Exchanges as plain data. `like` is the number of an earlier one that opens in the same words.

    Of such a one only the messages after the common opening are told.
    """
    told: list[Mapping[str, Any]] = []
    for place, exchange in enumerate(kept):
        known: dict[str, Any] = {"judge": exchange.judge, "question": exchange.question}
        like, shared = _alike(kept[:place], exchange)
        if shared:
            known |= {"like": like, "shared": shared}
        known["messages"] = [dict(message) for message in exchange.messages[shared:]]
        told.append({**known, "reply": exchange.reply, "source": exchange.source})
    return tuple(told)


def _alike(before: Sequence[LoggedCall], exchange: LoggedCall) -> tuple[int, int]:
    """The first exchange that opens like this one, and how many messages they share."""
    for place, earlier in enumerate(before):
        shared = 0
        for one, other in zip(earlier.messages, exchange.messages, strict=False):
            if one != other:
                break
            shared += 1
        if shared:
            return place, shared
    return 0, 0


def whole_exchanges(told: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The same with every message written out again.

    >>> first = {"judge": "j", "question": "", "messages": [{"role": "user", "content": "a"}]}
    >>> again = {**first, "like": 0, "shared": 1, "messages": [{"role": "user", "content": "b"}]}
    >>> [message["content"] for message in whole_exchanges([first, again])[1]["messages"]]
    ['a', 'b']
    """
    whole: list[dict[str, Any]] = []
    for exchange in told:
        opening: list[Any] = []
        if "like" in exchange:
            before = cast("list[Any]", whole[exchange["like"]]["messages"])
            opening = before[: exchange["shared"]]
        known = {name: exchange[name] for name in exchange if name not in ("like", "shared")}
        known["messages"] = opening + list(exchange["messages"])
        whole.append(known)
    return whole
