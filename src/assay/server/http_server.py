"""HttpServer runs a RewardApp on uvicorn, and stops it after the current requests."""

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
# How long a server that stops waits for the first request of a connection that it has accepted.
FIRST_REQUEST_SECONDS: Final = 1.0
# How long uvicorn waits for replies that are being sent when it stops, in seconds.
SHUTDOWN_SECONDS: Final = 5


class HttpServer:
    """Runs a RewardApp on uvicorn."""

    def __init__(self, app: RewardApp, listening: socket.socket) -> None:
        # uvicorn logs every connection that ends early, and its own progress.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        self._app = app
        self._listening = listening
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
        return self._server.started

    @property
    def loop_factory(self) -> Callable[[], asyncio.AbstractEventLoop] | None:
        """What makes the fastest event loop that is installed."""
        return self._config.get_loop_factory()

    async def serve(self) -> None:
        """Answer requests until `stop` is called."""
        checking = asyncio.create_task(self._check_connections())
        try:
            await self._server.serve(sockets=[self._listening])
        finally:
            checking.cancel()

    async def stop(self, quiet_seconds: float = QUIET_SECONDS) -> None:
        """Finish the requests under way, refuse new ones, and end `serve`."""
        await self._app.drain(quiet_seconds)
        for listener in self._server.servers:
            listener.close()
        # A client that has just connected may be about to send its request.
        deadline = time.monotonic() + FIRST_REQUEST_SECONDS
        while self._has_new_connection() and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        self._server.should_exit = True

    def _has_new_connection(self) -> bool:
        """Return True if there is a connection on which no request has come yet."""
        return any(
            _get_last_request(connection) is None
            for connection in self._server.server_state.connections
        )

    async def _check_connections(self) -> None:
        """Count connections, and close those whose client takes too long to send a request.

        uvicorn itself limits how long a connection may be idle after a reply, but not how long the
        first request or the rest of a begun one may take to arrive.
        """
        waits: dict[Any, _Wait] = {}
        while True:
            waits = self._find_waits(waits)
            for connection, wait in waits.items():
                if time.monotonic() - wait.since > self._body_seconds:
                    connection.transport.close()
            self._app.metrics.connections.set(len(self._server.server_state.connections))
            self._app.update_metrics()
            await asyncio.sleep(min(CHECK_SECONDS, self._body_seconds))

    def _find_waits(self, earlier: Mapping[Any, "_Wait"]) -> "dict[Any, _Wait]":
        """Return the connections that wait for a request, and since when; `earlier` is the last result."""
        waits: dict[Any, _Wait] = {}
        for connection in self._server.server_state.connections:
            request = _get_last_request(connection)
            if request is not None and not request.response_complete:
                continue  # it is being answered
            wait = earlier.get(connection)
            if wait is None or wait.last_request is not request:
                wait = _Wait(last_request=request)
            waits[connection] = wait
        return waits


@dataclass(frozen=True)
class _Wait:
    """The wait of a connection for its next request."""

    last_request: Any  # None before the first
    since: float = field(default_factory=time.monotonic)


def _get_last_request(connection: Any) -> Any:
    """Return what uvicorn keeps of the last request on a connection; None before the first."""
    return connection.cycle


def listen(settings: Settings) -> socket.socket:
    """Return a socket that listens where the settings say."""
    is_ipv6 = ":" in settings.host
    try:
        return socket.create_server(
            (settings.host, settings.port),
            family=socket.AF_INET6 if is_ipv6 else socket.AF_INET,
            backlog=2048,
            dualstack_ipv6=is_ipv6 and socket.has_dualstack_ipv6(),  # `::` takes IPv4 too
        )
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise SettingsError(
                f"port {settings.port} is in use: name another with --port, or 0 for any"
            ) from None
        # Python adds the address to what the system says.
        problem = (error.strerror or str(error)).partition(" (while")[0]
        raise SettingsError(
            f"the server cannot listen on {settings.host}, port {settings.port} ({problem}): "
            "name another with --host or --port"
        ) from None
