"""The code of worker processes, which call functions, and of the template process, which forks workers.

The template is a new interpreter that imports the modules to preload, and then only forks workers and
ends them. A worker takes one task after another from its pipe. Its lifeline is a socket between the pool
and the template: when the pool closes its end, or has ended, the template kills the worker with
everything that it has started.
"""

import gc
import json
import os
import pickle
import resource
import select
import selectors
import signal
import socket
import sys
import time
import warnings
from collections.abc import Collection
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any, BinaryIO, Final, NamedTuple, NoReturn, cast

from assay.isolation import protocol
from assay.isolation.protocol import WorkerSettings
from assay.wording import describe_error

# A worker that still uses this share of its memory limit after a task asks to be replaced.
KEPT_SHARE: Final = 0.5
TRACE_LENGTH: Final = 20_000  # characters at the end of a traceback that are sent
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36


class Reading(NamedTuple):
    """The counts of a process since its start."""

    used: float = 0.0  # seconds that it used a processor
    waited: float = 0.0  # seconds that it waited for one
    sleeps: int = 0  # how often it slept or waited for something


def measure_work(elapsed: float, before: Reading, now: Reading, *, has_slept: bool) -> float:
    """Return how many of the elapsed seconds a process has worked, by the counts before and now."""
    # Sleeping counts as work, waiting for a processor does not. The work of a process that never slept
    # is its processor time, without the time that the host of a virtual machine took from it.
    if has_slept:
        return elapsed - (now.waited - before.waited)
    return now.used - before.used


class ProcessClock:
    """Reads the counts of this process."""

    def __init__(self, *, counts_waiting: bool) -> None:
        """Without `counts_waiting`, the kernel counts only processor time."""
        self._file: int | None = None
        if counts_waiting:
            self._file = os.open("/proc/self/schedstat", os.O_RDONLY)

    def read(self) -> Reading:
        if self._file is None:
            return Reading(used=time.process_time())
        nanoseconds_waited = int(os.pread(self._file, 64, 0).split()[1])
        return Reading(
            used=time.thread_time(),
            waited=nanoseconds_waited / 1e9,
            sleeps=resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw,
        )


class MemoryLimit:
    """The limit on the memory of a worker, counted from when it was last set (on Linux)."""

    def __init__(self, allowed: int | None) -> None:
        self.allowed = allowed or 0  # bytes
        self._high_mark = sys.maxsize
        self._system_limits = resource.getrlimit(resource.RLIMIT_AS)
        self._file: int | None = None
        if allowed and sys.platform == "linux":
            self._file = os.open("/proc/self/statm", os.O_RDONLY)

    def set(self) -> None:
        """Allow the worker this much more memory than it has now."""
        if self._file is None:
            return
        used = self._count_bytes()
        self._high_mark = used + int(self.allowed * KEPT_SHARE)
        limit = used + self.allowed
        soft, hard = self._system_limits
        if soft != resource.RLIM_INFINITY:
            limit = min(limit, soft)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))

    def lift(self) -> None:
        """Allow what the system allows."""
        if self._file is not None:
            resource.setrlimit(resource.RLIMIT_AS, self._system_limits)

    def is_high(self) -> bool:
        """Return whether tasks have left so much memory behind that a new worker is better."""
        return self._file is not None and self._count_bytes() > self._high_mark

    def _count_bytes(self) -> int:
        assert self._file is not None
        return int(os.pread(self._file, 64, 0).split()[0]) * resource.getpagesize()


