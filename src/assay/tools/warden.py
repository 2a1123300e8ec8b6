"""Run a program under a supervising process, the warden: start it, restrict it, and leave no process behind.

The warden runs in a fresh interpreter and exits when the program does, when its standard input is closed, or when the
process that started it dies, which also closes it. If namespaces are available, the program runs below another
process, the first of its namespace, whose end ends all the others. If not, the warden adopts the processes that the
program leaves behind and ends them. Each fence is used if the system supports it; the active fences are reported.

The second half calls Linux for namespaces, prctl, Landlock and seccomp, for which Python has no functions. Every call
raises `OSError` if it is not available. Landlock and seccomp cannot be undone, and apply to all processes that are
started afterwards.
"""

import ctypes
import fcntl
import json
import os
import resource
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from math import ceil
from typing import Any, Final, NamedTuple

PATIENCE: Final = 2.0  # seconds that killed processes may take to exit


class Warden:
    """Watches one program. `orders` are its command, folder, limits and fences."""

    def __init__(self, orders: dict[str, Any]) -> None:
        self._orders = orders
        self._report = int(orders["report"])
        self._alone = False  # whether the program has its own namespaces
        self._ended = False
        self._told_to_stop = False

    def watch(self) -> None:
        """Start the program, and stay until no process is left."""
        os.set_inheritable(self._report, False)
        heard, bell = os.pipe()
        os.set_blocking(bell, False)
        # Nothing to do: the wakeup descriptor reports the signal.
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(bell)
        holds(lambda: _prctl(_ADOPT_ORPHANS, 1))
        standing = leave_others(self._orders["fences"])
        self._alone = bool(standing)
        gate, theirs = socket.socketpair()
        child = os.fork()
        if not child:
            self._begin(standing, theirs)
        theirs.close()
        self._wait(child, heard, gate)
        self._end(child)
        if self._told_to_stop:
            import shutil  # slow to load, and rarely needed

            # The process that should delete the folder may be dead.
            with suppress(RecursionError):
                shutil.rmtree(self._orders["folder"], ignore_errors=True)

    def _begin(self, standing: list[str], gate: socket.socket) -> None:
        """Be the first process of a namespace, or the program itself."""
        try:
            signal.set_wakeup_fd(-1)
            holds(lambda: _prctl(_DIE_WITH_PARENT, signal.SIGKILL))
            program = os.fork() if self._alone else 0
            while program:  # the first process of a namespace reaps orphans until the program ends
                ended, status = os.wait()
                if ended == program:
                    self.tell(status=os.waitstatus_to_exitcode(status))
                    os._exit(0)
            self._become(standing, gate)
        except BaseException as error:  # noqa: BLE001 - only the report reaches the caller
            self.tell(failed=f"{type(error).__name__}: {error}")
        finally:
            os._exit(1)

    def _become(self, standing: list[str], gate: socket.socket) -> None:
        holds(lambda: _prctl(_DIE_WITH_PARENT, signal.SIGKILL))
        if not self._alone:
            os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.chdir(self._orders["folder"])
        inside = close_in(self._orders, lambda listener: socket.send_fds(gate, [b"!"], [listener]))
        self.tell(fences=sorted({*standing, *inside}))
        command = self._orders["command"]
        os.execve(command[0], command, self._orders["environment"])

    def _wait(self, child: int, heard: int, gate: socket.socket) -> None:
        """Wait until the child has exited, or until a stop request. Meanwhile, decide on requests to fork."""
        waiting = select.poll()
        for file in (0, heard, gate.fileno()):
            waiting.register(file, select.POLLIN)
        while not self._ended:
            for file, event in waiting.poll():
                if file == 0:
                    self._told_to_stop = True
                    return
                if file == heard:
                    os.read(heard, 4096)
                    self._see_off(child)
                elif not event & select.POLLIN:
                    waiting.unregister(file)
                elif file == gate.fileno():
                    received = socket.recv_fds(gate, 1, 1)[1]
                    for listener in received:
                        waiting.register(listener, select.POLLIN)
                    if not received:
                        waiting.unregister(file)
                else:
                    most = self._orders["processes"] + self._alone
                    answer(file, may_fork=len(descendants(os.getpid(), most)) < most)

    def _see_off(self, child: int) -> bool:
        """Reap exited processes; return whether a process is left."""
        try:
            while True:
                ended, status = os.waitpid(-1, os.WNOHANG)
                if ended == child:
                    self._ended = True
                    if not self._alone:
                        self.tell(status=os.waitstatus_to_exitcode(status))
                elif not ended:
                    return True
        except ChildProcessError:
            return False

    def _end(self, child: int) -> None:
        """Kill the remaining processes, and wait until they have exited."""
        until = time.monotonic() + PATIENCE
        if not self._alone:
            _kill(-child)  # for systems without information about descendants
        while self._see_off(child) and time.monotonic() < until:
            for left in [child] if self._alone else descendants(os.getpid()):
                _kill(left)
            time.sleep(0.001)

    def tell(self, **news: Any) -> None:
        """Send a message to the process that started the warden."""
        os.write(self._report, json.dumps(news).encode() + b"\n")


