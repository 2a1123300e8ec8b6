"""HttpServer runs a RewardApp on uvicorn, and stops it when the requests in progress are answered."""

import asyncio
import errno
import logging
import math
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import uvicorn

from assay.server.app import QUIET_SECONDS, RewardApp
from assay.server.settings import Settings, SettingsError

# How often connections are counted and checked, in seconds.
CHECK_SECONDS: Final = 0.5
# How long a server that stops waits for the first request on a connection that it has accepted.
FIRST_REQUEST_SECONDS: Final = 1.0
# How long uvicorn waits for replies that are being sent when it stops, in seconds.
SHUTDOWN_SECONDS: Final = 5


class HttpServer:
    """Runs a RewardApp on uvicorn."""

    def __init__(self, app: RewardApp, listening: socket.socket) -> None:
        """`listening` is the socket on which connections are accepted, as returned by `listen`."""
        # Silence uvicorn, which logs every connection that ends early, and its own start and end.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        self._app = app
        self._listening = listening
        # How long a client may take to send a request.
        self._body_seconds = app.settings.bounds.body_seconds
        self._config = uvicorn.Config(
            app,
            http="auto",  # httptools, if it is installed
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=math.ceil(self._body_seconds),
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        )
        self._server = uvicorn.Server(self._config)

    @property
    def is_started(self) -> bool:
        """Whether it accepts connections."""
        return self._server.started

    @property
    def loop_factory(self) -> Callable[[], asyncio.AbstractEventLoop] | None:
        """A function that makes an event loop: uvloop's if that is installed; None for the default."""
        return self._config.get_loop_factory()

    async def serve(self) -> None:
        """Answer requests until `stop` is called."""
        connection_checks = asyncio.create_task(self._check_connections())
        try:
            await self._server.serve(sockets=[self._listening])
        finally:
            connection_checks.cancel()

    async def stop(self, quiet_seconds: float = QUIET_SECONDS) -> None:
        """Refuse new requests, wait until those in progress are answered, and end `serve`.

        It waits until no request has come for `quiet_seconds`: clients that keep a connection open
        get a refusal that they understand, and not a connection that is closed.
        """
        await self._app.drain(quiet_seconds)
        for listener in self._server.servers:  # accepts no further connections
            listener.close()
        # A client that has just connected may be about to send its request. It gets a refusal, which
        # is better than a connection that is closed without a reply.
        deadline = time.monotonic() + FIRST_REQUEST_SECONDS
        while self._has_new_connection() and time.monotonic() < deadline:  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.02)
        self._server.should_exit = True

    def _has_new_connection(self) -> bool:
        """Return True if there is a connection on which no request has come yet."""
        return any(
            _get_last_request(connection) is None
            for connection in self._server.server_state.connections
        )

    async def _check_connections(self) -> None:
        """Close connections whose client takes too long to send a request, and update metrics.

        This runs until it is cancelled. uvicorn itself limits how long a connection may be idle after
        a reply, but not how long a client may take to send its first request, or the rest of one.
        """
        waits: dict[Any, _Wait] = {}  # by connection
        while True:
            waits = self._find_waits(waits)
            for connection, wait in waits.items():
                if time.monotonic() - wait.start > self._body_seconds:
                    connection.transport.close()
            self._app.metrics.connections.set(len(self._server.server_state.connections))
            self._app.update_metrics()
            await asyncio.sleep(min(CHECK_SECONDS, self._body_seconds))

    def _find_waits(self, earlier_waits: Mapping[Any, "_Wait"]) -> "dict[Any, _Wait]":
        """Return the connections on which the server waits for a request, each with its wait.

        `earlier_waits` is what the last call returned. A wait that goes on is kept from there, since
        it has the time when it began.
        """
        waits: dict[Any, _Wait] = {}
        for connection in self._server.server_state.connections:
            request = _get_last_request(connection)
            if request is not None and not request.response_complete:
                continue  # it is being answered
            wait = earlier_waits.get(connection)
            if wait is None or wait.last_request is not request:  # a new wait
                wait = _Wait(last_request=request)
            waits[connection] = wait
        return waits


@dataclass(frozen=True)
class _Wait:
    """A time in which the server waits for the next request on a connection."""

    last_request: Any  # the one before it; None if it waits for the first
    start: float = field(default_factory=time.monotonic)


def _get_last_request(connection: Any) -> Any:
    """Return uvicorn's object for the last request on a connection; None before the first."""
    return connection.cycle


def listen(settings: Settings) -> socket.socket:
    """Return a socket that listens at the host and port of the settings.

    Raise `SettingsError` if that is not possible.
    """
    is_ipv6 = ":" in settings.host
    try:
        return socket.create_server(
            (settings.host, settings.port),
            family=socket.AF_INET6 if is_ipv6 else socket.AF_INET,
            backlog=2048,
            dualstack_ipv6=is_ipv6 and socket.has_dualstack_ipv6(),  # `::` accepts IPv4 too
        )
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise SettingsError(
                f"port {settings.port} is in use: name another with --port, or 0 for any"
            ) from None
        # Python appends the address in parentheses, which the message has already.
        problem = (error.strerror or str(error)).partition(" (while")[0]
        raise SettingsError(
            f"the server cannot listen on {settings.host}, port {settings.port} ({problem}): "
            "name another with --host or --port"
        ) from None
