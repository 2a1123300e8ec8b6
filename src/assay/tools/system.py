"""System: what only Linux can be asked, and Python has no words for. Calls raise `OSError`."""

import ctypes
import os
import sys
from contextlib import suppress
from typing import Any, Final

PROCESSES: Final = 0x20000000 | 0x08000000
"""New namespaces for process ids and for shared memory and queues."""
NETWORK: Final = 0x40000000
USERS: Final = 0x10000000

_SET_PARENT_DEATH_SIGNAL, _SET_SUBREAPER, _SET_NO_NEW_PRIVILEGES = 1, 36, 38


def unshare(namespaces: int) -> None:
    """Leave the namespaces that are shared with everybody else, for new and empty ones.

    In a new namespace of users, stay the user one was outside.
    """
    user, group = os.geteuid(), os.getegid()
    asked("unshare", namespaces)
    if namespaces & USERS:
        with suppress(FileNotFoundError):  # on kernels that do not ask for it
            _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{user} {user} 1")
        _write("/proc/self/gid_map", f"{group} {group} 1")


def die_with_parent() -> None:
    """Be killed when the parent dies."""
    asked("prctl", _SET_PARENT_DEATH_SIGNAL, 9, 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent dies."""
    asked("prctl", _SET_SUBREAPER, 1, 0, 0, 0)


def gain_nothing() -> None:
    """Have no program that is started from now on bring rights of its own, as `sudo` does."""
    asked("prctl", _SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)


def asked(function: str, *arguments: int | bytes) -> int:
    """What a function of the C library returns; numbers go as `long`, bytes as a pointer to them."""
    if sys.platform != "linux":
        raise OSError(f"there is no such call on {sys.platform}")
    library: Any = ctypes.CDLL(None, use_errno=True)
    given = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    found = getattr(library, function)(*given)
    if found < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{function}: {os.strerror(number)}")
    return found


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:  # noqa: PTH123 - pathlib takes long to load
        file.write(text)
