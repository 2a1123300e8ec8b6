"""Start worker processes, give them tasks, and end those that miss a deadline or misbehave.

This is the pool's side. A message of a worker counts only if it is the expected one and has the token
of the task; after any other message, the process is ended, with everything that it has started.
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
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from assay.isolation import protocol
from assay.isolation.forkserver import Reading, measure_work
from assay.isolation.protocol import Packed, WorkerSettings
from assay.redaction import redact

LOADING: Final = 300.0  # seconds that a template, a worker or a function may take to load
# Seconds after the deadline before a worker is ended, so that its own clock decides close cases.
SLACK: Final = 0.05
# If the system counts only processor time, a task ends after this multiple of its deadline.
CEILING: Final = 4
# A task without a hard deadline ends after this many seconds plus this multiple of its deadline.
OVERLOAD: Final = 60.0
# Seconds after the deadline to wait for the rest of an answer that has begun to arrive.
DELIVERY: Final = 10.0
PATIENCE: Final = 1.0  # seconds that a process has to end
_CHUNK: Final = 1 << 18
# If the other end is closed, raise an error without SIGPIPE.
_NO_SIGNAL: Final[int] = getattr(socket, "MSG_NOSIGNAL", 0)
# Signals that a process causes itself. Other signals come from outside.
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

# What went wrong: out of time, out of memory, an exception, a worker that died because of the task, or
# two workers that died for another reason.
Kind: TypeAlias = Literal["timeout", "memory", "raised", "crashed", "lost"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A value, or what went wrong instead. Nothing that goes wrong in a worker is raised here.

    >>> Outcome(4).ok, Outcome(kind="timeout", message="TimeoutError: still working").ok
    (True, False)
    """

    value: Any = None  # the result; it may be None, so check `ok`
    kind: Kind | None = None  # what went wrong; None for a result
    message: str = ""  # the error, such as `ValueError: no such field`
    seconds: float = 0.0  # how long it worked, without waiting for a worker or a processor
    trace: str = ""  # the traceback of the function, as Python prints it

    @property
    def ok(self) -> bool:
        return self.kind is None


@dataclass(eq=False, slots=True)
class PoolTask:
    """One call in a pool."""

    function: Packed
    arguments: bytes
    timeout: float  # seconds that it may work
    # Seconds from its start after which it is stopped in any case; None for a limit that only an
    # overloaded machine reaches.
    hard_timeout: float | None
    is_abandoned: bool = False  # whether its caller has cancelled it
    worker: "WorkerProcess | None" = None  # the worker of this task alone


class WorkerLostError(Exception):
    """A worker has ended, or sent a message that is not an answer. The message says how."""

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
        # Whether the task is to blame, so that another worker need not try it.
        self.is_final = is_final
        # The exit status, negative for a signal; None if it is not known.
        self.status = status
        self.is_misbehaviour = status is None and kind == "crashed"

    def outcome(self) -> Outcome:
        """Return the outcome of a task that is not tried again."""
        text = str(self)
        if not self.is_final:
            text += ", and so was a second one"
        if self.status == -signal.SIGKILL:
            text += ": perhaps the machine is out of memory"
        return Outcome(kind=self.kind, message=f"RuntimeError: {text}")


def _explain_end(status: int | None) -> WorkerLostError:
    """Return the error for a worker that ended with this exit status."""
    if status is None:
        return WorkerLostError("its worker was lost", kind="lost")
    if status >= 0:
        return WorkerLostError(
            f"the worker ended itself, with exit status {status}", status, is_final=True
        )
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    if name in _OWN_FAULT:
        return WorkerLostError(f"the worker died of {name}", status, is_final=True)
    return WorkerLostError(f"its worker was ended by {name}", status)


def _report_misbehaviour(reason: str) -> WorkerLostError:
    return WorkerLostError(f"its worker was ended since it {reason}")


