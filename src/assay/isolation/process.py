"""Start worker processes, give them tasks, and end those that miss a deadline or misbehave.

This is the pool's side. A worker is believed only when its message is exactly what is expected next, with the
token of the task it was given; after anything else the process is ended, with everything it has started.
"""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from assay.isolation import protocol
from assay.isolation.packing import Packed
from assay.isolation.protocol import Settings
from assay.isolation.worker import Reading, worked
from assay.redaction import logger_of, redacted

logger = logger_of("assay")

FORKS = all(hasattr(os, name) for name in ("fork", "waitid")) and hasattr(socket, "send_fds")
"""Whether workers can be forked from a template here."""
BORN: Final = 300.0
"""Seconds that a worker may take until it is there, with all imports of a new template."""
LOADING: Final = 60.0
"""Seconds of work that loading a function may take, imports and all."""
SLACK: Final = 0.05
"""Seconds past its deadline that a worker is left alone, so that its own clock decides close cases."""
CEILING: Final = 4
"""Where processor time is counted, nothing may take longer than so many times its deadline."""
OVERLOAD: Final = 60.0
"""A task without a hard deadline ends after so many seconds and so many times its deadline, whatever the load."""
DELIVERY: Final = 10.0
"""Seconds past the deadline for which an answer that has begun to arrive is awaited."""
PATIENCE: Final = 1.0
"""Seconds that a process which should end may take."""
_CHUNK: Final = 1 << 18
_QUIETLY: Final[int] = getattr(socket, "MSG_NOSIGNAL", 0)
"""A flag for sending: if the other end is gone, that is an error here and no SIGPIPE."""

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


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be done, and how long it may take."""

    function: Packed
    arguments: bytes
    timeout: float
    """Seconds that it may work."""
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

    @property
    def _signal(self) -> str:
        try:
            return signal.Signals(-(self.status or 0)).name
        except ValueError:
            return f"signal {-(self.status or 0)}"

    def outcome(self, work: Work, *, is_last: bool) -> Outcome | None:
        """What this says of the task; None when the task need not be to blame and can be tried again."""
        text, kind = "its worker was lost, and so was a second one", "lost"
        if self.status is not None:
            kind = "crashed"
            if self.status >= 0:
                is_last, text = True, f"the worker ended itself, with exit status {self.status}"
            elif self._signal == "SIGPROF":  # the timer of the "processor" clock
                return work.out_of_time(work.timeout)
            elif self._signal in _OWN_FAULT:
                is_last, text = True, f"the worker died of {self._signal}"
            else:
                text = f"its worker was ended by {self._signal}, and so was a second one"
                text += ": perhaps the machine is out of memory" * (self._signal == "SIGKILL")
        return Outcome(kind=kind, message=f"RuntimeError: {text}") if is_last else None


_OWN_FAULT: Final = frozenset(
    {"SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSYS", "SIGTRAP", "SIGXCPU", "SIGXFSZ"}
)
"""Signals that a process gets for what it did itself. Any other came from outside."""


class MisbehavedError(Exception):
    """A worker process said something that is no answer to its task."""


class WorkerProcess:
    """One worker process, as the one thread of the pool sees it that gives it tasks."""

    def __init__(self, template: "Template", pipe: socket.socket) -> None:
        self.template = template
        self.tasks = 0
        """How many tasks it has done."""
        self.is_spent = False
        """Whether it has asked to be replaced."""
        self.is_busy = False
        """Whether it was given a task that it has not answered."""
        self.pid = 0
        self.batches = 0
        """How many batches of preloaded modules it was born with."""
        self._pipe = pipe
        self._known: set[int] = set()
        self._inbox = bytearray()
        self._token = b""
        self._reading = Reading()
        """What was counted of it when its last task ended, by its own word."""

    def await_birth(self) -> None:
        """Wait until it is there. Raises `TimeoutError`, or `EndedError` when it never will be."""
        self._learn_pid()
        if self._received(time.monotonic() + BORN) is None:
            raise TimeoutError

    def is_fit(self) -> bool:
        """Whether it has what is preloaded by now, and has neither ended nor spoken since its last answer."""
        if self.batches < self.template.loaded_batches():
            return False
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
        self.is_busy = True
        self._token = secrets.token_bytes(protocol.TOKEN_BYTES)
        call = protocol.CALL.pack(number, work.timeout)
        said = protocol.message(protocol.TASK, call, work.arguments, token=self._token)
        if number not in self._known:
            packed = protocol.NUMBER.pack(number)
            said = protocol.message(protocol.FUNCTION, packed, work.function.data) + said
        self._pipe.settimeout(LOADING)
        self._pipe.sendall(said, _QUIETLY)

    def answer(self, work: Work) -> Outcome:
        """What came of the task it was given.

        At a deadline the outcome says so and the process is still busy: the caller ends it. Raises `EndedError`
        and `MisbehavedError`.
        """
        loading = work.function.number not in self._known
        self._known.add(work.function.number)
        # It may have slept once that is no work: until the task came.
        deadline = _Deadline(self, work, self._reading, loading=loading, naps=1)
        while True:
            received = self._received(deadline.look_at)
            if received is None:
                outcome = deadline.passed()
                if outcome is not None:
                    return outcome
                continue
            kind, token, said = received
            if token != self._token:
                raise MisbehavedError("it said something that is no answer to its task")
            try:
                if kind == protocol.STARTED and loading:
                    loading = False
                    before = Reading(*json.loads(said))
                    deadline = _Deadline(self, work, before, loading=False, naps=0)
                    continue
                if kind == protocol.ANSWER and not self._inbox:
                    return self._outcome(json.loads(said), work)
            except Exception as error:
                raise MisbehavedError("its answer could not be read") from error
            raise MisbehavedError("it said more than its answer")

    def _outcome(self, said: Any, work: Work) -> Outcome:
        (kind, seconds, spent, reading), content = said
        self._reading = Reading(*reading)
        self.is_spent = spent is not False
        self.tasks += 1
        if seconds > work.timeout:
            outcome = work.out_of_time(seconds)
        elif kind == "value":
            outcome = Outcome(protocol.read_plain(content), seconds=seconds)
        else:
            text, trace = (redacted(str(each)) for each in content)
            failure: Kind = "memory" if kind == "memory" else "raised"
            outcome = Outcome(kind=failure, message=text, seconds=seconds, trace=trace)
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

    def end(self) -> None:
        """End the process, with everything it has started, and let go of it."""
        self.interrupt()
        self.disown()

    # How the process is known and ended, where a template forked it. It lives on a leash: a socket on which the
    # template tells its birth and its end, and that ends it when this side is shut down.

    leash: socket.socket
    _is_held = True

    def interrupt(self) -> None:
        """End the process now, from any thread; the thread that waits for an answer sees it end."""
        self._is_held = False
        for end in (self.leash, self._pipe):
            with suppress(OSError):  # the other side is gone already
                # Not `close`: a forked child of this process may hold the same socket.
                end.shutdown(socket.SHUT_RDWR)

    def disown(self) -> None:
        """Let go of the process without touching it, in a forked child: it is the parent's."""
        self._pipe.close()
        self.leash.close()

    def _learn_pid(self) -> None:
        told = self._told(BORN)
        if told is None or told[0] == 0:  # the template is gone, or cannot fork
            raise EndedError(None if told is None else 1)
        self.pid, self.batches = told

    def _status(self) -> int | None:
        try:
            told = self._told(PATIENCE)
        except TimeoutError:
            return None
        if told is None and self.pid and self._is_held:
            # The template is gone, and cannot end what the worker has started. The worker went with it.
            with suppress(OSError):
                os.killpg(self.pid, signal.SIGKILL)
        return told[0] if told is not None else None

    def _told(self, seconds: float) -> tuple[int, int] | None:
        self.leash.settimeout(seconds)
        try:
            said = self.leash.recv(protocol.PAIR.size)
        except TimeoutError:
            raise
        except OSError:
            return None
        return protocol.PAIR.unpack(said) if said else None


