"""Ask Linux to confine this process: namespaces, prctl, Landlock and seccomp, which Python has no functions for.

Every call raises `OSError` where it cannot be had. What Landlock and seccomp set up holds for good, and for every
process that is started from then on.
"""

import ctypes
import fcntl
import os
import struct
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

PROCESSES: Final = 0x20000000 | 0x08000000
"""New namespaces for process ids and for shared memory and queues."""
NETWORK: Final = 0x40000000
USERS: Final = 0x10000000

_SET_PARENT_DEATH_SIGNAL, _SET_SUBREAPER, _SET_NO_NEW_PRIVILEGES = 1, 36, 38


def unshare(namespaces: int) -> None:
    """Leave the namespaces that are shared with all other processes, for new and empty ones.

    In a new namespace of users, stay the user one was outside.
    """
    user, group = os.geteuid(), os.getegid()
    call_c("unshare", namespaces)
    if namespaces & USERS:
        with suppress(FileNotFoundError):  # on kernels that do not ask for it
            _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{user} {user} 1")
        _write("/proc/self/gid_map", f"{group} {group} 1")


def die_with_parent() -> None:
    """Be killed when the parent dies."""
    call_c("prctl", _SET_PARENT_DEATH_SIGNAL, 9, 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent dies."""
    call_c("prctl", _SET_SUBREAPER, 1, 0, 0, 0)


def gain_nothing() -> None:
    """Have no program that is started from now on bring rights of its own, as `sudo` does."""
    call_c("prctl", _SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)


def call_c(function: str, *arguments: int | bytes) -> int:
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


_CREATE, _ADD, _RESTRICT = 444, 445, 446
"""The numbers of its three calls, on every machine."""
_WRITE, _TRUNCATE = 1 << 1, 1 << 14
_CHANGES: Final = _WRITE | sum(1 << right for right in range(4, 13))
"""The rights to write, to remove, and to make files of all kinds."""
_CHANGES_SINCE: Final = {2: 1 << 13, 3: _TRUNCATE}
"""More of them, by the version that brought them: to link elsewhere, to cut short."""
_SCOPES, _SCOPES_SINCE = 0b11, 6
"""Signals, and local sockets without a path, reach no process outside; by version too."""


def write_only_in(folder: str) -> None:
    """Change no file outside a folder, and see into no process that may.

    This holds for good, and for every process that is started from now on.
    """
    version = call_c("syscall", _CREATE, 0, 0, 1)
    changes = _CHANGES | sum(r for since, r in _CHANGES_SINCE.items() if version >= since)
    has_scopes = version >= _SCOPES_SINCE
    rules = struct.pack("QQQ", changes, 0, _SCOPES) if has_scopes else struct.pack("Q", changes)
    ruleset = call_c("syscall", _CREATE, rules, len(rules), 0)
    try:
        _allow(ruleset, folder, changes)
        _allow(ruleset, os.devnull, changes & (_WRITE | _TRUNCATE))
        call_c("syscall", _RESTRICT, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        call_c("syscall", _ADD, ruleset, 1, struct.pack("=Qi", rights, place), 0)
    finally:
        os.close(place)


class Machine(NamedTuple):
    """What the kernel calls a kind of processor, and the numbers of its calls."""

    kind: int
    seccomp: int
    socket: int
    clone: int
    forks: tuple[int, ...]


_MACHINES: Final = {
    "x86_64": Machine(0xC000003E, seccomp=317, socket=41, clone=56, forks=(57, 58)),
    "aarch64": Machine(0xC00000B7, seccomp=277, socket=198, clone=220, forks=()),
}
_IO_URING_SETUP, _CLONE3 = 425, 435
_FOREIGN: Final = 0x40000000
"""Where the numbers of another way to call begin, which nothing here uses."""

_ALLOW, _ASK, _NO_SUCH_CALL, _FORBIDDEN = 0x7FFF0000, 0x7FC00000, 0x00050026, 0x0005000D
_LOCAL: Final = 1
"""The family of local sockets."""
_THREAD: Final = 0x00010000
"""Among the flags of `clone`: it makes a thread, and no process."""


def refuse_sockets() -> None:
    """Make no socket but local ones."""
    machine = _machine()
    _set(
        machine,
        [
            (_IO_URING_SETUP, _FORBIDDEN),  # which could make sockets behind our back
            (machine.socket, (_IS, _LOCAL, _ALLOW, _FORBIDDEN)),
        ],
    )


def ask_before_forks() -> int:
    """Have every new process allowed first, by the process that holds the file that this returns."""
    machine = _machine()
    rules: list[Rule] = [
        # Its flags cannot be seen from here. Every C library falls back on `clone`.
        (_CLONE3, _NO_SUCH_CALL),
        *((fork, _ASK) for fork in machine.forks),
        (machine.clone, (_HAS, _THREAD, _ALLOW, _ASK)),
    ]
    return _set(machine, rules, flags=_LISTEN)


def answer(listener: int, *, may_fork: bool) -> None:
    """Answer one process that asks. It may be gone before it hears."""
    question = bytearray(_QUESTION)
    try:
        fcntl.ioctl(listener, _RECEIVE, question)
        number = struct.unpack_from("Q", question)[0]
        said = (0, 0, _GO_ON) if may_fork else (0, -_TRY_AGAIN, 0)
        fcntl.ioctl(listener, _SEND, struct.pack("Qqii", number, *said))
    except FileNotFoundError:
        return


_QUESTION: Final = 80
"""Bytes of a question."""
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_GO_ON, _TRY_AGAIN = 1, 11
_LISTEN: Final = 1 << 3

_LOAD, _IS, _IS_FROM, _HAS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _KIND, _ARGUMENT = 0, 4, 16
"""Where the number of a call, the kind of machine and the first argument stand."""

Step = tuple[int, int, int, int]
"""What to do, how many steps to skip if so and if not, and the value it is done with."""
Rule = tuple[int, int | tuple[int, int, int, int]]
"""A call, and what becomes of it; or a test of its first argument, and what then and what else."""


def _set(machine: Machine, rules: Sequence[Rule], flags: int = 0) -> int:
    steps: list[Step] = [
        (_LOAD, 0, 0, _KIND),
        (_IS, 1, 0, machine.kind),
        (_RETURN, 0, 0, _FORBIDDEN),
        (_LOAD, 0, 0, _NUMBER),
        (_IS_FROM, 0, 1, _FOREIGN),
        (_RETURN, 0, 0, _FORBIDDEN),
    ]
    for call, outcome in rules:
        inside = _steps(outcome)
        steps += [(_IS, 0, len(inside), call), *inside]
    steps.append((_RETURN, 0, 0, _ALLOW))
    filters = b"".join(struct.pack("HBBI", *step) for step in steps)
    kept = ctypes.create_string_buffer(filters, len(filters))
    program = struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(kept))
    return call_c("syscall", machine.seccomp, 1, flags, program)


def _steps(outcome: int | tuple[int, int, int, int]) -> list[Step]:
    if isinstance(outcome, int):
        return [(_RETURN, 0, 0, outcome)]
    test, value, then, otherwise = outcome
    return [(_LOAD, 0, 0, _ARGUMENT), (test, 0, 1, value), (_RETURN, 0, 0, then), (_RETURN, 0, 0, otherwise)]


def _machine() -> Machine:
    name = os.uname().machine
    if name not in _MACHINES:
        raise OSError(f"the calls of {name} are not known here")
    return _MACHINES[name]
