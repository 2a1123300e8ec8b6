"""VerdictCache stores verdicts and looks them up without blocking the event loops that ask."""

import asyncio
import atexit
import os
import threading
import weakref
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Self

from assay.cache.store import CachedVerdict, Item, Store, VerdictKey, open_store
from assay.errors import AssayError, CacheError
from assay.redaction import get_logger

logger = get_logger(__name__)


class VerdictCache:
    """An async store: it never blocks the event loop on a disk or a network.

    One thread stores and looks up verdicts. Requests that arrive while it is busy are handled as one
    batch, so a thousand concurrent verdicts need only a few transactions.

    >>> import asyncio, tempfile
    >>> key = VerdictKey(question="q1", text="t1", judge="openai/gpt-5-mini", prompt="1")
    >>> async def twice(folder):
    ...     async with VerdictCache(folder) as cache:
    ...         before = await cache.get(key)
    ...         await cache.put_many([(key, CachedVerdict("MET"))])
    ...         return before, (await cache.get(key)).verdict
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     asyncio.run(twice(folder))
    (None, 'MET')
    """

    def __init__(self, where: str | Path | Store | None = None) -> None:
        """`where` is a folder, a file, a `postgresql://` URL or a store; see `open_store`.

        Opening may block on a disk or a server, so do it before the loop is busy.
        """
        self.store = open_store(where) if where is None or isinstance(where, str | Path) else where
        self.start_over()
        _CACHES.add(self)

    def start_over(self) -> None:
        """Drop pending verdicts after a fork: the parent stores them, and its thread does not exist here."""
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="assay-cache")
        self._is_scheduled = self._is_closed = False
        self._unsaved: dict[VerdictKey, CachedVerdict] = {}
        # Keys to look up with the waiting callers; without a key, the caller waits until all verdicts are stored.
        self._waiting: list[tuple[VerdictKey | None, Future[CachedVerdict | None]]] = []

    async def get(self, key: VerdictKey) -> CachedVerdict | None:
        """Return the verdict of a key, even if it is not stored yet; None if there is none."""
        return self._unsaved.get(key) or await self._done(key)

    def put_soon(self, items: Iterable[Item]) -> None:
        """Store verdicts later and return immediately; only a SIGKILL can lose them.

        Raises `CacheError` for values that JSON cannot represent.
        """
        items = list(items)
        for _, verdict in items:
            # Encoded here, because one bad verdict in a batch would block the others.
            _ = verdict.line
        with self._lock:
            self._refuse_if_closed()
            for key, verdict in items:
                self._unsaved.setdefault(key, verdict)
        self._schedule()

    async def put_many(self, items: Iterable[Item] = ()) -> None:
        """Store verdicts. On return, all pending verdicts survive a SIGKILL. Raises `CacheError` on failure."""
        self.put_soon(items)
        if self._unsaved:
            await self._done(None)

    def close(self) -> None:
        """Store pending verdicts and close the store. Raises `CacheError` if some cannot be stored."""
        with self._lock:
            self._is_closed = True
        self._thread.shutdown()
        error = self._store()
        self._unsaved = {}
        self.store.close()
        if error is not None:
            raise error

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.close)

    def _refuse_if_closed(self) -> None:
        if self._is_closed:
            raise CacheError("the verdict cache is closed: open another")

    async def _done(self, key: VerdictKey | None) -> CachedVerdict | None:
        """Return the verdict that the thread finds under a key after storing pending verdicts."""
        done: Future[CachedVerdict | None] = Future()
        with self._lock:
            self._refuse_if_closed()
            self._waiting.append((key, done))
        # Tasks that are ready to run now still join this batch.
        await asyncio.sleep(0)
        self._schedule()
        return await asyncio.wrap_future(done)

    def _schedule(self) -> None:
        """Wake the thread for pending work, unless it is awake already."""
        with self._lock:
            if (self._unsaved or self._waiting) and not self._is_scheduled and not self._is_closed:
                self._is_scheduled = True
                self._thread.submit(self._work)

    def _work(self) -> None:
        """Store and look up everything pending. Runs in the thread."""
        with self._lock:
            self._is_scheduled = False
            waiting, self._waiting = self._waiting, []
        unsaved = self._store()
        found: dict[VerdictKey, CachedVerdict] = {}
        failure: BaseException | None = None
        wanted = list({key for key, _ in waiting if key is not None})
        try:
            found = self.store.get_many(wanted) if wanted else {}
        except BaseException as problem:  # noqa: BLE001 - the callers that wait are told, whatever it is
            failure = problem
        for key, done in waiting:
            # A cancelled caller has cancelled its future too, which accepts no result.
            if done.set_running_or_notify_cancel():
                error = unsaved if key is None else failure
                if error is not None:
                    done.set_exception(error)
                else:
                    done.set_result(None if key is None else found.get(key))

    def _store(self) -> CacheError | None:
        """Store unsaved verdicts. On failure they are kept and tried again with the next batch."""
        with self._lock:
            batch = list(self._unsaved.items())
        if not batch:
            return None
        try:
            self.store.put_many(batch)
        except BaseException as failure:  # noqa: BLE001 - nothing above this thread would see it
            why = str(failure) if isinstance(failure, AssayError) else repr(failure)
            error = CacheError(f"{len(batch)} verdicts are not stored yet: {why}")
            logger.error("%s", error)
            return error
        with self._lock:
            for key, _ in batch:
                del self._unsaved[key]
        return None


_CACHES: weakref.WeakSet[VerdictCache] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for cache in list(_CACHES):
        # Logged when it happened; an exception here would only be printed.
        with suppress(CacheError):
            cache.close()


os.register_at_fork(after_in_child=lambda: [cache.start_over() for cache in list(_CACHES)])
