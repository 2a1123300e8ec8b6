"""Answer a request from the verdict cache if it was answered before.

Only complete, readable replies are stored. An error is never stored, because it would then be
repeated forever.
"""

from __future__ import annotations

from functools import cache
from json import dumps, loads
from pathlib import Path
from typing import Any, TypeAlias

from assay.cache import CachedVerdict, VerdictCache, VerdictKey, text_hash
from assay.errors import CacheError, Unreadable
from assay.messages import ToolCall
from assay.models.budgets import count_here
from assay.models.model import Model, Reply, Request, Token, Usage
from assay.models.structured import read_structured
from assay.redaction import get_logger

VERSION = "1"  # part of every key; changed when stored replies must not be used any more
# A cache; a folder, file or `postgresql://` URL; True for the default location; None for no cache.
CacheSource: TypeAlias = VerdictCache | str | Path | bool | None
# Under this key the text is stored beside tool calls. Caches of users contain it.
_TEXT_BESIDE_CALLS = "said"

_logger = get_logger(__name__)


def cache_of(source: CacheSource) -> VerdictCache | None:
    """Return the cache that a source names; None if it names no cache.

    There is one object per location, so that writes to it are batched.
    """
    if source is None or source is False:
        return None
    if source is True:
        return _open_cache(None)
    if isinstance(source, str | Path):
        return _open_cache(str(source))
    return source


_open_cache = cache(VerdictCache)


class Cached:
    """A model that looks up each request in a cache first."""

    def __init__(self, model: Model, verdicts: VerdictCache) -> None:
        self.id = model.id
        self.inner = model
        self._cache = verdicts

    async def __call__(self, request: Request) -> Reply:
        key = VerdictKey(
            question=request.question,
            text=text_hash(request.content),  # which covers everything that affects the answer
            judge=self.inner.id,
            prompt=f"{VERSION} {request.prompt}".rstrip(),
            sample=request.sample,
        )
        stored = await self._cache.get(key)
        if stored is not None:
            reply = _unpack_reply(stored, request)
            if reply is not None:
                count_here(hits=1, models=reply.model)
                return reply
        reply = await self.inner(request)
        if _is_worth_storing(reply, request):
            try:
                # Awaited, so that a reply that a caller has seen is never asked for again, even if
                # the process is killed.
                await self._cache.put_many([(key, _pack_reply(reply))])
            except CacheError as error:
                # The reply is good and was paid for, so it is returned all the same.
                _logger.warning("a reply of %s could not be cached: %s", self.id, error)
        return reply


def _is_worth_storing(reply: Reply, request: Request) -> bool:
    if reply.tool_calls:
        # Only those of a judge: the key of its next question contains what its tools returned.
        return not request.verbatim
    return bool(reply.text)


def _pack_reply(reply: Reply) -> CachedVerdict:
    verdict = reply.text
    details: dict[str, Any] = {"model": reply.model, "finish_reason": reply.finish_reason}
    if reply.logprobs is not None:
        details["logprobs"] = [
            [token.text, token.logprob, dict(token.alternatives)] for token in reply.logprobs
        ]
    if reply.tool_calls:
        # The calls are stored in place of the text, which may be empty: empty texts are not stored.
        verdict = dumps(reply.tool_calls)
        details[_TEXT_BESIDE_CALLS] = reply.text
    return CachedVerdict(
        verdict,
        usage=reply.usage._asdict(),
        cost=reply.cost,
        details=details,
    )


def _unpack_reply(stored: CachedVerdict, request: Request) -> Reply | None:
    """Return a stored reply; None if it can no longer be read and has to be asked for."""
    details = stored.details
    text = str(stored.verdict)
    tool_calls: tuple[ToolCall, ...] = ()
    if _TEXT_BESIDE_CALLS in details:
        tool_calls = tuple(ToolCall(*call) for call in loads(text))
        text = details[_TEXT_BESIDE_CALLS]
    logprobs = None
    if details.get("logprobs") is not None:
        logprobs = tuple(Token(*token) for token in details["logprobs"])
    try:
        value = read_structured(text, request)
    except Unreadable:
        return None
    return Reply(
        text,
        value=value,
        usage=Usage(**stored.usage),
        cost=0.0,
        model=details.get("model", ""),
        finish_reason=details.get("finish_reason", "stop"),
        logprobs=logprobs,
        source="cache",
        tool_calls=tool_calls,
    )