def descendants(process: int, most: int = sys.maxsize) -> list[int]:
    """Return the descendants of a process, up to a number; none if the system does not list them."""
    found: list[int] = []
    waiting = [process]
    while waiting and len(found) < most:
        tasks = f"/proc/{waiting.pop()}/task"
        children: list[int] = []
        with suppress(OSError):  # it has exited, or the system has no such file
            for task in os.listdir(tasks):  # noqa: PTH208 - pathlib takes long to load
                with open(f"{tasks}/{task}/children") as file:  # noqa: PTH123
                    children += map(int, file.read().split())
        found += children
        waiting += children
    return found


def _kill(process: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(process, signal.SIGKILL)


def main() -> None:
    warden = Warden(json.loads(sys.argv[1]))
    try:
        warden.watch()
    except OSError as error:
        warden.tell(failed=f"{type(error).__name__}: {error}")
        sys.exit(1)


def leave_others(wanted: Iterable[str]) -> list[str]:
    """Start the next child in its own namespaces, which end with it; return the resulting fences."""
    if "others" not in wanted:
        return []
    apart = _PROCESSES | (_NETWORK if "network" in wanted else 0)
    for namespaces in (apart | _USERS, apart):
        # Tested in a child process, because it cannot be undone.
        child = os.fork()
        if not child:
            os._exit(0 if holds(lambda tried=namespaces: unshare(tried)) else 1)
        if os.waitpid(child, 0)[1] == 0:
            unshare(namespaces)
            return ["others", "network"] if "network" in wanted else ["others"]
    return []


def close_in(orders: dict[str, Any], hand_over: Callable[[int], object]) -> list[str]:
    """Activate the fences for this process, and return the active ones.

    If a listener is passed, every new process has to be allowed by it.
    """
    _limit("RLIMIT_CORE", 0)
    _limit("RLIMIT_CPU", ceil(orders["seconds"]), grace=1)
    _limit("RLIMIT_FSIZE", orders["file_size"])
    # Programs that are started from now on cannot gain privileges, as `sudo` does.
    holds(lambda: _prctl(_NO_NEW_PRIVILEGES, 1))
    ways: dict[str, Callable[[], object]] = {
        "memory": lambda: _limit("RLIMIT_AS", orders["memory"]),
        "files": lambda: write_only_in(orders["folder"]),
        "network": refuse_sockets,
        "processes": lambda: hand_over(ask_before_forks()),
    }
    return [fence for fence, put_up in ways.items() if fence in orders["fences"] and holds(put_up)]


def _limit(name: str, most: int, grace: int = 0) -> None:
    """Set a limit, unless there is a lower one. After `grace`, the hard limit applies."""
    kind = getattr(resource, name)
    hardest = resource.getrlimit(kind)[1]
    soft, hard = most, most + grace
    if hardest != resource.RLIM_INFINITY:
        soft, hard = min(soft, hardest), min(hard, hardest)
    resource.setrlimit(kind, (soft, hard))


def holds(put_up: Callable[[], object]) -> bool:
    """Activate one fence, and return whether it succeeded."""
    try:
        put_up()
    except (OSError, ValueError, AttributeError):  # not on this system, or not for this user
        return False
    return True


_PROCESSES: Final = (
    0x20000000 | 0x08000000
)  # new namespaces for process ids and for shared memory and queues
_NETWORK, _USERS = 0x40000000, 0x10000000
# Options of `prctl`: a signal when the parent dies, adopting orphans, and no new privileges.
_DIE_WITH_PARENT, _ADOPT_ORPHANS, _NO_NEW_PRIVILEGES = 1, 36, 38


def unshare(namespaces: int) -> None:
    """Move to new namespaces, as the same user."""
    user, group = os.geteuid(), os.getegid()
    call_c("unshare", namespaces)
    if namespaces & _USERS:
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            # Some kernels have no `setgroups`, and do not need it.
            if name != "setgroups" or os.path.exists("/proc/self/setgroups"):  # noqa: PTH110 - pathlib takes long to load
                with open(f"/proc/self/{name}", "w", encoding="ascii") as file:  # noqa: PTH123
                    file.write(text)


def _prctl(option: int, value: int) -> None:
    call_c("prctl", option, value, 0, 0, 0)


def call_c(function: str, *arguments: int | bytes) -> int:
    """Call a function of the C library; numbers are passed as `long`, bytes as a pointer."""
    if sys.platform != "linux":
        raise OSError(f"there is no such call on {sys.platform}")
    library: Any = ctypes.CDLL(None, use_errno=True)
    given = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    found = getattr(library, function)(*given)
    if found < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{function}: {os.strerror(number)}")
    return found


_CREATE, _ADD, _RESTRICT = (
    444,
    445,
    446,
)  # the numbers of its three system calls, equal on all architectures
_WRITE, _TRUNCATE = 1 << 1, 1 << 14
# The rights to write, remove and create files of all kinds.
_CHANGES: Final = _WRITE | sum(1 << right for right in range(4, 13))
# Further rights, by the version that introduced them: to link elsewhere, to truncate.
_CHANGES_SINCE: Final = {2: 1 << 13, 3: _TRUNCATE}
_SCOPES, _SCOPES_SINCE = (
    0b11,
    6,
)  # scopes that block signals and local sockets without a path, also by version


def write_only_in(folder: str) -> None:
    """Forbid changing files outside a folder, and accessing processes that may."""
    version = call_c("syscall", _CREATE, 0, 0, 1)
    changes = _CHANGES | sum(r for since, r in _CHANGES_SINCE.items() if version >= since)
    rules = (
        struct.pack("QQQ", changes, 0, _SCOPES)
        if version >= _SCOPES_SINCE
        else struct.pack("Q", changes)
    )
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
    """The kernel's number of an architecture, and the numbers of its system calls."""

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
_FOREIGN: Final = 0x40000000  # the first number of the x32 system calls, which are not used here

_ALLOW, _ASK, _NO_SUCH_CALL, _FORBIDDEN = 0x7FFF0000, 0x7FC00000, 0x00050026, 0x0005000D
_LOCAL: Final = 1  # the address family of local sockets
_THREAD: Final = 0x00010000  # the flag of `clone` for a thread instead of a process


def refuse_sockets() -> None:
    """Forbid all sockets except local ones."""
    machine = _machine()
    # seccomp does not see the operations of io_uring, which could create sockets.
    _set(
        machine,
        [(_IO_URING_SETUP, _FORBIDDEN), (machine.socket, (_IS, _LOCAL, _ALLOW, _FORBIDDEN))],
    )


def ask_before_forks() -> int:
    """Require permission for every new process, from the process that reads the returned file."""
    machine = _machine()
    rules: list[Rule] = [
        # Its flags are not visible to seccomp. Every C library falls back to `clone`.
        (_CLONE3, _NO_SUCH_CALL),
        *((fork, _ASK) for fork in machine.forks),
        (machine.clone, (_HAS, _THREAD, _ALLOW, _ASK)),
    ]
    return _set(machine, rules, flags=_LISTEN)


def answer(listener: int, *, may_fork: bool) -> None:
    """Answer the request of one process, which may have exited in the meantime."""
    question = bytearray(_QUESTION)
    with suppress(FileNotFoundError):
        fcntl.ioctl(listener, _RECEIVE, question)
        number = struct.unpack_from("Q", question)[0]
        said = (0, 0, _GO_ON) if may_fork else (0, -_TRY_AGAIN, 0)
        fcntl.ioctl(listener, _SEND, struct.pack("Qqii", number, *said))


_QUESTION: Final = 80  # bytes of a request
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_GO_ON, _TRY_AGAIN = 1, 11
_LISTEN: Final = 1 << 3

_LOAD, _IS, _IS_FROM, _HAS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _KIND, _ARGUMENT = (
    0,
    4,
    16,
)  # offsets of the call number, the architecture and the first argument

Step = tuple[int, int, int, int]  # operation, jumps if true and if false, and operand
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
        inside: list[Step] = [(_RETURN, 0, 0, outcome)] if isinstance(outcome, int) else []
        if not isinstance(outcome, int):
            test, value, then, otherwise = outcome
            inside = [
                (_LOAD, 0, 0, _ARGUMENT),
                (test, 0, 1, value),
                (_RETURN, 0, 0, then),
                (_RETURN, 0, 0, otherwise),
            ]
        steps += [(_IS, 0, len(inside), call), *inside]
    steps.append((_RETURN, 0, 0, _ALLOW))
    filters = b"".join(struct.pack("HBBI", *step) for step in steps)
    kept = ctypes.create_string_buffer(filters, len(filters))
    program = struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(kept))
    return call_c("syscall", machine.seccomp, 1, flags, program)


def _machine() -> Machine:
    name = os.uname().machine
    if name not in _MACHINES:
        raise OSError(f"the calls of {name} are not known here")
    return _MACHINES[name]
