"""HTTP over real sockets: connections, TLS, proxies, headers, and answers that are none."""

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


async def request_from(reader: asyncio.StreamReader) -> bytes:
    """One request, whole."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().rpartition(b"content-length: ")[2].split(b"\r\n")[0])
    return head + await reader.readexactly(length)


@asynccontextmanager
async def serving(script: Script, host: str = "127.0.0.1", **options: Any) -> AsyncIterator[int]:
    """The port of a server that does this with every connection."""

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


def answering(answer: bytes, connections: list[int]) -> Script:
    """Answers every request alike, and counts connections."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(0)
        while True:
            await request_from(reader)
            connections[-1] += 1
            writer.write(answer)

    return script


async def ask(url: str, body: bytes = b"{}", seconds: float = 10.0, **headers: str) -> RawReply:
    return await HttpAddress(url, headers).send(body, seconds)


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
        SAID + SAID,
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


async def test_what_comes_in_while_a_connection_is_idle_is_no_answer() -> None:
    """It would be taken for the answer to the next request, which has a connection of its own."""
    told, sent = asyncio.Event(), asyncio.Event()

    async def chatty(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_from(reader)
        writer.write(SAID)
        if not sent.is_set():
            await told.wait()
            writer.write(SAID.replace(b"1}", b"9}"))
            await writer.drain()
            sent.set()
        await reader.read()

    async with serving(chatty) as port:
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
async def test_what_is_no_answer_is_a_connection_error(answer: bytes, why: str) -> None:
    """With what was wrong."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_from(reader)
        writer.write(answer)

    async with serving(script) as port:
        with pytest.raises(ConnectionError, match=why):
            await ask(f"http://127.0.0.1:{port}/v1")


async def test_no_answer_in_time_is_a_timeout() -> None:
    """Which is another error than a lost connection."""

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
    http._tls_context.cache_clear()
    yield context
    http._tls_context.cache_clear()


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
    http._tls_context.cache_clear()
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
def through(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Names a proxy on this machine for everything."""
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)

    def name_it(port: int) -> None:
        for kind in ("http_proxy", "https_proxy"):
            monkeypatch.setenv(kind, f"http://ada:pw@127.0.0.1:{port}")

    return name_it


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
    [head] = seen
    assert head.startswith(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n" % port)
    assert b"\r\nProxy-Authorization: Basic YWRhOnB3\r\n" in head
    assert connections == [2]


async def test_a_proxy_that_says_no_is_an_error(through: Callable[[int], None]) -> None:
    """With the number that it said."""
    async with proxying([], b"HTTP/1.1 407 No\r\nContent-Length: 2\r\n\r\nno") as proxy:
        through(proxy)
        with pytest.raises(ConnectionError, match="407"):
            await ask("https://api.test/v1")


async def test_a_proxy_answers_for_a_plain_address(through: Callable[[int], None]) -> None:
    """Without a tunnel."""
    seen: list[bytes] = []
    async with proxying(seen, SAID) as proxy:
        through(proxy)
        assert (await ask("http://api.test/v1")).data == {"a": 1}
    assert seen[0].startswith(b"POST http://api.test/v1 HTTP/1.1\r\nHost: api.test\r\n")


async def test_a_proxy_is_not_asked_for_this_machine(
    through: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the environment says so."""
    async with serving(answering(SAID, [])) as port:
        through(1)
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert (await ask(f"http://127.0.0.1:{port}/v1")).data == {"a": 1}


def test_a_proxy_of_another_kind_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """SOCKS is not spoken here. Its password is not shown."""
    monkeypatch.setenv("https_proxy", "socks5://ada:pw@proxy.test:1080")
    with pytest.raises(Refused, match=r"'socks5://\*\*\*@proxy\.test:1080' is not an address"):
        HttpAddress("https://api.test/v1", {})


async def test_a_request_holds_its_headers_and_body_and_nothing_of_ours_to_find_us_by() -> None:
    """A path is escaped once, and what is escaped already stays."""
    seen: list[bytes] = []

    async def noting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await request_from(reader))
        writer.write(SAID)

    async with serving(noting) as port:
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
async def test_a_name_and_password_become_a_header(given: dict[str, str], sent: bytes) -> None:
    """ada:b/c is YWRhOmIvYw== in base 64; a header that is given goes first."""
    seen: list[bytes] = []

    async def noting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await request_from(reader))
        writer.write(SAID)

    async with serving(noting) as port:
        await ask(f"http://ada:b%2Fc@127.0.0.1:{port}/v1", **given)
    assert b"Authorization: %b\r\n" % sent in seen[0]


async def test_a_login_in_netrc_does_not_replace_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though the environment names a file of logins."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login ada password other")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    seen: list[bytes] = []

    async def noting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await request_from(reader))
        writer.write(SAID)

    async with serving(noting) as port:
        await ask(f"http://127.0.0.1:{port}/v1", Authorization="Bearer key")
    assert b"Authorization: Bearer key\r\n" in seen[0]


async def test_a_redirect_is_not_followed() -> None:
    """The key is not sent to where another host points."""
    connections: list[int] = []
    async with serving(answering(SAID, connections)) as port:
        there = f"Location: http://127.0.0.1:{port}/v1".encode()
        moved = b"HTTP/1.1 307 Moved\r\n%b\r\nContent-Length: 2\r\n\r\n{}" % there
        async with serving(answering(moved, [])) as first:
            answer = await ask(f"http://127.0.0.1:{first}/v1", Authorization="Bearer key")
    assert (answer.status, connections) == (307, [])


async def test_an_address_of_ipv6_is_asked() -> None:
    """In its brackets."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    async with serving(answering(SAID, []), host="::1") as port:
        assert (await ask(f"http://[::1]:{port}/v1")).data == {"a": 1}


@pytest.mark.parametrize(
    "url",
    ["ftp://a.test", "a.test/v1", "http://", "http:///v1", "http://a.test:99999", "http://[::1"],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    """When the model is made, not at its first call."""
    with pytest.raises(Refused, match="is not an address: give one such as"):
        HttpAddress(url, {})


@pytest.mark.parametrize("key", ["s3cret\n", "s3cret\r\nX: y", "s3cret\0", "schlüssel"])
def test_a_key_that_cannot_be_sent_is_refused_and_not_shown(key: str) -> None:
    """A line break at its end is the usual case: it was read from a file."""
    with pytest.raises(Refused, match="the header Authorization contains a line break") as refused:
        HttpAddress("https://a.test/v1", {"Authorization": f"Bearer {key}"})
    assert "s3cret" not in str(refused.value)


def test_without_aiohttp_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one sentence, when a model is named."""
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    monkeypatch.delitem(sys.modules, "assay.models.http")
    with pytest.raises(MissingExtraError, match=r"pip install '.*\[judge\]'"):
        model_of("http://127.0.0.1:1/v1#x")


def test_json_takes_half_a_character() -> None:
    """Models under test write it."""
    body = json.dumps({"text": "\ud83d"}).encode()
    assert RawReply.from_body(200, {}, body).data == {"text": "\ud83d"}


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
async def test_what_is_compressed_without_being_asked_is_read(coding: str) -> None:
    """Some gateways do it."""
    body = gzip.compress(b"[5]") if coding == "gzip" else zlib.compress(b"[5]")
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: {len(body)}\r\n\r\n"
    async with serving(answering(head.encode() + body, [])) as port:
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
def test_nothing_is_left_open(program: str) -> None:
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


def test_a_forked_child_starts_anew() -> None:
    """While its parent's calls hang and hold every place; and it closes nothing of the parent's."""
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
