"""The pool that all rubrics of a process share."""

import os
import threading

from assay.isolation.pool import Pool

_lock = threading.Lock()
_pool: Pool | None = None


def _new_lock() -> None:
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_lock)  # somebody may have held the old one


def shared_pool(*preload: str) -> Pool:
    """The one pool of this process, made when first asked for. Workers will have `preload` too.

    >>> shared_pool() is shared_pool("json")
    True
    """
    global _pool
    with _lock:
        if _pool is None or _pool.closed:
            _pool = Pool()
        _pool.preload(*preload)
        return _pool
