"""Closing: an environment lets go of what it holds, by its teardown hooks."""

import atexit
from types import TracebackType
from typing import Self

from assay.concurrency import FAILURES, is_stop, run_sync
from assay.envs.calling import awaited
from assay.envs.hooks import hooks_of
from assay.redaction import logger_of
from assay.wording import described

logger = logger_of("assay")


class Closing:
    """Something with teardown hooks, which are called once.

    Use it in a `with` or `async with` block, or close it. What was used and never closed is closed
    when the interpreter ends; nothing is arranged for before that, and no signal is ever touched.
    """

    _closed = False
    _awaits_exit = False

    def close(self) -> None:
        """Call the teardown hooks, from synchronous code."""
        run_sync(self.aclose())

    async def aclose(self) -> None:
        """Call the teardown hooks; one that fails does not keep the others from it."""
        if self._closed:
            return
        self._closed = True
        if self._awaits_exit:
            atexit.unregister(self.close)
        for hook in hooks_of(self, "teardown"):
            try:
                await awaited(hook())
            except FAILURES as error:
                if is_stop(error):
                    raise
                logger.error("teardown %s failed: %s", hook.__name__, described(error))

    def _close_at_exit(self) -> None:
        """From now on there may be something to let go of."""
        if not self._awaits_exit and hooks_of(self, "teardown"):
            self._awaits_exit = True
            atexit.register(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()
