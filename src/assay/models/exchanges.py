"""Exchanges: what judges were asked and what they said, word for word, for whoever wants to keep it.

with keeping_exchanges() as kept:
    reports = await rubric.score(rollouts)
kept[0].reply
"""

from collections.abc import Awaitable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, NamedTuple

from assay.models.base import Model, Reply, Request, Source
from assay.redaction import redacted
from assay.types import Message
from assay.wording import described


class Exchange(NamedTuple):
    """One question and its answer."""

    judge: str
    """The model's id."""
    question: str
    """The hash of the criterion's question; empty when several were asked at once."""
    messages: tuple[Message, ...]
    reply: str
    """What it said; of an exchange that came to nothing, why."""
    source: Source | Literal["error"]
    """Who answered: the model, or a cache; or that nobody did."""


_KEPT: ContextVar[list[Exchange] | None] = ContextVar("exchanges", default=None)


@contextmanager
def keeping_exchanges(*, wanted: bool = True) -> Generator[list[Exchange]]:
    """Keep every exchange with a judge inside; the list grows as they come, unless they are not `wanted`."""
    kept: list[Exchange] = []
    token = _KEPT.set(kept if wanted else _KEPT.get())
    try:
        yield kept
    finally:
        _KEPT.reset(token)


def exchanged(model: Model, request: Request) -> Awaitable[Reply]:
    """The model's reply, kept if somebody keeps exchanges."""
    kept = _KEPT.get()
    return model(request) if kept is None else _kept(model, request, kept)


async def _kept(model: Model, request: Request, kept: list[Exchange]) -> Reply:
    asked = (redacted(model.id), request.question, request.messages)
    try:
        reply = await model(request)
    except Exception as error:
        kept.append(Exchange(*asked, described(error), "error"))
        raise
    kept.append(Exchange(*asked, reply.text, reply.source))
    return reply
