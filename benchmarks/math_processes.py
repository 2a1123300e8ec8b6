"""Read a process and everything it started: CPU seconds, and who is there. Linux's /proc."""

import os
import resource
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

Result = TypeVar("Result")

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Process:
    """One that is alive, or dead and not waited for.

    Its seconds include those of the children it has waited for.
    """

    pid: int
    parent: int
    seconds: float


def seconds_so_far() -> float:
    """CPU seconds of this process and of all it started, the living and the dead."""
    return _own_seconds() + _seconds_below()


def seconds_of(work: Callable[[], Result]) -> tuple[Result, float]:
    """What the work gives, and its CPU seconds in this process and all below."""
    # Looking at other processes takes milliseconds itself: before the first look at our own clock
    # and after the last.
    below = _seconds_below()
    own = _own_seconds()
    result = work()
    spent = _own_seconds() - own
    return result, spent + _seconds_below() - below


def descendants(root: int | None = None) -> list[Process]:
    """All processes below this one (or `root`), parents before children."""
    by_parent: dict[int, list[Process]] = {}
    for process in _processes():
        by_parent.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    waiting = [os.getpid() if root is None else root]
    while waiting:
        children = by_parent.get(waiting.pop(0), [])
        found += children
        waiting += [child.pid for child in children]
    return found


def _own_seconds() -> float:
    """Of this process, and of its children that it has waited for."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _seconds_below() -> float:
    return sum(process.seconds for process in descendants())


def _processes() -> Iterator[Process]:
    for folder in _PROC.glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue  # Ended since it was listed.
        # The name, in parentheses, may hold blanks and parentheses of its own.
        fields = stat.rpartition(")")[2].split()
        ticks = sum(map(int, fields[11:15]))
        yield Process(int(folder.name), int(fields[1]), ticks / _TICKS)
