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

    One thread stores and looks up verdicts. Lookups and verdicts that arrive while it is busy are
    handled together, so a thousand concurrent verdicts need only a few transactions.

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
        """Start without pending verdicts and with a new thread: at first, and in a forked child.

        The thread of the parent does not exist in a child. The parent stores its own verdicts.
        """
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="assay-cache")
        self._is_scheduled = False  # whether the thread has been told that there is work
        self._is_closed = False
        self._unsaved: dict[VerdictKey, CachedVerdict] = {}
        # The callers that wait for the thread: each with the key that it looks up, or with None if
        # it waits until all verdicts are stored.
        self._waiting: list[tuple[VerdictKey | None, Future[CachedVerdict | None]]] = []

    async def get(self, key: VerdictKey) -> CachedVerdict | None:
        """Return the verdict of a key, even if it is not stored yet; None if there is none."""
        unsaved = self._unsaved.get(key)
        if unsaved is not None:
            return unsaved
        return await self._ask_thread(key)

    def put_soon(self, items: Iterable[Item]) -> None:
        """Store verdicts later and return immediately; only a SIGKILL can lose them.

        Raises `CacheError` for values that JSON cannot represent.
        """
        items = list(items)
        for _, verdict in items:
            # This encodes the verdict, which may raise. Later, in the thread, one bad verdict would
            # keep the whole batch from being stored.
            _ = verdict.line
        with self._lock:
            self._raise_if_closed()
            for key, verdict in items:
                self._unsaved.setdefault(key, verdict)
        self._schedule()

    async def put_many(self, items: Iterable[Item] = ()) -> None:
        """Store verdicts, with all that are pending, and wait until they survive a SIGKILL.

        Raises `CacheError` if they cannot be stored.
        """
        self.put_soon(items)
        if self._unsaved:
            await self._ask_thread(None)

    def close(self) -> None:
        """Store pending verdicts and close the store. Raises `CacheError` if some cannot be stored."""
        with self._lock:
            self._is_closed = True
        self._thread.shutdown()
        error = self._store_unsaved()
        self._unsaved = {}
        self.store.close()
        if error is not None:
            raise error

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.close)

    def _raise_if_closed(self) -> None:
        """Raise `CacheError` if the cache is closed."""
        if self._is_closed:
            raise CacheError("the verdict cache is closed: open another")

    async def _ask_thread(self, key: VerdictKey | None) -> CachedVerdict | None:
        """Wait until the thread has stored all pending verdicts and looked up this key.

        Returns the verdict of the key; None if it has none, and without a key.
        """
        answer: Future[CachedVerdict | None] = Future()
        with self._lock:
            self._raise_if_closed()
            self._waiting.append((key, answer))
        # First let the tasks run that are ready now, so that the thread handles their keys too.
        await asyncio.sleep(0)
        self._schedule()
        return await asyncio.wrap_future(answer)

    def _schedule(self) -> None:
        """Tell the thread that there is work, unless it has been told already."""
        with self._lock:
            has_work = bool(self._unsaved or self._waiting)
            if has_work and not self._is_scheduled and not self._is_closed:
                self._is_scheduled = True
                self._thread.submit(self._work)

    def _work(self) -> None:
        """Store all pending verdicts, look up all keys, and answer the waiting callers.

        Runs in the thread.
        """
        with self._lock:
            self._is_scheduled = False
            waiting = self._waiting
            self._waiting = []
        store_error = self._store_unsaved()
        verdicts: dict[VerdictKey, CachedVerdict] = {}
        lookup_error: BaseException | None = None
        keys = list({key for key, _ in waiting if key is not None})
        if keys:
            try:
                verdicts = self.store.get_many(keys)
            except BaseException as error:  # noqa: BLE001 - it is raised in the waiting callers
                lookup_error = error
        for key, answer in waiting:
            is_cancelled = not answer.set_running_or_notify_cancel()
            if is_cancelled:
                continue  # a cancelled caller has cancelled its future, which takes no result
            error = store_error if key is None else lookup_error
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(None if key is None else verdicts.get(key))

    def _store_unsaved(self) -> CacheError | None:
        """Store unsaved verdicts. Return an error if that fails; they are then kept for next time."""
        with self._lock:
            batch = list(self._unsaved.items())
        if not batch:
            return None
        try:
            self.store.put_many(batch)
        except BaseException as failure:  # noqa: BLE001 - nothing above this thread would see it
            reason = str(failure) if isinstance(failure, AssayError) else repr(failure)
            error = CacheError(f"{len(batch)} verdicts are not stored yet: {reason}")
            logger.error("%s", error)
            return error
        with self._lock:
            for key, _ in batch:
                del self._unsaved[key]
        return None


_CACHES: weakref.WeakSet[VerdictCache] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Store the pending verdicts of all caches when the program ends."""
    for cache in list(_CACHES):
        # The error was logged already. No code could catch it here.
        with suppress(CacheError):
            cache.close()


def _start_all_over() -> None:
    """Give all caches a new thread in a forked child, which has none of the parent's threads."""
    for cache in list(_CACHES):
        cache.start_over()


os.register_at_fork(after_in_child=_start_all_over)
