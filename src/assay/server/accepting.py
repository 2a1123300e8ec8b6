"""Accepting: connections off a socket that several processes share, so that each gets its part.

Whoever wakes first could take all that wait, and then has them for as long as their clients keep them open. So
a process that has more than the others takes a few at a time, with a moment between. One that is late
itself takes all, so that whoever cannot be served is told so.
"""

import asyncio
import errno
import math
import socket
from collections.abc import Callable
from typing import Final

AHEAD: Final = 4
"""Connections that a process may have more than another before it lets that one go first."""
MOMENT: Final = 0.002
"""Seconds for which it does."""
LATE: Final = 5 * MOMENT
"""Seconds after which its own loop is so busy that there is no time for manners."""
OUT_OF_FILES: Final = 0.5
"""Seconds to wait when there is no room for another connection."""

Made = Callable[[], asyncio.BaseProtocol]


class Accepting:
    """Accepts connections and hands each to a protocol of its own."""

    def __init__(self, listening: socket.socket, made: Made, share: Callable[[], float]) -> None:
        """`share` is how many more there may be here before others should have some; it may be infinite."""
        listening.setblocking(False)
        self._listening = listening
        self._made = made
        self._share = share
        self._loop = asyncio.get_running_loop()
        self._begun: set[asyncio.Task[None]] = set()
        self._later: asyncio.TimerHandle | None = None
        self._resume()

    def stop(self) -> None:
        """Accept no more."""
        self._loop.remove_reader(self._listening)
        if self._later is not None:
            self._later.cancel()

    def _accept(self) -> None:
        """Take what is due, and a few of the rest in a moment."""
        if self._take(self._share()):
            due = self._loop.time() + MOMENT
            self._pause(MOMENT, lambda: self._accept_more(due))

    def _accept_more(self, due: float) -> None:
        self._resume()
        if self._take(math.inf if self._loop.time() > due + LATE else AHEAD):
            self._accept()

    def _take(self, most: float) -> bool:
        """Take so many connections at most; whether more may wait."""
        taken = 0
        while taken < most:
            if not self._take_one():
                return False
            taken += 1
        return True

    def _take_one(self) -> bool:
        """Take a connection; False when none waits, or none can be taken."""
        try:
            connection, _ = self._listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return False
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                raise
            self._pause(OUT_OF_FILES, self._resume)
            return False
        connection.setblocking(False)
        task = self._loop.create_task(self._begin(connection))
        self._begun.add(task)
        task.add_done_callback(self._begun.discard)
        return True

    async def _begin(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._made, connection)
        except OSError:
            connection.close()  # it has gone already

    def _pause(self, seconds: float, then: Callable[[], None]) -> None:
        self._loop.remove_reader(self._listening)
        self._later = self._loop.call_later(seconds, self._after, then)

    def _after(self, then: Callable[[], None]) -> None:
        self._later = None
        then()

    def _resume(self) -> None:
        self._loop.add_reader(self._listening, self._accept)