class Worker:
    """Calls functions, and answers with the result or the error."""

    def __init__(self, pipe: socket.socket, settings: WorkerSettings) -> None:
        self._pipe = pipe
        self._pid = os.getpid()
        self._clock = ProcessClock(counts_waiting=settings.counts_waiting)
        self._memory = MemoryLimit(settings.memory)
        self._idle = settings.idle
        self._functions: dict[int, Any] = {}
        os.register_at_fork(after_in_child=self._close_pipe)

    def serve(self) -> None:
        """Work until the pool closes the pipe, or there is no task for a long time."""
        stream = cast("BinaryIO", self._pipe.makefile("rb"))
        self._pipe.sendall(protocol.message(protocol.HELLO, str(self._pid).encode()))
        while select.select([self._pipe], [], [], self._idle)[0]:
            head = stream.read(protocol.HEAD.size)
            if len(head) < protocol.HEAD.size:
                return
            _, token, length = protocol.HEAD.unpack(head)
            self._work(token, stream.read(length))

    def _work(self, token: bytes, task: bytes) -> None:
        number, function, arguments = pickle.loads(task)
        threads_before = _count_threads()
        started = 0.0
        before: Reading | None = None  # the counts before the work; None if it has not begun
        try:
            if number not in self._functions:
                self._functions[number] = self._load(function)
            # Before the work begins, because this may import the classes of the arguments.
            args, keywords = pickle.loads(arguments)
            self._exit_if_forked()
            started = time.monotonic()
            before = self._clock.read()
            self._pipe.sendall(
                protocol.message(protocol.STARTED, json.dumps(before).encode(), token)
            )
            kind = "value"
            content = _encode_value(_call(self._functions[number], args, keywords))
        except MemoryError as error:
            self._memory.lift()
            kind = "memory"
            content = _encode_error(
                error,
                f"it needed more than the {self._memory.allowed:,} bytes that a worker may take",
            )
        except BaseException as error:  # noqa: BLE001 - the caller gets any error
            self._exit_if_forked(error)
            kind = "raised"
            content = _encode_error(error)
        self._exit_if_forked()
        seconds = 0.0
        if before is not None:
            elapsed = time.monotonic() - started
            now = self._clock.read()
            has_slept = now.sleeps > before.sleeps
            seconds = max(0.0, measure_work(elapsed, before, now, has_slept=has_slept))
        # A remaining thread or process would use time of later tasks, or might send answers.
        has_remains = _count_threads() > threads_before or _has_children()
        is_spent = kind == "memory" or has_remains or self._memory.is_high()
        answer = f"[{json.dumps([kind, seconds, is_spent])}, {content}]"
        self._pipe.sendall(protocol.message(protocol.ANSWER, answer.encode(), token))

    def _load(self, packed: bytes) -> Any:
        """Return the function. Imports do not count as its work, nor against its memory."""
        self._memory.lift()
        try:
            function = pickle.loads(packed)
            if isinstance(function, str):
                module, _, path = function.partition(":")
                function = import_module(module)
                for step in path.split("."):
                    function = getattr(function, step)
            return function
        finally:
            self._memory.set()

    def _close_pipe(self) -> None:
        """Close the pipe in a process that the function has forked, which must not answer."""
        with suppress(OSError):  # the function has closed it
            os.close(self._pipe.fileno())

    def _exit_if_forked(self, error: BaseException | None = None) -> None:
        """End this process if the function has forked it: only the worker itself answers."""
        if os.getpid() == self._pid:
            return
        if isinstance(error, SystemExit):
            code: Any = error.code
            _exit(code if isinstance(code, int) else int(code is not None))
        _exit(int(error is not None))


def _call(function: Any, args: Any, keywords: Any) -> Any:
    value = function(*args, **keywords)
    if not hasattr(value, "__await__"):
        return value
    import asyncio

    async def await_value() -> Any:
        return await value

    return asyncio.run(await_value())


def _encode_value(value: Any) -> str:
    kind = type(value).__name__
    try:
        text = json.dumps(protocol.plain(value))
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - it runs code of the value's class
        raise TypeError(
            f"it returned a {kind} that cannot be sent back ({error}): return plain data"
        ) from None
    if len(text) > protocol.LARGEST_VALUE:
        raise ValueError(
            f"it returned a {kind} of {len(text):,} characters that cannot be sent back: return less"
        )
    return text


