"""Launch: how workers are started and ended. From a warm template, or, without fork, each by itself."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from assay.isolation import template, wire
from assay.isolation.settings import Settings

FORKS = hasattr(os, "fork") and hasattr(socket, "send_fds")
"""Whether workers can be forked from a template here."""
PATIENCE = 1.0
"""Seconds that a process that was told to end may take, before it is killed."""


class News(NamedTuple):
    """What is new about workers: one is born (`value` is its process id), one has ended (its exit
    status), all is ready, or something is worth a warning."""

    kind: bytes
    number: int = 0
    value: int = 0
    text: str = ""


class Launcher(Protocol):
    """Starts and ends workers, which go by numbers."""

    control: socket.socket
    """Readable when there is news."""
    alive: set[int]
    """Workers that were started and have not been seen to end."""

    def start(self, number: int, pipe: socket.socket) -> None: ...
    def kill(self, number: int) -> None: ...
    def news(self) -> list[News]: ...
    def lost(self, number: int) -> None: ...
    def close(self) -> None: ...
    def disown(self) -> None: ...


class Template:
    """The pool's end of a template process."""

    def __init__(self, settings: Settings) -> None:
        self.alive: set[int] = set()
        self.control, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = _started(settings, "assay.isolation.template", theirs)
            except OSError:
                self.control.close()
                raise

    def start(self, number: int, pipe: socket.socket) -> None:
        self.alive.add(number)
        asked = template.REQUEST.pack(template.FORK, number)
        socket.send_fds(self.control, [asked], [pipe.fileno()], wire.QUIETLY)

    def kill(self, number: int) -> None:
        if number in self.alive:
            self.control.sendall(template.REQUEST.pack(template.KILL, number), wire.QUIETLY)

    def lost(self, number: int) -> None:
        """A worker hung up. The template will tell how it ended."""

    def news(self) -> list[News]:
        """What has come in, at least one; raises `EOFError` when the template is gone."""
        kind, number, value, length = template.NEWS.unpack(self._exactly(template.NEWS.size))
        if kind == template.ENDED:
            self.alive.discard(number)
        return [News(kind, number, value, self._exactly(length).decode())]

    def _exactly(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            try:
                more = self.control.recv(length - len(data))
            except OSError:
                more = b""
            if not more:
                raise EOFError
            data += more
        return data

    def close(self) -> None:
        """End the template, which ends its workers."""
        self.control.close()
        if not self.alive:
            self._process.kill()  # it may be busy importing, and has nobody to see to
        _ended(self._process)

    def disown(self) -> None:
        """Forget the template, in a forked child whose parent goes on using it."""
        self.control.close()
        self._process.returncode = 0


class Spawner:
    """Starts a fresh interpreter for every worker, where there is no fork."""

    def __init__(self, settings: Settings) -> None:
        self.alive: set[int] = set()
        self._settings = settings
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self.control, self._bell = socket.socketpair()
        self._news = [News(template.READY)]
        self._bell.send(b"!")

    def start(self, number: int, pipe: socket.socket) -> None:
        self.alive.add(number)
        process = _started(self._settings, "assay.isolation.worker", pipe)
        self._processes[number] = process
        self._tell(News(template.BORN, number, process.pid))

    def kill(self, number: int) -> None:
        process = self._processes.get(number)
        if process is not None:
            _kill(process)
            self.lost(number)

    def lost(self, number: int) -> None:
        """A worker hung up, so it has ended or is about to."""
        process = self._processes.pop(number, None)
        if process is not None:
            self.alive.discard(number)
            self._tell(News(template.ENDED, number, _ended(process)))

    def news(self) -> list[News]:
        self.control.recv(4096)
        news, self._news = self._news, []
        return news

    def close(self) -> None:
        for process in self._processes.values():
            _kill(process)
        for process in self._processes.values():
            _ended(process)
        self.control.close()
        self._bell.close()

    def disown(self) -> None:
        self.control.close()
        self._bell.close()
        for process in self._processes.values():
            process.returncode = 0

    def _tell(self, news: News) -> None:
        self._news.append(news)
        self._bell.send(b"!")


def _started(settings: Settings, module: str, end: socket.socket) -> "subprocess.Popen[bytes]":
    """A fresh interpreter with one end of a socket, in a session of its own.

    A Ctrl-C at the terminal does not reach it. What it prints goes to stderr: the output of this
    program is what this program prints.
    """
    options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": _stderr()}
    if sys.platform == "win32":
        options |= {"stdin": subprocess.PIPE, "creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
        process: Any = subprocess.Popen(settings.command(module, -1), **options)
        process.stdin.write(end.share(process.pid))
        process.stdin.close()
        return process
    fd = end.fileno()
    options |= {"pass_fds": [fd], "start_new_session": True}
    return subprocess.Popen[bytes](settings.command(module, fd), **options)


def _stderr() -> int:
    try:
        os.fstat(2)
    except OSError:
        return subprocess.DEVNULL
    return 2


def _kill(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    if hasattr(os, "killpg") and process.returncode is None:
        with suppress(OSError):  # gone already
            os.killpg(process.pid, signal.SIGKILL)


def _ended(process: "subprocess.Popen[bytes]") -> int:
    """The exit status of a process that has been told to end."""
    try:
        return process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        _kill(process)
        return process.wait()
