"""Answer requests by an engine on this machine, with no key and no network: see docs/how-to/use-a-local-model.md."""

import asyncio
import threading
from collections.abc import Hashable
from functools import cache

from assay.local.llama_server import CONTEXT, LocalProcess
from assay.local.weights import SMOKE, fingerprint, weights_file
from assay.models.endpoint_model import Deduplicated, EndpointModel
from assay.models.limiter import Limits, WaitQueue
from assay.models.model import FREE, Model, Reply, Request
from assay.models.openai_chat import OpenAIChatFormat
from assay.models.retry import Endpoint
from assay.models.wire_format import Payload, RawReply
from assay.redaction import logger_of

NOT_A_JUDGEMENT = "smoke judge: not a judgement"  # part of that model's id, which stands wherever the judge is named
# A slow machine is no outage: long prompts take minutes, and every caller has to wait for them.
PATIENT = Limits(concurrency=64, timeout=1800.0, deadline=86_400.0, attempts=3)

REMEMBERED = 4  # how many beginnings of prompts count as still in the engine's memory

logger = logger_of(__name__)


@cache
def local_model(source: str) -> Model:
    """The model behind `local`, `local:PATH` or `smoke`; one for all who ask for the same.

    Nothing starts before the first request. Raises `Refused` when there are no such weights.
    """
    return Deduplicated(LocalModel(source))


class LocalModel:
    """A model that runs here, in a process of its own, one request at a time.

    Requests that begin alike are answered one after the other, so what they share is read once. A
    cancelled request stops in the engine too.
    """

    def __init__(
        self, source: str = "local", *, threads: int | None = None, context: int = CONTEXT
    ) -> None:
        """`threads` None takes every core; give 1 where others are at work."""
        name, path = weights_file(source)
        self.is_judge = name != SMOKE.name  # false for `smoke`, whose verdicts mean nothing
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
        """Load the model now; otherwise the first request does."""
        if not self._process.url:
            if not self.is_judge:
                logger.warning("%s; name a real one for verdicts that mean anything", self.id)
            await asyncio.to_thread(self._process.start)

    def close(self) -> None:
        """Stop the engine and free its memory; another request starts it again."""
        self._process.stop()

    async def _send(self, payload: Payload, seconds: float) -> RawReply:
        from assay.models.http import HttpAddress

        await self.start()
        form = OpenAIChatFormat()
        address = HttpAddress(self._process.url + form.path, form.headers(self._process.key))
        return await address.post(payload, seconds)


class PrefixQueue:
    """Give the engine to one task at a time; those whose prompt begins as a recent one did go first, and it is read once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_free = True
        self._lines: dict[Hashable, WaitQueue] = {}
        self._recent: list[Hashable] = []

    async def enter(self, beginning: Hashable) -> None:
        """Wait for the engine; `leave` gives it back."""
        with self._lock:
            if self._is_free:
                self._serve(beginning)
                return
            line = self._lines.setdefault(beginning, WaitQueue(self.leave))
            place = line.join()
        await line.wait(place)

    def leave(self) -> None:
        """Give the engine back; the task that fits best takes it."""
        with self._lock:
            self._is_free = True
            # The latest beginning that is known first, then those that came first.
            known = [beginning for beginning in reversed(self._recent) if beginning in self._lines]
            for beginning in dict.fromkeys([*known, *self._lines]):
                is_served = self._lines[beginning].serve()
                if not len(self._lines[beginning]):
                    del self._lines[beginning]
                if is_served:
                    self._serve(beginning)
                    return

    def _serve(self, beginning: Hashable) -> None:
        self._is_free = False
        self._recent = [*(recent for recent in self._recent if recent != beginning), beginning][
            -REMEMBERED:
        ]
