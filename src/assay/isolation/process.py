"""Start worker processes, give them tasks, and end those that miss a deadline or misbehave.

This is the pool's side. A worker is believed only when its message is exactly what is expected next, with the
token of the task it was given; after anything else the process is ended, with everything it has started.
"""

import json
import os
import pickle
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from assay.isolation import protocol
from assay.isolation.forkserver import Reading, worked
from assay.isolation.protocol import Packed, WorkerSettings
from assay.redaction import logger_of, redacted

logger = logger_of("assay")

FORKS = all(hasattr(os, name) for name in ("fork", "waitid")) and hasattr(socket, "send_fds")
"""Whether workers can be forked from a template here."""
LOADING: Final = 300.0
"""Seconds that a template may take to load what is preloaded, a worker to be there, and a function to be loaded."""
SLACK: Final = 0.05  # seconds past its deadline that a worker is left alone, so that its own clock decides close cases
CEILING: Final = 4  # where processor time is counted, nothing may take longer than so many times its deadline
OVERLOAD: Final = 60.0
"""A task without a hard deadline ends after so many seconds and so many times its deadline, whatever the load."""
DELIVERY: Final = 10.0  # seconds past the deadline for which an answer that has begun to arrive is awaited
PATIENCE: Final = 1.0  # seconds that a process which should end may take
_CHUNK: Final = 1 << 18
_QUIETLY: Final[int] = getattr(socket, "MSG_NOSIGNAL", 0)
"""A flag for sending: if the other end is gone, that is an error here and no SIGPIPE."""
_OWN_FAULT: Final = ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSYS", "SIGTRAP", "SIGXCPU", "SIGXFSZ")
"""Signals that a process gets for what it did itself. Any other came from outside."""

Kind: TypeAlias = Literal["timeout", "memory", "raised", "crashed", "lost"]
"""What went wrong: out of time, out of memory, an exception, a worker that died of the task, or one
that died of something else, twice."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A value, or what went wrong instead. Nothing that goes wrong in a worker is raised here.

    >>> Outcome(4).ok, Outcome(kind="timeout", message="TimeoutError: still working").ok
    (True, False)
    """

    value: Any = None
    """What the function returned; None also when it returned nothing, so look at `ok`."""
    kind: Kind | None = None
    """What went wrong; None when nothing did."""
    message: str = ""
    """The same in words, as an error reads: `ValueError: no such field`."""
    seconds: float = 0.0
    """How long it worked: not counting the wait for a worker, or for a processor."""
    trace: str = ""
    """Where the function raised, as Python prints it."""

    @property
    def ok(self) -> bool:
        """Whether there is a value."""
        return self.kind is None


class Work(NamedTuple):
    """What is to be done, and how long it may take."""

    function: Packed
    arguments: bytes
    timeout: float  # seconds that it may work
    hard_timeout: float | None
    """Seconds after which it ends in any case, counted from its start; None for a limit that only overload meets."""

    def out_of_time(self, seconds: float) -> Outcome:
        text = f"TimeoutError: still working after {self.timeout:g} s, and stopped"
        return Outcome(kind="timeout", message=text, seconds=seconds)


class EndedError(Exception):
    """A worker process has ended. `status` is its exit status, below 0 a signal, None when that is not known."""

    def __init__(self, status: int | None) -> None:
        super().__init__(f"status {status}")
        self.status = status

    def outcome(self, work: Work, *, is_last: bool) -> Outcome | None:
        """What this says of the task; None when the task need not be to blame and can be tried again."""
        text, kind = "its worker was lost, and so was a second one", "lost"
        if self.status is not None:
            kind, number = "crashed", -self.status
            known = [each.name for each in signal.Signals if each == number]
            name = known[0] if known else f"signal {number}"
            if number <= 0:
                is_last, text = True, f"the worker ended itself, with exit status {self.status}"
            elif name == "SIGPROF":  # the timer of the "processor" clock
                return work.out_of_time(work.timeout)
            elif name in _OWN_FAULT:
                is_last, text = True, f"the worker died of {name}"
            else:
                text = f"its worker was ended by {name}, and so was a second one"
                text += ": perhaps the machine is out of memory" * (name == "SIGKILL")
        return Outcome(kind=kind, message=f"RuntimeError: {text}") if is_last else None


