"""Template: a fresh, warm process that does nothing but fork workers, and see to their end.

It has no threads and nothing of the user's process but the import path. It ends, with all workers,
as soon as the pool hangs up or its process is gone.
"""

import gc
import os
import selectors
import signal
import socket
import struct
import sys
import warnings
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

from assay.isolation.settings import Settings
from assay.isolation.worker import serve

REQUEST: Final = struct.Struct(">cI")
"""What the pool asks: a letter, and the number of a worker."""
FORK: Final = b"f"
"""Fork a worker. Its end of the pipe comes with the request."""
KILL: Final = b"k"
"""Kill a worker."""

NEWS: Final = struct.Struct(">cIiI")
"""What the template tells: a letter, the number of a worker, a number, and how much text follows."""
READY: Final = b"r"
"""Everything is loaded."""
WARNING: Final = b"w"
"""A module could not be loaded; the text says why."""
BORN: Final = b"b"
"""A worker is there; the number is its process id."""
ENDED: Final = b"e"
"""A worker has ended; the number is its exit status: below 0 the signal that ended it."""

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """The whole life of a template."""
    fd, settings = Settings.given()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    control = socket.socket(fileno=fd)
    template = Template(control, settings)
    try:
        for problem in prepare(settings):
            template.tell(WARNING, text=problem)
        gc.collect()
        gc.freeze()  # so that workers need no copy of what they never change
        template.tell(READY)
        template.serve()
    except OSError:
        pass  # the pool is gone
    finally:
        template.end()


def prepare(settings: Settings) -> Iterator[str]:
    """Import what is to be loaded before any work; gives a sentence for each that cannot be."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure: Any = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(line_buffering=True)  # a worker may be killed at any moment
    import traceback  # pyright: ignore[reportUnusedImport]  # noqa: F401

    for module in settings.preload:
        try:
            import_module(module)
        except BaseException as error:  # noqa: BLE001 - a module runs when imported
            yield f"{module!r} cannot be preloaded: {type(error).__name__}: {error}"


class Template:
    """Forks workers on request and tells when they end."""

    def __init__(self, control: socket.socket, settings: Settings) -> None:
        self._control = control
        self._settings = settings
        self._numbers: dict[int, int] = {}
        """The number of each worker by its process id."""
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ, self._answer)
        self._bell, ring = socket.socketpair()
        for end in (self._bell, ring):
            end.setblocking(False)
        self._ring = ring
        self._selector.register(self._bell, selectors.EVENT_READ, self._bury)
        signal.set_wakeup_fd(ring.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _ring)
        self._die_with = _PdeathSignal()
        self._watch_parent()

    def serve(self) -> None:
        """Do what is asked until the pool is gone."""
        while True:
            for key, _ in self._selector.select():
                if not key.data():
                    return

    def tell(self, kind: bytes, number: int = 0, value: int = 0, text: str = "") -> None:
        said = text.encode(errors="replace")[:10_000]
        self._control.sendall(NEWS.pack(kind, number, value, len(said)) + said)

    def end(self) -> None:
        """Take all workers along."""
        for pid in self._numbers:
            _kill(pid)
        with suppress(OSError):
            for pid in self._numbers:
                os.waitpid(pid, 0)
        os._exit(0)

    def _watch_parent(self) -> None:
        # A forked child of the user's process may hold the control open; this end is beyond doubt.
        if not hasattr(os, "pidfd_open"):
            return
        try:
            parent = os.pidfd_open(os.getppid())
        except OSError:
            return
        self._selector.register(parent, selectors.EVENT_READ, lambda: False)

    def _answer(self) -> bool:
        asked, fds, _, _ = socket.recv_fds(self._control, REQUEST.size, 1)
        if len(asked) < REQUEST.size:
            return False
        kind, number = REQUEST.unpack(asked)
        if kind == FORK:
            self._fork(number, fds[0])
        else:
            for pid in [pid for pid, known in self._numbers.items() if known == number]:
                _kill(pid)
        return True

    def _fork(self, number: int, fd: int) -> None:
        template = os.getpid()
        with warnings.catch_warnings():
            # A preloaded module may have started threads; that they are not forked is known.
            warnings.simplefilter("ignore", DeprecationWarning)
            try:
                pid = os.fork()
            except OSError as error:
                os.close(fd)
                self.tell(ENDED, number, error.errno or 1)
                return
        if pid == 0:
            self._become_worker(template, fd)
        os.close(fd)
        with suppress(OSError):
            os.setpgid(pid, pid)  # here and there, since nobody knows who is first
        self._numbers[pid] = number
        self.tell(BORN, number, pid)

    def _become_worker(self, template: int, fd: int) -> None:
        try:
            self._die_with.set()
            if os.getppid() != template:
                return  # it died before we could ask to die with it
            with suppress(OSError):
                os.setpgid(0, 0)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._selector.close()
            for end in (self._control, self._bell, self._ring):
                end.close()
            _be_the_first_to_go()
            serve(socket.socket(fileno=fd), self._settings)
        finally:
            os._exit(1)

    def _bury(self) -> bool:
        while self._bell_rings():
            pass
        while self._numbers:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None:
                return True
            # Before its number is free for others: whatever the worker itself has started.
            _kill(ended.si_pid)
            status = os.waitstatus_to_exitcode(os.waitpid(ended.si_pid, 0)[1])
            self.tell(ENDED, self._numbers.pop(ended.si_pid), status)
        return True

    def _bell_rings(self) -> bool:
        try:
            return bool(self._bell.recv(4096))
        except BlockingIOError:
            return False


def _ring(_signal: int, _frame: object) -> None:
    """Nothing to do: that the signal came is written to the bell, since it has a handler."""


def _kill(pid: int) -> None:
    """Kill a worker and what it has started, which is in its process group."""
    for kill in (os.killpg, os.kill):
        with suppress(OSError):  # nothing there any more, or not a group yet
            kill(pid, signal.SIGKILL)


def _be_the_first_to_go() -> None:
    """When the machine runs out of memory, let the kernel take a worker and not the training run."""
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123
        file.write("500")


class _PdeathSignal:
    """Lets a worker be killed the moment the template is gone, also while it is busy (Linux)."""

    def __init__(self) -> None:
        self._prctl: Any = None
        if sys.platform == "linux":
            import ctypes

            self._prctl = getattr(ctypes.CDLL(None), "prctl", None)

    def set(self) -> None:
        if self._prctl is not None:
            self._prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
