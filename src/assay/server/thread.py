"""RewardServer: a rubric served from this process, for as long as a block lasts."""

import asyncio
import socket
import threading
from concurrent.futures import Future
from dataclasses import replace
from types import TracebackType
from typing import Self

from assay.rubric import Rubric
from assay.server.app import RewardApp
from assay.server.listening import Listening, bound
from assay.server.settings import Settings


class RewardServer:
    """Serves a rubric on 127.0.0.1 from a thread: for tests, notebooks, and rubrics made in code.

    There is one process and no reloading; `assay serve` is for more.

    >>> from assay import Rubric
    >>> from assay.server import RemoteRubric
    >>> with RewardServer(Rubric([lambda completion: completion == "4"])) as server:
    ...     RemoteRubric(server.url).score_rollout_sync(completion="4")
    {'check_1': 1.0, 'reward': 1.0}
    """

    def __init__(self, rubric: Rubric, settings: Settings | None = None) -> None:
        """Without settings, it listens on any port that is free."""
        given = settings if settings is not None else Settings(port=0)
        self._listening: socket.socket = bound(given)
        self.settings = replace(given, port=self._listening.getsockname()[1])
        self.app = RewardApp(rubric, self.settings)
        self.url = self.settings.url
        """The address of the server."""

    def __enter__(self) -> Self:
        started: Future[None] = Future()
        self._thread = threading.Thread(
            target=self._run, args=[started], name="assay-reward-server"
        )
        self._thread.start()
        started.result()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Finish what is under way, and end."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self, started: "Future[None]") -> None:
        try:
            asyncio.run(self._serve(started))
        except BaseException as error:
            # The block that waits for the start is told; later failures are printed by the thread.
            if started.done():
                raise
            started.set_exception(error)

    async def _serve(self, started: "Future[None]") -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        server = Listening(self.app)
        serving = asyncio.create_task(server.serve(sockets=[self._listening]))
        up = asyncio.create_task(server.up.wait())
        await asyncio.wait([serving, up], return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()
            raise RuntimeError("the server ended before it was up")
        started.set_result(None)
        await self._stop.wait()
        await server.stop(linger=0)  # whoever ends the block has its answers
        await serving
