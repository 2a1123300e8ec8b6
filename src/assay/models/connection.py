"""Connection: HTTP/1.1 over one socket, one request and its answer at a time."""

import asyncio
import selectors
import ssl
from collections.abc import Generator
from functools import cache
from ipaddress import ip_address
from typing import cast

from assay.errors import Refused
from assay.models.address import Host, Place
from assay.models.incoming import Incoming, Response, TooLongError
from assay.wording import described

PATIENCE = 30.0
"""Seconds to wait for a connection."""
SECOND_ADDRESS = 0.25
"""Seconds after which the next address of a name is tried too: IPv6 that leads nowhere is common."""


class Connection(asyncio.Protocol):
    """A connection that is made by `connected`. Everything that goes wrong is a `ConnectionError`."""

    def __init__(self) -> None:
        self.idle_since = 0.0
        self._incoming = Incoming()
        self._reader: Generator[None, None, Response] | None = None
        self._waiting: asyncio.Future[Response] | None = None

    transport: asyncio.Transport

    @property
    def is_open(self) -> bool:
        return not self.transport.is_closing()

    def has_news(self) -> bool:
        """Whether something has come in, such as the end, that a loop which stood still has not read."""
        with selectors.DefaultSelector() as looking:
            looking.register(self.transport.get_extra_info("socket"), selectors.EVENT_READ)
            return bool(looking.select(0))

    async def ask(self, request: bytes, seconds: float, *, bodiless: bool = False) -> Response:
        """The answer to a request. When that is not waited for, the connection is of no more use.

        Raises `TimeoutError` when none came in so many seconds.
        """
        loop = asyncio.get_running_loop()
        waiting = self._waiting = loop.create_future()
        self._reader = self._incoming.answer(bodiless=bodiless)
        # Not by asyncio.timeout: after a stall that drops an answer which is there.
        giving_up = loop.call_later(seconds, _give_up, waiting)
        self.transport.write(request)
        keeps = False
        try:
            response = await waiting
            # One who answers before all is sent may take the rest for another request.
            keeps = response.keeps and not self.transport.get_write_buffer_size()
            return response
        finally:
            giving_up.cancel()
            self._waiting = None
            if not keeps:
                self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Other loops than asyncio's own bring transports that are none by their class.
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._waiting is None:
            # Nobody asked for this, so what comes next would be taken for an answer to something else.
            self.transport.abort()
            return
        self._incoming.data += data
        self._read_on(self._waiting)

    def eof_received(self) -> None:
        self.connection_lost(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._incoming.ended = True
        if self._waiting is None or self._waiting.done():
            return
        if exc is None:
            self._read_on(self._waiting)
        else:
            self._waiting.set_exception(ConnectionError(described(exc)))

    def _read_on(self, waiting: "asyncio.Future[Response]") -> None:
        if self._reader is None or waiting.done():
            return
        try:
            next(self._reader)
        except StopIteration as end:
            waiting.set_result(end.value)
        except TooLongError as error:
            # Not tried again: it would be as long.
            waiting.set_exception(Refused(str(error)))
        except ValueError as error:
            waiting.set_exception(ConnectionError(str(error)))


def _give_up(waiting: "asyncio.Future[Response]") -> None:
    if not waiting.done():
        waiting.set_exception(TimeoutError())


async def connected(place: Place, seconds: float = PATIENCE) -> Connection:
    """A new connection to a place, through its proxy where there is one."""
    seconds = min(seconds, PATIENCE)
    try:
        async with asyncio.timeout(seconds):
            return await (_directly(place.host) if place.proxy is None else _through(place))
    except TimeoutError:
        raise ConnectionError(f"no connection in {seconds:.3g} s") from None
    except OSError as error:
        raise ConnectionError(described(error)) from error


async def _directly(host: Host) -> Connection:
    _, connection = await asyncio.get_running_loop().create_connection(
        Connection,
        host.name,
        host.port,
        ssl=_tls() if host.secure else None,
        happy_eyeballs_delay=None if _is_number(host.name) else SECOND_ADDRESS,
    )
    return connection


def _is_number(name: str) -> bool:
    """Whether a name is an address already, so that there is no second one to try."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


async def _through(place: Place) -> Connection:
    """Over a proxy; to a host with TLS by a tunnel, in which the proxy can read nothing."""
    host, proxy, credentials = place
    assert proxy is not None
    connection = await _directly(proxy)
    if not host.secure:
        return connection
    try:
        await _tunnel(connection, host, proxy, credentials)
    except BaseException:
        connection.transport.abort()
        raise
    return connection


async def _tunnel(connection: Connection, host: Host, proxy: Host, credentials: str) -> None:
    said = f"Proxy-Authorization: {credentials}\r\n" if credentials else ""
    request = f"CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n{said}\r\n"
    response = await connection.ask(request.encode("latin-1"), PATIENCE, bodiless=True)
    if response.status != 200 or not connection.is_open:
        raise ConnectionError(f"the proxy {proxy} does not lead to {host} ({response.status})")
    secured = await asyncio.get_running_loop().start_tls(
        connection.transport, connection, _tls(), server_hostname=host.name
    )
    assert secured is not None
    connection.transport = secured


@cache
def _tls() -> ssl.SSLContext:
    """Reading the certificates of a machine takes a moment, so they are read once."""
    return ssl.create_default_context()