class _Deadline:
    """When a task has worked for as long as it may, as the kernel counts the work of its process."""

    def __init__(
        self, worker: WorkerProcess, work: Work, before: Reading, *, loading: bool, naps: int
    ) -> None:
        self._pid, self._clock = worker.pid, worker.template.settings.clock
        self._work, self._loading = work, loading
        self._before = before
        """What was counted of the process before, by its own word."""
        self._naps = naps
        """How often it may have slept since then without that being work."""
        self._began = time.monotonic()
        limit = work.timeout * (CEILING if self._clock == "processor" else 1) + SLACK
        hard = work.hard_timeout
        self._limit = LOADING if loading else limit
        self._hard = OVERLOAD * (1 + self._limit) if hard is None or loading else hard
        self.look_at = self._began + min(self._limit, self._hard)
        """When to look whether it has."""

    def passed(self) -> Outcome | None:
        """What becomes of the task when its time is up; else None, and a time to look again."""
        now = time.monotonic()
        since = now - self._began
        seconds = self._worked(since)
        left = min(self._limit - seconds, self._hard - since)
        if left > 0:
            self.look_at = now + max(left, 0.001)
            return None
        if self._loading:
            text = f"{self._work.function.name} was not loaded within {LOADING:g} s"
        elif self._hard > since:
            return self._work.out_of_time(seconds)
        else:
            text = f"not done {self._hard:g} s after it began, and stopped"
            if since - seconds > 0.1 * since:
                text += f" ({seconds:.2g} s of that was work, the rest waiting for a processor)"
        return Outcome(kind="timeout", message=f"TimeoutError: {text}", seconds=seconds)

    def _worked(self, since: float) -> float:
        """How many of the seconds since its task began the process has worked."""
        if self._clock != "schedule":
            return since
        try:
            with open(f"/proc/{self._pid}/schedstat", "rb") as file:  # noqa: PTH123
                used, waited, _ = (int(number) / 1e9 for number in file.read().split())
            with open(f"/proc/{self._pid}/status", "rb") as file:  # noqa: PTH123
                lines = file.read().splitlines()
            status = dict(line.split(b":", 1) for line in lines if b":" in line)
            now = Reading(used, waited, int(status[b"voluntary_ctxt_switches"]))
            # What it says of itself may be a lie, but it cannot have used more than the kernel has counted.
            if any(told > counted for told, counted in zip(self._before, now, strict=True)):
                return since
        except (OSError, ValueError, KeyError, TypeError):
            return since
        sleeps = not status[b"State"].strip().startswith(b"R")
        slept = sleeps or now.sleeps - self._before.sleeps > self._naps
        return min(worked(since, self._before, now, slept=slept), since)


