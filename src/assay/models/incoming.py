"""Incoming: an HTTP/1.1 answer, read bit by bit as it comes off a connection.

A reader here is a generator: it yields when it needs more than there is, and returns what it read.
Whatever is no answer is a `ValueError` that says why.
"""

import zlib
from collections.abc import Generator
from typing import NamedTuple, TypeAlias

LONGEST_HEAD = 65_536
"""Bytes of a status and headers; nobody needs more."""
LONGEST_BODY = 64 * 1024 * 1024
"""Bytes of a body, also once it is decompressed; replies with log-probabilities have a few million."""
_ZIPPED = ("gzip", "x-gzip", "deflate")
_ANY_ZIP = 47
"""As zlib is told to find out by itself how something was compressed."""

Text: TypeAlias = Generator[None, None, bytes]
"""A reader of bytes."""


class TooLongError(ValueError):
    """A body is longer than any reply."""

    def __init__(self) -> None:
        super().__init__(
            f"the reply is longer than {LONGEST_BODY >> 20} MiB, which no answer of a model is"
        )


class Response(NamedTuple):
    """One answer."""

    status: int
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes
    keeps: bool
    """Whether another request may be sent over the same connection."""


class Incoming:
    """What has come in over a connection and is not read yet."""

    __slots__ = ("data", "ended")

    def __init__(self) -> None:
        self.data = bytearray()
        self.ended = False
        """Whether nothing more will come."""

    def answer(self, *, bodiless: bool = False) -> Generator[None, None, Response]:
        """The next answer; one that is known to have no body, as to CONNECT, ends with its headers."""
        status, version, headers = yield from self._head()
        while 100 <= status < 200:
            # Those only say that an answer will come.
            status, version, headers = yield from self._head()
        if bodiless or status in (204, 304):
            body = b""
        else:
            body = yield from self._body(headers)
        keeps = not self.data and not self.ended and _keeps(version, headers)
        return Response(status, headers, _unzipped(body, headers), keeps)

    def _head(self) -> Generator[None, None, tuple[int, str, dict[str, str]]]:
        """Status, version and headers."""
        head = yield from self._until(b"\r\n\r\n", LONGEST_HEAD)
        first, *lines = head.decode("latin-1").split("\r\n")
        status, version = _status(first)
        return status, version, _headers(lines)

    def _body(self, headers: dict[str, str]) -> Text:
        """As long as the headers say, and else all that comes."""
        if "transfer-encoding" in headers:
            return (yield from self._chunked(headers["transfer-encoding"]))
        if "content-length" in headers:
            return (yield from self._exactly(_whole_number(headers["content-length"], 10)))
        return (yield from self._all())

    def _until(self, mark: bytes, most: int) -> Text:
        """What comes before a mark, which is taken away too."""
        start = 0
        while (end := self.data.find(mark, start)) < 0:
            if len(self.data) > most:
                raise ValueError(f"no end of a line in {len(self.data)} bytes: {self._shown()}")
            start = max(0, len(self.data) - len(mark) + 1)
            yield from self._more()
        return self._taken(end, len(mark))

    def _exactly(self, count: int) -> Text:
        if count > LONGEST_BODY:
            raise TooLongError
        while len(self.data) < count:
            yield from self._more()
        return self._taken(count)

    def _all(self) -> Text:
        while not self.ended:
            if len(self.data) > LONGEST_BODY:
                raise TooLongError
            yield
        return self._taken(len(self.data))

    def _chunked(self, coding: str) -> Text:
        """Pieces, each with its length before it, until one of none."""
        if coding.strip().lower() != "chunked":
            raise ValueError(f"a body that is sent as {coding!r:.80}, which was not asked for")
        pieces: list[bytes] = []
        total = 0
        while True:
            size = yield from self._until(b"\r\n", LONGEST_HEAD)
            length = _whole_number(size.partition(b";")[0].decode("latin-1"), 16)
            if not length:
                break
            total += length
            if total > LONGEST_BODY:
                raise TooLongError
            pieces.append((yield from self._exactly(length)))
            if (yield from self._exactly(2)) != b"\r\n":
                raise ValueError("a piece that is longer than it says")
        while (yield from self._until(b"\r\n", LONGEST_HEAD)):
            # More headers may follow, of no interest to anybody.
            continue
        return b"".join(pieces)

    def _more(self) -> Generator[None]:
        if self.ended:
            raise ValueError(
                f"closed in the middle of an answer, after {self._shown()}"
                if self.data
                else "closed before an answer"
            )
        yield

    def _taken(self, count: int, extra: int = 0) -> bytes:
        taken = bytes(self.data[:count])
        del self.data[: count + extra]
        return taken

    def _shown(self) -> str:
        return f"{bytes(self.data[:80])!r}"


def _status(line: str) -> tuple[int, str]:
    """The number and the version in a first line such as `HTTP/1.1 200 OK`."""
    version, _, rest = line.partition(" ")
    number = rest[:3]
    if not version.startswith("HTTP/1.") or not (number.isascii() and number.isdigit()):
        raise ValueError(f"no HTTP answer: {line!r:.80}")
    return int(number), version


def _headers(lines: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise ValueError(f"no header: {line!r:.80}")
        name, value = name.lower(), value.strip()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _whole_number(text: str, base: int) -> int:
    try:
        # Python reads signs and underscores too, and two readings of one length are an attack.
        return int(text, base) if text.strip().isalnum() else int("")
    except ValueError:
        raise ValueError(f"no length: {text!r:.80}") from None


def _keeps(version: str, headers: dict[str, str]) -> bool:
    said = headers.get("connection", "").lower()
    return "close" not in said if version == "HTTP/1.1" else "keep-alive" in said


def _unzipped(body: bytes, headers: dict[str, str]) -> bytes:
    """Some compress what they were asked to leave as it is."""
    coding = headers.get("content-encoding", "").strip().lower()
    if coding not in _ZIPPED or not body:
        return body
    unzipping = zlib.decompressobj(_ANY_ZIP)
    try:
        # Bounded here and not afterwards: a million bytes can hold two thousand million.
        text = unzipping.decompress(body, LONGEST_BODY + 1)
    except zlib.error as error:
        raise ValueError(f"a body that is no {coding} ({error})") from None
    if len(text) > LONGEST_BODY:
        raise TooLongError
    if not unzipping.eof:
        raise ValueError(f"a body of {coding} that ends too soon")
    return text