class MisbehavedError(Exception):
    """A worker process said something that is no answer to its task."""


class WorkerProcess:
    """One worker process, as the one thread of the pool sees it that gives it tasks.

    It lives on a leash: a socket on which the template tells its birth and its end, and that ends it when this
    side is shut down. Where there is no fork it is a `process` of its own instead.
    """

    def __init__(self, template: "Template", pipe: socket.socket, leash: socket.socket) -> None:
        self.template = template
        self.process: subprocess.Popen[bytes] | None = None
        self.tasks = 0  # how many tasks it has done
        self.is_spent = False  # whether it has asked to be replaced
        self.is_busy = False  # whether it was given a task that it has not answered
        self._pid = 0
        self._pipe, self._leash = pipe, leash
        self._is_held = True
        self._known: set[int] = set()
        self._inbox, self._token = bytearray(), b""

    def await_birth(self) -> None:
        """Wait until it is there. Raises `TimeoutError`, or `EndedError` when it never will be."""
        told = self._told(LOADING) if self.process is None else self.process.pid
        if not told:  # the template is gone, or cannot fork
            raise EndedError(None if told is None else 1)
        self._pid = told
        if self._received(time.monotonic() + LOADING) is None:
            raise TimeoutError

    def is_fit(self) -> bool:
        """Whether it has neither ended nor spoken since its last answer."""
        try:
            self._pipe.setblocking(False)
            self._pipe.recv(1)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def give(self, work: Work) -> None:
        """Send it a task. Raises `OSError` when it is gone, or does not take it."""
        number = work.function.number
        function = None if number in self._known else work.function.data
        self.is_busy = True
        self._token = secrets.token_bytes(protocol.TOKEN_BYTES)
        call = pickle.dumps((number, function, work.arguments, work.timeout))
        self._pipe.settimeout(LOADING)
        self._pipe.sendall(protocol.message(protocol.TASK, call, token=self._token), _QUIETLY)

    def answer(self, work: Work) -> Outcome:
        """What came of its task. Raises `EndedError` and `MisbehavedError`; at a deadline it is left busy."""
        before = None  # what was counted of the process before its task, by its own word
        began, until = 0.0, time.monotonic() + LOADING
        limit = work.timeout * (CEILING if self.template.settings.clock == "processor" else 1) + SLACK
        hard = OVERLOAD * (1 + limit) if work.hard_timeout is None else work.hard_timeout
        while True:
            received, now = self._received(until), time.monotonic()
            if received is None:
                if before is None:
                    text = f"{work.function.name} was not loaded within {LOADING:g} s"
                    return Outcome(kind="timeout", message=f"TimeoutError: {text}")
                since = now - began
                seconds = self._worked(since, before)
                left = min(limit - seconds, hard - since)
                if left <= 0:
                    return work.out_of_time(seconds) if hard > since else _not_done(hard, since, seconds)
                until = now + max(left, 0.001)
                continue
            kind, token, said = received
            if token != self._token:
                raise MisbehavedError("it said something that is no answer to its task")
            try:
                if kind == protocol.STARTED and before is None:
                    self._known.add(work.function.number)
                    before, began = Reading(*json.loads(said)), now
                    until = began + min(limit, hard)
                    continue
                if kind == protocol.ANSWER and not self._inbox:
                    return self._outcome(json.loads(said), work)
            except Exception as error:
                raise MisbehavedError("its answer could not be read") from error
            raise MisbehavedError("it said more than its answer")

    def _worked(self, since: float, before: Reading) -> float:
        """How many of the seconds since its task began it has worked, as the kernel counts."""
        if self.template.settings.clock != "schedule":
            return since
        try:
            with open(f"/proc/{self._pid}/schedstat", "rb") as file:  # noqa: PTH123
                used, waited, _ = (int(number) / 1e9 for number in file.read().split())
            with open(f"/proc/{self._pid}/status", "rb") as file:  # noqa: PTH123
                status = dict(line.split(b":", 1) for line in file.read().splitlines() if b":" in line)
            now = Reading(used, waited, int(status[b"voluntary_ctxt_switches"]))
            # What it says of itself may be a lie, but it cannot have used more than the kernel has counted.
            if any(told > counted for told, counted in zip(before, now, strict=True)):
                return since
        except (OSError, ValueError, KeyError, TypeError):
            return since
        slept = now.sleeps > before.sleeps or not status[b"State"].strip().startswith(b"R")
        return min(worked(since, before, now, slept=slept), since)

    def _outcome(self, said: Any, work: Work) -> Outcome:
        (kind, seconds, spent), content = said
        self.is_spent = spent is not False
        self.tasks += 1
        outcome = work.out_of_time(seconds)
        if seconds <= work.timeout and kind == "value":
            outcome = Outcome(protocol.read_plain(content), seconds=seconds)
        elif seconds <= work.timeout:
            text, trace = (redacted(str(each)) for each in content)
            outcome = Outcome(None, "memory" if kind == "memory" else "raised", text, seconds, trace)
        self.is_busy = False
        return outcome

    def _received(self, until: float) -> tuple[bytes, bytes, bytes] | None:
        """Its next message, as kind, token and what it says; None when it has not come by then."""
        head = protocol.HEAD.size
        while True:
            if len(self._inbox) >= head:
                kind, token, length = protocol.HEAD.unpack_from(self._inbox)
                if length > protocol.LARGEST_VALUE + _CHUNK:
                    raise MisbehavedError("it said more than it may")
                if len(self._inbox) >= head + length:
                    said = bytes(self._inbox[head : head + length])
                    del self._inbox[: head + length]
                    return kind, token, said
            left = until - time.monotonic()
            if left < -DELIVERY:
                return None
            try:
                self._pipe.settimeout(max(left, 0.0001))
                data = self._pipe.recv(_CHUNK)
            except TimeoutError:
                return None
            except OSError:
                data = b""
            if not data:
                raise EndedError(self._status())
            self._inbox += data

    def interrupt(self) -> None:
        """End the process now, from any thread; the thread that waits for an answer sees it end."""
        self._is_held = False
        if self.process is not None:
            _kill(self.process)
            return
        for end in (self._leash, self._pipe):
            with suppress(OSError):  # the other side is gone already
                # Not `close`: a forked child of this process may hold the same socket.
                end.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        """End the process, with everything it has started, and let go of it."""
        self.interrupt()
        if self.process is not None:
            _await_end(self.process)
        self.disown()

    def disown(self) -> None:
        """Let go of the process without touching it, in a forked child: it is the parent's."""
        self._pipe.close()
        self._leash.close()
        if self.process is not None:
            self.process.returncode = 0

    def _status(self) -> int | None:
        """Its exit status; None when the template is gone, and the worker with it."""
        if self.process is not None:
            return _await_end(self.process)
        try:
            told = self._told(PATIENCE)
        except TimeoutError:
            return None
        if told is None and self._pid and self._is_held:
            with suppress(OSError):  # what the worker has started, which the template can end no more
                os.killpg(self._pid, signal.SIGKILL)
        return told

    def _told(self, seconds: float) -> int | None:
        """What the template says next about it; None when the template is gone."""
        self._leash.settimeout(seconds)
        try:
            said = self._leash.recv(protocol.NUMBER.size)
        except OSError as error:
            if isinstance(error, TimeoutError):
                raise
            return None
        return protocol.NUMBER.unpack(said)[0] if said else None


