"""ReadTogether: looks verdicts up in a thread of its own, for all who ask at one moment."""

import asyncio
import os
import weakref
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from assay.cache.verdict import CachedVerdict, VerdictKey

Found = dict[VerdictKey, CachedVerdict]


class ReadTogether:
    """Hands what many tasks look up at once to `load` as one call, off the event loop."""

    def __init__(self, load: Callable[[Sequence[VerdictKey]], Found]) -> None:
        self._load = load
        self._rounds: weakref.WeakKeyDictionary[
            asyncio.AbstractEventLoop, tuple[set[VerdictKey], asyncio.Task[Found]]
        ] = weakref.WeakKeyDictionary()
        self._renew()

    async def find(self, keys: Iterable[VerdictKey]) -> Found:
        """The verdicts that are there; keys without one are left out."""
        loop = asyncio.get_running_loop()
        wanted = set(keys)
        while True:
            gathering = self._rounds.get(loop)
            if gathering is None or gathering[1].done():
                asked: set[VerdictKey] = set()
                gathering = self._rounds[loop] = asked, loop.create_task(self._round(loop, asked))
            asked, task = gathering
            asked |= wanted
            # Other callers wait for the same round, so one that is cancelled must not end it.
            await asyncio.wait([task])
            # A round that was cancelled from outside says nothing of these keys.
            if not task.cancelled():
                found = task.result()
                return {key: found[key] for key in wanted if key in found}

    def close(self) -> None:
        """Stop the thread."""
        if self._process == os.getpid():
            self._thread.shutdown()

    async def _round(self, loop: asyncio.AbstractEventLoop, asked: set[VerdictKey]) -> Found:
        # Whoever is ready to run now may still join.
        await asyncio.sleep(0)
        self._rounds.pop(loop, None)
        if self._process != os.getpid():
            self._renew()
        return await loop.run_in_executor(self._thread, self._load, list(asked))

    def _renew(self) -> None:
        self._process = os.getpid()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="assay-cache-read")
