"""Answer a request from the verdict cache, where it was answered before.

Only whole, readable replies are kept. Whatever a model raises is not: a failure that is kept would
be answered for ever.
"""

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
from assay.redaction import logger_of

VERSION = "1"  # changes when what was kept must not be found any more
# A cache; a folder, file or `postgresql://` URL; True for the default place; None for none.
CacheSource: TypeAlias = VerdictCache | str | Path | bool | None
_logger = logger_of(__name__)


def cache_of(source: CacheSource) -> VerdictCache | None:
    """The cache that is meant. One object a place, so that its batches go together."""
    if isinstance(source, bool) or source is None:
        return _opened(None) if source else None
    return _opened(str(source)) if isinstance(source, str | Path) else source


_opened = cache(VerdictCache)


class Cached:
    """A model with a cache in front."""

    def __init__(self, model: Model, verdicts: VerdictCache) -> None:
        self.id, self.inner, self._cache = model.id, model, verdicts

    async def __call__(self, request: Request) -> Reply:
        key = VerdictKey(
            question=request.question,
            text=text_hash(request.content),  # in which is everything that decides the answer
            judge=self.inner.id,
            prompt=f"{VERSION} {request.prompt}".rstrip(),
            sample=request.sample,
        )
        known = await self._cache.get(key)
        reply = None if known is None else _unpacked(known, request)
        if reply is not None:
            count_here(hits=1, models=reply.model)
            return reply
        reply = await self.inner(request)
        # Calls of tools are kept of a judge alone: what they returned is in the key of its next question.
        if not request.verbatim if reply.tool_calls else reply.text:
            try:
                # Waited for: what a caller has seen is not asked again, though the process be killed.
                await self._cache.put_many([(key, _packed(reply))])
            except CacheError as error:
                # The answer is paid for, and good: that it cannot be kept is no reason to lose it.
                _logger.warning("a reply of %s was not kept: %s", self.id, error)
        return reply


def _packed(reply: Reply) -> CachedVerdict:
    text, details = reply.text, dict[str, Any](model=reply.model, finish_reason=reply.finish_reason)
    if reply.logprobs is not None:
        details["logprobs"] = [[t.text, t.logprob, dict(t.alternatives)] for t in reply.logprobs]
    if reply.tool_calls:
        # Beside the calls there may be no text, and none is not kept.
        details["said"], text = text, dumps(reply.tool_calls)
    return CachedVerdict(text, usage=reply.usage._asdict(), cost=reply.cost, details=details)


def _unpacked(known: CachedVerdict, request: Request) -> Reply | None:
    """The reply that was kept; None when it cannot be read any more, and has to be asked for."""
    text, details = str(known.verdict), known.details
    calls = [ToolCall(*call) for call in loads(text)] if "said" in details else ()
    text, logprobs = details.get("said", text), details.get("logprobs")
    tokens = None if logprobs is None else tuple(Token(*token) for token in logprobs)
    told = {name: details[name] for name in ("model", "finish_reason") if name in details}
    try:
        value = read_structured(text, request)
    except Unreadable:
        return None
    used = Usage(**known.usage)
    return Reply(
        text,
        value,
        used,
        cost=0.0,
        logprobs=tokens,
        source="cache",
        tool_calls=tuple(calls),
        **told,
    )
