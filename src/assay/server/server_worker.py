"""A worker process of the server: it answers requests, and loads the rubric again when it has changed."""

import asyncio
import faulthandler
import logging
import multiprocessing
import os
import signal
import socket
from contextlib import closing
from multiprocessing.connection import Connection
from typing import Final

from assay.garbage import collect_garbage_less_often
from assay.models import Ledger, budget
from assay.server.app import RewardApp
from assay.server.http_server import HttpServer
from assay.server.metrics import Metrics
from assay.server.reload import RubricLoader, describe_load_error
from assay.server.server_folder import PublishedRubric, ServerFolder
from assay.server.settings import JudgeSettings, Settings

# How often a worker checks whether its supervisor is alive and whether the rubric has changed.
POLL_SECONDS: Final = 0.5
# How long the event loop may be blocked beyond the deadline of a rollout, in seconds.
BLOCKED_SECONDS: Final = 5.0


def run_worker(
    settings: Settings,
    judge: JudgeSettings,
    folder: ServerFolder,
    listening: socket.socket,
    readiness: Connection,
) -> None:
    """Answer requests until this process gets SIGTERM. This is the main function of a worker process.

    `folder` has the rubric that the supervisor publishes. `listening` is the socket that all workers
    share. A message is sent to `readiness` when requests can be answered.
    """
    collect_garbage_less_often()
    # Ctrl-C in a terminal is sent to all processes; the supervisor then stops its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the supervisor then replaces its workers
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
    # The scoring code logs every failed rollout to this logger, which would be too much for a server.
    # Replies and metrics report them.
    logging.getLogger("assay").addFilter(lambda record: False)
    # Each worker gets an equal share of the budget for all.
    dollars = None if judge.budget is None else judge.budget / settings.workers
    calls = None if judge.max_calls is None else judge.max_calls // settings.workers
    with closing(RubricLoader(judge)) as loader, budget(dollars=dollars, calls=calls) as spent:
        published = folder.read_rubric()
        app = RewardApp(
            loader.load(published),
            settings,
            read_status=folder.read_status,
            metrics=Metrics(folder.read_status, str(folder.path)),
        )
        server = HttpServer(app, listening)
        worker = _Worker(app, server, folder, loader, published, spent)
        with asyncio.Runner(loop_factory=server.loop_factory) as runner:
            runner.run(worker.run(readiness))


class _Worker:
    """Runs the server of a worker process, and beside it what keeps the process up to date."""

    def __init__(
        self,
        app: RewardApp,
        server: HttpServer,
        folder: ServerFolder,
        loader: RubricLoader,
        published: PublishedRubric,
        spent: Ledger,
    ) -> None:
        self._app = app
        self._server = server
        self._folder = folder
        self._loader = loader
        self._rubric_text = published.text  # the text that was loaded last, or failed to load
        self._spent = spent  # counts what the judge is asked
        self._stopping: asyncio.Task[None] | None = None  # None until it was told to stop

    async def run(self, readiness: Connection) -> None:
        """Serve until the process is told to stop."""
        tasks = [
            asyncio.create_task(self._report_ready(readiness)),
            asyncio.create_task(self._check_health()),
            asyncio.create_task(self._follow_rubric()),
        ]
        try:
            await self._server.serve()
        finally:
            for task in tasks:
                task.cancel()
            # Record the last changes: the counts of a worker outlive it.
            self._app.update_metrics()
            self._app.metrics.count_judge(self._spent)

    async def _report_ready(self, readiness: Connection) -> None:
        """Wait until uvicorn has started, replace its signal handlers, and tell the supervisor."""
        while not self._server.is_started:  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.005)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._begin_to_stop)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # as before uvicorn installed its own handler
        readiness.send(os.getpid())

    def _begin_to_stop(self) -> None:
        """Stop the server after it has answered the requests in progress."""
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._server.stop())

    async def _check_health(self) -> None:
        """Kill the process if its event loop is blocked, and stop it if its supervisor has ended."""
        supervisor = multiprocessing.parent_process()
        blocked_limit = self._app.settings.bounds.item_seconds + BLOCKED_SECONDS
        while True:
            # Each call starts the timer again. If a check blocks the event loop, there is no further
            # call: the timer ends the process with a traceback that shows the check, and the
            # supervisor starts another worker.
            faulthandler.dump_traceback_later(blocked_limit, exit=True)
            if supervisor is not None and not supervisor.is_alive():
                self._begin_to_stop()
            self._app.metrics.count_judge(self._spent)
            await asyncio.sleep(POLL_SECONDS)

    async def _follow_rubric(self) -> None:
        """Load every new rubric that the supervisor publishes, and serve it.

        Rubrics are loaded in a thread, so that requests need not wait. If a rubric cannot be loaded,
        the one before it stays.
        """
        while True:
            await asyncio.sleep(POLL_SECONDS)
            published = self._folder.read_rubric()
            if published.text == self._rubric_text:
                continue
            self._rubric_text = published.text
            try:
                rubric = await asyncio.to_thread(self._loader.load, published)
            except Exception as error:  # noqa: BLE001 - a rubric file may run any code
                self._app.reload_error = describe_load_error(error)
            else:
                self._app.serve_rubric(rubric)
                self._app.reload_error = ""
