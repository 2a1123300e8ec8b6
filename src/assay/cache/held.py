"""Held: a connection for one user at a time, which no fork carries into another process."""

import os
import threading
import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

Connection = TypeVar("Connection")


class Held(Generic[Connection]):
    """A connection that threads take in turn. It is closed before a fork and opened when next used.

    SQLite keeps what it has locked in the memory of the process. A child that inherits an open file
    believes in locks it does not have, also on a connection of its own, and loses what it writes.
    """

    def __init__(
        self, connect: Callable[[], Connection], close: Callable[[Connection], None]
    ) -> None:
        self._connect = connect
        self._close = close
        self._lock = threading.RLock()
        self._connection: Connection | None = None
        _ALL.add(self)

    @contextmanager
    def use(self) -> Generator[Connection]:
        """The connection, for this thread alone while in the block."""
        with self._lock:
            if self._connection is None:
                self._connection = self._connect()
            yield self._connection

    def drop(self) -> None:
        """Close the connection; the next use makes another."""
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                self._close(connection)

    def before_fork(self) -> None:
        """Wait for whoever uses the connection, and close it. Nobody gets it until after the fork."""
        self._lock.acquire()
        self.drop()

    def after_fork(self) -> None:
        self._lock.release()


_ALL: weakref.WeakSet[Held[Any]] = weakref.WeakSet()
_forking = threading.RLock()
_stopped: list[Held[Any]] = []


def _before_fork() -> None:
    _forking.acquire()
    _stopped.extend(_ALL)
    for held in _stopped:
        held.before_fork()


def _after_fork() -> None:
    for held in _stopped:
        held.after_fork()
    _stopped.clear()
    _forking.release()


if hasattr(os, "register_at_fork"):
    # The child may release what the parent took: it is the copy of the thread that took it.
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork
    )
