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
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from assay.isolation import protocol
from assay.isolation.forkserver import Reading, worked
from assay.isolation.protocol import Packed, WorkerSettings
from assay.redaction import redact

LOADING: Final = 300.0  # seconds that a template, a worker or a function may take to be loaded
SLACK: Final = 0.05  # seconds past its deadline that a worker is left alone, so that its own clock decides close cases
CEILING: Final = 4  # where only processor time is counted, nothing may take longer than so many times its deadline
OVERLOAD: Final = 60.0  # seconds and times its deadline after which a task without a hard deadline ends in any case
DELIVERY: Final = (
    10.0  # seconds past the deadline for which an answer that has begun to arrive is awaited
)
PATIENCE: Final = 1.0  # seconds that a process which should end may take
_CHUNK: Final = 1 << 18
_QUIETLY: Final[int] = getattr(
    socket, "MSG_NOSIGNAL", 0
)  # if the other end is gone, an error here and no SIGPIPE
# Signals that a process gets for what it did itself. Any other came from outside.
_OWN_FAULT: Final = (
    "SIGSEGV",
    "SIGABRT",
    "SIGBUS",
    "SIGFPE",
    "SIGILL",
    "SIGSYS",
    "SIGTRAP",
    "SIGXCPU",
    "SIGXFSZ",
)