def _not_done(hard: float, since: float, seconds: float) -> Outcome:
    text = f"not done {hard:g} s after it began, and stopped"
    if since - seconds > 0.1 * since:
        text += f" ({seconds:.2g} s of that was work, the rest waiting for a processor)"
    return Outcome(kind="timeout", message=f"TimeoutError: {text}", seconds=seconds)


class Template:
    """The pool's end of the template process, which forks workers; without fork it starts interpreters itself."""

    def __init__(self, settings: WorkerSettings) -> None:
        self.settings = settings
        self.is_loaded = not FORKS  # whether it has imported what is to be preloaded
        self._lock = threading.Lock()
        self._process = None
        if FORKS:
            self._control, theirs = socket.socketpair()
            with theirs:
                try:
                    self._process = _started(settings, "template_main", theirs)
                except OSError:
                    self._control.close()
                    raise

    def await_loaded(self) -> None:
        """Wait until it is loaded. What cannot be imported is logged. Raises `EndedError` and `TimeoutError`."""
        with self._lock:
            if self.is_loaded:
                return
            said = b""
            self._control.settimeout(LOADING)
            while not said.endswith(b"\n"):
                more = self._control.recv(_CHUNK)
                if not more:
                    raise EndedError(None)
                said += more
            self.is_loaded = True
        for problem in json.loads(said):
            logger.warning("%s", problem)

    def start(self) -> WorkerProcess:
        """A new worker, on its way. Raises `OSError` when the template is gone."""
        (pipe, theirs), (leash, their_leash) = socket.socketpair(), socket.socketpair()
        worker = WorkerProcess(self, pipe, leash)
        with theirs, their_leash:
            try:
                if self._process is None:
                    worker.process = _started(self.settings, "worker_main", theirs)
                else:
                    socket.send_fds(self._control, [b"f"], [theirs.fileno(), their_leash.fileno()], _QUIETLY)
            except OSError:
                worker.disown()
                raise
        return worker

    def interrupt(self) -> None:
        """Have a thread that waits for it wait no longer."""
        if self._process is not None:
            with suppress(OSError):  # gone already
                self._control.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End the template, whose workers have been ended."""
        if self._process is None:
            return
        if not self.is_loaded:
            self._process.kill()  # it is busy with imports
        self.interrupt()
        with self._lock:
            self._control.close()
        _await_end(self._process)

    def disown(self) -> None:
        """Let go of the template without touching it, in a forked child: it is the parent's."""
        if self._process is not None:
            self._control.close()
            self._process.returncode = 0


