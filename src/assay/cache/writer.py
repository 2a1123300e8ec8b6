"""WriteBehind: stores verdicts from a thread of its own, in short batches."""

import atexit
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future

from assay.cache.verdict import CachedVerdict, Item, VerdictKey
from assay.errors import AssayError, CacheError
from assay.redaction import logger_of

LINGER_SECONDS = 0.02
"""How long a verdict may wait for others to be stored with it."""

ENOUGH = 100
"""How many verdicts make a batch that waits no longer."""

logger = logger_of(__name__)


class WriteBehind:
    """Takes verdicts without waiting and has `save` store them, soon and together.

    What waits is stored within `linger` seconds, on `settle()`, on `close()` and when the program
    ends, also by Ctrl-C. A program that is killed loses at most what came in the last `linger`
    seconds and the batch being written. A batch that cannot be stored is kept and tried again with
    the next.
    """

    def __init__(
        self,
        save: Callable[[Sequence[Item]], None],
        *,
        linger: float = LINGER_SECONDS,
        enough: int = ENOUGH,
    ) -> None:
        self._save = save
        self._linger = linger
        self._enough = enough
        self._start_over()
        _OPEN.add(self)

    def add(self, items: Iterable[Item]) -> None:
        """Have these stored soon. Returns at once."""
        with self._lock:
            if self._closed:
                raise CacheError("the verdict cache is closed: open another")
            for key, verdict in items:
                self._waiting.setdefault(key, verdict)
            if not self._waiting:
                return
            self._begin()
            self._work.set()
            if len(self._waiting) >= self._enough:
                self._hurry.set()

    def unsaved(self, keys: Iterable[VerdictKey]) -> dict[VerdictKey, CachedVerdict]:
        """Of these keys, the verdicts that are not stored yet."""
        with self._lock:
            if not self._waiting and not self._saving:
                return {}
            both: Mapping[VerdictKey, CachedVerdict] = {**self._waiting, **self._saving}
        return {key: both[key] for key in keys if key in both}

    def settle(self) -> Future[None]:
        """Done when all that was added is stored; holds a `CacheError` when it could not be."""
        settled: Future[None] = Future()
        with self._lock:
            if not self._waiting and not self._saving:
                settled.set_result(None)
                return settled
            self._settling.append(settled)
            self._begin()
            self._work.set()
            self._hurry.set()
        return settled

    def close(self) -> None:
        """Store what waits and stop. Raises `CacheError` when something could not be stored."""
        if self._process != os.getpid():
            return
        settled = self.settle()
        with self._lock:
            self._closed = True
            self._work.set()
            self._hurry.set()
            thread = self._thread
        if thread is not None:
            thread.join()
        settled.result()

    def start_over_in_child(self) -> None:
        """After a fork: what waits is the parent's to store, and its thread is not here."""
        self._start_over()

    def _start_over(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._work = threading.Event()
        self._hurry = threading.Event()
        self._waiting: dict[VerdictKey, CachedVerdict] = {}
        self._saving: dict[VerdictKey, CachedVerdict] = {}
        self._settling: list[Future[None]] = []
        """Callers of `settle` who wait for the next batch."""
        self._telling: list[Future[None]] = []
        """Those who wait for the batch that is being stored."""
        self._thread: threading.Thread | None = None
        self._closed = False

    def _begin(self) -> None:
        """Start the thread unless it runs. Callers hold the lock."""
        if self._thread is None:
            # A daemon, since one that is not would be waited for before anybody can close it.
            self._thread = threading.Thread(target=self._run, name="assay-cache", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        try:
            while self._store_next():
                pass
        except BaseException as failure:  # noqa: BLE001 - nothing above this thread would see it
            self._break_down(failure)

    def _store_next(self) -> bool:
        """Wait for verdicts, store them and tell the callers of `settle`; whether to go on."""
        self._work.wait()
        if not self._closed:
            self._hurry.wait(self._linger)
        with self._lock:
            self._work.clear()
            self._hurry.clear()
            last = self._closed
            self._saving, self._waiting = self._waiting, {}
            self._telling, self._settling = self._settling, []
        self._tell(self._saved())
        with self._lock:
            if not last or self._settling:
                return True
            self._thread = None
            return False

    def _tell(self, error: CacheError | None) -> None:
        telling, self._telling = self._telling, []
        for settled in telling:
            # A caller that was cancelled has cancelled its future too, which takes no result any more.
            if settled.set_running_or_notify_cancel():
                settled.set_exception(error) if error else settled.set_result(None)

    def _break_down(self, failure: BaseException) -> None:
        """Tell all who wait that the thread has failed; the next verdict starts another one."""
        error = CacheError(f"the thread that stores verdicts failed ({failure!r}): it starts again")
        logger.error("%s", error, exc_info=failure)
        with self._lock:
            self._waiting = {**self._saving, **self._waiting}
            self._saving = {}
            self._telling, self._settling = [*self._telling, *self._settling], []
            self._thread = None
        self._tell(error)

    def _saved(self) -> CacheError | None:
        error: CacheError | None = None
        batch = list(self._saving.items())
        try:
            if batch:
                self._save(batch)
        except BaseException as failure:  # noqa: BLE001 - nothing is above this to see it
            why = str(failure) if isinstance(failure, AssayError) else repr(failure)
            error = CacheError(f"{len(batch)} verdicts are not stored yet: {why}")
            logger.error("%s", error)
        with self._lock:
            if error is not None:
                self._waiting = {**self._saving, **self._waiting}
            self._saving = {}
        return error


_OPEN: weakref.WeakSet[WriteBehind] = weakref.WeakSet()


def _close_all() -> None:
    for writer in list(_OPEN):
        try:
            writer.close()
        except CacheError:
            # Said already, when it happened; an exception here would only be printed.
            continue


def _start_over_all() -> None:
    for writer in list(_OPEN):
        writer.start_over_in_child()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_over_all)
