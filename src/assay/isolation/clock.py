"""Clock: how long a process has worked, which is not how long it has been since it began.

On a busy machine a process spends most of its time waiting for a processor, and on a virtual one the
processor itself may be taken away. That is nobody's fault and must not cost it its deadline. So on
Linux a process that never sleeps has worked for as long as it used a processor; one that does sleep,
for the time since it began less the wait for a processor (`/proc/PID/schedstat`). Elsewhere processor
time is counted, with a ceiling on the time since the start for those that sleep.
"""

import os
import time
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

ClockKind: TypeAlias = Literal["schedule", "processor", "wall"]

CEILING: Final = 4
"""Where processor time is counted, nothing may take longer than so many times its deadline."""


def clock_kind() -> ClockKind:
    """The best clock this machine has."""
    if os.path.exists("/proc/self/schedstat"):  # noqa: PTH110 - pathlib takes a worker 10 ms to load
        return "schedule"
    return "processor" if os.name == "posix" else "wall"


class Reading(NamedTuple):
    """What Linux has counted of a process, all its life."""

    used: float = 0.0
    """Seconds it used a processor."""
    waited: float = 0.0
    """Seconds it waited for one."""
    sleeps: int = 0
    """How often it gave its processor away, to sleep or to wait for something."""


def worked(since: float, before: Reading, now: Reading, *, slept: bool) -> float:
    """How many of the seconds since it began a process has worked."""
    if slept:
        return since - (now.waited - before.waited)
    return now.used - before.used


def reading_of(pid: int) -> tuple[Reading, bool]:
    """The reading of another process, and whether it sleeps now."""
    with open(f"/proc/{pid}/schedstat", "rb") as file:  # noqa: PTH123
        used, waited, _ = map(int, file.read().split())
    with open(f"/proc/{pid}/status", "rb") as file:  # noqa: PTH123
        status = dict(line.split(b":", 1) for line in file.read().splitlines() if b":" in line)
    sleeps = int(status[b"voluntary_ctxt_switches"])
    return Reading(used / 1e9, waited / 1e9, sleeps), not status[b"State"].strip().startswith(b"R")


class Clock:
    """The worker's own clock: started with a task and read at its end."""

    __slots__ = ("_began", "_file", "_kind", "_resource", "_signal", "_started")

    def __init__(self, kind: ClockKind) -> None:
        self._kind: ClockKind = kind
        self._began = 0.0
        self._started = Reading()
        self._file = -1
        self._signal: Any = None
        if kind == "schedule":
            import resource

            self._resource: Any = resource
            self._file = os.open("/proc/self/schedstat", os.O_RDONLY)
        if kind == "processor":
            import signal

            self._signal = cast("Any", signal)
            signal.signal(signal.SIGPROF, signal.SIG_DFL)

    def start(self, seconds: float) -> Reading:
        """Begin to count. Where the pool cannot look, this ends the process in time."""
        if self._signal is not None:
            self._signal.setitimer(self._signal.ITIMER_PROF, seconds)
        self._started = self.read()
        self._began = self._now()
        return self._started

    def stop(self) -> tuple[float, Reading]:
        """How long this task worked, and what was counted so far."""
        since = self._now() - self._began
        if self._signal is not None:
            self._signal.setitimer(self._signal.ITIMER_PROF, 0)
        now = self.read()
        if self._file < 0:
            return since, now
        slept = now.sleeps > self._started.sleeps
        return max(worked(since, self._started, now, slept=slept), 0.0), now

    def read(self) -> Reading:
        """What was counted so far; nothing where nobody counts."""
        if self._file < 0:
            return Reading()
        waited = int(os.pread(self._file, 64, 0).split()[1]) / 1e9
        sleeps = self._resource.getrusage(self._resource.RUSAGE_THREAD).ru_nvcsw
        return Reading(time.thread_time(), waited, sleeps)

    def _now(self) -> float:
        return time.process_time() if self._kind == "processor" else time.monotonic()
