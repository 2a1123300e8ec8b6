"""Handle: one worker process, seen from the supervisor."""

import asyncio
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Final

from assay.server.control import Channel, Failed, Load, Loaded, Message, Ready
from assay.server.sources import Source

LOADING_SECONDS: Final = 120.0
"""How long a worker may take to make a rubric ready."""


class Handle:
    """A worker process, and what is known of it."""

    def __init__(self, process: asyncio.subprocess.Process, channel: Channel) -> None:
        self.process = process
        self.is_ready = False
        self.error = ""
        """Why it could not start."""
        self.number = 0
        """The number of the rubric that it serves."""
        self._channel = channel
        self._born = self._seen = time.monotonic()
        self._loads: dict[int, asyncio.Future[str]] = {}

    @classmethod
    async def start(cls, listening: socket.socket, board: int) -> "Handle":
        """A new process, with the listening socket and the board."""
        ours, theirs = socket.socketpair()
        with theirs:
            files = (theirs.fileno(), listening.fileno(), board)
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "assay.server.worker", *map(str, files),
                pass_fds=files, stdin=asyncio.subprocess.DEVNULL,
            )  # fmt: skip
        return cls(process, await Channel.over(ours))

    def send(self, message: Message) -> None:
        self._channel.send(message)

    async def until_it_ends(self, welcome: Callable[["Handle"], None]) -> float:
        """Hear what it says until it is gone, and give the seconds that it lived.

        `welcome` is called when it is ready.
        """
        while (message := await self._channel.next()) is not None:
            self._seen = time.monotonic()
            if isinstance(message, Loaded):
                _tell(self._loads.get(message.number), message.error)
            elif isinstance(message, Ready):
                self.is_ready = True
                welcome(self)
            elif isinstance(message, Failed):
                self.error = message.error
        await self.process.wait()
        self.is_ready = False
        for waiting in self._loads.values():
            _tell(waiting, "")  # the worker that takes its place gets what is served then
        self._channel.close()
        return time.monotonic() - self._born

    async def load(self, number: int, source: Source) -> str:
        """Have it make a rubric ready; what is wrong with it, or nothing."""
        self._loads[number] = waiting = asyncio.get_running_loop().create_future()
        self.send(Load(number, source))
        try:
            return await asyncio.wait_for(waiting, LOADING_SECONDS)
        except TimeoutError:
            return f"it was not ready after {LOADING_SECONDS:g} s"
        finally:
            self._loads.pop(number, None)

    def silence(self) -> float:
        """Seconds since it last said anything."""
        return time.monotonic() - self._seen

    @property
    def ending(self) -> str:
        """How it ended, for the log."""
        code = self.process.returncode
        if code is not None and code < 0:
            return f"(process {self.process.pid}) was ended by {signal.Signals(-code).name}"
        return f"(process {self.process.pid}) ended with {code}. {self.error}".rstrip()

    def terminate(self) -> None:
        """Have it finish."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it now."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        if self.process.returncode is None:
            self.process.send_signal(number)


def _tell(waiting: "asyncio.Future[str] | None", error: str) -> None:
    """Give the outcome of a load to the caller, unless it has given up waiting."""
    if waiting is not None and not waiting.done():
        waiting.set_result(error)
