"""HTTP with real sockets: connections, TLS, proxies, headers, and invalid responses."""

import asyncio
import gzip
import json
import shutil
import socket
import ssl
import subprocess
import sys
import textwrap
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from assay import MissingExtraError, Refused
from assay.models import http, model_of
from assay.models.http import HttpAddress
from assay.models.wire_format import RawReply

SAID = b'HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{"a":1}'

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def read_request(reader: asyncio.StreamReader) -> bytes:
    """Read one complete request."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().rpartition(b"content-length: ")[2].split(b"\r\n")[0])
    return head + await reader.readexactly(length)


@asynccontextmanager
async def serve_script(
    script: Script, host: str = "127.0.0.1", **options: Any
) -> AsyncIterator[int]:
    """Return the port of a server that runs this script for every connection."""

    handlers: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await script(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handler = asyncio.create_task(handle(reader, writer))
        handlers.add(handler)
        await asyncio.wait([handler])

    server = await asyncio.start_server(connect, host, 0, **options)
    async with server:
        yield server.sockets[0].getsockname()[1]
        server.close()
        # The connections that the client keeps open for its next request.
        for handler in handlers:
            handler.cancel()
        await asyncio.sleep(0.01)


def answer_all_with(answer: bytes, connections: list[int]) -> Script:
    """Answer every request in the same way, and count connections."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(0)
        while True:
            await read_request(reader)
            connections[-1] += 1
            writer.write(answer)

    return script


async def ask(url: str, body: bytes = b"{}", seconds: float = 10.0, **headers: str) -> RawReply:
    return await HttpAddress(url, headers).send(body, seconds)


async def test_a_connection_is_reused() -> None:
    """Three sequential requests, and three concurrent ones."""
    connections: list[int] = []
    async with serve_script(answer_all_with(SAID, connections)) as port:
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
        SAID + SAID,
    ],
    ids=["told so", "an old server", "more than was asked for"],
)
async def test_a_connection_is_closed_if_the_server_asks_for_it(answer: bytes) -> None:
    """The next request uses a new one."""
    connections: list[int] = []
    async with serve_script(answer_all_with(answer, connections)) as port:
        for _ in range(2):
            assert (await ask(f"http://127.0.0.1:{port}/v1")).data == {"a": 1}
        assert connections == [1, 1]


async def test_data_received_on_an_idle_connection_is_not_a_response() -> None:
    """It could be taken for the response to the next request, so that uses a new connection."""
    told, sent = asyncio.Event(), asyncio.Event()

    async def chatty(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(SAID)
        if not sent.is_set():
            await told.wait()
            writer.write(SAID.replace(b"1}", b"9}"))
            await writer.drain()
            sent.set()
        await reader.read()

    async with serve_script(chatty) as port:
        url = f"http://127.0.0.1:{port}/v1"
        await ask(url)
        told.set()
        await sent.wait()
        for _ in range(10):
            await asyncio.sleep(0)
        try:
            again = await ask(url)
        except ConnectionError:
            again = await ask(url)
        assert again.data == {"a": 1}


async def test_a_cancelled_request_closes_its_connection() -> None:
    """Its response must not be taken for that of another request."""
    asked = asyncio.Event()
    closed = asyncio.Event()

    async def hanging(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        asked.set()
        assert await reader.read() == b""
        closed.set()

    async with serve_script(hanging) as port:
        asking = asyncio.ensure_future(ask(f"http://127.0.0.1:{port}/v1"))
        await asked.wait()
        asking.cancel()
        await closed.wait()
        assert asking.cancelled()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", "closed the connection"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", "closed the connection"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", "not completed"),
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "Bad status line|Expected HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n", "Content-Length"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello",
            "content-encoding: gzip",
        ),
    ],
    ids=["nothing", "half a head", "half a body", "something else", "no length", "no gzip"],
)
async def test_an_invalid_response_is_a_connection_error(answer: bytes, why: str) -> None:
    """With the reason."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(answer)

    async with serve_script(script) as port:
        with pytest.raises(ConnectionError, match=why):
            await ask(f"http://127.0.0.1:{port}/v1")


async def test_a_missing_response_is_a_timeout() -> None:
    """This is a different error than a lost connection."""

    async def hanging(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with serve_script(hanging) as port:
        with pytest.raises(TimeoutError):
            await ask(f"http://127.0.0.1:{port}/v1", seconds=0.01)


async def test_a_body_that_is_not_json_is_returned_as_text() -> None:
    """However deeply it is nested."""
    for body, text in ((b"<html>", "<html>"), (b"[" * 100_000, "[" * 100_000)):
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
        async with serve_script(answer_all_with(answer, [])) as port:
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
    """The TLS context of a server whose certificate clients trust."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    http._tls_context.cache_clear()
    yield context
    http._tls_context.cache_clear()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_https_uses_tls(host: str, server_tls: ssl.SSLContext) -> None:
    """Connections are reused there too."""
    connections: list[int] = []
    async with serve_script(answer_all_with(SAID, connections), ssl=server_tls) as port:
        for _ in range(3):
            assert (await ask(f"https://{host}:{port}/v1")).data == {"a": 1}
        assert connections == [3]


