"""VerdictCache: what was judged once is not judged again."""

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from assay.cache.places import open_store
from assay.cache.reader import ReadTogether
from assay.cache.store import Store
from assay.cache.verdict import CachedVerdict, Item, VerdictKey
from assay.cache.writer import LINGER_SECONDS, WriteBehind


class VerdictCache:
    """A store for a running event loop: nothing here waits for a disk or a network in the loop.

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

    def __init__(
        self, where: str | Path | Store | None = None, *, linger: float = LINGER_SECONDS
    ) -> None:
        """`where` is a folder, a file, a `postgresql://` URL or a store; see `open_store`.

        Opening may wait for a disk or a server, so do it before the loop is busy. `linger` is how many
        seconds a verdict may wait for others to be stored with it.
        """
        self.store = open_store(where) if where is None or isinstance(where, str | Path) else where
        self._reads = ReadTogether(self.store.get_many)
        self._writes = WriteBehind(self.store.put_many, linger=linger)

    async def get(self, key: VerdictKey) -> CachedVerdict | None:
        """The verdict under this key; None when there is none."""
        return (await self.get_many([key])).get(key)

    async def get_many(self, keys: Sequence[VerdictKey]) -> dict[VerdictKey, CachedVerdict]:
        """The verdicts that are there, also those not stored yet; other keys are left out."""
        found = self._writes.unsaved(keys)
        missing = [key for key in keys if key not in found]
        return found | await self._reads.find(missing) if missing else found

    def put_soon(self, items: Iterable[Item]) -> None:
        """Keep these. Returns at once; they are stored within `linger` seconds.

        Ctrl-C and an ordinary end of the program store them first. Only a program that is killed outright
        can lose them; use `put_many` for what must be safe before you go on. Raises `CacheError` for
        what JSON cannot hold.
        """
        items = list(items)
        for _, verdict in items:
            # Written down here, since in a batch one bad verdict would hold up the good ones.
            _ = verdict.line
        self._writes.add(items)

    async def put_many(self, items: Iterable[Item]) -> None:
        """Keep these; on return they are stored and survive a SIGKILL."""
        self.put_soon(items)
        await self.flush()

    async def flush(self) -> None:
        """Wait until all that was put is stored. Raises `CacheError` when it cannot be."""
        await asyncio.wrap_future(self._writes.settle())

    def close(self) -> None:
        """Store what waits, and let go of the store."""
        try:
            self._writes.close()
        finally:
            self._reads.close()
            self.store.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.close)
