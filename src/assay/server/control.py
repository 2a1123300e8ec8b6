"""Control: what the supervisor and a worker tell each other, over a pair of sockets."""

import asyncio
import socket
from typing import Any, Final, TypeAlias

import msgspec

from assay.server.settings import Judge, Settings
from assay.server.sources import Source

LONGEST: Final = 64 << 20
"""Bytes of a message; a rubric file goes through whole."""


class Begin(msgspec.Struct, tag=True):
    """To a new worker: all it needs to know."""

    settings: Settings
    judge: Judge
    source: Source
    place: int
    rows: int


class Load(msgspec.Struct, tag=True):
    """Make a rubric of this source ready."""

    number: int
    source: Source


class Swap(msgspec.Struct, tag=True):
    """Serve the rubric that was made ready under this number."""

    number: int


class Note(msgspec.Struct, tag=True):
    """What is wrong with the rubric file; empty when nothing is."""

    reload_error: str


class Ready(msgspec.Struct, tag=True):
    """From a worker: it takes requests."""


class Failed(msgspec.Struct, tag=True):
    """It cannot start."""

    error: str


class Loaded(msgspec.Struct, tag=True):
    """A rubric is ready, or why not."""

    number: int
    error: str


class Alive(msgspec.Struct, tag=True):
    """Its event loop turns."""


Message: TypeAlias = Begin | Load | Swap | Note | Ready | Failed | Loaded | Alive


class Channel:
    """One end of the pair. Messages end when the other end is gone."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Message)

    @classmethod
    async def over(cls, end: socket.socket) -> "Channel":
        """A channel over one end of a pair."""
        return cls(*await asyncio.open_connection(sock=end, limit=LONGEST))

    def send(self, message: Message) -> None:
        """Send a message; to one who has gone, it is lost."""
        if not self._writer.is_closing():
            self._writer.write(msgspec.json.encode(message) + b"\n")

    async def next(self) -> Message | None:
        """The next message; None when there will be none."""
        try:
            line = await self._reader.readline()
        except OSError:
            return None
        return self._decoder.decode(line) if line.endswith(b"\n") else None

    def close(self) -> None:
        self._writer.close()
