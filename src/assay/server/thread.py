"""RewardServer: a rubric served from this process, for as long as a block lasts."""

import asyncio
import socket
import threading
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
        started = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(started)), name="assay-reward-server"
        )
        self._thread.start()
        started.wait()
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

    async def _serve(self, started: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        server = Listening(self.app)
        serving = asyncio.create_task(server.serve(sockets=[self._listening]))
        await server.up.wait()
        started.set()
        await self._stop.wait()
        await server.stop(linger=0)  # whoever ends the block has its answers
        await serving
