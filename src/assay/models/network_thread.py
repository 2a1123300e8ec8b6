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
from typing import Any, TypeVar

Result = TypeVar("Result")

_network_loop: asyncio.AbstractEventLoop | None = None  # None until the thread has been started
_network_loop_lock = threading.Lock()
_loops_of_parents: list[asyncio.AbstractEventLoop] = []  # see `_forget_loop_of_parent`


async def run_on_network_thread(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine on the network thread and return its result.

    The coroutine sees the context variables of its caller. If the caller is cancelled, so is the
    coroutine; the caller does not wait until it has ended.
    """
    network_loop = get_network_loop()
    if asyncio.get_running_loop() is network_loop:
        return await coroutine
    return await run_on_loop(network_loop, coroutine)


async def run_on_loop(
    loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Result]
) -> Result:
    """Run a coroutine on an event loop that runs in another thread, and return its result."""
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, loop))


def get_network_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of the network thread. Starts the thread if there is none."""
    global _network_loop
    with _network_loop_lock:
        if _network_loop is None:
            _network_loop = asyncio.new_event_loop()
            thread = threading.Thread(
                target=_run_loop,
                args=[_network_loop],
                name="assay-network",
                daemon=True,
            )
            thread.start()
        return _network_loop


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    while True:
        # These two stop a loop, but they reach the caller as any other exception does, and must not
        # end the thread that others need.
        with suppress(SystemExit, KeyboardInterrupt):
            loop.run_forever()


def _forget_loop_of_parent() -> None:
    """Let a forked child start its own thread: a fork copies no thread but the one that forked.

    The parent's loop is kept, and never closed: the child has copies of its sockets and of its
    selector, and to close those would disturb the parent.
    """
    global _network_loop, _network_loop_lock
    if _network_loop is not None:
        _loops_of_parents.append(_network_loop)
    _network_loop = None
    _network_loop_lock = threading.Lock()


os.register_at_fork(after_in_child=_forget_loop_of_parent)
