"""Be a worker process that calls functions, or the template process that forks workers.

Everything here runs in processes of its own. The template is a fresh interpreter that imports the modules to
preload and then does nothing but fork workers and end them. A worker takes one task after another from its
pipe. It lives on a leash, a socket between the pool and the template: when the pool closes its end, or is gone,
the template kills the worker with everything it has started.
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
from collections.abc import Callable, Collection
from contextlib import suppress
from importlib import import_module
from typing import Any, BinaryIO, Final, NamedTuple, NoReturn, cast

from assay.isolation import protocol
from assay.isolation.protocol import WorkerSettings
from assay.wording import describe_error

KEPT_SHARE: Final = 0.5  # the share of its memory limit at which a worker asks to be replaced
TRACE: Final = 20_000  # characters of a trace that are sent, the last ones
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36


class Reading(NamedTuple):
    """What Linux has counted of a process, all its life."""

    used: float = 0.0  # seconds it used a processor
    waited: float = 0.0  # seconds it waited for one
    sleeps: int = 0  # how often it gave its processor away, to sleep or to wait for something


def worked(since: float, before: Reading, now: Reading, *, slept: bool) -> float:
    """How many of the seconds since it began a process has worked."""
    # Sleeping counts as work and waiting for a processor does not. A process that never slept has worked for as
    # long as it used a processor: a processor that the host of a virtual machine took away does not count either.
    return since - (now.waited - before.waited) if slept else now.used - before.used


def _reader(*, counts_waiting: bool) -> Callable[[], Reading]:
    """What reads the counts of this process: only its processor time where the kernel does not count waiting."""
    if not counts_waiting:
        return lambda: Reading(time.process_time())
    file = os.open("/proc/self/schedstat", os.O_RDONLY)

    def read() -> Reading:
        waited = int(os.pread(file, 64, 0).split()[1]) / 1e9
        return Reading(
            time.thread_time(), waited, resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
        )

    return read


class Memory:
    """The limit on what a worker may take, counted from when it was last set (on Linux)."""

    def __init__(self, allowed: int | None) -> None:
        self.allowed = allowed or 0
        self._mark = sys.maxsize
        self._usual = resource.getrlimit(resource.RLIMIT_AS)
        self._file = (
            os.open("/proc/self/statm", os.O_RDONLY)
            if allowed and sys.platform == "linux"
            else None
        )

    def limit(self) -> None:
        """Allow so much more than there is now."""
        if self._file is not None:
            taken, (soft, hard) = self._taken(), self._usual
            self._mark = taken + int(self.allowed * KEPT_SHARE)
            most = taken + self.allowed
            usual = most if soft == resource.RLIM_INFINITY else soft
            resource.setrlimit(resource.RLIMIT_AS, (min(most, usual), hard))

    def lift(self) -> None:
        """Allow what the system allows."""
        if self._file is not None:
            resource.setrlimit(resource.RLIMIT_AS, self._usual)

    def is_high(self) -> bool:
        """Whether so much has been taken, and not given back, that a fresh worker would be better."""
        return self._file is not None and self._taken() > self._mark

    def _taken(self) -> int:
        assert self._file is not None
        return int(os.pread(self._file, 64, 0).split()[0]) * resource.getpagesize()


class Worker:
    """Calls functions, and answers with what came of it."""

    def __init__(self, pipe: socket.socket, settings: WorkerSettings) -> None:
        self._pipe = pipe
        self._pid = os.getpid()
        self._read = _reader(counts_waiting=settings.counts_waiting)
        self._memory = Memory(settings.memory)
        self._idle = settings.idle
        self._functions: dict[int, Any] = {}
        os.register_at_fork(after_in_child=self._hang_up)

    def serve(self) -> None:
        """Work until the pool hangs up, or has had nothing to do for long."""
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
        threads = _threads()
        began, before = (
            0.0,
            None,
        )  # when its work began, and what was counted of this process until then
        try:
            if number not in self._functions:
                self._functions[number] = self._loaded(function)
            # Before the clock starts, since it may import what the arguments are made of.
            args, keywords = pickle.loads(arguments)
            self._leave_if_forked()
            began, before = time.monotonic(), self._read()
            self._pipe.sendall(
                protocol.message(protocol.STARTED, json.dumps(before).encode(), token)
            )
            kind, said = "value", _sendable(_called(self._functions[number], args, keywords))
        except MemoryError as error:
            self._memory.lift()
            text = f"it needed more than the {self._memory.allowed:,} bytes that a worker may take"
            kind, said = "memory", _told(error, text)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is the caller's to see
            self._leave_if_forked(error)
            kind, said = "raised", _told(error)
        self._leave_if_forked()
        since, now = time.monotonic() - began, self._read()
        seconds = (
            0.0
            if before is None
            else max(worked(since, before, now, slept=now.sleeps > before.sleeps), 0.0)
        )
        # A thread or process left behind would take time from the tasks that follow, or speak for this one.
        left_behind = _threads() > threads or _has_children()
        spent = kind == "memory" or left_behind or self._memory.is_high()
        answer = f"[{json.dumps([kind, seconds, spent])}, {said}]"
        self._pipe.sendall(protocol.message(protocol.ANSWER, answer.encode(), token))

    def _loaded(self, packed: bytes) -> Any:
        """The function, with imports and all: what it takes to load is no part of its work."""
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
            self._memory.limit()

    def _hang_up(self) -> None:
        """Close the pipe in a process that the function has forked: it has no say here."""
        with suppress(OSError):  # the function has closed it
            os.close(self._pipe.fileno())

    def _leave_if_forked(self, error: BaseException | None = None) -> None:
        """End a process that the function has forked and that came back here: the answer is its parent's to give."""
        if os.getpid() == self._pid:
            return
        code: Any = error.code if isinstance(error, SystemExit) else int(error is not None)
        _leave(code if isinstance(code, int) else int(code is not None))


