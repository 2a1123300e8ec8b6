"""Wire: messages between the pool and its workers, as frames on a stream socket.

A frame is one letter, the length of its body, and the body.
"""

import socket
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

FUNCTION: Final = b"f"
"""To a worker: a function under a number. The body is `NUMBER`, then the function."""
TASK: Final = b"t"
"""To a worker: a call. The body is `CALL`, then the arguments."""
HELLO: Final = b"h"
"""From a worker: it is there. No body."""
STARTED: Final = b"s"
"""From a worker: the function was new and is loaded now; work begins. The body is `SECONDS`."""
VALUE: Final = b"v"
"""From a worker: what was returned. The body is `DONE`, then the value."""
RAISED: Final = b"r"
"""From a worker: what was raised. The body is `DONE`, then message and trace."""
MEMORY: Final = b"m"
"""From a worker: as `RAISED`, for want of memory."""

QUIETLY: Final[int] = getattr(socket, "MSG_NOSIGNAL", 0)
"""A flag for sending: if the other end is gone, that is an error here and no SIGPIPE."""

HEAD: Final = struct.Struct(">cQ")
NUMBER: Final = struct.Struct(">Q")
SECONDS: Final = struct.Struct(">d")
CALL: Final = struct.Struct(">Qd")
"""The number of the function, and the seconds it may work."""


class Done(NamedTuple):
    """How a worker is after a task."""

    seconds: float
    """How long the task worked."""
    waited: float
    """How long the worker has waited for a processor, all its life."""
    spent: bool
    """Whether the worker should be replaced."""


DONE: Final = struct.Struct(">dd?")


def frame(kind: bytes, *parts: bytes) -> bytes:
    """A message, ready to be sent."""
    return b"".join((HEAD.pack(kind, sum(map(len, parts))), *parts))


class Inbox:
    """Bytes as they come in, and the whole messages among them."""

    __slots__ = ("_bytes",)

    def __init__(self) -> None:
        self._bytes = bytearray()

    def add(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The messages that are complete with these bytes, as kind and body."""
        self._bytes += data
        while len(self._bytes) >= HEAD.size:
            kind, length = HEAD.unpack_from(self._bytes)
            end = HEAD.size + length
            if len(self._bytes) < end:
                return
            body = bytes(self._bytes[HEAD.size : end])
            del self._bytes[:end]
            yield kind, body
