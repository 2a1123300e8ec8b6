"""Patience: a deadline for many short waits, at the price of one timer for all of them."""

import asyncio
from types import TracebackType
from typing import Final

LOOKS: Final = 4
"""How often it is looked, in the time that a wait may take."""


class Patience:
    """Ends, with `TimeoutError`, a wait inside its block that lasts longer than `seconds`, or a quarter more.

    Nearly every body is there when it is asked for, and a timer of its own would cost more than reading it.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: dict[asyncio.Task[None], float] = {}
        self._late: set[asyncio.Task[None]] = set()
        self._looking = False

    def __enter__(self) -> None:
        loop = asyncio.get_running_loop()
        self._since[_this_task()] = loop.time()
        if not self._looking:
            self._looking = True
            loop.call_later(self._seconds / LOOKS, self._look)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        task = _this_task()
        del self._since[task]
        if task in self._late:
            self._late.discard(task)
            if task.uncancel() == 0 and isinstance(error, asyncio.CancelledError):
                raise TimeoutError from error

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        for task, since in self._since.items():
            if loop.time() - since >= self._seconds and task not in self._late:
                self._late.add(task)
                task.cancel()
        self._looking = bool(self._since)
        if self._looking:
            loop.call_later(self._seconds / LOOKS, self._look)


def _this_task() -> asyncio.Task[None]:
    task = asyncio.current_task()
    assert task is not None
    return task