def _called(function: Any, args: Any, keywords: Any) -> Any:
    value = function(*args, **keywords)
    if not hasattr(value, "__await__"):
        return value
    import asyncio

    async def awaited() -> Any:
        return await value

    return asyncio.run(awaited())


def _sendable(value: Any) -> str:
    kind = type(value).__name__
    try:
        said = json.dumps(protocol.plain(value))
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - the code of other classes runs in there
        raise TypeError(
            f"it returned a {kind} that cannot be sent back ({error}): return plain data"
        ) from None
    if len(said) > protocol.LARGEST_VALUE:
        raise ValueError(
            f"it returned a {kind} of {len(said):,} characters that cannot be sent back: return less"
        )
    return said


def _told(error: BaseException, otherwise: str = "") -> str:
    """Message and trace of an error, or something else to say when it has no message."""
    below = error.__traceback__
    while below is not None and below.tb_frame.f_code.co_filename == __file__:
        below = below.tb_next  # where it is not ours any more
    trace = ""
    with suppress(Exception):  # memory, recursion, or the __repr__ of another class
        from traceback import format_exception

        trace = "".join(format_exception(type(error), error, below))
    text = describe_error(error)
    return json.dumps([text + otherwise if text.endswith(": ") else text, trace[-TRACE:]])


def _threads() -> int:
    threading = sys.modules.get("threading")
    return threading.active_count() if threading is not None else 1


