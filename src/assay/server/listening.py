"""Listening: uvicorn on a socket that is ours, with a clean end."""

import asyncio
import logging
import socket
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, cast

import uvicorn

from assay.server.accepting import AHEAD, Accepting
from assay.server.settings import Settings, SettingsError

if TYPE_CHECKING:
    from assay.server.app import RewardApp

BACKLOG: Final = 2048
"""Connections that wait to be accepted."""
KEEP_ALIVE: Final = 120
"""Seconds that an idle connection is kept: longer than clients keep theirs, so that they hang up first."""
LINGER: Final = 0.3
"""Seconds without a request, after the last was answered, before connections are closed at the end."""
LONGEST_HEAD: Final = 64 << 10
"""Bytes of the line and headers of a request."""


def bound(settings: Settings) -> socket.socket:
    """A socket that listens where the settings say."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
    except OSError as error:
        listening.close()
        raise SettingsError(
            f"nobody can listen on {settings.host}, port {settings.port} ({error.strerror}): "
            "is another server there? Give another --port, or 0 for any"
        ) from None
    listening.listen(BACKLOG)
    return listening


class Listening(uvicorn.Server):
    """Serves an app until it is told to stop, and then ends without dropping what is under way."""

    def __init__(self, app: "RewardApp") -> None:
        self._app = app
        self._idle: dict[Any, int] = {}
        self.up = asyncio.Event()
        """Set once it takes connections."""
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
        super().__init__(
            uvicorn.Config(
                app,
                http=_protocol(),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=KEEP_ALIVE,
                timeout_graceful_shutdown=5,
                h11_max_incomplete_event_size=LONGEST_HEAD,
            )
        )

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Signals are for the process to handle."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept from the one socket."""
        [listening] = sockets or []
        await self.lifespan.startup()
        self.servers = []
        self._accepting = Accepting(listening, self._made, self._share)
        self.started = True
        self.up.set()

    def _made(self) -> asyncio.Protocol:
        """What speaks HTTP over one connection."""
        make: Any = self.config.http_protocol_class
        return make(
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
            _loop=asyncio.get_running_loop(),
        )

    def _share(self) -> float:
        """How many more connections there may be here before others should have some."""
        here = self._note_connections()
        fewest = self._app.counts.fewest_elsewhere("assay_connections")
        return max(0, fewest + AHEAD - here)

    def _note_connections(self) -> int:
        here = len(self.server_state.connections)
        self._app.counts.row.set("assay_connections", here)
        return here

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more, and close what is idle; what is under way has been finished or refused."""
        self._accepting.stop()
        await super().shutdown(sockets)

    async def stop(self, linger: float = LINGER) -> None:
        """Finish what is under way or refuse it, refuse what still comes, and then end."""
        app, loop = self._app, asyncio.get_running_loop()
        app.drain()
        now = busy = loop.time()
        ends = now + app.settings.bounds.drain_seconds
        while now < ends and (app.gate.requests or now < busy + linger):
            busy = now if app.gate.requests else busy
            await asyncio.sleep(0.02)
            now = loop.time()
        if app.gate.requests:
            app.cut_off()
        self.should_exit = True

    async def on_tick(self, counter: int) -> bool:
        """Every tenth of a second; once a second, connections that say nothing are closed."""
        self._note_connections()
        if counter % 10 == 0:
            self._close_silent()
        return await super().on_tick(counter)

    def _close_silent(self) -> None:
        """Close connections that have not sent a whole head for as long as a body may take."""
        patience = self._app.settings.bounds.body_seconds
        waiting = {c: self._idle.get(c, 0) + 1 for c in _headless(self.server_state.connections)}
        for connection, seconds in waiting.items():
            if seconds > patience:
                connection.transport.close()
        self._idle = waiting


def _headless(connections: Any) -> list[Any]:
    """Connections that are neither serving a request nor idle between two."""
    return [
        c
        for c in connections
        if (c.cycle is None or c.cycle.response_complete) and c.timeout_keep_alive_task is None
    ]


class InOnePiece:
    """A transport that writes once a turn of the loop: the head of an answer goes with its body."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._soon = loop.call_soon
        self._held: list[bytes] = []
        self.is_closing = transport.is_closing

    def write(self, data: bytes) -> None:
        if not self._held:
            self._soon(self._send)
        self._held.append(data)

    def _send(self) -> None:
        if self._held:
            held, self._held = self._held, []
            self._transport.write(b"".join(held))

    def close(self) -> None:
        self._send()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def _protocol() -> Any:
    """The faster reader of HTTP where it is installed, with two things that it lacks."""
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
    except ImportError:
        return "h11"

    class Bounded(HttpToolsProtocol):
        """Refuses a head that does not end, and sends an answer in one piece."""

        _head: int | None = None
        """Bytes of the head so far; None between two."""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(cast("asyncio.Transport", InOnePiece(transport, self.loop)))

        def data_received(self, data: bytes) -> None:
            if self._head is not None:
                self._head += len(data)
                if self._head > LONGEST_HEAD:
                    self.send_400_response("The head of the request is too long.")
                    return
            super().data_received(data)

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._head = 0

        def on_headers_complete(self) -> None:
            self._head = None
            super().on_headers_complete()

    return Bounded
