"""Isolation: run code that must not hang in worker processes, each task with a deadline that holds.

pool        what callers use: `submit`, `call`, `run`
shared      the one pool of a process
outcome     what came back: a value, or what went wrong
task        one call on its way
packing     functions and arguments as bytes
room        places in the queue
dispatcher  the thread that owns the workers
launch      how workers are started: from a warm template, or each by itself
template    the process that forks workers
worker      the process that works
clock       how long somebody has worked
wire        messages between processes
"""

# Names load late, since the template and the workers import this package and need none of them.
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.isolation.outcome import Outcome as Outcome
    from assay.isolation.pool import Pool as Pool
    from assay.isolation.pool import PoolStats as PoolStats
    from assay.isolation.shared import shared_pool as shared_pool

_HOMES = {"Outcome": "outcome", "Pool": "pool", "PoolStats": "pool", "shared_pool": "shared"}

__all__ = ["Outcome", "Pool", "PoolStats", "shared_pool"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'assay.isolation' has no attribute {name!r}")
    value = getattr(import_module(f"assay.isolation.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
