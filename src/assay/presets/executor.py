"""WorkerExecutor: the worker processes that all rubrics share, as a `concurrent.futures.Executor`."""

import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from concurrent.futures import wait as wait_for
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from assay.isolation import Outcome

Result = TypeVar("Result")


class _Job(NamedTuple):
    """One call that waits for a place."""

    future: "Future[Any]"
    function: Callable[..., Any]
    args: tuple[Any, ...]
    keywords: Mapping[str, Any]


class WorkerExecutor(Executor):
    """Runs functions in the shared worker processes, so many at once, each for so many seconds.

    A function must be one that a worker can import, and so must what it takes; what it returns must be
    plain data. One that is still working after `timeout` seconds is stopped, and its future raises
    `TimeoutError`.

    >>> import math
    >>> WorkerExecutor(max_workers=2, timeout=5.0).submit(math.sqrt, 16.0).result()
    4.0
    """

    def __init__(self, max_workers: int, timeout: float) -> None:
        self._max_workers = max_workers
        self._timeout = timeout
        self._places = max_workers
        self._lock = threading.Lock()
        self._waiting: deque[_Job] = deque()
        self._unfinished: set[Future[Any]] = set()
        self._closed = False

    def submit(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> "Future[Result]":
        """The future result of a call."""
        future: Future[Result] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError("this executor was shut down: take another rubric's")
            self._unfinished.add(future)
            self._waiting.append(_Job(future, fn, args, kwargs))
        self._begin()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls. The worker processes stay: others use them too."""
        with self._lock:
            self._closed = True
            unfinished = list(self._unfinished)
        if cancel_futures:
            for future in unfinished:
                future.cancel()
        if wait:
            wait_for(unfinished)

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy has calls of its own, and a lock cannot be copied.
        return type(self), (self._max_workers, self._timeout)

    def _begin(self) -> None:
        """Start what waits, as far as there are places."""
        while True:
            with self._lock:
                if not self._waiting or not self._places:
                    return
                job = self._waiting.popleft()
                self._places -= 1
            if job.future.set_running_or_notify_cancel():
                self._start(job)
            else:
                self._end(job)

    def _start(self, job: _Job) -> None:
        from assay.isolation import shared_pool

        try:
            task = shared_pool().submit(
                job.function, *job.args, timeout=self._timeout, keywords=job.keywords
            )
        except Exception as error:  # noqa: BLE001 - whoever waits is told
            job.future.set_exception(error)
            self._end(job)
            return
        task.add_done_callback(lambda task: self._settle(job, task))

    def _settle(self, job: _Job, task: "Future[Outcome]") -> None:
        if task.cancelled():
            job.future.set_exception(RuntimeError("the call was given up before it was done"))
        elif (outcome := task.result()).ok:
            job.future.set_result(outcome.value)
        else:
            job.future.set_exception(_ERRORS.get(outcome.kind, RuntimeError)(outcome.message))
        self._end(job)
        self._begin()

    def _end(self, job: _Job) -> None:
        with self._lock:
            self._places += 1
            self._unfinished.discard(job.future)


_ERRORS: dict[Any, type[Exception]] = {"timeout": TimeoutError, "memory": MemoryError}
