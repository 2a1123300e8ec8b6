"""URLs are fetched only from public addresses; long, slow or redirected responses are limited."""

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from assay.models.http import FetchError, fetch_url


class _Site(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.server.requests.append(self.path)  # type: ignore[attr-defined]
        body, status, headers = b"the page", 200, {"Content-Type": "text/plain; charset=utf-8"}
        if self.path.startswith("/to/"):
            status, headers = 302, {"Location": self.path.removeprefix("/to/")}
        elif self.path == "/round":
            status, headers = 302, {"Location": "/round"}
        elif self.path == "/bomb":
            body, headers = gzip.compress(b"x" * 5_000_000), {"Content-Encoding": "gzip"}
        elif self.path == "/slow":
            self.server.stop.wait(30)  # type: ignore[attr-defined]
        elif self.path == "/gone":
            status = 404
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    """A web server on this machine, which is not a public address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Site)
    server.requests, server.stop = [], threading.Event()  # type: ignore[attr-defined]
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.stop.set()  # type: ignore[attr-defined]
    server.shutdown()
    server.server_close()


def _url(server: ThreadingHTTPServer, path: str = "/page", host: str = "127.0.0.1") -> str:
    return f"http://{host}:{server.server_address[1]}{path}"


async def test_a_page_is_fetched_with_its_media_type(server):
    """Also after a redirect; then the final URL is returned."""
    page = await fetch_url(_url(server, "/to//page"), hosts=["127.0.0.1"], allow_private=True)
    assert (page.body, page.kind, page.url) == (b"the page", "text/plain", _url(server))


@pytest.mark.parametrize(
    ("host", "message"),
    [
        ("127.0.0.1", "not a public address"),
        ("localhost", "not a public address"),
        ("2130706433", "canonical"),
        ("[::1]", "not a public address"),
        ("[::ffff:127.0.0.1]", "not a public address"),
        ("169.254.169.254", "not a public address"),
        ("0.0.0.0", "not a public address"),
        ("10.1.2.3", "not a public address"),
        ("[64:ff9b::7f00:1]", "not a public address"),
        ("[64:ff9b:1::7f00:1]", "not a public address"),
        ("[fec0::1]", "not a public address"),
        ("[::ffff:0:7f00:1]", "not a public address"),
        ("[::127.0.0.1]", "not a public address"),
        ("[2002:7f00:1::]", "not a public address"),
    ],
)
async def test_a_private_address_is_never_contacted(server, host, message):
    """Neither as a number in any notation, nor by a name that resolves to it."""
    with pytest.raises(FetchError, match=message):
        await fetch_url(_url(server, host=host).replace("http:", "https:"), seconds=5)
    assert server.requests == []


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/to/http://localhost:{port}/page", "'localhost' is not allowed; allowed are: 127.0.0.1"),
        ("/to/file:///etc/passwd", "begins with https"),
        ("/round", "more than 5 redirects"),
        ("/bomb", "longer than 100,000 bytes"),
        ("/gone", "status 404"),
        ("/slow", "within 0.5 seconds"),
    ],
)
async def test_redirects_to_private_addresses_and_endless_responses_are_refused(
    server, path, message
):
    """Redirects are checked like the first URL; the size is that after decompression."""
    url = _url(server, path.format(port=server.server_address[1]))
    with pytest.raises(FetchError, match=message):
        await fetch_url(
            url, hosts=["127.0.0.1"], most_bytes=100_000, seconds=0.5, allow_private=True
        )


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/",
        "ftp://example.org/",
        "example.org",
        "https://",
        "https://[::1",
        "https://a:b@example.org/",
    ],
)
async def test_an_invalid_url_is_refused(url):
    """`http`, other schemes, logins and malformed URLs; nothing is sent."""
    with pytest.raises(FetchError, match=r"https|login|not a URL"):
        await fetch_url(url)


async def test_only_allowed_hosts_are_contacted():
    """By their exact name."""
    with pytest.raises(FetchError, match="is not allowed"):
        await fetch_url("https://evil.example.org/", hosts=["example.org"])
