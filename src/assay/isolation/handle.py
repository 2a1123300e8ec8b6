"""Handle: the pool's end of one worker: its pipe, the task it has, and when to look at it again."""

import math
import pickle
import socket
import time
from collections.abc import Iterator
from typing import Any, Final

from assay.isolation import wire
from assay.isolation.clock import CEILING, ClockKind, waited
from assay.isolation.endings import never_loaded, out_of_time, out_of_wall_time
from assay.isolation.launch import Launcher
from assay.isolation.outcome import Outcome
from assay.isolation.task import Task
from assay.wording import described

SLACK: Final = 0.05
"""Seconds past its deadline that a worker is left alone, so that its own clock decides close cases."""
LOADING: Final = 60.0
"""Seconds that it may take to load a function, imports and all."""
CHUNK: Final = 1 << 18


class Handle:
    """One worker, as the pool sees it."""

    def __init__(
        self, number: int, launcher: Launcher, pipe: socket.socket, clock: ClockKind
    ) -> None:
        pipe.setblocking(False)
        self.number = number
        self.launcher = launcher
        self.pipe = pipe
        self.pid = 0
        """0 until the launcher tells."""
        self.is_there = False
        """Whether it has said hello."""
        self.task: Task | None = None
        self.tasks = 0
        """How many it has done."""
        self.look_at = math.inf
        """When to look whether its deadline has passed."""
        self.idle_since = 0.0
        self.undelivered = False
        """Whether it was gone before it could be given its task."""
        self._clock: ClockKind = clock
        self._known: set[int] = set()
        self._loading = False
        self._began = 0.0
        self._waited = 0.0
        """How long it had waited for a processor when its task began."""
        self._outgoing = memoryview(b"")
        self._inbox = wire.Inbox()

    def give(self, task: Task) -> bool:
        """Have it do a task; whether all of it could be sent at once."""
        work = task.work
        number = work.function.number
        self.task = task
        self._loading = number not in self._known
        call = wire.frame(wire.TASK, wire.CALL.pack(number, work.timeout), work.arguments)
        if self._loading:
            self._known.add(number)
            packed = wire.NUMBER.pack(number)
            call = wire.frame(wire.FUNCTION, packed, work.function.data) + call
        self._outgoing = memoryview(call)
        return self.send()

    def send(self) -> bool:
        """Send what is left to send; whether that was all of it. The clock starts then."""
        while self._outgoing:
            try:
                sent = self.pipe.send(self._outgoing, wire.QUIETLY)
            except BlockingIOError:
                return False
            except OSError:
                self.undelivered = True  # it is gone, as we shall hear soon
                return True
            self._outgoing = self._outgoing[sent:]
        self._start(self._waited)
        return True

    def receive(self) -> Iterator[tuple[bytes, bytes]]:
        """The messages that have come in; raises `EOFError` when it has hung up."""
        while True:
            try:
                data = self.pipe.recv(CHUNK)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                raise EOFError
            yield from self._inbox.add(data)

    def started(self, body: bytes) -> None:
        """The function is loaded; its work begins only now."""
        self._loading = False
        self._start(wire.SECONDS.unpack(body)[0])

    def done(self, kind: bytes, body: bytes) -> tuple[Task | None, Outcome, bool]:
        """What it says at the end of a task: which one, the outcome, and whether to replace it."""
        state = wire.Done(*wire.DONE.unpack_from(body))
        self._waited = state.waited
        self.look_at = math.inf
        task, self.task = self.task, None
        self.tasks += 1
        timeout = task.work.timeout if task is not None else math.inf
        if state.seconds > timeout:
            return task, out_of_time(timeout, state.seconds), state.spent
        return task, _outcome(kind, body[wire.DONE.size :], state.seconds), state.spent

    def over(self, now: float) -> Outcome | None:
        """An outcome when its time is up; else None, and a time to look again."""
        task = self.task
        if task is None:
            self.look_at = math.inf
            return None
        since, work = now - self._began, task.work
        worked = since - self._wait()
        limit = LOADING if self._loading else self._limit(work.timeout)
        hard = math.inf if self._loading or work.hard_timeout is None else work.hard_timeout
        left = min(limit - worked, hard - since)
        if left > 0:
            self.look_at = now + max(left, 0.001)
            return None
        if self._loading:
            return never_loaded(work.function.name, LOADING, worked)
        if hard <= since:
            return out_of_wall_time(hard, since, worked)
        return out_of_time(work.timeout, worked)

    def _start(self, waited_before: float) -> None:
        task = self.task
        if task is None:
            return
        self._waited = waited_before
        self._began = time.monotonic()
        limit = LOADING if self._loading else self._limit(task.work.timeout)
        if not self._loading and task.work.hard_timeout is not None:
            limit = min(limit, task.work.hard_timeout)
        self.look_at = self._began + limit

    def _limit(self, timeout: float) -> float:
        return (timeout * CEILING if self._clock == "processor" else timeout) + SLACK

    def _wait(self) -> float:
        """How long it has waited for a processor since its task began."""
        if self._clock != "schedule":
            return 0.0
        try:
            return waited(self.pid) - self._waited
        except (OSError, ValueError, IndexError):
            return 0.0  # it is gone, as we shall hear soon


def _outcome(kind: bytes, said: bytes, seconds: float) -> Outcome:
    try:
        content: Any = pickle.loads(said)
    except Exception as error:  # noqa: BLE001 - somebody else's __setstate__
        message = f"TypeError: what it returned cannot be read here ({described(error)})"
        return Outcome(kind="raised", message=message, seconds=seconds)
    if kind == wire.VALUE:
        return Outcome(content, seconds=seconds)
    message, trace = content
    failure = "memory" if kind == wire.MEMORY else "raised"
    return Outcome(kind=failure, message=message, seconds=seconds, trace=trace)
