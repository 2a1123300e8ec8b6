"""Worker: the process that works. It takes one task after another from its pipe until that ends."""

import os
import pickle
import socket
import sys
from contextlib import suppress
from importlib import import_module
from types import TracebackType
from typing import Any, BinaryIO, Final, cast

from assay.isolation import wire
from assay.isolation.clock import Clock
from assay.isolation.settings import Settings
from assay.redaction import redacted
from assay.wording import described

MARK: Final = 0.5
"""The share of its memory limit at which a worker asks to be replaced."""


TRACE: Final = 20_000
"""Characters of a trace that are sent, the last ones."""


class Worker:
    """Calls functions, and tells what came of it."""

    def __init__(self, pipe: socket.socket, settings: Settings) -> None:
        self._pipe = pipe
        self._clock = Clock(settings.clock)
        self._memory = Memory(settings.memory)
        self._functions: dict[int, Any] = {}
        self._packed: dict[int, bytes] = {}

    def serve(self) -> None:
        """Work until the pool hangs up."""
        stream = cast("BinaryIO", self._pipe.makefile("rb"))
        self._pipe.sendall(wire.frame(wire.HELLO))
        while len(head := stream.read(wire.HEAD.size)) == wire.HEAD.size:
            kind, length = wire.HEAD.unpack(head)
            body = stream.read(length)
            if kind == wire.FUNCTION:
                number = wire.NUMBER.unpack_from(body)[0]
                self._packed[number] = body[wire.NUMBER.size :]
            else:
                self._work(body)

    def _work(self, body: bytes) -> None:
        number, seconds = wire.CALL.unpack_from(body)
        threads = _threads()
        began = False
        try:
            is_new = number not in self._functions
            if is_new:
                self._functions[number] = self._loaded(self._packed[number])
                del self._packed[number]
            # Before the clock starts, since it may import what the arguments are made of.
            args, keywords = pickle.loads(memoryview(body)[wire.CALL.size :])
            reading = self._clock.start(seconds)
            began = True
            if is_new:
                self._pipe.sendall(wire.frame(wire.STARTED, wire.READING.pack(*reading)))
            value = _called(self._functions[number], args, keywords)
            kind, said = wire.VALUE, _sent_back(value)
        except MemoryError as error:
            self._memory.lift()
            kind, said = wire.MEMORY, _told(error, self._memory.exceeded)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is the caller's to see
            kind, said = wire.RAISED, _told(error)
        worked, reading = self._clock.stop() if began else (0.0, self._clock.read())
        # A thread left behind would take time from the tasks that follow.
        spent = kind == wire.MEMORY or self._memory.is_high() or _threads() > threads
        done = wire.DONE.pack(worked, spent, *reading)
        self._pipe.sendall(wire.frame(kind, done, said))

    def _loaded(self, packed: bytes) -> Any:
        """The function, with imports and all: what it takes to load is no part of its work."""
        self._memory.lift()
        try:
            function = pickle.loads(packed)
            return _named(function) if isinstance(function, str) else function
        finally:
            self._memory.limit()


class Memory:
    """The limit on what a worker may take, counted from when it was last set (on Linux)."""

    def __init__(self, allowed: int | None) -> None:
        self._allowed = allowed or 0
        self._mark = sys.maxsize
        self._file = -1
        if allowed is not None and sys.platform == "linux":
            import resource

            self._resource: Any = resource
            self._usual = resource.getrlimit(resource.RLIMIT_AS)
            self._file = os.open("/proc/self/statm", os.O_RDONLY)

    def limit(self) -> None:
        """Allow so much more than there is now."""
        if self._file < 0:
            return
        taken = self._taken()
        self._mark = taken + int(self._allowed * MARK)
        most, (soft, hard) = taken + self._allowed, self._usual
        if soft != self._resource.RLIM_INFINITY:
            most = min(most, soft)
        self._resource.setrlimit(self._resource.RLIMIT_AS, (most, hard))

    def lift(self) -> None:
        """Allow what the system allows."""
        if self._file >= 0:
            self._resource.setrlimit(self._resource.RLIMIT_AS, self._usual)

    @property
    def exceeded(self) -> str:
        return f"it needed more than the {self._allowed:,} bytes that a worker may take"

    def is_high(self) -> bool:
        """Whether so much has been taken, and not given back, that a fresh worker would be better."""
        return self._file >= 0 and self._taken() > self._mark

    def _taken(self) -> int:
        return int(os.pread(self._file, 64, 0).split()[0]) * self._resource.getpagesize()


def _named(reference: str) -> Any:
    module, _, path = reference.partition(":")
    found: Any = import_module(module)
    for step in path.split("."):
        found = getattr(found, step)
    return found


def _called(function: Any, args: Any, keywords: Any) -> Any:
    value = function(*args, **keywords)
    if not hasattr(value, "__await__"):
        return value
    import asyncio

    async def awaited() -> Any:
        return await value

    return asyncio.run(awaited())


def _sent_back(value: Any) -> bytes:
    try:
        return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - somebody else's __reduce__
        raise TypeError(
            f"it returned a {type(value).__name__} that cannot be sent back ({error}): "
            "return plain data"
        ) from None


def _told(error: BaseException, otherwise: str = "") -> bytes:
    """Message and trace of an error, or something else to say when it has no message."""
    try:
        from traceback import format_exception

        trace = redacted("".join(format_exception(type(error), error, _below(error.__traceback__))))
    except Exception:  # noqa: BLE001 - memory, recursion, or somebody else's __repr__
        trace = ""
    message = described(error)
    if otherwise and message.endswith(": "):
        message += otherwise
    return pickle.dumps((message, trace[-TRACE:]))


def _below(trace: TracebackType | None) -> TracebackType | None:
    """The part of a traceback that is not ours."""
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return trace


def _threads() -> int:
    threading = sys.modules.get("threading")
    return threading.active_count() if threading is not None else 1


def serve(pipe: socket.socket, settings: Settings) -> None:
    """Be a worker, and end the process when there is nothing left to do."""
    status = 0
    try:
        Worker(pipe, settings).serve()
    except OSError:
        status = 1  # the pool is gone
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError, AttributeError):  # closed, or never there
                stream.flush()
        os._exit(status)


def main() -> None:
    """A worker started by itself, where there is no template to fork it from."""
    fd, settings = Settings.given()
    from assay.isolation.template import prepare

    for _ in prepare(settings):
        pass  # whoever needs the module will say that it cannot be imported
    if sys.platform == "win32":
        serve(socket.fromshare(sys.stdin.buffer.read()), settings)
    serve(socket.socket(fileno=fd), settings)
