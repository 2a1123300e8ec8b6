"""InFlight: equal requests that are under way at the same time are asked once."""

import asyncio
from collections.abc import Hashable

from assay.models.base import Model, Reply, Request
from assay.models.ledger import Ledger


class InFlight:
    """A model around another: whoever asks what is being asked already takes over that reply.

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
