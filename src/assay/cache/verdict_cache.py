"""VerdictCache: what a judge answered once is not asked again."""

import asyncio
import atexit
import json
import os
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from assay.cache.store import ALL, ROWS_AT_ONCE, CachedVerdict, Item, Selection, Store, VerdictKey, open_store
from assay.errors import AssayError, CacheError
from assay.redaction import logger_of

logger = logger_of(__name__)

Found = dict[VerdictKey, CachedVerdict]


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
        self._is_scheduled = False
        self._unsaved: Found = {}
        self._storing: list[Future[None]] = []
        """Callers who wait until all that was put is stored."""
        self._looking: list[tuple[Sequence[VerdictKey], Future[Found]]] = []
        """What is looked up, and the callers who wait for it."""
        self._is_closed = False

    async def get(self, key: VerdictKey) -> CachedVerdict | None:
        """The verdict under this key; None when there is none."""
        return (await self.get_many([key])).get(key)

    async def get_many(self, keys: Sequence[VerdictKey]) -> Found:
        """The verdicts that are there, also those not stored yet; other keys are left out."""
        found = {key: self._unsaved[key] for key in keys if key in self._unsaved}
        missing = [key for key in keys if key not in found]
        if not missing:
            return found
        loaded: Future[Found] = Future()
        with self._lock:
            self._refuse_if_closed()
            self._looking.append((missing, loaded))
        # Tasks that are ready to run now still join this look.
        await asyncio.sleep(0)
        self._schedule()
        return found | await asyncio.wrap_future(loaded)

    def put_soon(self, items: Iterable[Item]) -> None:
        """Keep these. Returns at once; they are stored as soon as the thread gets to it.

        Ctrl-C and an ordinary end of the program store them first. Only a program that is killed outright
        can lose them; use `put_many` for what must be safe before you go on. Raises `CacheError` for
        what JSON cannot hold.
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

    async def put_many(self, items: Iterable[Item]) -> None:
        """Keep these; on return they are stored and survive a SIGKILL."""
        self.put_soon(items)
        await self.flush()

    async def flush(self) -> None:
        """Wait until all that was put is stored. Raises `CacheError` when it cannot be."""
        stored: Future[None] = Future()
        with self._lock:
            if not self._unsaved:
                return
            self._storing.append(stored)
        self._schedule()
        await asyncio.wrap_future(stored)

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

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    def _refuse_if_closed(self) -> None:
        if self._is_closed:
            raise CacheError("the verdict cache is closed: open another")

    def _schedule(self) -> None:
        """Have the thread do what waits, unless it is told so already."""
        with self._lock:
            waits = self._unsaved or self._storing or self._looking
            if not waits or self._is_scheduled or self._is_closed:
                return
            self._is_scheduled = True
            self._thread.submit(self._work)

    def _work(self) -> None:
        """Store and look up what waits by now. Runs in the thread."""
        with self._lock:
            self._is_scheduled = False
            storing, self._storing = self._storing, []
            looking, self._looking = self._looking, []
        error = self._store()
        for stored in storing:
            _settle(stored, None, error)
        if not looking:
            return
        found: Found = {}
        failure: BaseException | None = None
        try:
            found = self.store.get_many(list({key for keys, _ in looking for key in keys}))
        except BaseException as problem:  # noqa: BLE001 - those who wait are told, whatever it is
            failure = problem
        for keys, loaded in looking:
            _settle(loaded, {key: found[key] for key in keys if key in found}, failure)

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


def _settle(future: "Future[Any]", result: Any, error: BaseException | None) -> None:
    # A caller that was cancelled has cancelled its future too, which takes no result any more.
    if future.set_running_or_notify_cancel():
        future.set_exception(error) if error else future.set_result(result)


_CACHES: weakref.WeakSet[VerdictCache] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for cache in list(_CACHES):
        try:
            cache.close()
        except CacheError:
            # Logged when it happened; an exception here would only be printed.
            continue


def _start_over_all() -> None:
    for cache in list(_CACHES):
        cache.start_over()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_over_all)


def export_lines(store: Store, selection: Selection = ALL) -> Iterator[str]:
    """One line of JSON a verdict, key and value side by side, in the order of `entries`."""
    for key, verdict in store.entries(selection):
        yield json.dumps(asdict(key) | json.loads(verdict.line))


def import_lines(store: Store, lines: Iterable[str]) -> int:
    """Store what `export_lines` wrote, and say how many lines there were.

    Merges caches of several machines: a verdict that is there already stays.
    """
    items = (_item(line, number) for number, line in enumerate(lines, start=1) if line.strip())
    count = 0
    while batch := list(islice(items, ROWS_AT_ONCE)):
        store.put_many(batch)
        count += len(batch)
    return count


def _item(line: str, number: int) -> Item:
    try:
        data = json.loads(line)
        key = VerdictKey(**{name: data.pop(name) for name in VerdictKey.__dataclass_fields__})
        return key, CachedVerdict(**data)
    except (ValueError, TypeError, KeyError, AttributeError, CacheError) as error:
        raise CacheError(
            f"line {number}: {line.strip()!r:.200} is no exported verdict ({error}): "
            "give the lines that `export_lines` wrote"
        ) from None
