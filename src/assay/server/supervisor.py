"""Serve a rubric with worker processes that share a socket and are replaced when they exit."""

import multiprocessing
import os
import pickle
import resource
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType
from typing import Final

from prometheus_client import multiprocess

from assay.errors import AssayError
from assay.graders.grader import JudgeSource
from assay.redaction import get_logger
from assay.server.http_server import listen
from assay.server.reload import RubricLoader, describe_load_error, follow_file
from assay.server.server_folder import PublishedRubric, ServerFolder, WorkerCounts
from assay.server.server_worker import run_worker
from assay.server.settings import JudgeSettings, Settings, SettingsError
from assay.wording import format_value

logger = get_logger("assay.server")

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# How often the supervisor checks whether it got a signal, in seconds. It notices the end of a worker
# at once.
POLL_SECONDS: Final = 0.2
# How long a worker may take to start, in seconds; then it is killed.
START_SECONDS: Final = 120.0
# How long to wait before a worker is started in place of one that could not start, in seconds.
RETRY_SECONDS: Final = 1.0
# An environment variable that prometheus_client reads when it is imported: the folder in which all
# workers keep their counts.
METRICS_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"


class ServeError(AssayError):
    """The server could not start."""


def serve(
    rubric: str,
    settings: Settings | None = None,
    judge: JudgeSource | JudgeSettings | None = None,
    *,
    allow_code: bool = False,
    started: Callable[[str], None] | None = None,
) -> None:
    """Serve a rubric file, or the `module:object` of one made in Python, until told to stop.

    `judge` is a grader, a model, the name of a model, or `JudgeSettings` with more options. It
    replaces the judge of the rubric.

    `started` is called with the address once all workers are ready. Workers are processes that
    import the program that calls this, so call it under `if __name__ == "__main__":`, and from the
    main thread, which is the one that gets signals.
    """
    if settings is None:
        settings = Settings()
    if not isinstance(judge, JudgeSettings):
        judge = JudgeSettings(judge)
    _raise_if_not_sendable(judge)
    if judge.max_calls is not None and judge.max_calls < settings.workers:
        raise SettingsError(
            f"max_calls is {judge.max_calls}, which {settings.workers} workers cannot share: "
            "allow at least one call for each worker"
        )
    published = PublishedRubric.read(rubric, allow_code=allow_code)
    with closing(RubricLoader(judge)) as loader:
        # Load it here first, so that an error in it is reported once, and not by every worker.
        try:
            loader.load(published)
        except Exception as error:
            raise ServeError(describe_load_error(error)) from error
        _raise_limit_of_open_files()
        with (
            listen(settings) as listening,
            tempfile.TemporaryDirectory(prefix="assay-server-") as path,
            # Workers inherit it, and write their metrics to files in this folder.
            _set_environment_variable(METRICS_VARIABLE, path),
        ):
            folder = ServerFolder(Path(path))
            folder.publish_rubric(published)
            supervisor = Supervisor(settings, judge, folder, listening)
            with _follow_in_thread(folder, loader):
                supervisor.run(started)


def _raise_if_not_sendable(judge: JudgeSettings) -> None:
    """Raise SettingsError if the settings of the judge cannot be sent to worker processes."""
    try:
        pickle.dumps(judge)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise SettingsError(
            f"judge is {format_value(judge.judge)}, which cannot be sent to worker processes "
            f"({error}): give the name of a model, or a function or a grader of a module"
        ) from error


def _raise_limit_of_open_files() -> None:
    """Raise this process's limit of open files as far as the system allows; workers inherit it.

    Every connection to the server counts as an open file.
    """
    with suppress(ValueError, OSError):
        _, highest = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest, highest))


@contextmanager
def _set_environment_variable(name: str, value: str) -> Generator[None]:
    """Set an environment variable inside the block, and delete it after."""
    os.environ[name] = value
    try:
        yield
    finally:
        os.environ.pop(name, None)


@contextmanager
def _follow_in_thread(folder: ServerFolder, loader: RubricLoader) -> Generator[None]:
    """Publish the rubric whenever its file changes, in a thread that runs during the block."""
    stop = threading.Event()
    thread = threading.Thread(
        target=follow_file, args=(folder, loader, stop), name="assay-follow-rubric"
    )
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@dataclass(eq=False)
class _WorkerProcess:
    """A worker process, as its supervisor sees it."""

    process: BaseProcess
    readiness: Connection  # receives a message when the worker begins to answer requests
    started_at: float = field(default_factory=time.monotonic)
    is_ready: bool = False
    is_outdated: bool = False  # whether a new process has to replace it
    is_stopping: bool = False  # whether it was told to stop


