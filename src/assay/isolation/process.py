"""Start worker processes, give them tasks, and end those that miss a deadline or misbehave.

This code runs in the process of the pool. A message of a worker is accepted only if it is one that is
expected now and has the token of the task. After any other message, the worker is ended with everything
that it has started.
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
from assay.isolation.forkserver import ProcessCounts, measure_work
from assay.isolation.protocol import PackedFunction, WorkerSettings
from assay.redaction import redact

LOAD_SECONDS: Final = 300.0  # how long a template, a worker or a function may take to load
# How many seconds after its deadline a worker is ended. In close cases, the time that it has measured
# itself decides.
SLACK_SECONDS: Final = 0.05
# If the system does not count how long a process waits for a processor, a task is ended after this
# multiple of its deadline.
UNCOUNTED_WAIT_FACTOR: Final = 4
# A task without a hard deadline is ended after this many seconds, plus this multiple of its deadline.
OVERLOAD: Final = 60.0
# How many seconds after the deadline to wait for the rest of an answer that has begun to arrive.
DELIVERY_SECONDS: Final = 10.0
END_SECONDS: Final = 1.0  # how long a process may take to end
_CHUNK_BYTES: Final = 1 << 18  # how much is read from a worker at once
# An option of `send`: if the other end is closed, raise an error, but send no SIGPIPE.
_NO_SIGNAL: Final[int] = getattr(socket, "MSG_NOSIGNAL", 0)
# Signals that a process gets for what it does itself. Other signals come from outside.
_SELF_CAUSED_SIGNALS: Final = (
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

# What went wrong: the task ran out of time, ran out of memory, raised an exception, made its worker die,
# or lost two workers for another reason.
Kind: TypeAlias = Literal["timeout", "memory", "raised", "crashed", "lost"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a call in a worker, or what went wrong. No error in a worker is raised here.

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
        """Whether there is a result."""
        return self.kind is None


@dataclass(eq=False, slots=True)
class PoolTask:
    """One call in a pool."""

    function: PackedFunction
    arguments: bytes  # packed
    timeout: float  # seconds that it may work
    # Seconds from its start after which it is stopped in any case; None for a limit that only an
    # overloaded machine reaches.
    hard_timeout: float | None
    is_cancelled: bool = False  # whether its caller has cancelled it
    # The worker that does it. While it is set, the worker belongs to this task alone.
    worker: "WorkerProcess | None" = None


class WorkerLostError(Exception):
    """A worker has ended by itself, or had to be ended since it sent something unexpected."""

    def __init__(
        self,
        reason: str,
        status: int | None = None,
        *,
        kind: Kind = "crashed",
        is_final: bool = False,
    ) -> None:
        super().__init__(reason)
        self.kind: Kind = kind
        # Whether the task has caused it, so that there is no point in another worker.
        self.is_final = is_final
        # The exit status, negative for a signal; None if it is not known.
        self.status = status
        # Whether the worker sent something unexpected. A worker that has ended by itself has a status,
        # or the kind is "lost".
        self.is_misbehaviour = status is None and kind == "crashed"

    def outcome(self) -> Outcome:
        """Return the outcome of the task, if it is not tried again with another worker."""
        message = f"RuntimeError: {self}"
        if not self.is_final:
            message += ", and so was a second one"
        if self.status == -signal.SIGKILL:
            message += ": perhaps the machine is out of memory"
        return Outcome(kind=self.kind, message=message)


def _explain_end(status: int | None) -> WorkerLostError:
    """Return the error for a worker that ended with this exit status, negative for a signal.

    None stands for a status that is not known.
    """
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
    if name in _SELF_CAUSED_SIGNALS:
        return WorkerLostError(f"the worker died of {name}", status, is_final=True)
    return WorkerLostError(f"its worker was ended by {name}", status)


def _misbehaviour_error(reason: str) -> WorkerLostError:
    """Return the error for a worker that sent something unexpected."""
    return WorkerLostError(f"its worker was ended since it {reason}")


class WorkerProcess:
    """A worker process, as the thread of the pool sees it that gives it tasks.

    Tasks and answers go through a socket, the pipe. A second socket, the lifeline, goes to the template,
    which is the process that forks workers. The template reports the exit status of the worker there,
    and kills the worker when this end of the lifeline is shut down.
    """

    def __init__(self, template: "TemplateConnection") -> None:
        """Ask the template to fork it. Raises `OSError` if the template has ended."""
        self.template = template
        self.task_count = 0  # how many tasks it has done
        self.needs_replacement = False  # whether it has asked for that after its last task
        self.is_busy = False  # whether it has a task that it has not answered
        self._pid = 0  # the process id; 0 until it is ready
        self._is_interrupted = False
        self._loaded_functions: set[int] = set()  # the numbers of functions that it has loaded
        self._received_bytes = bytearray()  # of messages that are not read yet
        self._token = b""  # of its present task
        self._pipe, pipe_of_worker = socket.socketpair()
        self._lifeline, lifeline_of_template = socket.socketpair()
        with pipe_of_worker, lifeline_of_template:  # the template gets copies
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
        ready = self._receive(time.monotonic() + LOAD_SECONDS)
        if ready is None:
            raise TimeoutError
        self._pid = int(ready.content)  # can be trusted: no code under test has run in it yet
        self.template.is_loaded = True

    def is_usable(self) -> bool:
        """Return whether it can take a task: it must not have ended, or sent anything by itself."""
        try:
            self._pipe.setblocking(False)
            self._pipe.recv(1, socket.MSG_PEEK)  # returns b"" at once if it has ended
        except BlockingIOError:  # there is nothing to read
            return True
        except OSError:
            pass
        return False

    def send_task(self, task: PoolTask) -> None:
        """Send it a task. Raises `OSError` if it has ended, or does not read the task."""
        number = task.function.number
        function_data = None if number in self._loaded_functions else task.function.data
        self.is_busy = True
        self._token = secrets.token_bytes(protocol.TOKEN_BYTES)
        call = pickle.dumps((number, function_data, task.arguments))
        message = protocol.encode_message(protocol.TASK, call, token=self._token)
        self._pipe.settimeout(LOAD_SECONDS)
        self._pipe.sendall(message, _NO_SIGNAL)

    def wait_for_outcome(self, task: PoolTask) -> Outcome:
        """Return the outcome of the task that was sent, at the latest when its time is over.

        If its time is over, the worker is still busy, and the caller has to end it. Raises
        `WorkerLostError`.
        """
        first_message = self._receive_for_task(time.monotonic() + LOAD_SECONDS)
        if first_message is None:
            return Outcome(
                kind="timeout",
                message=(
                    f"TimeoutError: {task.function.name} was not loaded within {LOAD_SECONDS:g} s"
                ),
            )
        if first_message.kind == protocol.ANSWER:  # loading failed, so the call has not begun
            return self._read_answer(first_message, task)
        started = time.monotonic()
        counts_before = self._read_start(first_message, task)

        # The limit of the time that it works, and the limit of all time since its start.
        limit = task.timeout + SLACK_SECONDS
        if not self.template.settings.counts_waiting:
            limit = task.timeout * UNCOUNTED_WAIT_FACTOR + SLACK_SECONDS
        hard_limit = task.hard_timeout
        if hard_limit is None:
            hard_limit = OVERLOAD * (1 + limit)
        until = started + min(limit, hard_limit)
        while True:
            answer = self._receive_for_task(until)
            if answer is not None:
                return self._read_answer(answer, task)
            # If it had to wait for a processor, it has worked less than the time that has passed. Then
            # wait again, for as long as it may still work.
            now = time.monotonic()
            elapsed = now - started
            seconds_worked = self._measure_work(elapsed, counts_before)
            if elapsed >= hard_limit:
                return _hard_limit_outcome(hard_limit, elapsed, seconds_worked)
            if seconds_worked >= limit:
                return _deadline_outcome(task, seconds_worked)
            until = now + max(min(limit - seconds_worked, hard_limit - elapsed), 0.001)

    def _receive_for_task(self, until: float) -> "_Message | None":
        """Return the next message; None if none has come by then.

        Raises `WorkerLostError` if it does not have the token of the task.
        """
        message = self._receive(until)
        if message is not None and message.token != self._token:
            raise _misbehaviour_error("said something that is not an answer to its task")
        return message

    def _read_start(self, message: "_Message", task: PoolTask) -> ProcessCounts:
        """Return the counts of its process when the call began, from the message that says so."""
        if message.kind != protocol.STARTED:
            raise _misbehaviour_error("said more than its answer")
        self._loaded_functions.add(task.function.number)
        try:
            return ProcessCounts(*json.loads(message.content))
        except Exception as error:
            raise _misbehaviour_error("gave an answer that could not be read") from error

    def _read_answer(self, message: "_Message", task: PoolTask) -> Outcome:
        """Return the outcome that a message holds. It must be an answer, and the last message."""
        if message.kind != protocol.ANSWER or self._received_bytes:
            raise _misbehaviour_error("said more than its answer")
        try:
            return self._make_outcome(json.loads(message.content), task)
        except Exception as error:
            raise _misbehaviour_error("gave an answer that could not be read") from error

    def _measure_work(self, elapsed: float, before: ProcessCounts) -> float:
        """Return how many of the seconds since its task began it has worked.

        The system is asked, and not the worker, which may run code that wants more time. `before` are
        the counts that it has sent, which may be false. If there is any doubt, all time counts as work.
        """
        if not self.template.settings.counts_waiting:
            return elapsed
        try:
            with open(f"/proc/{self._pid}/schedstat", "rb") as file:  # noqa: PTH123
                used, waited, _ = (int(number) / 1e9 for number in file.read().split())
            with open(f"/proc/{self._pid}/status", "rb") as file:  # noqa: PTH123
                lines = [line for line in file.read().splitlines() if b":" in line]
            status = dict(line.split(b":", 1) for line in lines)
            now = ProcessCounts(used, waited, int(status[b"voluntary_ctxt_switches"]))
            for count_before, count_now in zip(before, now, strict=True):
                if not 0 <= count_before <= count_now:  # the worker has sent false counts
                    return elapsed
        except (OSError, ValueError, KeyError, TypeError):
            return elapsed
        is_asleep = not status[b"State"].strip().startswith(b"R")
        has_slept = is_asleep or now.sleeps > before.sleeps
        return min(measure_work(elapsed, before, now, has_slept=has_slept), elapsed)

    def _make_outcome(self, answer: Any, task: PoolTask) -> Outcome:
        """Return the outcome that a decoded answer describes, and mark the worker as no longer busy.

        It may raise any exception, since the answer may be anything.
        """
        (kind, seconds, needs_replacement), content = answer
        self.needs_replacement = needs_replacement is not False
        self.task_count += 1
        if not seconds <= task.timeout:  # it has an answer, but worked too long
            outcome = _deadline_outcome(task, seconds)
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
        """Return its next message; None if none has come by this time of the monotonic clock.

        Raises `WorkerLostError` if it has ended, or sends a message that is too large.
        """
        head_size = protocol.HEAD.size
        while True:
            if len(self._received_bytes) >= head_size:
                kind, token, length = protocol.HEAD.unpack_from(self._received_bytes)
                if length > protocol.LARGEST_VALUE + _CHUNK_BYTES:
                    raise _misbehaviour_error("said more than it may")
                message_size = head_size + length
                if len(self._received_bytes) >= message_size:
                    content = bytes(self._received_bytes[head_size:message_size])
                    del self._received_bytes[:message_size]
                    return _Message(kind, token, content)
            # Go on for a while after `until` if a part of the message has come. As soon as nothing
            # more arrives, `recv` raises TimeoutError.
            seconds_left = until - time.monotonic()
            if seconds_left < -DELIVERY_SECONDS:
                return None
            data = b""
            try:
                self._pipe.settimeout(max(seconds_left, 0.0001))
                data = self._pipe.recv(_CHUNK_BYTES)
            except TimeoutError:
                return None
            except OSError:
                pass  # it has ended
            if not data:
                raise _explain_end(self._get_exit_status())
            self._received_bytes += data

    def interrupt(self) -> None:
        """End the process now. A thread that waits for its answer gets a `WorkerLostError`.

        This may be called from any thread.
        """
        self._is_interrupted = True
        for connection in (self._lifeline, self._pipe):
            with suppress(OSError):  # the other side is closed already
                # Closing it would not be enough: a process that was forked from this one may have a
                # copy of the socket, which would keep the connection open.
                connection.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        """End the process with everything that it has started, and close the sockets."""
        self.interrupt()
        self._pipe.close()
        self._lifeline.close()

    def _get_exit_status(self) -> int | None:
        """Return its exit status, negative for a signal, as the template reports it.

        Return None if it is not known, because the template has ended, and the worker with it.
        """
        try:
            self._lifeline.settimeout(END_SECONDS)
            data = self._lifeline.recv(protocol.STATUS.size)
            if data:
                return protocol.STATUS.unpack(data)[0]
        except TimeoutError:  # it still runs, or the template hangs
            return None
        except OSError:
            pass  # the template has ended
        if self._pid and not self._is_interrupted:
            # The template has ended, so it cannot kill what the worker has started.
            with suppress(OSError):
                os.killpg(self._pid, signal.SIGKILL)
        return None


class _Message(NamedTuple):
    """A message of a worker."""

    kind: bytes  # such as `protocol.ANSWER`
    token: bytes
    content: bytes


def _deadline_outcome(task: PoolTask, seconds_worked: float) -> Outcome:
    """Return the outcome of a task that has worked longer than it may."""
    return Outcome(
        kind="timeout",
        message=f"TimeoutError: still working after {task.timeout:g} s, and stopped",
        seconds=seconds_worked,
    )


def _hard_limit_outcome(hard_limit: float, elapsed: float, seconds_worked: float) -> Outcome:
    """Return the outcome of a task that was not done in time, whether it worked or waited."""
    message = f"TimeoutError: not done {hard_limit:g} s after it began, and stopped"
    if elapsed - seconds_worked > 0.1 * elapsed:  # it waited for a considerable time
        message += f" ({seconds_worked:.2g} s of that was work, the rest waiting for a processor)"
    return Outcome(kind="timeout", message=message, seconds=seconds_worked)


class TemplateConnection:
    """The template, which is the process that forks workers, as the pool sees it."""

    def __init__(self, settings: WorkerSettings) -> None:
        """Start the process. Raises `OSError` if that is not possible."""
        self.settings = settings
        self.is_loaded = False  # whether it has imported all modules and forked a worker
        self.control, control_of_template = socket.socketpair()
        # This sets `sys.path` before it imports this package. With `-m`, the interpreter would look for
        # the package first, and might not find it.
        code = (
            "import json, sys; sys.path[:] = json.loads(sys.argv[2])['path']; "
            "from assay.isolation.forkserver import template_main; template_main()"
        )
        flags: Any = getattr(subprocess, "_args_from_interpreter_flags", list)
        path = [entry for entry in sys.path if isinstance(entry, str)]  # pyright: ignore[reportUnnecessaryIsInstance]
        options = json.dumps({"settings": settings._asdict(), "path": path})
        # What workers print goes to stderr, since the output of this program must not have other lines.
        output = 2
        try:
            os.fstat(output)
        except OSError:  # this process has no stderr
            output = subprocess.DEVNULL
        with control_of_template:
            descriptor = control_of_template.fileno()
            try:
                self._process = subprocess.Popen[bytes](
                    [sys.executable, *flags(), "-c", code, str(descriptor), options],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    pass_fds=[descriptor],
                    start_new_session=True,  # so that a Ctrl-C at the terminal does not end it
                )
            except OSError:
                self.control.close()
                raise

    def end_when_idle(self) -> None:
        """Let it fork no further workers, and end when its last worker has ended."""
        with suppress(OSError):  # it has ended already
            self.control.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End it with all its workers."""
        if not self.is_loaded:
            self._process.kill()  # it is busy with imports
        self.end_when_idle()
        self.control.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            with suppress(OSError):  # it has ended in this moment
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def disown(self) -> None:
        """Forget the process, in a process that was forked from its parent.

        Only the parent can wait for it. With an exit code, `subprocess` does not try to.
        """
        self._process.returncode = 0