def _has_children() -> bool:
    """Whether there are processes that this one has started, alive or not waited for."""
    with suppress(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
        return True
    return False


def _leave(status: int) -> NoReturn:
    """End this process at once, with nothing said that is not written."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # closed, or never there
            stream.flush()
    os._exit(status)


def template_main() -> None:
    """Be the template: load what is to be preloaded, then fork workers until the pool is gone."""
    control, settings = (
        socket.socket(fileno=int(sys.argv[1])),
        WorkerSettings(**json.loads(sys.argv[2])["settings"]),
    )
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            cast("Any", stream).reconfigure(
                line_buffering=True
            )  # a worker may be killed at any moment
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
        gc.freeze()  # so that workers need no copy of what they never change
        template.serve()
    except OSError:
        pass  # the pool is gone
    finally:
        template.end()


class TemplateProcess:
    """Forks a worker for every pair of sockets it is sent, and ends workers whose leash is let go."""

    def __init__(self, control: socket.socket, settings: WorkerSettings) -> None:
        self._control, self._settings = control, settings
        self._leashes: dict[int, socket.socket] = {}  # the leash of each worker by its process id
        self._is_done = False
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ, self._obey)
        self._bell, self._ring = socket.socketpair()
        for end in (self._bell, self._ring):
            end.setblocking(False)
        self._selector.register(self._bell, selectors.EVENT_READ, self._bury)
        signal.set_wakeup_fd(self._ring.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _do_nothing)
        self._prctl: Any = _do_nothing
        if sys.platform == "linux":
            self._prctl = getattr(import_module("ctypes").CDLL(None), "prctl", _do_nothing)
        # What workers leave behind becomes a child of this process, which can end it and wait for it.
        self._prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        # A forked child of the user's process may hold the sockets open; this end is beyond doubt.
        with suppress(OSError, AttributeError):  # there is no such call on older systems
            self._selector.register(os.pidfd_open(os.getppid()), selectors.EVENT_READ, self.end)

    def serve(self) -> None:
        """Do what is asked until the pool is gone and no worker is left."""
        while not self._is_done or self._leashes:
            for key, _ in self._selector.select():
                key.data()

    def end(self) -> NoReturn:
        """End this process with all workers and everything they have started."""
        for pid in self._leashes:
            _kill(pid)
        with suppress(OSError):
            while True:
                self._kill_orphans(spare=())
                os.waitpid(-1, 0)
        os._exit(0)

    def _obey(self) -> None:
        """Fork a worker for the pair of sockets that the pool sends; begin to end when the pool is gone."""
        asked, fds, _, _ = socket.recv_fds(self._control, 1, 2)
        if not asked:
            self._is_done = True
            self._selector.unregister(self._control)
            return
        template, (pipe, leash) = os.getpid(), (socket.socket(fileno=fd) for fd in fds)
        with pipe:
            try:
                with warnings.catch_warnings():
                    # A preloaded module may have started threads; that they are not forked is known.
                    warnings.simplefilter("ignore", DeprecationWarning)
                    pid = os.fork()
            except OSError:
                with leash, suppress(OSError):
                    leash.sendall(protocol.STATUS.pack(1))
                return
            if pid == 0:
                self._become_worker(template, pipe, leash)
        with suppress(OSError):
            os.setpgid(pid, pid)  # here and there, since either may be first
        self._leashes[pid] = leash
        self._selector.register(leash, selectors.EVENT_READ, lambda: self._let_go(pid))

    def _become_worker(self, template: int, pipe: socket.socket, leash: socket.socket) -> NoReturn:
        try:
            self._prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
            if os.getppid() != template:
                os._exit(1)  # the template died before we could ask to die with it
            with suppress(OSError):
                os.setpgid(0, 0)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._selector.close()
            for end in (self._control, self._bell, self._ring, leash, *self._leashes.values()):
                end.close()
            # When the machine runs out of memory, let the kernel take a worker and not the training run.
            with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123
                file.write("500")
            Worker(pipe, self._settings).serve()
            _leave(0)
        finally:
            _leave(1)

    def _let_go(self, pid: int) -> None:
        """The pool has closed its end of a leash: the worker ends now."""
        leash = self._leashes.get(pid)
        if leash is not None:  # else it has ended a moment ago
            self._selector.unregister(leash)
            _kill(pid)

    def _bury(self) -> None:
        """Wait for what has ended, and tell the pool how."""
        with suppress(BlockingIOError):
            self._bell.recv(4096)
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = ended
                leash = self._leashes.pop(pid, None)
                if leash is None:
                    continue
                _kill(
                    pid
                )  # what it has started: its number stays taken as long as its group has processes
                with suppress(KeyError):  # let go already
                    self._selector.unregister(leash)
                with leash, suppress(OSError):
                    leash.sendall(protocol.STATUS.pack(os.waitstatus_to_exitcode(status)))
            self._kill_orphans(spare=self._leashes)

    def _kill_orphans(self, spare: Collection[int]) -> None:
        """Kill what has outlived its worker by leaving the worker's process group (on Linux)."""
        pid = os.getpid()
        try:
            with open(f"/proc/{pid}/task/{pid}/children") as file:  # noqa: PTH123
                children = {*map(int, file.read().split())}
        except OSError:
            return
        for child in children - self._leashes.keys():
            with suppress(OSError):  # it has ended meanwhile
                if os.getpgid(child) not in spare:
                    os.kill(child, signal.SIGKILL)


def _kill(pid: int) -> None:
    """Kill a worker and what it has started, which is in its process group."""
    for kill in (os.killpg, os.kill):
        with suppress(OSError):  # nothing there any more, or not a group yet
            kill(pid, signal.SIGKILL)


def _do_nothing(*_: object) -> int:
    """Handle a signal that need only wake the template, or stand for a call that is not there."""
    return 0
