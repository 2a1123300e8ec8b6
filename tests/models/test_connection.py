"""Connections: used again while they are good, and given up when they are not. Over real sockets."""

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from assay.models import client as client_module
from assay.models.address import Address, proxy_for
from assay.models.client import Answer, Client
from assay.models.connection import _tls

SAID = b'HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{"a":1}'

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def request_from(reader: asyncio.StreamReader) -> bytes:
    """One request, whole."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().rpartition(b"content-length: ")[2].split(b"\r\n")[0])
    return head + await reader.readexactly(length)


@asynccontextmanager
async def serving(script: Script, **options: Any) -> AsyncIterator[int]:
    """The port of a server that does this with every connection."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await script(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, **options)
    async with server:
        yield server.sockets[0].getsockname()[1]
        (await Client.here()).close()
        server.close()


def answering(answer: bytes, connections: list[int]) -> Script:
    """Answers every request alike, and counts connections."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(0)
        while True:
            await request_from(reader)
            connections[-1] += 1
            writer.write(answer)

    return script


async def ask(url: str, body: bytes = b"{}", seconds: float = 10.0) -> Answer:
    return await (await Client.here()).ask(Address(url, {}), body, seconds)


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - the kernel tells nobody
        await asyncio.sleep(0)


async def test_a_connection_is_used_again() -> None:
    """Three requests one after the other, and three more at once."""
    connections: list[int] = []
    async with serving(answering(SAID, connections)) as port:
        url = f"http://127.0.0.1:{port}/v1"
        for _ in range(3):
            assert (await ask(url)).data == {"a": 1}
        assert connections == [3]
        await asyncio.gather(*(ask(url) for _ in range(3)))
        assert sum(connections) == 6
        assert len(connections) == 3


@pytest.mark.parametrize(
    "answer",
    [
        SAID.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"),
        SAID.replace(b"1.1", b"1.0"),
        SAID + b"HTTP/1.1 200 OK\r\n",
    ],
    ids=["told so", "an old server", "more than was asked for"],
)
async def test_a_connection_that_is_not_to_be_kept_is_not(answer: bytes) -> None:
    """The next request has one of its own."""
    connections: list[int] = []
    async with serving(answering(answer, connections)) as port:
        for _ in range(2):
            assert (await ask(f"http://127.0.0.1:{port}/v1")).data == {"a": 1}
        assert connections == [1, 1]


async def test_one_that_was_closed_while_idle_is_not_used() -> None:
    """Also when the loop stood still and could not see it."""
    connections: list[int] = []

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(1)
        await request_from(reader)
        writer.write(SAID)

    async with serving(once) as port:
        url = f"http://127.0.0.1:{port}/v1"
        await ask(url)
        [idle] = (await Client.here()).idle.values()
        await until(lambda: not idle[0].is_open)
        await ask(url)
        assert len(connections) == 2


async def test_the_end_of_a_connection_is_seen_before_the_loop_has_read_it() -> None:
    """Here nobody reads, for the transport is paused."""
    hang_up = asyncio.Event()

    async def until_told(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_from(reader)
        writer.write(SAID)
        await hang_up.wait()

    async with serving(until_told) as port:
        url = f"http://127.0.0.1:{port}/v1"
        await ask(url)
        client = await Client.here()
        [[connection]] = client.idle.values()
        connection.transport.pause_reading()
        connection.idle_since -= 2 * client_module.FRESH
        assert not connection.has_news()
        hang_up.set()
        await until(connection.has_news)
        assert connection.is_open
        assert client._waiting_at(Address(url, {}).place) is None


async def test_what_nobody_asked_for_ends_a_connection() -> None:
    """It would be taken for the answer to the next request."""
    told = asyncio.Event()

    async def chatty(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_from(reader)
        writer.write(SAID)
        await told.wait()
        writer.write(SAID.replace(b"1}", b"9}"))
        await reader.read()

    async with serving(chatty) as port:
        await ask(f"http://127.0.0.1:{port}/v1")
        [[connection]] = (await Client.here()).idle.values()
        told.set()
        await until(lambda: not connection.is_open)


async def test_an_idle_connection_is_closed_after_a_while() -> None:
    """When another one comes to rest: of two that were used at once, the older one."""
    connections: list[int] = []
    async with serving(answering(SAID, connections)) as port:
        url = f"http://127.0.0.1:{port}/v1"
        await asyncio.gather(ask(url), ask(url))
        [idle] = (await Client.here()).idle.values()
        older, newer = idle
        older.idle_since -= 2 * client_module.KEEP_ALIVE
        await ask(url)
        assert (older.is_open, newer.is_open, list(idle)) == (False, True, [newer])


async def test_a_cancelled_request_ends_its_connection() -> None:
    """Its answer must not be taken for another's."""
    asked = asyncio.Event()
    closed = asyncio.Event()

    async def hanging(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_from(reader)
        asked.set()
        assert await reader.read() == b""
        closed.set()

    async with serving(hanging) as port:
        asking = asyncio.ensure_future(ask(f"http://127.0.0.1:{port}/v1"))
        await asked.wait()
        asking.cancel()
        await closed.wait()
        assert asking.cancelled()
        assert not any((await Client.here()).idle.values())


async def test_an_answer_before_all_is_sent_ends_the_connection() -> None:
    """The rest of the request could be taken for another one."""

    async def hasty(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\n{}")
        await writer.drain()

    async with serving(hasty) as port:
        answer = await ask(f"http://127.0.0.1:{port}/v1", b"x" * 20_000_000)
        assert answer.status == 413
        assert not any((await Client.here()).idle.values())


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", "closed before an answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", "closed in the middle of an answer"),
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "no HTTP answer"),
    ],
    ids=["nothing", "half of it", "something else"],
)
async def test_what_is_no_answer_is_a_connection_error(answer: bytes, why: str) -> None:
    """With what was wrong."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_from(reader)
        writer.write(answer)

    async with serving(script) as port:
        with pytest.raises(ConnectionError, match=why):
            await ask(f"http://127.0.0.1:{port}/v1")


async def test_no_answer_in_time_is_a_timeout() -> None:
    """An answer that is there when the time is up still counts."""

    async def hanging(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with serving(hanging) as port:
        with pytest.raises(TimeoutError):
            await ask(f"http://127.0.0.1:{port}/v1", seconds=0.01)


async def test_a_body_that_is_no_json_is_text() -> None:
    """As deep as it may be nested."""
    for body, text in ((b"<html>", "<html>"), (b"[" * 100_000, "[" * 100_000)):
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
        async with serving(answering(answer, [])) as port:
            found = await ask(f"http://127.0.0.1:{port}/v1")
            assert (found.data, found.text) == (None, text)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1 with its key, in one file."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    key, made = folder / "key.pem", folder / "certificate.pem"
    words = (
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=test"
    )
    names = ["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    files = ["-keyout", str(key), "-out", str(made)]
    subprocess.run(["openssl", *words.split(), *names, *files], check=True, capture_output=True)
    made.write_text(made.read_text() + key.read_text())
    return made


@pytest.fixture
def server_tls(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ssl.SSLContext]:
    """What a server needs for TLS. Clients here trust it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    _tls.cache_clear()
    yield context
    _tls.cache_clear()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_tls_is_spoken_to_https(host: str, server_tls: ssl.SSLContext) -> None:
    """And a connection is used again there too."""
    connections: list[int] = []
    async with serving(answering(SAID, connections), ssl=server_tls) as port:
        for _ in range(3):
            assert (await ask(f"https://{host}:{port}/v1")).data == {"a": 1}
        assert connections == [3]