def _started(settings: WorkerSettings, main: str, end: socket.socket) -> "subprocess.Popen[bytes]":
    """A fresh interpreter that runs a function of `forkserver` with one end of a socket."""
    # In a session of its own, where a Ctrl-C at the terminal does not reach it. What it prints goes to stderr: the
    # output of this program is what this program prints. Not `-m`: the interpreter might find this package only by the path we have now.
    code = (
        "import json, sys; sys.path[:] = json.loads(sys.argv[2])['path']; "
        f"from assay.isolation.forkserver import {main}; {main}()"
    )
    flags: Any = getattr(subprocess, "_args_from_interpreter_flags", list)
    path = [entry for entry in sys.path if isinstance(entry, str)]  # pyright: ignore[reportUnnecessaryIsInstance]
    said = json.dumps({"settings": settings._asdict(), "path": path})
    fd = -1 if sys.platform == "win32" else end.fileno()
    command = [sys.executable, *flags(), "-c", code, str(fd), said]
    stderr = 2
    try:
        os.fstat(stderr)
    except OSError:
        stderr = subprocess.DEVNULL
    if sys.platform == "win32":
        group = subprocess.CREATE_NEW_PROCESS_GROUP
        process: Any = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=stderr, creationflags=group)
        process.stdin.write(end.share(process.pid))
        process.stdin.close()
        return process
    return subprocess.Popen[bytes](
        command, stdin=subprocess.DEVNULL, stdout=stderr, pass_fds=[fd], start_new_session=True
    )


def _kill(process: "subprocess.Popen[bytes]") -> None:
    if process.returncode is None and hasattr(os, "killpg"):
        with suppress(OSError):  # gone already
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()


def _await_end(process: "subprocess.Popen[bytes]") -> int:
    """The exit status of a process that should end, and is killed when it does not."""
    try:
        return process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        _kill(process)
        return process.wait()
