"""Answer requests with an engine on this machine, without a key or a network: see docs/how-to/use-a-local-model.md."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable
from functools import cache

from assay.local.llama_server import CONTEXT, LocalProcess
from assay.local.weights import SMOKE, fingerprint, weights_file
from assay.models.endpoint_model import Deduplicated, EndpointModel
from assay.models.limiter import Limits
from assay.models.model import FREE, Model, Reply, Request
from assay.models.network_thread import run_on_network_thread
from assay.models.openai_chat import OpenAIChatFormat
from assay.models.retry import Endpoint
from assay.models.wire_format import Payload, RawReply
from assay.redaction import get_logger

NOT_A_JUDGEMENT = "smoke judge: not a judgement"  # part of that model's id, so that it appears wherever the judge is named
# A slow machine is not an outage: long prompts take minutes, and all callers wait for them.
PATIENT = Limits(concurrency=64, timeout=1800.0, deadline=86_400.0, attempts=3)

REMEMBERED = 4  # number of prompt prefixes that are assumed to be in the engine's cache

logger = get_logger(__name__)


@cache
def local_model(source: str) -> Model:
    """Return the model of `local`, `local:PATH` or `smoke`; equal names share one model.

    The engine starts with the first request. Raises `Refused` if the weights do not exist.
    """
    return Deduplicated(LocalModel(source))


class LocalModel:
    """A model on this machine, in a separate process, which answers one request at a time.

    Requests with the same prefix are answered one after the other, so the prefix is processed once. A
    cancelled request also stops in the engine.
    """

    def __init__(
        self, source: str = "local", *, threads: int | None = None, context: int = CONTEXT
    ) -> None:
        """`threads` None means all cores; use 1 on a busy machine."""
        name, path = weights_file(source)
        self.is_judge = name != SMOKE.name  # false for `smoke`, whose verdicts are random
        label = f"local/{name}" if self.is_judge else NOT_A_JUDGEMENT
        self.id = f"{label}@{fingerprint(path)}"
        self.window = context
        self._process = LocalProcess(f"local:{path}", threads=threads, context=context)
        self._queue = PrefixQueue()
        endpoint = Endpoint.at(self.id, limits=PATIENT)
        form = OpenAIChatFormat()
        self._model = EndpointModel(
            self.id, name, wire_format=form, send=self._send, endpoint=endpoint, price=FREE
        )

    async def __call__(self, request: Request) -> Reply:
        return await run_on_network_thread(self._answer(request))

    async def _answer(self, request: Request) -> Reply:
        await self._queue.enter(
            tuple(str(message["content"]) for message in request.messages[: request.shared])
        )
        try:
            reply = await self._model(request)
        finally:
            self._queue.leave()
        return reply._replace(model=self.id)

    @property
    def pid(self) -> int | None:
        return self._process.pid

    async def start(self) -> None:
        """Load the model now instead of with the first request."""
        if not self._process.url:
            if not self.is_judge:
                logger.warning("%s; name a real one for verdicts that mean anything", self.id)
            await asyncio.to_thread(self._process.start)

    def close(self) -> None:
        """Stop the engine and free its memory; the next request starts it again."""
        self._process.stop()

    async def _send(self, payload: Payload, seconds: float) -> RawReply:
        from assay.models.http import HttpAddress

        await self.start()
        form = OpenAIChatFormat()
        address = HttpAddress(self._process.url + form.path, form.headers(self._process.key))
        return await address.post(payload, seconds)


class PrefixQueue:
    """Give the engine to one request at a time, and keep requests with the same prefix together.

    The engine has read the prefix of the last requests, so requests with one of these go first. All
    methods are called on the network thread.
    """

    def __init__(self) -> None:
        self._is_free = True
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}  # by prefix
        self._recent_prefixes: list[Hashable] = []  # the latest last

    async def enter(self, prefix: Hashable) -> None:
        """Wait for the engine; `leave` gives it back."""
        if self._is_free:
            self._assign(prefix)
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(prefix, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                # The engine was assigned just before the request was cancelled.
                self.leave()
            raise

    def leave(self) -> None:
        """Give the engine back, and assign it to the waiting request that fits best."""
        self._is_free = True
        # The latest prefix comes first, and unknown prefixes in order of arrival.
        for prefix in (*reversed(self._recent_prefixes), *self._waiting):
            turn = self._next_turn(prefix)
            if turn is not None:
                self._assign(prefix)
                turn.set_result(None)
                return

    def _next_turn(self, prefix: Hashable) -> asyncio.Future[None] | None:
        """Remove and return the first waiting request with a prefix; None if there is none."""
        turns = self._waiting.get(prefix, deque[asyncio.Future[None]]())
        next_turn = None
        while turns and next_turn is None:
            turn = turns.popleft()
            if not turn.done():
                next_turn = turn
        if not turns:
            self._waiting.pop(prefix, None)
        return next_turn

    def _assign(self, prefix: Hashable) -> None:
        self._is_free = False
        if prefix in self._recent_prefixes:
            self._recent_prefixes.remove(prefix)
        self._recent_prefixes.append(prefix)
        del self._recent_prefixes[:-REMEMBERED]
