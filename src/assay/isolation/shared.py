"""The pool that all rubrics of a process share."""

import threading

from assay.isolation.pool import Pool

_lock = threading.Lock()
_pool: Pool | None = None


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