class WorkerProcess:
    """A worker process, as seen by the thread of the pool that gives it tasks.

    Its lifeline is a socket to the template, which reports the exit status of the worker there, and
    ends the worker if this side is shut down.
    """

    def __init__(self, template: "TemplateConnection") -> None:
        """Ask the template to fork it. Raises `OSError` if the template has ended."""
        self.template = template
        self.tasks = 0  # how many tasks it has done
        self.is_spent = False  # whether it has asked to be replaced
        self.is_busy = False  # whether it has a task that it has not answered
        self._pid = 0
        self._is_interrupted = False
        self._known_functions: set[int] = set()  # the numbers of functions that it has loaded
        self._inbox = bytearray()
        self._token = b""  # of its task
        self._pipe, pipe_of_worker = socket.socketpair()
        self._lifeline, lifeline_of_template = socket.socketpair()
        with pipe_of_worker, lifeline_of_template:
            try:
                socket.send_fds(
                    template.control,
                    [b"f"],
                    [pipe_of_worker.fileno(), lifeline_of_template.fileno()],
                    _NO_SIGNAL,
                )
            except OSError:
                self.end()
                raise

    def wait_until_ready(self) -> None:
        """Wait until it runs. Raises `TimeoutError`, or `WorkerLostError` if it has ended."""
        received = self._receive(time.monotonic() + LOADING)
        if received is None:
            raise TimeoutError
        self._pid = int(received.content)  # no code under test has run in it yet
        self.template.is_loaded = True

    def is_fit(self) -> bool:
        """Return whether it has neither ended nor sent anything since its last answer."""
        try:
            self._pipe.setblocking(False)
            self._pipe.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def give(self, task: PoolTask) -> None:
        """Send it a task. Raises `OSError` if it has ended, or does not read the task."""
        number = task.function.number
        function = None if number in self._known_functions else task.function.data
        self.is_busy = True
        self._token = secrets.token_bytes(protocol.TOKEN_BYTES)
        call = pickle.dumps((number, function, task.arguments))
        self._pipe.settimeout(LOADING)
        self._pipe.sendall(protocol.message(protocol.TASK, call, token=self._token), _NO_SIGNAL)

    def answer(self, task: PoolTask) -> Outcome:
        """Wait for the outcome of its task. At a deadline, it is left busy.

        Raises `WorkerLostError`.
        """
        loaded = self._receive_for_task(time.monotonic() + LOADING)
        if loaded is None:
            return Outcome(
                kind="timeout",
                message=f"TimeoutError: {task.function.name} was not loaded within {LOADING:g} s",
            )
        if loaded.kind == protocol.ANSWER:  # loading failed
            return self._read_answer(loaded, task)
        started = time.monotonic()
        reading = self._read_start(loaded, task)

        limit = task.timeout * (1 if self.template.settings.counts_waiting else CEILING) + SLACK
        hard_limit = task.hard_timeout
        if hard_limit is None:
            hard_limit = OVERLOAD * (1 + limit)
        until = started + min(limit, hard_limit)
        while True:
            answer = self._receive_for_task(until)
            if answer is not None:
                return self._read_answer(answer, task)
            now = time.monotonic()
            elapsed = now - started
            seconds = self._measure_work(elapsed, reading)
            if elapsed >= hard_limit:
                return _stop_at_hard_limit(hard_limit, elapsed, seconds)
            if seconds >= limit:
                return _stop_at_deadline(task, seconds)
            until = now + max(min(limit - seconds, hard_limit - elapsed), 0.001)

    def _receive_for_task(self, until: float) -> "_Message | None":
        """Return the next message, which must have the token of the task."""
        received = self._receive(until)
        if received is not None and received.token != self._token:
            raise _report_misbehaviour("said something that is not an answer to its task")
        return received

    def _read_start(self, message: "_Message", task: PoolTask) -> Reading:
        """Return what the worker has counted of its process before the task."""
        if message.kind != protocol.STARTED:
            raise _report_misbehaviour("said more than its answer")
        self._known_functions.add(task.function.number)
        try:
            return Reading(*json.loads(message.content))
        except Exception as error:
            raise _report_misbehaviour("gave an answer that could not be read") from error

    def _read_answer(self, message: "_Message", task: PoolTask) -> Outcome:
        if message.kind != protocol.ANSWER or self._inbox:
            raise _report_misbehaviour("said more than its answer")
        try:
            return self._make_outcome(json.loads(message.content), task)
        except Exception as error:
            raise _report_misbehaviour("gave an answer that could not be read") from error

    def _measure_work(self, elapsed: float, before: Reading) -> float:
        """Return how many of the seconds since its task began it has worked, by the kernel's counts."""
        if not self.template.settings.counts_waiting:
            return elapsed
        try:
            with open(f"/proc/{self._pid}/schedstat", "rb") as file:  # noqa: PTH123
                used, waited, _ = (int(number) / 1e9 for number in file.read().split())
            with open(f"/proc/{self._pid}/status", "rb") as file:  # noqa: PTH123
                lines = [line for line in file.read().splitlines() if b":" in line]
            status = dict(line.split(b":", 1) for line in lines)
            now = Reading(used, waited, int(status[b"voluntary_ctxt_switches"]))
            # The worker may have sent false counts, but not more than the kernel has counted.
            for count_before, count_now in zip(before, now, strict=True):
                if not 0 <= count_before <= count_now:
                    return elapsed
        except (OSError, ValueError, KeyError, TypeError):
            return elapsed
        is_asleep = not status[b"State"].strip().startswith(b"R")
        has_slept = is_asleep or now.sleeps > before.sleeps
        return min(measure_work(elapsed, before, now, has_slept=has_slept), elapsed)

    def _make_outcome(self, answer: Any, task: PoolTask) -> Outcome:
        (kind, seconds, is_spent), content = answer
        self.is_spent = is_spent is not False
        self.tasks += 1
        if not seconds <= task.timeout:
            outcome = _stop_at_deadline(task, seconds)
        elif kind == "value":
            outcome = Outcome(protocol.read_plain(content), seconds=seconds)
        else:
            message, trace = content
            outcome = Outcome(
                kind="memory" if kind == "memory" else "raised",
                message=redact(str(message)),
                seconds=seconds,
                trace=redact(str(trace)),
            )
        self.is_busy = False
        return outcome

    def _receive(self, until: float) -> "_Message | None":
        """Return its next message; None if it has not come by then."""
        head_size = protocol.HEAD.size
        while True:
            if len(self._inbox) >= head_size:
                kind, token, length = protocol.HEAD.unpack_from(self._inbox)
                if length > protocol.LARGEST_VALUE + _CHUNK:
                    raise _report_misbehaviour("said more than it may")
                end = head_size + length
                if len(self._inbox) >= end:
                    content = bytes(self._inbox[head_size:end])
                    del self._inbox[:end]
                    return _Message(kind, token, content)
            seconds_left = until - time.monotonic()
            if seconds_left < -DELIVERY:
                return None
            data = b""
            try:
                self._pipe.settimeout(max(seconds_left, 0.0001))
                data = self._pipe.recv(_CHUNK)
            except TimeoutError:
                return None
            except OSError:
                pass  # it has ended
            if not data:
                raise _explain_end(self._get_exit_status())
            self._inbox += data

    def interrupt(self) -> None:
        """End the process now, from any thread; a thread that waits for its answer sees it end."""
        self._is_interrupted = True
        for end in (self._lifeline, self._pipe):
            with suppress(OSError):  # the other side is closed already
                # Not `close`: a forked child of this process may have the same socket.
                end.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        """End the process with everything that it has started, and close the sockets."""
        self.interrupt()
        self._pipe.close()
        self._lifeline.close()

    def _get_exit_status(self) -> int | None:
        """Return its exit status; None if the template has ended, and the worker with it."""
        try:
            self._lifeline.settimeout(PATIENCE)
            data = self._lifeline.recv(protocol.STATUS.size)
            if data:
                return protocol.STATUS.unpack(data)[0]
        except TimeoutError:
            return None
        except OSError:
            pass  # the template has ended
        if self._pid and not self._is_interrupted:
            # The template cannot end what the worker has started.
            with suppress(OSError):
                os.killpg(self._pid, signal.SIGKILL)
        return None