def _encode_error(error: BaseException, default: str = "") -> str:
    """Return the message and the traceback of an error; `default` is used if it has no message."""
    traceback = error.__traceback__
    # Leave out the frames of this file.
    while traceback is not None and traceback.tb_frame.f_code.co_filename == __file__:
        traceback = traceback.tb_next
    text = ""
    with suppress(Exception):  # no memory, recursion, or an error in a `__repr__`
        from traceback import format_exception

        text = "".join(format_exception(type(error), error, traceback))
    message = describe_error(error)
    if message.endswith(": "):
        message += default
    return json.dumps([message, text[-TRACE_LENGTH:]])


def _count_threads() -> int:
    threading = sys.modules.get("threading")
    if threading is None:
        return 1
    return threading.active_count()


def _has_children() -> bool:
    """Return whether this process has children, alive or not waited for."""
    with suppress(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
        return True
    return False


def _exit(status: int) -> NoReturn:
    """End this process at once, after writing its output."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # closed, or missing
            stream.flush()
    os._exit(status)


def template_main() -> None:
    """Run the template process: import the modules to preload, then fork workers for the pool."""
    control = socket.socket(fileno=int(sys.argv[1]))
    settings = WorkerSettings(**json.loads(sys.argv[2])["settings"])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A worker may be killed at any moment.
            cast("Any", stream).reconfigure(line_buffering=True)
    template = TemplateProcess(control, settings)
    try:
        for module in ("traceback", *settings.preload):
            try:
                import_module(module)
            except BaseException as error:  # noqa: BLE001 - a module runs when imported
                # A task that needs it will fail with the same error.
                sys.stderr.write(
                    f"assay: {module!r} cannot be preloaded: {type(error).__name__}: {error}\n"
                )
        gc.collect()
        gc.freeze()  # so that workers share the memory of objects that they do not change
        template.serve()
    except OSError:
        pass  # the process of the pool has ended
    finally:
        template.end()


class TemplateProcess:
    """Forks a worker for every pair of sockets from the pool, and ends workers with a closed lifeline."""

    def __init__(self, control: socket.socket, settings: WorkerSettings) -> None:
        self._control = control
        self._settings = settings
        self._lifelines: dict[int, socket.socket] = {}  # by the process id of the worker
        self._is_closed = False  # whether the pool has closed the control socket
        self._prctl: Any = _do_nothing
        if sys.platform == "linux":
            self._prctl = getattr(import_module("ctypes").CDLL(None), "prctl", _do_nothing)
        # Orphans of workers become children of this process, which can end them and wait for them.
        self._prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

        # The data of a key of the selector is the method to call when its file can be read.
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ, self._handle_request)
        # The signal for an ended child makes this socket readable.
        self._wakeup_reader, self._wakeup_writer = socket.socketpair()
        self._wakeup_reader.setblocking(False)
        self._wakeup_writer.setblocking(False)
        signal.set_wakeup_fd(self._wakeup_writer.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _do_nothing)
        self._selector.register(self._wakeup_reader, selectors.EVENT_READ, self._collect_ended)
        # A forked child of the pool's process may keep the sockets open after that has ended.
        with suppress(OSError, AttributeError):  # older systems do not have this call
            parent = os.pidfd_open(os.getppid())
            self._selector.register(parent, selectors.EVENT_READ, self.end)

    def serve(self) -> None:
        """Handle requests until the pool has closed its sockets and no worker is left."""
        while not self._is_closed or self._lifelines:
            for key, _ in self._selector.select():
                key.data()

    def end(self) -> NoReturn:
        """End this process with all workers and everything that they have started."""
        for pid in self._lifelines:
            _kill(pid)
        with suppress(OSError):
            while True:
                self._kill_orphans(spare=())
                os.waitpid(-1, 0)
        os._exit(0)

    def _handle_request(self) -> None:
        """Fork a worker for the pair of sockets that the pool sends, or note that the pool is closed."""
        request, descriptors, _, _ = socket.recv_fds(self._control, 1, 2)
        if not request:
            self._is_closed = True
            self._selector.unregister(self._control)
            return
        template_pid = os.getpid()
        pipe, lifeline = (socket.socket(fileno=descriptor) for descriptor in descriptors)
        with pipe:
            try:
                with warnings.catch_warnings():
                    # A preloaded module may have started threads, which are not forked.
                    warnings.simplefilter("ignore", DeprecationWarning)
                    pid = os.fork()
            except OSError:
                with lifeline, suppress(OSError):
                    lifeline.sendall(protocol.STATUS.pack(1))
                return
            if pid == 0:
                self._become_worker(template_pid, pipe, lifeline)
        with suppress(OSError):
            os.setpgid(pid, pid)  # both processes call this, since either may be first
        self._lifelines[pid] = lifeline
        self._selector.register(
            lifeline, selectors.EVENT_READ, partial(self._handle_closed_lifeline, pid)
        )

    def _become_worker(
        self, template_pid: int, pipe: socket.socket, lifeline: socket.socket
    ) -> NoReturn:
        """Turn this forked process into a worker."""
        try:
            self._prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
            if os.getppid() != template_pid:
                os._exit(1)  # the template ended before that call
            with suppress(OSError):
                os.setpgid(0, 0)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._selector.close()
            for end in (
                self._control,
                self._wakeup_reader,
                self._wakeup_writer,
                lifeline,
                *self._lifelines.values(),
            ):
                end.close()
            # If the machine runs out of memory, the kernel should kill a worker, not the training run.
            with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123
                file.write("500")
            Worker(pipe, self._settings).serve()
            _exit(0)
        finally:
            _exit(1)

    def _handle_closed_lifeline(self, pid: int) -> None:
        """End a worker, because the pool has closed its end of the lifeline."""
        lifeline = self._lifelines.get(pid)
        if lifeline is not None:  # None if the worker has just ended
            self._selector.unregister(lifeline)
            _kill(pid)

    def _collect_ended(self) -> None:
        """Wait for ended children, and send the pool the exit status of workers."""
        with suppress(BlockingIOError):
            self._wakeup_reader.recv(4096)
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                if pid in self._lifelines:
                    self._report_ended_worker(pid, status)
            self._kill_orphans(spare=self._lifelines)

    def _report_ended_worker(self, pid: int, status: int) -> None:
        lifeline = self._lifelines.pop(pid)
        # Its group may still have processes; until they have ended, no other group gets its number.
        _kill(pid)
        with suppress(KeyError):  # the pool has closed it already
            self._selector.unregister(lifeline)
        with lifeline, suppress(OSError):
            lifeline.sendall(protocol.STATUS.pack(os.waitstatus_to_exitcode(status)))

    def _kill_orphans(self, spare: Collection[int]) -> None:
        """Kill children of ended workers that have left the worker's process group (on Linux).

        Processes in the groups `spare` are not killed.
        """
        own_pid = os.getpid()
        try:
            with open(f"/proc/{own_pid}/task/{own_pid}/children") as file:  # noqa: PTH123
                children = {int(child) for child in file.read().split()}
        except OSError:
            return
        for child in children - self._lifelines.keys():
            with suppress(OSError):  # it has ended meanwhile
                if os.getpgid(child) not in spare:
                    os.kill(child, signal.SIGKILL)


def _kill(pid: int) -> None:
    """Kill a worker and the processes that it has started, which are in its process group."""
    for kill in (os.killpg, os.kill):
        with suppress(OSError):  # it has ended, or has no group yet
            kill(pid, signal.SIGKILL)


def _do_nothing(*_: object) -> int:
    """Handle a signal that only has to wake the template, or replace a missing system call."""
    return 0
