"""RewardServer serves a rubric from a thread of this program."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from typing import Self

from assay.graders.grader import JudgeSource, grader_of
from assay.integrations.monitor import RewardMonitor
from assay.rubric import Rubric
from assay.server.app import RewardApp
from assay.server.http_server import HttpServer, listen
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

    def __init__(
        self,
        rubric: Rubric,
        settings: Settings | None = None,
        monitor: RewardMonitor | None = None,
        *,
        judge: JudgeSource | None = None,
    ) -> None:
        """Without settings, the server listens on any free port.

        `judge` answers the judged criteria: a grader, a model, or the name of one. It takes the place
        of the rubric's own.
        """
        grader = grader_of(judge)
        if settings is None:
            settings = Settings(port=0)
        self._listening = listen(settings)
        port: int = self._listening.getsockname()[1]  # the one that the system chose for port 0
        self.settings = replace(settings, port=port)
        self.app = RewardApp(rubric, self.settings, monitor=monitor, judge=grader)
        self.url = self.settings.url  # the address of the server

    def __enter__(self) -> Self:
        """Start the thread, and wait until the server answers requests."""
        self._server = HttpServer(self.app, self._listening)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="assay-reward-server")
        # Run it with the context variables of the caller, because checks may read them.
        self._serving = self._thread.submit(copy_context().run, self._serve)
        while not (self._server.is_started or self._serving.done()):
            time.sleep(0.002)
        if not self._server.is_started:
            self._serving.result()  # raises the error of the thread, if there was one
            raise RuntimeError("the server ended before it had started")
        return self

    def __exit__(self, *_: object) -> None:
        """Wait until the requests in progress are answered, stop the server, and end its thread."""
        stopping = asyncio.run_coroutine_threadsafe(self._server.stop(quiet_seconds=0), self._loop)
        stopping.result()
        with self._thread:
            self._serving.result()

    def _serve(self) -> None:
        """Run the server in an event loop of this thread, until it is stopped."""
        with asyncio.Runner() as runner:
            self._loop = runner.get_loop()
            runner.run(self._server.serve())