class Template:
    """The pool's end of the template process, which forks workers in milliseconds."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._asked = 1
        self._loaded = 0
        self._said = b""
        self._hearing = threading.Lock()
        self._control, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = _started(settings, "template_main", theirs)
            except OSError:
                self._control.close()
                raise

    def preload(self, modules: tuple[str, ...]) -> None:
        """Have it import more modules; workers go on meanwhile."""
        self._asked += 1
        with suppress(OSError):  # it is gone, and the next one is started with all modules
            self._control.sendall(b"p" + json.dumps(modules).encode() + b"\n", _QUIETLY)

    def loaded_batches(self) -> int:
        """How many batches of modules are loaded by now. What could not be is logged."""
        if self._loaded < self._asked:
            with self._hearing:
                with suppress(OSError):  # nothing new
                    self._said += self._control.recv(_CHUNK, socket.MSG_DONTWAIT)
                *lines, self._said = self._said.split(b"\n")
                self._loaded += len(lines)
            for problem in (problem for line in lines for problem in json.loads(line)):
                logger.warning("%s", problem)
        return self._loaded

    def start(self) -> WorkerProcess:
        """A new worker, on its way. Raises `OSError` when the template is gone."""
        ours, theirs = socket.socketpair()
        leash, their_leash = socket.socketpair()
        worker = WorkerProcess(self, ours)
        worker.leash = leash
        with theirs, their_leash:
            try:
                fds = [theirs.fileno(), their_leash.fileno()]
                socket.send_fds(self._control, [b"f"], fds, _QUIETLY)
            except OSError:
                worker.disown()
                raise
        return worker

    def close(self) -> None:
        """End the template, whose workers have been ended."""
        if not self.loaded_batches():
            self._process.kill()  # it is busy with imports
        self._control.close()
        _await_end(self._process)

    def disown(self) -> None:
        """Let go of the template without touching it, in a forked child: it is the parent's."""
        self._control.close()
        self._process.returncode = 0


class Spawner(Template):
    """Starts a fresh interpreter for every worker, where there is no fork."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def preload(self, modules: tuple[str, ...]) -> None:
        self.settings = self.settings._replace(preload=(*self.settings.preload, *modules))

    def loaded_batches(self) -> int:
        return 0

    def start(self) -> WorkerProcess:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                return _SpawnedWorker(self, ours, _started(self.settings, "worker_main", theirs))
            except OSError:
                ours.close()
                raise

    def close(self) -> None: ...
    def disown(self) -> None: ...


class _SpawnedWorker(WorkerProcess):
    """A worker process that was started by itself."""

    def __init__(
        self, template: Template, pipe: socket.socket, process: "subprocess.Popen[bytes]"
    ) -> None:
        super().__init__(template, pipe)
        self._process = process

    def interrupt(self) -> None:
        _kill(self._process)

    def end(self) -> None:
        self.interrupt()
        _await_end(self._process)
        self._pipe.close()

    def disown(self) -> None:
        self._pipe.close()
        self._process.returncode = 0

    def _learn_pid(self) -> None:
        self.pid = self._process.pid

    def _status(self) -> int | None:
        return _await_end(self._process)


def _started(settings: Settings, main: str, end: socket.socket) -> "subprocess.Popen[bytes]":
    """A fresh interpreter with one end of a socket, in a session of its own.

    A Ctrl-C at the terminal does not reach it. What it prints goes to stderr: the output of this
    program is what this program prints.
    """
    try:
        os.fstat(2)
        stderr = 2
    except OSError:
        stderr = subprocess.DEVNULL
    options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": stderr}
    if sys.platform == "win32":
        options |= {"stdin": subprocess.PIPE, "creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
        process: Any = subprocess.Popen(settings.command(main, -1), **options)
        process.stdin.write(end.share(process.pid))
        process.stdin.close()
        return process
    fd = end.fileno()
    options |= {"pass_fds": [fd], "start_new_session": True}
    return subprocess.Popen[bytes](settings.command(main, fd), **options)


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
