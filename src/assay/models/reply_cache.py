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
# The key of the text of a reply with tool calls. It stays, because it is in the caches of users.
_TEXT_BESIDE_CALLS = "said"

_logger = get_logger(__name__)


def cache_of(source: CacheSource) -> VerdictCache | None:
    """Return the cache that a source stands for; None if it stands for no cache.

    There is one object per location, so that writes to it are batched.
    """
    if source is None or source is False:
        return None
    if source is True:
        default_location = None
        return _open_cache(default_location)
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
        """Return the stored reply to an equal request; without one, ask the model and store it."""
        key = VerdictKey(
            question=request.question,
            text=text_hash(request.content),  # covers everything that affects the answer
            judge=self.inner.id,
            prompt=f"{VERSION} {request.prompt}".rstrip(),
            sample=request.sample,
        )
        stored = await self._cache.get(key)
        if stored is not None:
            try:
                reply = _unpack_reply(stored, request)
            except (ValueError, TypeError, AttributeError):
                reply = None  # it is damaged
            if reply is not None:
                count_here(hits=1, models=reply.model)
                return reply
        reply = await self.inner(request)
        if _is_worth_storing(reply, request):
            try:
                # Wait until the reply is stored. Even if the process is killed later, it is not
                # asked for, and paid for, again.
                await self._cache.put_many([(key, _pack_reply(reply))])
            except CacheError as error:
                # The reply is good and was paid for, so it is returned all the same.
                _logger.warning("a reply of %s could not be cached: %s", self.id, error)
        return reply


def _is_worth_storing(reply: Reply, request: Request) -> bool:
    """Return whether a reply may answer the same request again."""
    if reply.tool_calls:
        # The calls of a judge can be repeated from the cache: its next request contains what the
        # tools return this time, so another result leads to another key. The calls of a model under
        # test (`verbatim`) are not stored.
        return not request.verbatim
    return bool(reply.text)


def _pack_reply(reply: Reply) -> CachedVerdict:
    """Return a reply as it is stored; `_unpack_reply` reads it.

    What the cache calls a verdict is the text of the reply. If there are tool calls, it is those,
    because the cache stores no empty verdicts; the text is then among the details.
    """
    details: dict[str, Any] = {"model": reply.model, "finish_reason": reply.finish_reason}
    if reply.logprobs is not None:
        stored_tokens: list[Any] = []
        for token in reply.logprobs:
            stored_tokens.append([token.text, token.logprob, dict(token.alternatives)])
        details["logprobs"] = stored_tokens
    if reply.tool_calls:
        verdict = dumps(reply.tool_calls)
        details[_TEXT_BESIDE_CALLS] = reply.text
    else:
        verdict = reply.text
    return CachedVerdict(
        verdict,
        usage=reply.usage._asdict(),
        cost=reply.cost,
        details=details,
    )


def _unpack_reply(stored: CachedVerdict, request: Request) -> Reply | None:
    """Return a stored reply; None if it does not fit the request and must be asked for again."""
    details = stored.details
    tool_calls: tuple[ToolCall, ...] = ()
    has_tool_calls = _TEXT_BESIDE_CALLS in details
    if has_tool_calls:
        # They are stored in place of the verdict, and the text is among the details.
        stored_calls = loads(str(stored.verdict))
        tool_calls = tuple(ToolCall(*call) for call in stored_calls)
        text = details[_TEXT_BESIDE_CALLS]
    else:
        text = str(stored.verdict)
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
        cost=0.0,  # it was paid for when it was stored
        model=details.get("model", ""),
        finish_reason=details.get("finish_reason", "stop"),
        logprobs=logprobs,
        source="cache",
        tool_calls=tool_calls,
    )
