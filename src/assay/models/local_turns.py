"""Turns: who is next at an engine that does one thing at a time and remembers what it has read."""

import threading
from collections.abc import Hashable, Iterator

from assay.models.line import Line

WARM = 4
"""How many beginnings count as still remembered."""


class Turns:
    """Gives places to tasks; those whose prompt begins as a recent one did go first.

    So the criteria of one response follow each other and the response is read once, though
    those of many responses wait at the same time.
    """

    def __init__(self, at_once: int = 1) -> None:
        self._lock = threading.Lock()
        self._free = at_once
        self._lines: dict[Hashable, Line] = {}
        self._warm: list[Hashable] = []

    async def enter(self, beginning: Hashable) -> None:
        """Wait for a place; `leave` gives it back."""
        with self._lock:
            if self._free:
                self._free -= 1
                self._remember(beginning)
                return
            line = self._lines.setdefault(beginning, Line(self.leave))
            place = line.join()
        await line.wait(place)

    def leave(self) -> None:
        """Give the place back; whoever fits best takes it."""
        with self._lock:
            self._free += 1
            for beginning in list(self._order()):
                line = self._lines[beginning]
                served = line.serve()
                if not len(line):
                    del self._lines[beginning]
                if served:
                    self._free -= 1
                    self._remember(beginning)
                    return

    def _order(self) -> Iterator[Hashable]:
        yield from (beginning for beginning in reversed(self._warm) if beginning in self._lines)
        yield from (beginning for beginning in self._lines if beginning not in self._warm)

    def _remember(self, beginning: Hashable) -> None:
        if beginning in self._warm:
            self._warm.remove(beginning)
        self._warm = [*self._warm, beginning][-WARM:]