async def test_a_certificate_that_nobody_trusts_is_refused(
    server_tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the machine's own list."""
    monkeypatch.delenv("SSL_CERT_FILE")
    _tls.cache_clear()
    async with serving(answering(SAID, []), ssl=server_tls) as port:
        with pytest.raises(ConnectionError, match="CERTIFICATE_VERIFY_FAILED"):
            await ask(f"https://127.0.0.1:{port}/v1")


@asynccontextmanager
async def proxying(seen: list[bytes], answer: bytes) -> AsyncIterator[int]:
    """A proxy that notes what it is told, and passes on what it is told to connect."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        seen.append(head)
        writer.write(answer)
        if not head.startswith(b"CONNECT") or b" 200 " not in answer:
            await reader.read(1)
            return
        host, _, port = head.split()[1].decode().rpartition(":")
        there_reader, there_writer = await asyncio.open_connection(host, int(port))
        await asyncio.wait(
            [
                asyncio.ensure_future(passed_on(reader, there_writer)),
                asyncio.ensure_future(passed_on(there_reader, writer)),
            ]
        )

    async with serving(script) as port:
        yield port


async def passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
    except ConnectionError:
        pass
    finally:
        writer.close()


@pytest.fixture
def through(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Names a proxy on this machine for everything."""
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)

    def name_it(port: int) -> None:
        for kind in ("http_proxy", "https_proxy"):
            monkeypatch.setenv(kind, f"http://ada:pw@127.0.0.1:{port}")
        proxy_for.cache_clear()

    yield name_it
    proxy_for.cache_clear()


async def test_a_tunnel_leads_through_a_proxy(
    server_tls: ssl.SSLContext, through: Callable[[int], None]
) -> None:
    """It is told where to and by whom, and reads nothing of the rest."""
    seen: list[bytes] = []
    connections: list[int] = []
    established = b"HTTP/1.1 200 Connection established\r\n\r\n"
    async with (
        serving(answering(SAID, connections), ssl=server_tls) as port,
        proxying(seen, established) as proxy,
    ):
        through(proxy)
        for _ in range(2):
            assert (await ask(f"https://127.0.0.1:{port}/v1")).data == {"a": 1}
    assert seen == [
        b"CONNECT 127.0.0.1:%d HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
        b"Proxy-Authorization: Basic YWRhOnB3\r\n\r\n" % (port, port)
    ]
    assert connections == [2]


async def test_a_proxy_that_says_no_is_an_error(through: Callable[[int], None]) -> None:
    """With the number that it said."""
    async with proxying([], b"HTTP/1.1 407 No\r\nContent-Length: 2\r\n\r\nno") as proxy:
        through(proxy)
        with pytest.raises(ConnectionError, match=r"does not lead to api\.test:443 \(407\)"):
            await ask("https://api.test/v1")


async def test_a_proxy_answers_for_a_plain_address(through: Callable[[int], None]) -> None:
    """Without a tunnel."""
    seen: list[bytes] = []
    async with proxying(seen, SAID) as proxy:
        through(proxy)
        assert (await ask("http://api.test/v1")).data == {"a": 1}
    assert seen[0].startswith(b"POST http://api.test/v1 HTTP/1.1\r\nHost: api.test\r\n")