class Supervisor:
    """Keeps the workers of a server running until this process gets SIGTERM or SIGINT.

    On SIGHUP it replaces them one after another. Workers that end by themselves are replaced.
    """

    def __init__(
        self,
        settings: Settings,
        judge: JudgeSettings,
        folder: ServerFolder,
        listening: socket.socket,
    ) -> None:
        self._settings = settings
        self._judge = judge
        self._folder = folder
        self._listening = listening
        self._workers: list[_WorkerProcess] = []
        self._restarts = 0
        self._published: WorkerCounts | None = None  # what was published last
        self._was_ready = False  # whether all workers have been ready at the same time
        # No worker is started before this time of the monotonic clock.
        self._earliest_start = 0.0
        self._signals: list[int] = []  # signals that came and were not handled yet

    def run(self, started: Callable[[str], None] | None = None) -> None:
        """Run workers until a signal says to stop; return when all of them have ended.

        `started` is called with the URL of the server when all workers are ready for the first time.
        """
        self._publish_counts()  # workers read them when they start
        with self._collect_signals():
            try:
                while not self._is_told_to_stop():
                    self._update_workers()
                    is_ready = self._count_ready() >= self._settings.workers
                    if is_ready and not self._was_ready:
                        self._was_ready = True
                        if started is not None:
                            # The settings may have port 0; the socket knows the port.
                            port = self._listening.getsockname()[1]
                            started(replace(self._settings, port=port).url)
                    self._wait_for_workers()
                self._stop_workers()
            finally:
                for worker in self._workers:  # none is left, unless an error was raised
                    worker.process.kill()

    @contextmanager
    def _collect_signals(self) -> Generator[None]:
        """Collect signals in `_signals` inside the block, and restore the earlier handlers after it."""

        def collect(number: int, frame: FrameType | None) -> None:
            self._signals.append(number)

        handlers = {number: signal.signal(number, collect) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def _is_told_to_stop(self) -> bool:
        """Handle the signals that have come; return True if one of them says to stop."""
        while self._signals:
            if self._signals.pop(0) != signal.SIGHUP:  # SIGINT or SIGTERM
                return True
            # SIGHUP says that all workers should be replaced.
            for worker in self._workers:
                worker.is_outdated = True
        return False

    def _update_workers(self) -> None:
        """Remove workers that have ended, start those that are missing, and replace outdated ones.

        Outdated workers are replaced one at a time. An additional worker is started, and only when
        it is ready, an outdated one is told to stop. So there are always enough to answer requests.
        """
        self._remove_ended()
        active = [worker for worker in self._workers if not worker.is_stopping]
        outdated = [worker for worker in active if worker.is_outdated]
        target_count = self._settings.workers
        if outdated:
            target_count += 1
        if len(active) < target_count:
            if time.monotonic() >= self._earliest_start:
                for _ in range(target_count - len(active)):
                    self._workers.append(self._start_worker())
        elif outdated and all(worker.is_ready for worker in active):
            self._stop_worker(outdated[0])
        for worker in active:
            is_late = time.monotonic() > worker.started_at + START_SECONDS
            if not worker.is_ready and is_late:
                logger.error("worker %d did not start in time", worker.process.pid)
                worker.process.kill()
        self._publish_counts()

    def _start_worker(self) -> _WorkerProcess:
        """Start a worker process.

        It is a new interpreter ("spawn"), and not a fork of this process: this process has threads,
        and a fork would inherit their locks but not the threads that release them.
        """
        context = multiprocessing.get_context("spawn")
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(
            target=run_worker,
            args=(self._settings, self._judge, self._folder, self._listening, sender),
            name="assay-server-worker",
        )
        process.start()
        sender.close()  # the worker has a copy, and its end must close the pipe
        return _WorkerProcess(process, receiver)

    def _stop_worker(self, worker: _WorkerProcess) -> None:
        """Tell a worker to answer its requests in progress and end."""
        worker.is_stopping = True
        worker.process.terminate()  # sends SIGTERM

    def _remove_ended(self) -> None:
        """Remove workers that have ended from the list, and log those that were not told to stop.

        Raise `ServeError` if a worker could not start, unless the server has already been ready.
        """
        for worker in list(self._workers):
            exit_code = worker.process.exitcode
            if exit_code is None:
                continue
            self._workers.remove(worker)
            worker.readiness.close()
            pid = worker.process.pid
            # Its gauges, such as the number of its connections, must not be added up any more.
            multiprocess.mark_process_dead(pid, str(self._folder.path))  # pyright: ignore[reportUnknownMemberType]
            if worker.is_stopping:
                continue
            # A negative exit code says that a signal has killed it.
            has_failed_to_start = not worker.is_ready and exit_code > 0
            if has_failed_to_start and not self._was_ready:
                raise ServeError(
                    f"a worker could not start (exit code {exit_code}): its error is shown above"
                )
            if has_failed_to_start:  # a new one would probably fail too, so do not start it at once
                self._earliest_start = time.monotonic() + RETRY_SECONDS
            self._restarts += 1
            logger.warning("worker %s ended with exit code %s: it is replaced", pid, exit_code)

    def _count_ready(self) -> int:
        """Return how many workers answer requests and were not told to stop."""
        return sum(worker.is_ready and not worker.is_stopping for worker in self._workers)

    def _publish_counts(self) -> None:
        """Publish how many workers are ready, since any worker may be asked for that."""
        counts = WorkerCounts(
            workers=self._settings.workers,
            # There is an additional worker while outdated ones are replaced.
            ready=min(self._count_ready(), self._settings.workers),
            restarts=self._restarts,
        )
        if counts != self._published:
            self._published = counts
            self._folder.publish_workers(counts)

    def _wait_for_workers(self) -> None:
        """Wait until a worker ends or becomes ready, at most for `POLL_SECONDS`."""
        starting = [worker for worker in self._workers if not worker.is_ready]
        sentinels = [worker.process.sentinel for worker in self._workers]  # ready when it ends
        pipes = [worker.readiness for worker in starting]
        ready_objects = wait([*sentinels, *pipes], POLL_SECONDS)
        for worker in starting:
            if worker.readiness in ready_objects:
                with suppress(EOFError):  # raised if it ended before it was ready
                    worker.readiness.recv()
                    worker.is_ready = True

    def _stop_workers(self) -> None:
        """Tell all workers to stop, and wait until they have ended. A second Ctrl-C kills them."""
        for worker in self._workers:
            self._stop_worker(worker)
        while self._workers:
            if signal.SIGINT in self._signals:  # it came after the signal that says to stop
                for worker in self._workers:
                    worker.process.kill()
            wait([worker.process.sentinel for worker in self._workers], POLL_SECONDS)
            self._remove_ended()
            self._publish_counts()
