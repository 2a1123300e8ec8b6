"""Run everything that talks to endpoints on one event loop in one background thread.

Users call assay from any thread and any event loop; a synchronous method even starts a new loop for
every call. Connections, and the queues in which calls wait for each other, must belong to one loop.
So all calls of a process run on the loop of the network thread, and their callers wait for them on
their own loops. What only this thread uses needs no lock.

The thread starts with the first call. It is a daemon, so it never keeps a program from ending. A
forked child starts a thread of its own.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Any, TypeVar

Result = TypeVar("Result")


async def run_on_network_thread(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine on the network thread and return its result.

    The coroutine sees the context variables of its caller. If the caller is cancelled, so is the
    coroutine; the caller does not wait until it has ended.
    """
    network_thread = _get_network_thread()
    caller_loop = asyncio.get_running_loop()
    if caller_loop is network_thread.loop:
        return await coroutine
    call = _Call(coroutine, copy_context(), caller_loop)
    network_thread.start(call)
    try:
        return await call.result
    except asyncio.CancelledError:
        network_thread.cancel(call)
        raise


async def run_on_loop(
    loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Result]
) -> Result:
    """Run a coroutine on an event loop that runs in another thread, and return its result."""
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, loop))


def get_network_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of the network thread. Starts the thread if there is none."""
    return _get_network_thread().loop


class _Call:
    """A coroutine that runs on the network thread, and the future that its caller waits for."""

    def __init__(
        self,
        coroutine: Coroutine[Any, Any, Any],
        context: Context,
        caller_loop: asyncio.AbstractEventLoop,
    ) -> None:
        """Run on the loop of the caller, who waits for `result`."""
        self.coroutine = coroutine
        self.context = context  # the context variables that the coroutine sees
        self.caller_loop = caller_loop
        self.result: asyncio.Future[Any] = caller_loop.create_future()
        self.task: asyncio.Task[Any] | None = None  # None until the network thread has started it

    def set_result(self) -> None:
        """Pass the result of the finished task on to the caller. Runs on the caller's loop."""
        assert self.task is not None
        if self.task.cancelled():
            self.result.cancel()
            return
        error = self.task.exception()  # read in any case: asyncio warns about unread exceptions
        caller_was_cancelled = self.result.done()
        if caller_was_cancelled:
            return
        if error is not None:
            self.result.set_exception(error)
        else:
            self.result.set_result(self.task.result())


class _NetworkThread:
    """The thread, and the calls that go to it and come back.

    Waking up another thread takes a system call and a switch of the thread that holds the GIL. So
    calls that start at about the same time are handed over together, and so are their results.
    `asyncio.run_coroutine_threadsafe` would be shorter, but wakes the threads up for every call: a
    call of benchmarks/judging.py takes 0.53 ms of CPU this way, and 0.67 ms that way.
    """

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._started_calls: list[_Call] = []  # not yet seen by the network thread
        self._started_calls_lock = threading.Lock()
        self._finished_calls: list[_Call] = []  # not yet seen by their callers
        thread = threading.Thread(target=self._run, name="assay-network", daemon=True)
        thread.start()

    def _run(self) -> None:
        """Run the event loop until the process ends. This is what the thread does."""
        while True:
            # A task that raises one of these stops the loop. Its caller gets the exception, as any
            # other one; the thread goes on, because other calls need it.
            with suppress(SystemExit, KeyboardInterrupt):
                self.loop.run_forever()

    def start(self, call: _Call) -> None:
        """Start a call on the network thread."""
        with self._started_calls_lock:
            self._started_calls.append(call)
            is_first = len(self._started_calls) == 1
        if is_first:
            self.loop.call_soon_threadsafe(self._create_tasks)

    def cancel(self, call: _Call) -> None:
        """Cancel a call that was passed to `start`."""

        def cancel_task() -> None:
            # Usually the task exists. But if two threads start calls at the same time, only the
            # first schedules `_create_tasks`, and it may not have done so yet.
            self._create_tasks()
            assert call.task is not None
            call.task.cancel()

        self.loop.call_soon_threadsafe(cancel_task)

    # The following methods run on the network thread.

    def _create_tasks(self) -> None:
        """Create the tasks of all calls that were started since the last time."""
        with self._started_calls_lock:
            calls = self._started_calls
            self._started_calls = []
        for call in calls:
            call.task = self.loop.create_task(call.coroutine, context=call.context)
            call.task.add_done_callback(lambda _, call=call: self._finish(call))

    def _finish(self, call: _Call) -> None:
        """Note that a task has finished. Its result is returned with those of other calls."""
        self._finished_calls.append(call)
        is_first = len(self._finished_calls) == 1
        if is_first:
            # Runs after all calls that finish in this iteration of the loop.
            self.loop.call_soon(self._return_results)

    def _return_results(self) -> None:
        """Return the results of all finished calls, waking up each caller's loop only once."""
        calls_by_loop: dict[asyncio.AbstractEventLoop, list[_Call]] = {}
        for call in self._finished_calls:
            calls_by_loop.setdefault(call.caller_loop, []).append(call)
        self._finished_calls = []
        for caller_loop, calls in calls_by_loop.items():
            # A loop that is closed has no callers any more.
            with suppress(RuntimeError):
                caller_loop.call_soon_threadsafe(_set_results, calls)


def _set_results(calls: list[_Call]) -> None:
    """Pass the results of finished calls on to their callers. Runs on the callers' loop."""
    for call in calls:
        call.set_result()


_network_thread: _NetworkThread | None = None  # None until the first call
_network_thread_lock = threading.Lock()
_threads_of_parents: list[_NetworkThread] = []  # see `_forget_thread_of_parent`


def _get_network_thread() -> _NetworkThread:
    """Return the network thread. Starts it at the first call."""
    global _network_thread
    if _network_thread is None:
        with _network_thread_lock:
            if _network_thread is None:
                _network_thread = _NetworkThread()
    return _network_thread


def _forget_thread_of_parent() -> None:
    """Let a forked child start its own thread: a fork copies no thread but the one that forked.

    The parent's loop is kept, and never closed: the child has copies of its sockets and of its
    selector, and to close those would disturb the parent.
    """
    global _network_thread, _network_thread_lock
    if _network_thread is not None:
        _threads_of_parents.append(_network_thread)
    _network_thread = None
    _network_thread_lock = threading.Lock()


os.register_at_fork(after_in_child=_forget_thread_of_parent)
