"""The code of worker processes, which call functions, and of the template process, which forks workers.

The template is a new interpreter that imports the modules to preload, and then only forks workers and
ends them. A worker takes one task after another from its pipe, a socket to the pool. Its lifeline is a
socket between the pool and the template: when the pool closes its end, or has ended, the template kills
the worker with everything that it has started.
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
# Options of the system call `prctl` of Linux: the signal that a process gets when its parent ends, and
# whether orphans of its descendants become its children.
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36


class ProcessCounts(NamedTuple):
    """What the system has counted of a process since its start."""

    used: float = 0.0  # seconds that it used a processor
    waited: float = 0.0  # seconds that it waited for one
    sleeps: int = 0  # how often it slept or waited for something


def measure_work(
    elapsed: float, before: ProcessCounts, now: ProcessCounts, *, has_slept: bool
) -> float:
    """Return how many of the elapsed seconds a process has worked, by its counts before and now.

    Sleeping counts as work, so a function cannot sleep past its deadline. Waiting for a processor does
    not count, so a busy machine does not shorten the deadline.
    """
    if has_slept:
        return elapsed - (now.waited - before.waited)
    # Without sleep, its processor time is its work. That is more exact than the formula above, because
    # it also leaves out the time in which the host of a virtual machine ran something else.
    return now.used - before.used


class ProcessClock:
    """Reads the counts of this process."""

    def __init__(self, *, counts_waiting: bool) -> None:
        """`counts_waiting` says whether the kernel counts how long a process waits for a processor."""
        self._file: int | None = None  # opened once, since it is read before and after each task
        if counts_waiting:
            self._file = os.open("/proc/self/schedstat", os.O_RDONLY)

    def read(self) -> ProcessCounts:
        """Return the present counts; only the processor time if the kernel counts nothing else."""
        if self._file is None:
            return ProcessCounts(used=time.process_time())
        # The file is about the main thread, which does the tasks. The other counts are of that thread too.
        nanoseconds_waited = int(os.pread(self._file, 64, 0).split()[1])
        return ProcessCounts(
            used=time.thread_time(),
            waited=nanoseconds_waited / 1e9,
            sleeps=resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw,
        )


class MemoryLimit:
    """The limit on the memory of a worker (on Linux).

    It limits how much memory the worker takes in addition to what it had when the limit was set.
    """

    def __init__(self, allowed: int | None) -> None:
        """`allowed` is the limit in bytes; None if there is none."""
        self.allowed = allowed or 0
        # With more bytes than this, a worker has kept so much of its tasks that a new one is better.
        self._replacement_size = sys.maxsize
        self._system_limits = resource.getrlimit(resource.RLIMIT_AS)
        self._file: int | None = None
        if allowed and sys.platform == "linux":
            self._file = os.open("/proc/self/statm", os.O_RDONLY)

    def set(self) -> None:
        """Allow the worker `allowed` more bytes of memory than it has now."""
        if self._file is None:  # there is no limit, or the system is not Linux
            return
        used = self._count_bytes()
        self._replacement_size = used + int(self.allowed * KEPT_SHARE)
        limit = used + self.allowed
        soft_limit, hard_limit = self._system_limits
        if soft_limit != resource.RLIM_INFINITY:
            limit = min(limit, soft_limit)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard_limit))

    def lift(self) -> None:
        """Remove the limit; the limit of the system still applies."""
        if self._file is not None:
            resource.setrlimit(resource.RLIMIT_AS, self._system_limits)

    def is_high(self) -> bool:
        """Return whether tasks have left so much memory behind that a new worker is better."""
        return self._file is not None and self._count_bytes() > self._replacement_size

    def _count_bytes(self) -> int:
        """Return how much memory this process has."""
        assert self._file is not None
        page_count = int(os.pread(self._file, 64, 0).split()[0])
        return page_count * resource.getpagesize()


class Worker:
    """Calls functions in a worker process, and sends the pool the result or the error of each call."""

    def __init__(self, pipe: socket.socket, settings: WorkerSettings) -> None:
        self._pipe = pipe
        self._pid = os.getpid()
        self._clock = ProcessClock(counts_waiting=settings.counts_waiting)
        self._memory = MemoryLimit(settings.memory)
        self._idle_seconds = settings.idle
        self._functions: dict[int, Any] = {}  # those that were loaded, by their number
        # A process that a function forks must not answer in place of the worker.
        os.register_at_fork(after_in_child=self._close_pipe)

    def serve(self) -> None:
        """Do tasks until the pool closes the pipe, or sends no task for a long time."""
        stream = cast("BinaryIO", self._pipe.makefile("rb"))
        self._pipe.sendall(protocol.encode_message(protocol.HELLO, str(self._pid).encode()))
        while select.select([self._pipe], [], [], self._idle_seconds)[0]:
            head = stream.read(protocol.HEAD.size)
            if len(head) < protocol.HEAD.size:  # the pool has closed the pipe
                return
            _, token, length = protocol.HEAD.unpack(head)
            self._do_task(token, stream.read(length))

    def _do_task(self, token: bytes, task: bytes) -> None:
        """Call the function of a task, and send its result or error.

        `task` is the content of the message `protocol.TASK`. All messages about it have the token.
        """
        number, packed_function, packed_arguments = pickle.loads(task)
        threads_before = _count_threads()
        started = 0.0
        before: ProcessCounts | None = None  # the counts before the call; None if it has not begun
        try:
            if number not in self._functions:
                self._functions[number] = self._load(packed_function)
            # This may import the classes of the arguments, so it is done before the time is measured.
            args, keywords = pickle.loads(packed_arguments)
            self._exit_if_forked()
            started = time.monotonic()
            before = self._clock.read()
            self._pipe.sendall(
                protocol.encode_message(protocol.STARTED, json.dumps(before).encode(), token)
            )
            kind = "value"
            content = _encode_value(_call(self._functions[number], args, keywords))
        except MemoryError as error:
            self._memory.lift()  # to have enough for the message
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
        # A thread or process that the function has left behind would slow down later tasks, or might
        # answer them.
        left_something = _count_threads() > threads_before or _has_children()
        needs_replacement = kind == "memory" or left_something or self._memory.is_high()
        answer = f"[{json.dumps([kind, seconds, needs_replacement])}, {content}]"
        self._pipe.sendall(protocol.encode_message(protocol.ANSWER, answer.encode(), token))

    def _load(self, packed_function: bytes) -> Any:
        """Return the function that `protocol.pack_function` has packed.

        The modules that it imports do not count against the memory that a task may use.
        """
        self._memory.lift()
        try:
            function = pickle.loads(packed_function)
            if isinstance(function, str):
                # It is `package.module:function`, or `package.module:Class.method`.
                module_name, _, path = function.partition(":")
                function = import_module(module_name)
                for attribute in path.split("."):
                    function = getattr(function, attribute)
            return function
        finally:
            self._memory.set()

    def _close_pipe(self) -> None:
        """Close the pipe in a process that the function has forked, since that must not answer."""
        with suppress(OSError):  # the function has closed it already
            os.close(self._pipe.fileno())

    def _exit_if_forked(self, error: BaseException | None = None) -> None:
        """End this process if it is not the worker, but a process that the function has forked.

        Such a process returns from the function like the worker, but only the worker may answer. Its
        exit status is what Python's would be: that of `SystemExit`, 1 for any other error, or 0.
        """
        if os.getpid() == self._pid:
            return
        if isinstance(error, SystemExit):
            code: Any = error.code
            if isinstance(code, int):
                _exit(code)
            _exit(0 if code is None else 1)
        _exit(0 if error is None else 1)


def _call(function: Any, args: Any, keywords: Any) -> Any:
    """Call a function, and await the result if it is awaitable."""
    value = function(*args, **keywords)
    if not hasattr(value, "__await__"):
        return value
    import asyncio  # takes time, and few functions need it

    async def await_value() -> Any:
        return await value

    return asyncio.run(await_value())


def _encode_value(value: Any) -> str:
    """Return the result of a function as JSON; raise TypeError or ValueError if it cannot be sent."""
    type_name = type(value).__name__
    try:
        text = json.dumps(protocol.make_plain(value))
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - this may run code of the value's class
        raise TypeError(
            f"it returned a {type_name} that cannot be sent back ({error}): return plain data"
        ) from None
    if len(text) > protocol.LARGEST_VALUE:
        raise ValueError(
            f"it returned a {type_name} of {len(text):,} characters that cannot be sent back: "
            "return less"
        )
    return text


def _encode_error(error: BaseException, default: str = "") -> str:
    """Return the message and the traceback of an error, as JSON.

    `default` is the message if the error has none.
    """
    traceback = error.__traceback__
    # Leave out the frames of this file, which would mean nothing to the caller.
    while traceback is not None and traceback.tb_frame.f_code.co_filename == __file__:
        traceback = traceback.tb_next
    text = ""
    with suppress(Exception):  # out of memory, recursion, or an error in a `__repr__`
        from traceback import format_exception

        text = "".join(format_exception(type(error), error, traceback))
    message = describe_error(error)  # such as "ValueError: no such field"
    if message.endswith(": "):
        message += default
    return json.dumps([message, text[-TRACE_LENGTH:]])


def _count_threads() -> int:
    """Return how many threads of Python this process has, without importing `threading` for that."""
    threading = sys.modules.get("threading")
    if threading is None:
        return 1
    return threading.active_count()


def _has_children() -> bool:
    """Return whether this process has child processes, running or ended."""
    with suppress(ChildProcessError):  # raised if there are none
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
    """Import the modules to preload, then fork workers for the pool.

    This is the main function of the template process. Its arguments are the number of the control
    socket, through which the pool asks for workers, and the settings as JSON.
    """
    control = socket.socket(fileno=int(sys.argv[1]))
    settings = WorkerSettings(**json.loads(sys.argv[2])["settings"])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Block no signals: the thread of the pool that has started this process may have blocked some.
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # Write every line at once, since a worker may be killed at any moment.
            cast("Any", stream).reconfigure(line_buffering=True)
    template = TemplateProcess(control, settings)
    try:
        for module in ("traceback", *settings.preload):  # a worker needs "traceback" for any error
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
    """Forks a worker whenever the pool asks for one, and kills it when the pool closes its lifeline."""

    def __init__(self, control: socket.socket, settings: WorkerSettings) -> None:
        self._control = control
        self._settings = settings
        self._lifelines: dict[int, socket.socket] = {}  # by the process id of the worker
        self._is_closed = False  # whether the pool has closed the control socket
        self._prctl: Any = _do_nothing  # a system call that only Linux has
        if sys.platform == "linux":
            self._prctl = getattr(import_module("ctypes").CDLL(None), "prctl", _do_nothing)
        # Orphans of workers become children of this process, which can end them and wait for them.
        self._prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

        # Each file is registered with the method to call when it can be read.
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ, self._handle_request)
        # When a child ends, Python's signal handler writes to the one socket, so that the other one can
        # be read.
        self._wakeup_reader, self._wakeup_writer = socket.socketpair()
        self._wakeup_reader.setblocking(False)
        self._wakeup_writer.setblocking(False)
        signal.set_wakeup_fd(self._wakeup_writer.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _do_nothing)
        self._selector.register(self._wakeup_reader, selectors.EVENT_READ, self._collect_ended)
        # End when the process of the pool has ended. Its sockets do not always show that: a process that
        # it has forked may keep them open.
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
        with suppress(OSError):  # raised by `waitpid` when there are no children left
            while True:
                self._kill_orphans(spare=())
                os.waitpid(-1, 0)
        os._exit(0)

    def _handle_request(self) -> None:
        """Fork a worker, because the pool asks for one, or note that the pool has closed the socket.

        The pool sends one byte with the ends of two sockets: the pipe for tasks, and the lifeline.
        """
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
                    # Python warns if a preloaded module has started threads, which are not forked.
                    warnings.simplefilter("ignore", DeprecationWarning)
                    pid = os.fork()
            except OSError:  # the system allows no further process
                with lifeline, suppress(OSError):
                    lifeline.sendall(protocol.STATUS.pack(1))
                return
            if pid == 0:
                self._become_worker(template_pid, pipe, lifeline)
        # The worker has a process group of its own, which can be killed with all that it starts. Both
        # processes create it, since either may be the first that needs it.
        with suppress(OSError):
            os.setpgid(pid, pid)
        self._lifelines[pid] = lifeline
        self._selector.register(
            lifeline, selectors.EVENT_READ, partial(self._handle_closed_lifeline, pid)
        )

    def _become_worker(
        self, template_pid: int, pipe: socket.socket, lifeline: socket.socket
    ) -> NoReturn:
        """Turn this process, which was just forked from the template, into a worker."""
        try:
            self._prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
            if os.getppid() != template_pid:
                os._exit(1)  # the template ended before that call
            with suppress(OSError):
                os.setpgid(0, 0)
            # Undo what only the template needs, and close its files.
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._selector.close()
            for template_socket in (
                self._control,
                self._wakeup_reader,
                self._wakeup_writer,
                lifeline,
                *self._lifelines.values(),
            ):
                template_socket.close()
            # If the machine runs out of memory, the kernel should kill a worker, not the training run.
            with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123
                file.write("500")
            Worker(pipe, self._settings).serve()
            _exit(0)
        finally:
            _exit(1)

    def _handle_closed_lifeline(self, pid: int) -> None:
        """Kill a worker, because the pool has closed its end of the lifeline."""
        lifeline = self._lifelines.get(pid)
        if lifeline is not None:  # None if the worker has just ended
            self._selector.unregister(lifeline)
            _kill(pid)

    def _collect_ended(self) -> None:
        """Remove children that have ended from the process table, and report ended workers to the pool.

        This is called when the signal for an ended child has come.
        """
        with suppress(BlockingIOError):
            self._wakeup_reader.recv(4096)  # what the signal handler has written
        with suppress(ChildProcessError):  # raised if there are no children
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:  # no further child has ended
                    break
                if pid in self._lifelines:
                    self._report_ended_worker(pid, status)
            self._kill_orphans(spare=self._lifelines)  # what the living workers have started

    def _report_ended_worker(self, pid: int, status: int) -> None:
        """Kill what a worker has left behind, and send the pool its exit status."""
        lifeline = self._lifelines.pop(pid)
        # Other processes may still be in its process group. As long as they are, the system gives the
        # number of the group to no other process.
        _kill(pid)
        with suppress(KeyError):  # the pool has closed the lifeline already
            self._selector.unregister(lifeline)
        with lifeline, suppress(OSError):
            lifeline.sendall(protocol.STATUS.pack(os.waitstatus_to_exitcode(status)))

    def _kill_orphans(self, spare: Collection[int]) -> None:
        """Kill processes that ended workers have started outside of their process group (on Linux).

        When a worker ends, such processes become children of the template. Those in the process groups
        `spare` are not killed.
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
        with suppress(OSError):  # the worker has ended, or has no group yet
            kill(pid, signal.SIGKILL)


def _do_nothing(*_: object) -> int:
    """Handle a signal that only has to wake the template, or replace a missing system call."""
    return 0
