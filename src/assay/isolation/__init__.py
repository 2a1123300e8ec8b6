"""Run untrusted checks in worker processes, each with a deadline that holds.

pool      what callers use (`submit`, `call`, `run`): the queue, and one thread for each worker
process   the pool's end of a worker process: its task, its deadline, its death; and where workers are forked
worker    the processes themselves: the template, which forks workers, and the worker, which calls functions
packing   functions and arguments as bytes for a worker
protocol  the messages between them, and results as plain data
"""

# Names load late, since the template and the workers import this package and need none of them.
from typing import TYPE_CHECKING

from assay.lazy import lazily

if TYPE_CHECKING:
    from assay.isolation.pool import Pool as Pool
    from assay.isolation.pool import PoolStats as PoolStats
    from assay.isolation.pool import shared_pool as shared_pool
    from assay.isolation.process import Outcome as Outcome

_HOMES = {"Outcome": "process", "Pool": "pool", "PoolStats": "pool", "shared_pool": "pool"}

__all__ = ["Outcome", "Pool", "PoolStats", "shared_pool"]


__getattr__ = lazily(__name__, _HOMES)
