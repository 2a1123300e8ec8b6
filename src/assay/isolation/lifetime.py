"""Lifetime: what becomes of pools when the process ends, or forks."""

import atexit
import os
from typing import Protocol
from weakref import WeakSet

from assay.isolation.dispatcher import Dispatcher


class Forkable(Protocol):
    """What must begin anew in a forked child."""

    def begin_anew(self) -> None: ...


_pools: WeakSet[Forkable] = WeakSet()
_dispatchers: WeakSet[Dispatcher] = WeakSet()


def watch_pool(pool: Forkable) -> None:
    """Let a pool begin anew in forked children."""
    _pools.add(pool)


def watch_dispatcher(dispatcher: Dispatcher) -> None:
    """Let a dispatcher end before the interpreter does."""
    _dispatchers.add(dispatcher)


def _end_all() -> None:
    mine = [each for each in [*_dispatchers] if each.owner == os.getpid()]
    for dispatcher in mine:
        dispatcher.close(wait=False)
    for dispatcher in mine:
        dispatcher.close()


def _after_fork() -> None:
    # The threads are not here, and the workers are the parent's: neither may be touched.
    for dispatcher in [*_dispatchers]:
        dispatcher.disown()
    _dispatchers.clear()
    for pool in [*_pools]:
        pool.begin_anew()


atexit.register(_end_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
