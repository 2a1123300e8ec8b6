"""Log what judges were asked and what they said, word for word.

with judge_log() as calls:
    reports = await rubric.score(rollouts)
calls[0].reply
"""

from collections.abc import Awaitable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, NamedTuple

from assay.models.model import Model, Reply, Request, Source
from assay.redaction import redacted
from assay.types import Message
from assay.wording import described


class LoggedCall(NamedTuple):
    """One question to a judge and its answer."""

    judge: str
    """The model's id."""
    question: str
    """The hash of the criterion's question; empty when several were asked at once."""
    messages: tuple[Message, ...]
    reply: str
    """What it said; of a call that came to nothing, why."""
    source: Source | Literal["error"]
    """Whether the model answered, or a cache; or that there was no answer."""


_LOG: ContextVar[list[LoggedCall] | None] = ContextVar("assay_judge_log", default=None)


@contextmanager
def judge_log(*, wanted: bool = True) -> Generator[list[LoggedCall]]:
    """Log every call of a judge inside; the list grows as they come, unless they are not `wanted`."""
    calls: list[LoggedCall] = []
    token = _LOG.set(calls if wanted else _LOG.get())
    try:
        yield calls
    finally:
        _LOG.reset(token)


def ask_judge(model: Model, request: Request) -> Awaitable[Reply]:
    """The model's reply, logged where there is a log."""
    log = _LOG.get()
    return model(request) if log is None else _logged(model, request, log)


async def _logged(model: Model, request: Request, log: list[LoggedCall]) -> Reply:
    asked = (redacted(model.id), request.question, request.messages)
    try:
        reply = await model(request)
    except Exception as error:
        log.append(LoggedCall(*asked, described(error), "error"))
        raise
    log.append(LoggedCall(*asked, reply.text, reply.source))
    return reply
