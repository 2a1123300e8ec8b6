"""Fences: what a program may not do, put up by the processes that start it.

Each is put up where the system can. Which of them stand is told, and none is said to that does not.
"""

import os
import resource
from collections.abc import Callable, Iterable
from math import ceil
from typing import Any

from assay.tools import landlock, seccomp, system


def leave_others(wanted: Iterable[str]) -> list[str]:
    """Start the next child in namespaces of its own; returns the fences that this puts up.

    The child is the first process there. When it ends, the kernel ends all others.
    """
    if "others" not in wanted:
        return []
    apart = system.PROCESSES | (system.NETWORK if "network" in wanted else 0)
    for namespaces in (apart | system.USERS, apart):
        if _tried(namespaces):
            system.unshare(namespaces)
            return ["others", "network"] if "network" in wanted else ["others"]
    return []


def _tried(namespaces: int) -> bool:
    """Whether it works, tried out by a child, for there would be no way back."""
    child = os.fork()
    if not child:
        os._exit(0 if holds(lambda: system.unshare(namespaces)) else 1)
    return os.waitpid(child, 0)[1] == 0


def close_in(
    wanted: Iterable[str], limits: dict[str, Any], hand_over: Callable[[int], None]
) -> list[str]:
    """Put up the fences around this very process; returns those that now stand.

    Whoever is handed the file over decides on every process that is started.
    """
    _limit("RLIMIT_CORE", 0)
    _limit("RLIMIT_CPU", ceil(limits["seconds"]), grace=1)
    _limit("RLIMIT_FSIZE", limits["file_size"])
    holds(system.gain_nothing)
    ways: dict[str, Callable[[], None]] = {
        "memory": lambda: _limit("RLIMIT_AS", limits["memory"]),
        "files": lambda: landlock.write_only_in(limits["folder"]),
        "network": seccomp.refuse_sockets,
        "processes": lambda: hand_over(seccomp.ask_before_forks()),
    }
    return [fence for fence, put_up in ways.items() if fence in wanted and holds(put_up)]


def _limit(name: str, most: int, grace: int = 0) -> None:
    """Set a limit, unless there is a lower one. After a `grace` it can no longer be ignored."""
    kind = getattr(resource, name)
    hardest = resource.getrlimit(kind)[1]
    soft, hard = most, most + grace
    if hardest != resource.RLIM_INFINITY:
        soft, hard = min(soft, hardest), min(hard, hardest)
    resource.setrlimit(kind, (soft, hard))


def holds(put_up: Callable[[], None]) -> bool:
    """Put up one fence, and say whether it stands."""
    try:
        put_up()
    except (OSError, ValueError, AttributeError):  # not on this system, or not for this user
        return False
    return True
