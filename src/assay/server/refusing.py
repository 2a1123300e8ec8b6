"""Refusing: those who connected, and whom nobody will serve any more, are told so."""

import socket
from typing import Final

from assay.server.refusals import error_body

PATIENCE: Final = 0.2
"""Seconds to wait for what one of them wants to say."""


def refuse_waiting(listening: socket.socket) -> None:
    """Answer every connection that waits to be accepted with 503."""
    listening.setblocking(False)
    body = error_body("the server is stopping: ask again, perhaps another one")
    head = (
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\nretry-after: 1\r\nconnection: close\r\n\r\n"
    )
    while True:
        try:
            connection, _ = listening.accept()
        except OSError:
            return
        with connection:
            _tell(connection, head.encode() + body)


def _tell(connection: socket.socket, said: bytes) -> None:
    connection.settimeout(PATIENCE)
    try:
        connection.sendall(said)
        connection.shutdown(socket.SHUT_WR)
        # Closed with something unread, a connection loses what was written to it.
        while connection.recv(65536):
            pass
    except OSError:
        pass
