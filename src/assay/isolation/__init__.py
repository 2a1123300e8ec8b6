"""Isolation: run code that must not hang in worker processes, each task with a deadline that holds.

pool        what callers use: `submit`, `call`, `run`; waiting is how they wait
shared      the one pool of a process
lifetime    what becomes of pools when the process ends, or forks
outcome     what came back: a value, or what went wrong; endings says which
task        one call on its way; packing makes it bytes, room gives it a place in the queue
dispatcher  the one thread of a pool, with the queue
crew        its workers; a handle is the pool's end of one
launchers   where workers come from; launch starts them from a warm template, or each by itself
template    the process that forks workers
worker      the process that works; clock tells for how long
settings    what these processes are told; wire is how they talk
"""

# Names load late, since the template and the workers import this package and need none of them.
from typing import TYPE_CHECKING

from assay.lazy import lazily

if TYPE_CHECKING:
    from assay.isolation.outcome import Outcome as Outcome
    from assay.isolation.pool import Pool as Pool
    from assay.isolation.pool import PoolStats as PoolStats
    from assay.isolation.shared import shared_pool as shared_pool

_HOMES = {"Outcome": "outcome", "Pool": "pool", "PoolStats": "pool", "shared_pool": "shared"}

__all__ = ["Outcome", "Pool", "PoolStats", "shared_pool"]


__getattr__ = lazily(__name__, _HOMES)
