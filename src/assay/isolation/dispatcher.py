"""Dispatcher: the one thread of a pool. It owns the queue and the workers, and answers every task."""

import os
import selectors
import socket
import threading
import time
from collections import OrderedDict, deque
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from assay.isolation.crew import Crew
from assay.isolation.endings import died_of, lost_twice
from assay.isolation.handle import Handle
from assay.isolation.outcome import Outcome
from assay.isolation.room import Room
from assay.isolation.settings import Settings
from assay.isolation.task import Task
from assay.redaction import logger_of

logger = logger_of("assay")

LONGEST: Final = 3600.0
"""Seconds between two looks at the clock, at most."""
CLOSED: Final = "the pool is closed: make a new one"


@dataclass(frozen=True, slots=True)
class Limits:
    """How many, and for how long."""

    max_workers: int
    queue_size: int
    recycle_after: int
    """Tasks after which a worker is replaced."""
    idle_seconds: float
    """How long a worker may have nothing to do before it is let go."""


class Dispatcher:
    """Gives tasks to workers. What has no underscore may be called by any thread."""

    def __init__(self, settings: Settings, limits: Limits) -> None:
        self.settings = settings
        """What the next launcher is started with; may be set by any thread."""
        self.limits = limits
        self.room = Room(limits.queue_size)
        self.owner = os.getpid()
        self._lock = threading.Lock()
        self._queue: OrderedDict[Task, None] = OrderedDict()
        self._abandoned: deque[Task] = deque()
        self._unsettled: set[Task] = set()
        self._closing = self._rung = self._start_wanted = False
        self._bell, self._ring = socket.socketpair()
        self._bell.setblocking(False)
        self._ring.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._bell, selectors.EVENT_READ, self._answer_bell)
        self.crew = Crew(self._selector, recycle_after=limits.recycle_after, died=self._died)
        self._thread = threading.Thread(target=self._run, name="assay-isolation", daemon=True)
        self._thread.start()

    def put(self, task: Task) -> None:
        """Queue a task, for which there must be room."""
        with self._lock:
            if self._closing:
                raise RuntimeError(CLOSED)
            self._queue[task] = None
            self._unsettled.add(task)
        task.add_done_callback(self._settled)
        self.ring()

    def withdraw(self, task: Task) -> None:
        """Take a task out of the queue, and its place with it."""
        with self._lock:
            self._queue.pop(task, None)
        self.room.leave(task)

    def abandon(self, task: Task) -> None:
        """Give up a task; if it is being worked on, that ends now."""
        if not task.cancel():
            self._abandoned.append(task)
            self.ring()

    def start(self) -> None:
        """Get ready before there is a task."""
        self._start_wanted = True
        self.ring()

    def close(self, *, wait: bool = True) -> None:
        """End all workers and the thread; what is not done is lost. Takes no lock."""
        self._closing = True
        self.ring()
        if wait and not self.is_own_thread():
            self._thread.join()

    @property
    def closed(self) -> bool:
        return self._closing

    def is_own_thread(self) -> bool:
        return threading.current_thread() is self._thread

    def unfinished(self) -> list[Task]:
        """Every task that has no outcome yet."""
        with self._lock:
            return [*self._unsettled]

    def queued(self) -> int:
        return len(self._queue)

    def ring(self) -> None:
        """Have the thread look what is new."""
        if self._rung:
            return
        self._rung = True
        with suppress(OSError):  # closed, or rung often enough
            self._ring.send(b"!")

    def disown(self) -> None:
        """Let go of everything without touching it, in a forked child: it is the parent's."""
        self._closing = True
        self._selector.close()
        self._bell.close()
        self._ring.close()
        self.crew.disown()

    def _settled(self, task: Any) -> None:
        with self._lock:
            self._unsettled.discard(task)

    def _run(self) -> None:
        try:
            while not self._closing:
                self._assign()
                for key, _ in self._selector.select(self._patience()):
                    key.data()
                self.crew.look(time.monotonic(), self.limits.idle_seconds)
        except Exception:
            logger.exception("the pool of workers broke down; its tasks are lost")
        finally:
            self._end()

    def _patience(self) -> float | None:
        """Seconds until something is due; None when nothing is."""
        due = self.crew.due(self.limits.idle_seconds)
        return None if due == float("inf") else min(max(due - time.monotonic(), 0), LONGEST)

    def _answer_bell(self) -> None:
        with suppress(BlockingIOError):
            self._bell.recv(4096)
        # Only now: a ring that comes before this line is heard, as we have yet to look.
        self._rung = False
        while self._abandoned:
            task = self._abandoned.popleft()
            outcome = Outcome(kind="lost", message="CancelledError: it was given up")
            handle = self.crew.busy_with(task)
            if handle is not None:
                self.crew.kill(handle, outcome)
            else:
                with self._lock:
                    self._queue.pop(task, None)
                task.settle(outcome)

    def _assign(self) -> None:
        """Give queued tasks to idle workers, and start as many more as there is work for."""
        if self._queue or self._start_wanted:
            self._start_wanted = False
            self.crew.launchers.ensure(self.settings)
        while self.crew.has_idle and (task := self._next_task()) is not None:
            self.crew.give(task)
        room = self.limits.max_workers - len(self.crew.handles)
        for _ in range(min(len(self._queue) - self.crew.unborn, room)):
            if not self.crew.add(self.settings):
                break
        trouble = self.crew.trouble or self.crew.launchers.trouble
        if trouble:
            self.crew.trouble = self.crew.launchers.trouble = ""
            self._lose_all(f"RuntimeError: no worker could be started ({trouble})")

    def _next_task(self) -> Task | None:
        while True:
            with self._lock:
                if not self._queue:
                    return None
                task, _ = self._queue.popitem(last=False)
            self.room.leave(task)
            if task.begins():
                return task

    def _died(self, task: Task, handle: Handle, status: int | None) -> None:
        """A worker died over a task. When that was not the task's fault, it is tried once more."""
        outcome = died_of(status, task.work.timeout)
        if handle.undelivered:
            task.attempts -= 1
        elif outcome is not None:
            task.settle(outcome)
            return
        elif task.attempts >= 2:
            task.settle(lost_twice(status))
            return
        with self._lock:
            self._queue[task] = None
            self._queue.move_to_end(task, last=False)

    def _lose_all(self, message: str) -> None:
        with self._lock:
            tasks = [*self._queue]
            self._queue.clear()
        for task in tasks:
            self.room.leave(task)
            if task.begins():
                task.settle(Outcome(kind="lost", message=message))

    def _end(self) -> None:
        with self._lock:
            self._closing = True
        self.crew.close()
        self._selector.close()
        self._bell.close()
        self._ring.close()
        self.room.close(RuntimeError(CLOSED))
        closed = "RuntimeError: the pool was closed before this was done"
        self._lose_all(closed)
        for task in self.unfinished():
            task.settle(Outcome(kind="lost", message=closed))
