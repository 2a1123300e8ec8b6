"""Run untrusted checks in worker processes, each with a deadline that holds.

pool        what callers use (`submit`, `call`, `run`): the queue, and one thread for each worker
process     the pool's end of a worker process: its task, its deadline, its death; and where workers are forked
forkserver  the processes themselves: the template, which forks workers, and the worker, which calls functions
protocol    what passes between them: functions, messages, and results as plain data
"""

from assay.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
