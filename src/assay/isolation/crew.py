"""Crew: the workers of a pool, from birth to end. For the pool's thread alone."""

import os
import selectors
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Final

from assay.isolation import template, wire
from assay.isolation.handle import Handle
from assay.isolation.launch import Launcher, News
from assay.isolation.launchers import Launchers
from assay.isolation.outcome import Outcome
from assay.isolation.settings import Settings
from assay.isolation.task import Task
from assay.wording import described

STILLBORN: Final = 3
"""How many workers in a row may end before their first task until it is no accident."""


class Crew:
    """Workers, and what they are doing."""

    def __init__(
        self,
        selector: selectors.BaseSelector,
        *,
        recycle_after: int,
        died: Callable[[Task, Handle, int | None], None],
    ) -> None:
        self.handles: dict[int, Handle] = {}
        self.started = self.killed = self.recycled = 0
        self.trouble = ""
        """Why there can be no workers, when that is so."""
        self.launchers = Launchers(
            selector, tell=self._take_news, took_over=self._move_on, died=self._all_died
        )
        self._idle: list[Handle] = []
        self._selector = selector
        self._recycle_after = recycle_after
        self._died = died
        self._numbers = count(1)
        self._stillborn = 0

    @property
    def has_idle(self) -> bool:
        return bool(self._idle)

    @property
    def unborn(self) -> int:
        """How many have been asked for and are not there yet."""
        return sum(not (h.pid and h.is_there) for h in self.handles.values())

    def busy_with(self, task: Task) -> Handle | None:
        return next((h for h in self.handles.values() if h.task is task), None)

    def give(self, task: Task) -> None:
        """Have a worker that is idle do a task: the latest to be so, so that others can go."""
        handle = self._idle.pop()
        if not handle.give(task):
            both = selectors.EVENT_READ | selectors.EVENT_WRITE
            self._selector.modify(handle.pipe, both, partial(self._send_on, handle))

    def add(self, settings: Settings) -> bool:
        """Ask for one more worker; whether that could be done."""
        launcher = self.launchers.current
        if launcher is None:
            return False
        number = next(self._numbers)
        try:
            ours = _started(launcher, number)
        except OSError as error:
            if not self.handles:
                self.trouble = described(error)
            return False
        self.handles[number] = handle = Handle(number, launcher, ours, settings.clock)
        self.started += 1
        self._selector.register(ours, selectors.EVENT_READ, partial(self.hear, handle))
        return True

    def hear(self, handle: Handle) -> None:
        """Take what a worker says."""
        try:
            for kind, body in handle.receive():
                if kind == wire.HELLO:
                    handle.is_there = True
                    self._is_born(handle)
                elif kind == wire.STARTED:
                    handle.started(body)
                else:
                    self._finished(handle, kind, body)
        except EOFError:
            self._hung_up(handle)

    def look(self, now: float, idle_seconds: float) -> None:
        """See to what is due: deadlines, and workers that had nothing to do for long."""
        for handle in [h for h in self.handles.values() if h.look_at <= now]:
            self.hear(handle)  # it may have finished while nobody listened
            outcome = handle.over(now) if handle.look_at <= now else None
            if outcome is not None:
                self.kill(handle, outcome)
        while self._idle and now - self._idle[0].idle_since >= idle_seconds:
            self._dismiss(self._idle[0])

    def due(self, idle_seconds: float) -> float:
        """When to look again."""
        due = min((handle.look_at for handle in self.handles.values()), default=float("inf"))
        return min(due, self._idle[0].idle_since + idle_seconds) if self._idle else due

    def kill(self, handle: Handle, outcome: Outcome) -> None:
        """End a worker, with this outcome for its task."""
        task, handle.task = handle.task, None
        self.killed += 1
        with suppress(OSError):  # the launcher is gone, and its workers with it
            handle.launcher.kill(handle.number)
        self._dismiss(handle)
        if task is not None:
            task.settle(outcome)

    def close(self) -> list[Task]:
        """End everything; gives the tasks that were being done."""
        self.launchers.close()
        for handle in self.handles.values():
            handle.pipe.close()
        running = [handle.task for handle in self.handles.values() if handle.task is not None]
        self.handles.clear()
        self._idle.clear()
        return running

    def disown(self) -> None:
        """Let go of everything without touching it: it is another process's."""
        for handle in self.handles.values():
            handle.pipe.close()
        self.launchers.disown()

    def _send_on(self, handle: Handle) -> None:
        if handle.send():
            self._selector.modify(handle.pipe, selectors.EVENT_READ, partial(self.hear, handle))
        self.hear(handle)

    def _finished(self, handle: Handle, kind: bytes, body: bytes) -> None:
        task, outcome, spent = handle.done(kind, body)
        self._stillborn = 0
        stays = handle.tasks < self._recycle_after and handle.launcher is self.launchers.current
        if stays and not spent:
            self._rest(handle)
        else:
            self.recycled += 1
            self._dismiss(handle)
        if task is not None:
            task.settle(outcome)

    def _is_born(self, handle: Handle) -> None:
        """The launcher tells who it is, and it says itself that it is there, in any order."""
        if handle.pid and handle.is_there and handle.pipe.fileno() >= 0:
            self._rest(handle)

    def _rest(self, handle: Handle) -> None:
        handle.idle_since = time.monotonic()
        self._idle.append(handle)

    def _hung_up(self, handle: Handle) -> None:
        """Its end of the pipe is closed. How it ended the launcher will tell."""
        self._unplug(handle)
        handle.launcher.lost(handle.number)

    def _dismiss(self, handle: Handle) -> None:
        """Let a worker go: it ends when its pipe does."""
        self.handles.pop(handle.number, None)
        self._unplug(handle)

    def _unplug(self, handle: Handle) -> None:
        if handle in self._idle:
            self._idle.remove(handle)
        if handle.pipe.fileno() >= 0:
            self._selector.unregister(handle.pipe)
            handle.pipe.close()

    def _take_news(self, news: News) -> None:
        handle = self.handles.get(news.number)
        if handle is None:
            return
        if news.kind == template.BORN:
            handle.pid = news.value
            self._is_born(handle)
        elif news.kind == template.ENDED:
            self._ended(handle, news.value)

    def _move_on(self, launcher: Launcher) -> None:
        """Let those go that were made by another launcher and have nothing to do."""
        for handle in [each for each in self._idle if each.launcher is not launcher]:
            self._dismiss(handle)

    def _all_died(self, launcher: Launcher) -> None:
        for handle in [h for h in self.handles.values() if h.launcher is launcher]:
            _kill_group(handle.pid)
            self._ended(handle, None)

    def _ended(self, handle: Handle, status: int | None) -> None:
        """A worker ended that nobody had told to."""
        if handle.pipe.fileno() >= 0:
            self.hear(handle)  # its last words
        task, handle.task = handle.task, None
        self._dismiss(handle)
        if task is not None:
            self._died(task, handle, status)
        elif handle.tasks == 0 and status is not None:
            self._stillborn += 1
            if self._stillborn >= STILLBORN:
                self._stillborn = 0
                self.trouble = f"RuntimeError: workers end as they start, with status {status}"


def _started(launcher: Launcher, number: int) -> socket.socket:
    """Our end of the pipe of a new worker."""
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            launcher.start(number, theirs)
        except OSError:
            ours.close()
            raise
    return ours


def _kill_group(pid: int) -> None:
    if pid and hasattr(os, "killpg"):
        with suppress(OSError):  # gone already
            os.killpg(pid, signal.SIGKILL)
