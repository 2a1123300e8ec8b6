"""HTTP answers, read as they come in: whole, in pieces, and such as are none."""

import gzip
import zlib
from collections.abc import Iterable

import pytest

from assay.models.incoming import LONGEST_HEAD, Incoming, Response

LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
CHUNKS = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n"
)
TRAILED = CHUNKS.replace(b"0\r\n\r\n", b"0\r\nDigest: x\r\nAge: 1\r\n\r\n")
CONTINUED = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n" + LENGTH
ZIPPED = gzip.compress(b"hello")
GZIP = (
    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(ZIPPED)
) + ZIPPED

ANSWERS = {
    "by length": LENGTH,
    "by pieces": CHUNKS,
    "by pieces, with headers after": TRAILED,
    "after being told to wait": CONTINUED,
    "compressed without being asked": GZIP,
    "names in any case": LENGTH.replace(b"Content-Length", b"CONTENT-length"),
    "blanks around a value": LENGTH.replace(b": 5", b":5 "),
}


def read(pieces: Iterable[bytes], *, closed: bool = False) -> Response | None:
    """The answer in these pieces; None while it is not all there."""
    incoming = Incoming()
    reader = incoming.answer()
    try:
        for piece in pieces:
            incoming.data += piece
            next(reader)
        if closed:
            incoming.ended = True
            next(reader)
    except StopIteration as end:
        return end.value
    return None


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_an_answer_is_read_whole_or_byte_by_byte(answer: bytes) -> None:
    """It says hello, and the connection can be used again."""
    whole = read([answer])
    assert whole is not None
    assert (whole.status, whole.body, whole.keeps) == (200, b"hello", True)
    assert read([answer[n : n + 1] for n in range(len(answer))]) == whole


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_an_answer_that_breaks_off_is_none(answer: bytes) -> None:
    """Wherever that is."""
    for end in range(len(answer)):
        assert read([answer[:end]]) is None
        with pytest.raises(ValueError, match=r"closed (before|in the middle of) an answer"):
            read([answer[:end]], closed=True)


def test_without_a_length_an_answer_ends_with_the_connection() -> None:
    """Which is of no more use then."""
    response = read([b"HTTP/1.1 200 OK\r\n\r\nhel", b"lo"], closed=True)
    assert response == Response(200, {}, b"hello", keeps=False)


@pytest.mark.parametrize("status", [204, 304])
def test_some_answers_have_no_body(status: int) -> None:
    """Whatever length they give."""
    response = read([b"HTTP/1.1 %d X\r\nContent-Length: 5\r\n\r\n" % status])
    assert response is not None
    assert (response.status, response.body) == (status, b"")


KEEPING = {
    b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n": True,
    b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: Close\r\n\r\n": False,
    b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n": False,
    b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: Keep-Alive\r\n\r\n": True,
    b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\n": False,
}


@pytest.mark.parametrize("answer", KEEPING, ids=repr)
def test_a_connection_is_kept_when_both_sides_mean_to(answer: bytes) -> None:
    """And nothing was sent that nobody asked for."""
    response = read([answer])
    assert response is not None
    assert response.keeps is KEEPING[answer]


def test_equal_headers_are_joined() -> None:
    """As lists of them may be sent."""
    response = read([LENGTH.replace(b"Content", b"Via: a\r\nVIA: b\r\nContent")])
    assert response is not None
    assert response.headers == {"via": "a, b", "content-length": "5"}


NONE = {
    b"SSH-2.0-OpenSSH_9.6\r\n\r\n": "no HTTP answer: 'SSH",
    b"HTTP/2 200\r\n\r\n": "no HTTP answer",
    b"HTTP/1.1 OK\r\n\r\n": "no HTTP answer",
    b"HTTP/1.1 200 OK\r\nnonsense\r\n\r\n": "no header: 'nonsense'",
    b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n": "no length: 'many'",
    b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n": "no length: '-5'",
    b"HTTP/1.1 200 OK\r\nContent-Length: 1_0\r\n\r\n": "no length",
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n": "no length: '5, 6'",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n": "'gzip, chunked', which was not",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhello\r\n": "longer than it says",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n+2\r\nhe\r\n": "no length",
    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello": "no gzip",
    b"x" * (LONGEST_HEAD + 1): "no end of a line",
}


@pytest.mark.parametrize("bad", NONE, ids=lambda bad: repr(bad[:60]))
def test_what_is_no_answer_says_why(bad: bytes) -> None:
    """With what came instead."""
    with pytest.raises(ValueError, match=NONE[bad]):
        read([bad])


def test_deflate_is_read_too() -> None:
    """As a few still send it."""
    body = zlib.compress(b"hello")
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: deflate\r\nContent-Length: %d\r\n\r\n" % len(body)
    response = read([head + body])
    assert response is not None
    assert response.body == b"hello"
