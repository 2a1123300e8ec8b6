"""Watch a program from a process of its own, the warden: start it, fence it in, and leave no process behind.

The warden runs in a fresh interpreter and ends when the program does, when its standard input is closed, or when the
process that started it dies, which closes it too. In namespaces of its own the program has one more process above it,
the first one there, whose end is the end of all. Where there are none, the warden adopts what the program leaves
behind and ends it. Each fence is put up where the system can; which of them stand is told.
"""

import json
import os
import resource
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from math import ceil
from typing import Any, Final

from assay.tools import linux

PATIENCE: Final = 2.0
"""Seconds that killed processes may take to be gone."""


class Warden:
    """Watches one program. `orders` are its command, folder, limits and fences."""

    def __init__(self, orders: dict[str, Any]) -> None:
        self._orders = orders
        self._report = int(orders["report"])
        self._alone = False
        """Whether the program has namespaces of its own."""
        self._ended = False
        self._told_to_stop = False

    def watch(self) -> None:
        """Start the program, and stay until no process is left."""
        os.set_inheritable(self._report, False)
        heard, bell = os.pipe()
        os.set_blocking(bell, False)
        signal.signal(signal.SIGCHLD, _heard)
        signal.set_wakeup_fd(bell)
        holds(linux.adopt_orphans)
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
            self._tidy()

    def _begin(self, standing: list[str], gate: socket.socket) -> None:
        """Be the first process of a namespace, or the program itself."""
        try:
            signal.set_wakeup_fd(-1)
            holds(linux.die_with_parent)
            if self._alone:
                program = os.fork()
                if program:
                    self._be_first(program)
            self._become(standing, gate)
        except BaseException as error:  # noqa: BLE001 - only the report reaches the caller
            self.tell(failed=f"{type(error).__name__}: {error}")
        finally:
            os._exit(1)

    def _be_first(self, program: int) -> None:
        """Bury orphaned processes until the program ends."""
        while True:
            ended, status = os.wait()
            if ended == program:
                self.tell(status=os.waitstatus_to_exitcode(status))
                os._exit(0)

    def _become(self, standing: list[str], gate: socket.socket) -> None:
        holds(linux.die_with_parent)
        if not self._alone:
            os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.chdir(self._orders["folder"])

        def hand_over(listener: int) -> None:
            socket.send_fds(gate, [b"!"], [listener])

        inside = close_in(self._orders["fences"], self._orders, hand_over)
        self.tell(fences=sorted({*standing, *inside}))
        command = self._orders["command"]
        os.execve(command[0], command, self._orders["environment"])

    def _wait(self, child: int, heard: int, gate: socket.socket) -> None:
        """Until the child has ended, or we are told to stop. Meanwhile, decide who may fork."""
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
                    linux.answer(file, may_fork=self._has_room())

    def _has_room(self) -> bool:
        """Whether one process more would not be too many."""
        most = self._orders["processes"] + self._alone
        return len(descendants(os.getpid(), most)) < most

    def _see_off(self, child: int) -> bool:
        """Take note of what has ended; returns whether a process is left."""
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
        """Kill what is left, and wait until it is gone."""
        until = time.monotonic() + PATIENCE
        if not self._alone:
            _kill(-child)  # for systems that do not tell who descends from whom
        while self._see_off(child) and time.monotonic() < until:
            for left in [child] if self._alone else descendants(os.getpid()):
                _kill(left)
            time.sleep(0.001)

    def _tidy(self) -> None:
        """Remove the folder: the process that should do so may be dead."""
        import shutil  # which takes longer to load than all else, and is hardly ever needed

        with suppress(RecursionError):
            shutil.rmtree(self._orders["folder"], ignore_errors=True)

    def tell(self, **news: Any) -> None:
        """Send news to the process that gave the orders."""
        os.write(self._report, json.dumps(news).encode() + b"\n")


def descendants(process: int, most: int = sys.maxsize) -> list[int]:
    """The processes below one, or so many of them; none where the system does not tell."""
    found: list[int] = []
    waiting = [process]
    while waiting and len(found) < most:
        children = _children(waiting.pop())
        found += children
        waiting += children
    return found


def _children(process: int) -> list[int]:
    try:
        tasks = os.listdir(f"/proc/{process}/task")  # noqa: PTH208 - pathlib takes long to load
        found: list[int] = []
        for task in tasks:
            with open(f"/proc/{process}/task/{task}/children") as file:  # noqa: PTH123
                found += map(int, file.read().split())
    except OSError:  # it has ended, or there is no such file here
        return []
    return found


def _heard(_number: int, _frame: object) -> None:
    """Nothing: that a signal came in is known by its ring of the bell."""


def _kill(process: int) -> None:
    try:
        os.kill(process, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def main() -> None:
    """Watch the program that the command line orders."""
    warden = Warden(json.loads(sys.argv[1]))
    try:
        warden.watch()
    except OSError as error:
        warden.tell(failed=f"{type(error).__name__}: {error}")
        sys.exit(1)


def leave_others(wanted: Iterable[str]) -> list[str]:
    """Start the next child in namespaces of its own; returns the fences that this puts up.

    The child is the first process there. When it ends, the kernel ends all others.
    """
    if "others" not in wanted:
        return []
    apart = linux.PROCESSES | (linux.NETWORK if "network" in wanted else 0)
    for namespaces in (apart | linux.USERS, apart):
        if _tried(namespaces):
            linux.unshare(namespaces)
            return ["others", "network"] if "network" in wanted else ["others"]
    return []


def _tried(namespaces: int) -> bool:
    """Whether it works, tried out by a child, for there would be no way back."""
    child = os.fork()
    if not child:
        os._exit(0 if holds(lambda: linux.unshare(namespaces)) else 1)
    return os.waitpid(child, 0)[1] == 0


def close_in(wanted: Iterable[str], limits: dict[str, Any], hand_over: Callable[[int], None]) -> list[str]:
    """Put up the fences around this very process; returns those that now stand.

    The process that the file is handed to decides on every process that is started.
    """
    _limit("RLIMIT_CORE", 0)
    _limit("RLIMIT_CPU", ceil(limits["seconds"]), grace=1)
    _limit("RLIMIT_FSIZE", limits["file_size"])
    holds(linux.gain_nothing)
    ways: dict[str, Callable[[], None]] = {
        "memory": lambda: _limit("RLIMIT_AS", limits["memory"]),
        "files": lambda: linux.write_only_in(limits["folder"]),
        "network": linux.refuse_sockets,
        "processes": lambda: hand_over(linux.ask_before_forks()),
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
