"""Seccomp: how a process on Linux gives up calls, or has another process decide on each.

What is set up here holds for good, and for every process that is started from now on. Machines whose
calls we have no numbers for raise `OSError`.
"""

import ctypes
import fcntl
import os
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from assay.tools.system import asked


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
    """Have every new process allowed first, by whoever holds the file that this returns."""
    machine = _machine()
    rules: list[Rule] = [
        # Its flags cannot be seen from here. Everybody falls back on `clone`.
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
    return asked("syscall", machine.seccomp, 1, flags, program)


def _steps(outcome: int | tuple[int, int, int, int]) -> list[Step]:
    if isinstance(outcome, int):
        return [(_RETURN, 0, 0, outcome)]
    test, value, then, otherwise = outcome
    return [
        (_LOAD, 0, 0, _ARGUMENT),
        (test, 0, 1, value),
        (_RETURN, 0, 0, then),
        (_RETURN, 0, 0, otherwise),
    ]


def _machine() -> Machine:
    name = os.uname().machine
    if name not in _MACHINES:
        raise OSError(f"the calls of {name} are not known here")
    return _MACHINES[name]