async def test_an_untrusted_certificate_is_refused(
    server_tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the certificate store of this machine."""
    monkeypatch.delenv("SSL_CERT_FILE")
    http._tls_context.cache_clear()
    async with serve_script(answer_all_with(SAID, []), ssl=server_tls) as port:
        with pytest.raises(ConnectionError, match="CERTIFICATE_VERIFY_FAILED"):
            await ask(f"https://127.0.0.1:{port}/v1")


@asynccontextmanager
async def serve_proxy(seen: list[bytes], answer: bytes) -> AsyncIterator[int]:
    """Serve a proxy that records the requests, and forwards CONNECT."""

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
                asyncio.ensure_future(forward(reader, there_writer)),
                asyncio.ensure_future(forward(there_reader, writer)),
            ]
        )

    async with serve_script(script) as port:
        yield port


async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
    except ConnectionError:
        pass
    finally:
        writer.close()


@pytest.fixture
def use_proxy(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Configure a proxy on this machine for all requests."""
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)

    def name_it(port: int) -> None:
        for kind in ("http_proxy", "https_proxy"):
            monkeypatch.setenv(kind, f"http://ada:pw@127.0.0.1:{port}")

    return name_it


async def test_https_is_tunnelled_through_a_proxy(
    server_tls: ssl.SSLContext, use_proxy: Callable[[int], None]
) -> None:
    """The proxy sees the target and its own login, and nothing else."""
    seen: list[bytes] = []
    connections: list[int] = []
    established = b"HTTP/1.1 200 Connection established\r\n\r\n"
    async with (
        serve_script(answer_all_with(SAID, connections), ssl=server_tls) as port,
        serve_proxy(seen, established) as proxy,
    ):
        use_proxy(proxy)
        for _ in range(2):
            assert (await ask(f"https://127.0.0.1:{port}/v1")).data == {"a": 1}
    [head] = seen
    assert head.startswith(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n" % port)
    assert b"\r\nProxy-Authorization: Basic YWRhOnB3\r\n" in head
    assert connections == [2]


async def test_the_refusal_of_a_proxy_is_an_error(use_proxy: Callable[[int], None]) -> None:
    """With its status code."""
    async with serve_proxy([], b"HTTP/1.1 407 No\r\nContent-Length: 2\r\n\r\nno") as proxy:
        use_proxy(proxy)
        with pytest.raises(ConnectionError, match="407"):
            await ask("https://api.test/v1")


async def test_http_is_sent_through_a_proxy(use_proxy: Callable[[int], None]) -> None:
    """Without a tunnel."""
    seen: list[bytes] = []
    async with serve_proxy(seen, SAID) as proxy:
        use_proxy(proxy)
        assert (await ask("http://api.test/v1")).data == {"a": 1}
    assert seen[0].startswith(b"POST http://api.test/v1 HTTP/1.1\r\nHost: api.test\r\n")


async def test_no_proxy_hosts_are_contacted_directly(
    use_proxy: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the environment says."""
    async with serve_script(answer_all_with(SAID, [])) as port:
        use_proxy(1)
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert (await ask(f"http://127.0.0.1:{port}/v1")).data == {"a": 1}


def test_an_unsupported_proxy_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """SOCKS is not supported. The error hides the password."""
    monkeypatch.setenv("https_proxy", "socks5://ada:pw@proxy.test:1080")
    with pytest.raises(Refused, match=r"'socks5://\*\*\*@proxy\.test:1080' is not an address"):
        HttpAddress("https://api.test/v1", {})


async def test_a_request_contains_no_identifying_headers() -> None:
    """A path is escaped once; escapes in it are kept."""
    seen: list[bytes] = []

    async def noting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await read_request(reader))
        writer.write(SAID)

    async with serve_script(noting) as port:
        await ask(f"http://127.0.0.1:{port}/v 1/é/%2Fdone?api-version=1", b'{"x":1}', Key="s3cret")
    head, _, body = seen[0].partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    assert first == "POST /v%201/%C3%A9/%2Fdone?api-version=1 HTTP/1.1"
    headers = dict(line.split(": ") for line in lines)
    assert headers == {
        "Host": f"127.0.0.1:{port}",
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "Content-Type": "application/json",
        "User-Agent": "assay",
        "Key": "s3cret",
        "Content-Length": "7",
    }
    assert body == b'{"x":1}'


@pytest.mark.parametrize(
    ("given", "sent"), [({}, b"Basic YWRhOmIvYw=="), ({"Authorization": "Bearer x"}, b"Bearer x")]
)
async def test_a_login_in_the_url_becomes_a_header(given: dict[str, str], sent: bytes) -> None:
    """ada:b/c is YWRhOmIvYw== in base 64; an explicit header takes precedence."""
    seen: list[bytes] = []

    async def noting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await read_request(reader))
        writer.write(SAID)

    async with serve_script(noting) as port:
        await ask(f"http://ada:b%2Fc@127.0.0.1:{port}/v1", **given)
    assert b"Authorization: %b\r\n" % sent in seen[0]


async def test_a_login_in_netrc_does_not_replace_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although the environment names a netrc file."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login ada password other")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    seen: list[bytes] = []

    async def noting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await read_request(reader))
        writer.write(SAID)

    async with serve_script(noting) as port:
        await ask(f"http://127.0.0.1:{port}/v1", Authorization="Bearer key")
    assert b"Authorization: Bearer key\r\n" in seen[0]


async def test_a_redirect_is_not_followed() -> None:
    """The key must not be sent to another host."""
    connections: list[int] = []
    async with serve_script(answer_all_with(SAID, connections)) as port:
        there = f"Location: http://127.0.0.1:{port}/v1".encode()
        moved = b"HTTP/1.1 307 Moved\r\n%b\r\nContent-Length: 2\r\n\r\n{}" % there
        async with serve_script(answer_all_with(moved, [])) as first:
            answer = await ask(f"http://127.0.0.1:{first}/v1", Authorization="Bearer key")
    assert (answer.status, connections) == (307, [])


async def test_an_ipv6_address_can_be_used() -> None:
    """In brackets."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    async with serve_script(answer_all_with(SAID, []), host="::1") as port:
        assert (await ask(f"http://[::1]:{port}/v1")).data == {"a": 1}


@pytest.mark.parametrize(
    "url",
    ["ftp://a.test", "a.test/v1", "http://", "http:///v1", "http://a.test:99999", "http://[::1"],
)
def test_an_invalid_url_is_refused(url: str) -> None:
    """When the model is made, not at its first call."""
    with pytest.raises(Refused, match="is not an address: give one such as"):
        HttpAddress(url, {})


@pytest.mark.parametrize("key", ["s3cret\n", "s3cret\r\nX: y", "s3cret\0", "schlüssel"])
def test_a_key_that_cannot_be_sent_is_refused_and_not_shown(key: str) -> None:
    """A trailing line break is the usual case: the key was read from a file."""
    with pytest.raises(Refused, match="the header Authorization contains a line break") as refused:
        HttpAddress("https://a.test/v1", {"Authorization": f"Bearer {key}"})
    assert "s3cret" not in str(refused.value)


def test_the_error_without_aiohttp_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """When a model is named."""
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    monkeypatch.delitem(sys.modules, "assay.models.http")
    with pytest.raises(MissingExtraError, match=r"pip install '.*\[judge\]'"):
        model_of("http://127.0.0.1:1/v1#x")


def test_json_can_contain_a_lone_surrogate() -> None:
    """Models under test write them."""
    body = json.dumps({"text": "\ud83d"}).encode()
    assert RawReply.from_body(200, {}, body).data == {"text": "\ud83d"}


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
async def test_an_unrequested_compression_is_decoded(coding: str) -> None:
    """Some gateways compress anyway."""
    body = gzip.compress(b"[5]") if coding == "gzip" else zlib.compress(b"[5]")
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: {len(body)}\r\n\r\n"
    async with serve_script(answer_all_with(head.encode() + body, [])) as port:
        assert (await ask(f"http://127.0.0.1:{port}/v1")).data == [5]


PROGRAMS = {
    "runs": """
        for n in range(3):
            asyncio.run(ask(n))
    """,
    "threads": """
        threads = [threading.Thread(target=lambda n=n: asyncio.run(ask(n))) for n in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    """,
    "a loop that is closed by hand": """
        for n in range(2):
            loop = asyncio.new_event_loop()
            loop.run_until_complete(ask(n))
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()
    """,
    "a failing program": """
        async def fail():
            await ask(1)
            raise SystemExit(0)
        asyncio.run(fail())
    """,
    "cancelled in the middle": """
        server.latency = 5
        async def stop():
            task = asyncio.ensure_future(ask(1))
            await asyncio.sleep(0.1)
            task.cancel()
            await asyncio.wait([task])
        asyncio.run(stop())
    """,
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_no_connection_is_left_open(program: str) -> None:
    """With every warning an error, and nothing on stderr."""
    code = f"""
import asyncio, gc, threading
from assay.models import Request, model_of
from assay.testing import ModelServer

with ModelServer("hello") as server:
    model = model_of(server.model)
    async def ask(n):
        return await model(Request.of("s", str(n)))
{textwrap.indent(textwrap.dedent(program), "    ")}
    gc.collect()
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_forked_child_opens_its_own_connections() -> None:
    """While the calls of its parent hang and use up the limit; it closes nothing of the parent's."""
    code = """
import asyncio, os, sys
from assay import Limits, Request, model_of
from assay.testing import Fault, ModelServer

with ModelServer("hello", faults=lambda call: Fault.hanging() if call == 1 else None) as server:
    model = model_of(server.model, limits=Limits(concurrency=1, timeout=30))

    async def parent():
        await model(Request.of("s", "first"))
        hanging = asyncio.ensure_future(model(Request.of("s", "hangs")))
        while len(server.requests) < 2:
            await asyncio.sleep(0.01)
        child = os.fork()
        if child == 0:
            asyncio.set_event_loop(None)
            asyncio._set_running_loop(None)
            said = asyncio.run(model(Request.of("s", "child"))).text
            os._exit(0 if said == "hello" else 1)
        _, status = await asyncio.to_thread(os.waitpid, child, 0)
        hanging.cancel()
        await asyncio.wait([hanging])
        again = await model(Request.of("s", "parent"))
        print(os.waitstatus_to_exitcode(status), again.text)

    asyncio.run(parent())
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.returncode) == ("0 hello\n", 0)
