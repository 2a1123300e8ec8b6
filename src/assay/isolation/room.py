"""Room: places in the queue. Whoever finds none waits until one is free, first come first served."""

import threading
from collections import OrderedDict
from concurrent.futures import Future
from typing import TypeAlias

from assay.isolation.task import Task

Turn: TypeAlias = Future[None]
"""Done when its task has a place."""


class Room:
    """So many places for tasks."""

    def __init__(self, places: int) -> None:
        self._lock = threading.Lock()
        self._free = places
        self._turns: OrderedDict[Task, Turn] = OrderedDict()

    @property
    def waiting(self) -> int:
        """How many tasks wait for a place."""
        return len(self._turns)

    def enter(self, task: Task) -> Turn | None:
        """None when there was a place for it; else a turn to wait for."""
        with self._lock:
            if self._free > 0:
                self._free -= 1
                task.has_place = True
                return None
            turn = self._turns[task] = Turn()
            return turn

    def leave(self, task: Task) -> None:
        """Give up its place, for the next in line, or the wait for one. It need not have either."""
        with self._lock:
            self._turns.pop(task, None)
            if not task.has_place:
                return
            task.has_place = False
            self._free += 1
            turn = self._next()
        if turn is not None:
            turn.set_result(None)

    def close(self, error: Exception) -> None:
        """Let nobody wait any more."""
        with self._lock:
            turns = [*self._turns.values()]
            self._turns.clear()
        for turn in turns:
            turn.set_exception(error)

    def _next(self) -> Turn | None:
        if not self._turns:
            return None
        task, turn = self._turns.popitem(last=False)
        self._free -= 1
        task.has_place = True
        return turn
