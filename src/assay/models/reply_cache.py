"""Answer a request from the verdict cache, or with the reply to an equal request that is under way.

Only whole, readable replies are kept. Whatever a model raises is not: a failure that is kept would
be answered for ever.
"""

import asyncio
from collections.abc import Hashable
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from assay.cache import CachedVerdict, Item, VerdictCache, VerdictKey, text_hash
from assay.errors import CacheError, Unreadable
from assay.models.base import Model, Reply, Request, Token, Usage
from assay.models.budgets import Ledger
from assay.models.structured import read
from assay.redaction import logger_of

VERSION = "1"
"""Changes when what was kept must not be found any more."""


class Cache(Protocol):
    """What is needed of a cache; `assay.cache.VerdictCache` has it."""

    async def get(self, key: VerdictKey) -> CachedVerdict | None: ...

    async def put_many(self, items: list[Item]) -> None: ...


CacheSource: TypeAlias = Cache | str | Path | bool | None
"""A cache; a folder, file or `postgresql://` URL; True for the default place; None for none."""

_logger = logger_of(__name__)


def cache_of(source: CacheSource) -> Cache | None:
    """The cache that is meant. One object a place, so that its batches go together."""
    if source is None or source is False:
        return None
    if source is True:
        return _opened(None)
    return _opened(str(source)) if isinstance(source, str | Path) else source


@cache
def _opened(place: str | None) -> VerdictCache:
    return VerdictCache(place)


class Cached:
    """A model with a cache in front."""

    def __init__(self, model: Model, cache: Cache) -> None:
        self.inner = model
        self._cache = cache

    @property
    def id(self) -> str:
        """The inner model's."""
        return self.inner.id

    async def __call__(self, request: Request) -> Reply:
        key = key_of(request, self.inner.id)
        known = await self._cache.get(key)
        reply = None if known is None else _unpacked(known, request)
        if reply is not None:
            ledger = Ledger.current()
            if ledger is not None:
                ledger.count(hits=1, model=reply.model)
            return reply
        reply = await self.inner(request)
        if reply.text and not reply.tool_calls:
            await self._keep(key, reply)
        return reply

    async def _keep(self, key: VerdictKey, reply: Reply) -> None:
        try:
            # Waited for: what a caller has seen is not asked again, though the process be killed.
            await self._cache.put_many([(key, _packed(reply))])
        except CacheError as error:
            # The answer is paid for, and good: that it cannot be kept is no reason to lose it.
            _logger.warning("a reply of %s was not kept: %s", self.id, error)


def key_of(request: Request, model: str) -> VerdictKey:
    """The key of a request: everything that decides the answer is in its `text`."""
    return VerdictKey(
        question=request.question,
        text=text_hash(request.content),
        judge=model,
        prompt=f"{VERSION} {request.prompt}".rstrip(),
        sample=request.sample,
    )


def _packed(reply: Reply) -> CachedVerdict:
    details: dict[str, Any] = {"model": reply.model, "finish_reason": reply.finish_reason}
    if reply.logprobs is not None:
        details["logprobs"] = [[t.text, t.logprob, dict(t.alternatives)] for t in reply.logprobs]
    return CachedVerdict(reply.text, usage=reply.usage._asdict(), cost=reply.cost, details=details)


def _unpacked(known: CachedVerdict, request: Request) -> Reply | None:
    """The reply that was kept; None when it cannot be read any more, and has to be asked for."""
    details = known.details
    logprobs = details.get("logprobs")
    reply = Reply(
        str(known.verdict),
        usage=Usage(**known.usage),
        cost=0.0,
        model=details.get("model", ""),
        finish_reason=details.get("finish_reason", "stop"),
        logprobs=None if logprobs is None else tuple(Token(*token) for token in logprobs),
        calls=0,
        source="cache",
    )
    try:
        return reply._replace(value=read(reply.text, request))
    except Unreadable:
        return None


class Deduplicated:
    """A model around another: a caller who asks what is being asked already gets that reply too.

    Within one event loop. Samples of one question differ in their number and are asked each.
    """

    def __init__(self, model: Model) -> None:
        self.inner = model
        self._asked: dict[Hashable, asyncio.Future[Reply]] = {}

    @property
    def id(self) -> str:
        """The inner model's."""
        return self.inner.id

    async def __call__(self, request: Request) -> Reply:
        loop = asyncio.get_running_loop()
        key = (loop, request.shape)
        while (asked := self._asked.get(key)) is not None:
            reply = await _taken_over(asked)
            if reply is not None:
                return reply
        asked = self._asked[key] = loop.create_future()
        try:
            reply = await self.inner(request)
        except BaseException as error:
            self._end(key, asked, error)
            raise
        del self._asked[key]
        asked.set_result(reply)
        return reply

    def _end(self, key: Hashable, asked: "asyncio.Future[Reply]", error: BaseException) -> None:
        del self._asked[key]
        if isinstance(error, Exception):
            asked.set_exception(error)
            # Looked at here, for it is no loss when nobody else was waiting for it.
            asked.exception()
        else:
            asked.cancel()


async def _taken_over(asked: "asyncio.Future[Reply]") -> Reply | None:
    """The reply to an equal request; None when that was cancelled and has to be asked anew."""
    await asyncio.wait([asked])
    if asked.cancelled():
        return None
    reply = asked.result()
    ledger = Ledger.current()
    if ledger is not None:
        ledger.count(shared=1)
    return reply._replace(source="flight", cost=0.0, calls=0)
