"""Clock: how long a process has worked, which is not how long it has been since it began.

On a busy machine a process spends most of its time waiting for a processor. That is nobody's fault
and must not cost it its deadline. Linux counts this wait (`/proc/PID/schedstat`), so there the time
worked is the time since the start less the wait; a process that sleeps counts as working. Elsewhere
processor time is counted, with a ceiling on the time since the start for those that sleep.
"""

import os
import time
from typing import Any, Final, Literal, TypeAlias, cast

ClockKind: TypeAlias = Literal["schedule", "processor", "wall"]

CEILING: Final = 4
"""Where processor time is counted, nothing may take longer than so many times its deadline."""


def clock_kind() -> ClockKind:
    """The best clock this machine has."""
    if os.path.exists("/proc/self/schedstat"):  # noqa: PTH110 - pathlib takes a worker 10 ms to load
        return "schedule"
    return "processor" if os.name == "posix" else "wall"


def waited(pid: int) -> float:
    """How many seconds a process has waited for a processor, all its life."""
    with open(f"/proc/{pid}/schedstat", "rb") as file:  # noqa: PTH123
        return _waited_in(file.read())


def _waited_in(line: bytes) -> float:
    return int(line.split()[1]) / 1e9


class Clock:
    """The worker's own clock: started with a task and read at its end."""

    __slots__ = ("_began", "_file", "_kind", "_signal", "_waited")

    def __init__(self, kind: ClockKind) -> None:
        self._kind = kind
        self._began = self._waited = 0.0
        self._file = os.open("/proc/self/schedstat", os.O_RDONLY) if kind == "schedule" else -1
        self._signal: Any = None
        if kind == "processor":
            import signal

            self._signal = cast("Any", signal)
            signal.signal(signal.SIGPROF, signal.SIG_DFL)

    def start(self, seconds: float) -> float:
        """Begin to count; gives the wait so far. Where the pool cannot look, it ends us in time."""
        if self._signal is not None:
            self._signal.setitimer(self._signal.ITIMER_PROF, seconds)
        self._waited = self.waited()
        self._began = self._now()
        return self._waited

    def stop(self) -> tuple[float, float]:
        """How long this task worked, and the wait so far."""
        ended, waited = self._now(), self.waited()
        if self._signal is not None:
            self._signal.setitimer(self._signal.ITIMER_PROF, 0)
        return max(ended - self._began - (waited - self._waited), 0.0), waited

    def waited(self) -> float:
        """How long this process has waited for a processor; 0 where nobody counts."""
        return _waited_in(os.pread(self._file, 64, 0)) if self._file >= 0 else 0.0

    def _now(self) -> float:
        return time.process_time() if self._kind == "processor" else time.monotonic()