class _Message(NamedTuple):
    """A message of a worker."""

    kind: bytes
    token: bytes
    content: bytes


def _stop_at_deadline(task: PoolTask, seconds: float) -> Outcome:
    return Outcome(
        kind="timeout",
        message=f"TimeoutError: still working after {task.timeout:g} s, and stopped",
        seconds=seconds,
    )


def _stop_at_hard_limit(hard_limit: float, elapsed: float, seconds: float) -> Outcome:
    message = f"TimeoutError: not done {hard_limit:g} s after it began, and stopped"
    if elapsed - seconds > 0.1 * elapsed:
        message += f" ({seconds:.2g} s of that was work, the rest waiting for a processor)"
    return Outcome(kind="timeout", message=message, seconds=seconds)


class TemplateConnection:
    """The pool's end of the template process, which forks workers."""

    def __init__(self, settings: WorkerSettings) -> None:
        self.settings = settings
        self.is_loaded = False  # whether it has imported all modules and forked a worker
        self.control, control_of_template = socket.socketpair()
        # Not `-m`: the interpreter may find this package only with our present `sys.path`.
        code = (
            "import json, sys; sys.path[:] = json.loads(sys.argv[2])['path']; "
            "from assay.isolation.forkserver import template_main; template_main()"
        )
        flags: Any = getattr(subprocess, "_args_from_interpreter_flags", list)
        path = [entry for entry in sys.path if isinstance(entry, str)]  # pyright: ignore[reportUnnecessaryIsInstance]
        options = json.dumps({"settings": settings._asdict(), "path": path})
        # It prints to stderr, since the output of this program must not have other lines.
        stderr = 2
        try:
            os.fstat(stderr)
        except OSError:
            stderr = subprocess.DEVNULL
        with control_of_template:
            descriptor = control_of_template.fileno()
            try:
                self._process = subprocess.Popen[bytes](
                    [sys.executable, *flags(), "-c", code, str(descriptor), options],
                    stdin=subprocess.DEVNULL,
                    stdout=stderr,
                    pass_fds=[descriptor],
                    start_new_session=True,  # so that a Ctrl-C at the terminal does not end it
                )
            except OSError:
                self.control.close()
                raise

    def end_when_idle(self) -> None:
        """Let it end when its workers have ended."""
        with suppress(OSError):  # it has ended already
            self.control.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End it with all its workers."""
        if not self.is_loaded:
            self._process.kill()  # it is busy with imports
        self.end_when_idle()
        self.control.close()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            with suppress(OSError):  # gone already
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def disown(self) -> None:
        """Do not wait for the process in a forked child, since it belongs to the parent."""
        self._process.returncode = 0