# What went wrong: out of time, out of memory, an exception, a worker that died of the task, or one that died of
# something else, twice.
Kind: TypeAlias = Literal["timeout", "memory", "raised", "crashed", "lost"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A value, or what went wrong instead. Nothing that goes wrong in a worker is raised here.

    >>> Outcome(4).ok, Outcome(kind="timeout", message="TimeoutError: still working").ok
    (True, False)
    """

    value: Any = (
        None  # what the function returned; None also when it returned nothing, so look at `ok`
    )
    kind: Kind | None = None  # what went wrong; None when nothing did
    message: str = ""  # the same in words, as an error reads: `ValueError: no such field`
    seconds: float = (
        0.0  # how long it worked: not counting the wait for a worker, or for a processor
    )
    trace: str = ""  # where the function raised, as Python prints it

    @property
    def ok(self) -> bool:
        return self.kind is None


@dataclass(eq=False, slots=True)
class PoolTask:
    """One call on its way through a pool: what is to be done, and how long it may take."""

    function: Packed
    arguments: bytes
    timeout: float  # seconds that it may work
    hard_timeout: (
        float | None
    )  # seconds from its start to its end in any case; None for what only overload meets
    is_abandoned: bool = False  # whether its caller has given it up
    worker: "WorkerProcess | None" = None  # which is not used for anything else meanwhile


class WorkerLostError(Exception):
    """A worker has ended, or said what is no answer. The message says how."""

    def __init__(
        self,
        text: str,
        status: int | None = None,
        *,
        kind: Kind = "crashed",
        is_final: bool = False,
    ) -> None:
        super().__init__(text)
        self.kind: Kind = kind
        self.is_final = (
            is_final  # whether the task is to blame, so that another worker need not try it
        )
        self.status = (
            status  # with which it ended, below 0 by a signal; None when that is not known
        )
        self.is_misbehaviour = status is None and kind == "crashed"

    def outcome(self) -> Outcome:
        """What this says of a task that is not tried again."""
        text = str(self) if self.is_final else f"{self}, and so was a second one"
        text += ": perhaps the machine is out of memory" * (self.status == -signal.SIGKILL)
        return Outcome(kind=self.kind, message=f"RuntimeError: {text}")


def _ended(status: int | None) -> WorkerLostError:
    if status is None:
        return WorkerLostError("its worker was lost", kind="lost")
    if status >= 0:
        return WorkerLostError(
            f"the worker ended itself, with exit status {status}", status, is_final=True
        )
    name = next((each.name for each in signal.Signals if each == -status), f"signal {-status}")
    if name in _OWN_FAULT:
        return WorkerLostError(f"the worker died of {name}", status, is_final=True)
    return WorkerLostError(f"its worker was ended by {name}", status)


def _misbehaved(how: str) -> WorkerLostError:
    return WorkerLostError(f"its worker was ended since it {how}")


class WorkerProcess:
    """One worker process, as the one thread of the pool sees it that gives it tasks.

    It lives on a leash: a socket on which the template tells its birth and its end, and that ends it when this
    side is shut down.
    """

    def __init__(self, template: "TemplateConnection") -> None:
        """Ask for it. Raises `OSError` when the template is gone."""
        self.template = template
        self.tasks = 0  # how many tasks it has done
        self.is_spent = False  # whether it has asked to be replaced
        self.is_busy = False  # whether it was given a task that it has not answered
        self._pid = 0
        self._is_held = True
        self._known: set[int] = set()
        self._inbox, self._token = bytearray(), b""
        (self._pipe, theirs), (self._leash, their_leash) = socket.socketpair(), socket.socketpair()
        with theirs, their_leash:
            try:
                socket.send_fds(
                    template.control, [b"f"], [theirs.fileno(), their_leash.fileno()], _QUIETLY
                )
            except OSError:
                self.end()
                raise

    def await_birth(self) -> None:
        """Wait until it is there. Raises `TimeoutError`, or `WorkerLostError` when it never will be."""
        received = self._received(time.monotonic() + LOADING)
        if received is None:
            raise TimeoutError
        self._pid = int(received[2])  # no code under test has run in it yet
        self.template.is_loaded = True

    def is_fit(self) -> bool:
        """Whether it has neither ended nor spoken since its last answer."""
        try:
            self._pipe.setblocking(False)
            self._pipe.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def give(self, task: PoolTask) -> None:
        """Send it a task. Raises `OSError` when it is gone, or does not take it."""
        number = task.function.number
        function = None if number in self._known else task.function.data
        self.is_busy = True
        self._token = secrets.token_bytes(protocol.TOKEN_BYTES)
        call = pickle.dumps((number, function, task.arguments))
        self._pipe.settimeout(LOADING)
        self._pipe.sendall(protocol.message(protocol.TASK, call, token=self._token), _QUIETLY)

    def answer(self, task: PoolTask) -> Outcome:
        """What came of its task. Raises `WorkerLostError`; at a deadline it is left busy."""
        before = None  # what was counted of the process before its task, by its own word
        began, until = 0.0, time.monotonic() + LOADING
        limit = task.timeout * (1 if self.template.settings.counts_waiting else CEILING) + SLACK
        hard = OVERLOAD * (1 + limit) if task.hard_timeout is None else task.hard_timeout
        while True:
            received, now = self._received(until), time.monotonic()
            if received is None:
                if before is None:
                    text = f"{task.function.name} was not loaded within {LOADING:g} s"
                    return Outcome(kind="timeout", message=f"TimeoutError: {text}")
                since = now - began
                seconds = self._worked(since, before)
                if since >= hard:
                    return _not_done(hard, since, seconds)
                if seconds >= limit:
                    return _out_of_time(task, seconds)
                until = now + max(min(limit - seconds, hard - since), 0.001)
                continue
            kind, token, said = received
            if token != self._token:
                raise _misbehaved("said something that is not an answer to its task")
            try:
                if kind == protocol.STARTED and before is None:
                    self._known.add(task.function.number)
                    before, began = Reading(*json.loads(said)), now
                    until = began + min(limit, hard)
                    continue
                if kind == protocol.ANSWER and not self._inbox:
                    return self._outcome(json.loads(said), task)
            except Exception as error:
                raise _misbehaved("gave an answer that could not be read") from error
            raise _misbehaved("said more than its answer")

    def _worked(self, since: float, before: Reading) -> float:
        """How many of the seconds since its task began it has worked, as the kernel counts."""
        if not self.template.settings.counts_waiting:
            return since
        try:
            with open(f"/proc/{self._pid}/schedstat", "rb") as file:  # noqa: PTH123
                used, waited, _ = (int(number) / 1e9 for number in file.read().split())
            with open(f"/proc/{self._pid}/status", "rb") as file:  # noqa: PTH123
                status = dict(
                    line.split(b":", 1) for line in file.read().splitlines() if b":" in line
                )
            now = Reading(used, waited, int(status[b"voluntary_ctxt_switches"]))
            # What it says of itself may be a lie, but it cannot have used more than the kernel has counted.
            if not all(0 <= told <= counted for told, counted in zip(before, now, strict=True)):
                return since
        except (OSError, ValueError, KeyError, TypeError):
            return since
        is_asleep = not status[b"State"].strip().startswith(b"R")
        return min(worked(since, before, now, slept=is_asleep or now.sleeps > before.sleeps), since)

    def _outcome(self, said: Any, task: PoolTask) -> Outcome:
        (kind, seconds, spent), content = said
        self.is_spent = spent is not False
        self.tasks += 1
        if not seconds <= task.timeout:
            outcome = _out_of_time(task, seconds)
        elif kind == "value":
            outcome = Outcome(protocol.read_plain(content), seconds=seconds)
        else:
            text, trace = (redact(str(each)) for each in content)
            outcome = Outcome(
                None, "memory" if kind == "memory" else "raised", text, seconds, trace
            )
        self.is_busy = False
        return outcome

    def _received(self, until: float) -> tuple[bytes, bytes, bytes] | None:
        """Its next message, as kind, token and what it says; None when it has not come by then."""
        head = protocol.HEAD.size
        while True:
            if len(self._inbox) >= head:
                kind, token, length = protocol.HEAD.unpack_from(self._inbox)
                if length > protocol.LARGEST_VALUE + _CHUNK:
                    raise _misbehaved("said more than it may")
                if len(self._inbox) >= head + length:
                    said = bytes(self._inbox[head : head + length])
                    del self._inbox[: head + length]
                    return kind, token, said
            left = until - time.monotonic()
            if left < -DELIVERY:
                return None
            data = b""
            try:
                self._pipe.settimeout(max(left, 0.0001))
                data = self._pipe.recv(_CHUNK)
            except TimeoutError:
                return None
            except OSError:
                pass  # it is gone
            if not data:
                raise _ended(self._status())
            self._inbox += data

    def interrupt(self) -> None:
        """End the process now, from any thread; the thread that waits for an answer sees it end."""
        self._is_held = False
        for end in (self._leash, self._pipe):
            with suppress(OSError):  # the other side is gone already
                # Not `close`: a forked child of this process may hold the same socket.
                end.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        """End the process, with everything it has started, and let go of it."""
        self.interrupt()
        self._pipe.close()
        self._leash.close()

    def _status(self) -> int | None:
        """Its exit status; None when the template is gone, and the worker with it."""
        try:
            self._leash.settimeout(PATIENCE)
            if said := self._leash.recv(protocol.STATUS.size):
                return protocol.STATUS.unpack(said)[0]
        except TimeoutError:
            return None
        except OSError:
            pass  # the template is gone
        if self._pid and self._is_held:
            with suppress(
                OSError
            ):  # what the worker has started, which the template can end no more
                os.killpg(self._pid, signal.SIGKILL)
        return None


def _out_of_time(task: PoolTask, seconds: float) -> Outcome:
    text = f"TimeoutError: still working after {task.timeout:g} s, and stopped"
    return Outcome(kind="timeout", message=text, seconds=seconds)


def _not_done(hard: float, since: float, seconds: float) -> Outcome:
    text = f"not done {hard:g} s after it began, and stopped"
    if since - seconds > 0.1 * since:
        text += f" ({seconds:.2g} s of that was work, the rest waiting for a processor)"
    return Outcome(kind="timeout", message=f"TimeoutError: {text}", seconds=seconds)


class TemplateConnection:
    """The pool's end of the template process, which forks workers."""

    def __init__(self, settings: WorkerSettings) -> None:
        self.settings = settings
        self.is_loaded = (
            False  # whether it has imported what is to be preloaded, and forked a worker
        )
        self.control, theirs = socket.socketpair()
        # In a session of its own, where a Ctrl-C at the terminal does not reach it. Not `-m`: the interpreter
        # might find this package only by the path we have now.
        code = "import json, sys; sys.path[:] = json.loads(sys.argv[2])['path']; "
        code += "from assay.isolation.forkserver import template_main; template_main()"
        flags: Any = getattr(subprocess, "_args_from_interpreter_flags", list)
        path = [entry for entry in sys.path if isinstance(entry, str)]  # pyright: ignore[reportUnnecessaryIsInstance]
        said = json.dumps({"settings": settings._asdict(), "path": path})
        # What it prints goes to stderr: the output of this program is what this program prints.
        stderr = 2
        try:
            os.fstat(stderr)
        except OSError:
            stderr = subprocess.DEVNULL
        with theirs:
            try:
                self._process = subprocess.Popen[bytes](
                    [sys.executable, *flags(), "-c", code, str(theirs.fileno()), said],
                    stdin=subprocess.DEVNULL,
                    stdout=stderr,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
            except OSError:
                self.control.close()
                raise

    def let_go(self) -> None:
        """Have it end once its workers have ended."""
        with suppress(OSError):  # gone already
            self.control.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        if not self.is_loaded:
            self._process.kill()  # it is busy with imports
        self.let_go()
        self.control.close()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            with suppress(OSError):  # gone already
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def disown(self) -> None:
        """Leave the process alone, in a forked child: it is the parent's."""
        self._process.returncode = 0
