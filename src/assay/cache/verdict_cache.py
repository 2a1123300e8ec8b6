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
    """A store for running event loops: nothing here waits for a disk or a network in the loop.

    One thread stores and looks up. What comes while it is busy waits for its next turn and goes to the
    store as one batch, so a thousand verdicts at once are a few transactions.

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

        Opening may wait for a disk or a server, so do it before the loop is busy.
        """
        self.store = open_store(where) if where is None or isinstance(where, str | Path) else where
        self.start_over()
        _CACHES.add(self)

    def start_over(self) -> None:
        """Forget what waits; after a fork it is the parent's to store, and its thread is not here."""
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="assay-cache")
        self._is_scheduled = self._is_closed = False
        self._unsaved: dict[VerdictKey, CachedVerdict] = {}
        # What is looked up, and the caller who waits for it; without a key, until all that was put is stored.
        self._waiting: list[tuple[VerdictKey | None, Future[CachedVerdict | None]]] = []

    async def get(self, key: VerdictKey) -> CachedVerdict | None:
        """The verdict under this key, also one that is not stored yet; None when there is none."""
        return self._unsaved.get(key) or await self._done(key)

    def put_soon(self, items: Iterable[Item]) -> None:
        """Keep these, and return at once; only a program that is killed outright can lose them.

        Raises `CacheError` for what JSON cannot hold.
        """
        items = list(items)
        for _, verdict in items:
            # Written down here, since in a batch one bad verdict would hold up the good ones.
            _ = verdict.line
        with self._lock:
            self._refuse_if_closed()
            for key, verdict in items:
                self._unsaved.setdefault(key, verdict)
        self._schedule()

    async def put_many(self, items: Iterable[Item] = ()) -> None:
        """Keep these; on return all that was put is stored and survives a SIGKILL. Raises `CacheError` when it cannot be."""
        self.put_soon(items)
        if self._unsaved:
            await self._done(None)

    def close(self) -> None:
        """Store what waits, and let go of the store. Raises `CacheError` when something is not stored."""
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
        """What the thread finds under a key, after it has stored what was put before."""
        done: Future[CachedVerdict | None] = Future()
        with self._lock:
            self._refuse_if_closed()
            self._waiting.append((key, done))
        # Tasks that are ready to run now still join this batch.
        await asyncio.sleep(0)
        self._schedule()
        return await asyncio.wrap_future(done)

    def _schedule(self) -> None:
        """Have the thread do what waits, unless it is told so already."""
        with self._lock:
            if (self._unsaved or self._waiting) and not self._is_scheduled and not self._is_closed:
                self._is_scheduled = True
                self._thread.submit(self._work)

    def _work(self) -> None:
        """Store and look up what waits by now. Runs in the thread."""
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
            # A caller that was cancelled has cancelled its future too, which takes no result any more.
            if done.set_running_or_notify_cancel():
                error = unsaved if key is None else failure
                if error is not None:
                    done.set_exception(error)
                else:
                    done.set_result(None if key is None else found.get(key))

    def _store(self) -> CacheError | None:
        """Store what is unsaved. What cannot be stored is kept, and tried again with what comes next."""
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
