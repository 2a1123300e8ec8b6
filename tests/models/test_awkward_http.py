"""With servers that violate HTTP, every call gets its own reply or an error."""

import asyncio
import gzip
import json
import random
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from assay import Limits, ModelError, Request, model_of

AnswerRequest = Callable[[asyncio.StreamWriter, str], Awaitable[bool]]
"""A function that answers one request, and returns whether the connection stays open."""


def completion(words: str) -> bytes:
    """Return the reply of an endpoint that repeats the words."""
    choice = {"message": {"content": words}, "finish_reason": "stop"}
    return json.dumps({"choices": [choice], "model": "echo"}).encode()


def response(body: bytes, *headers: str, length: int | None = None) -> bytes:
    lines = ["HTTP/1.1 200 OK", f"Content-Length: {len(body) if length is None else length}"]
    return "\r\n".join([*lines, *headers, "", ""]).encode() + body


def chunked(body: bytes, size: int) -> bytes:
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    said = b"".join(b"%x;a=b\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + said + b"0\r\nX: y\r\n\r\n"


async def answer_normally(writer: asyncio.StreamWriter, words: str) -> bool:
    writer.write(response(completion(words)))
    return True


async def answer_byte_by_byte(writer: asyncio.StreamWriter, words: str) -> bool:
    said = random.Random(words).choice([response(completion(words)), chunked(completion(words), 3)])
    for start in range(0, len(said), 17):
        writer.write(said[start : start + 17])
        await writer.drain()
        await asyncio.sleep(0)
    return True


async def answer_with_delay(writer: asyncio.StreamWriter, words: str) -> bool:
    early = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    writer.write(early + response(completion(words)))
    return True


async def answer_compressed(writer: asyncio.StreamWriter, words: str) -> bool:
    writer.write(response(gzip.compress(completion(words)), "Content-Encoding: gzip"))
    return True


async def answer_followed_by_junk(writer: asyncio.StreamWriter, words: str) -> bool:
    writer.write(response(completion(words)) + b"\r\n\r\n{}")
    return True


async def answer_twice(writer: asyncio.StreamWriter, words: str) -> bool:
    writer.write(response(completion(words)) + response(completion("somebody else's")))
    return True


async def answer_with_too_short_a_length(writer: asyncio.StreamWriter, words: str) -> bool:
    body = completion(words)
    writer.write(response(body, length=len(body) - 5))
    return True


async def answer_with_too_long_a_length(writer: asyncio.StreamWriter, words: str) -> bool:
    body = completion(words)
    writer.write(response(body, length=len(body) + 5))
    return False


async def answer_with_two_lengths(writer: asyncio.StreamWriter, words: str) -> bool:
    writer.write(response(completion(words), "Content-Length: 3"))
    return True


async def close_early(writer: asyncio.StreamWriter, words: str) -> bool:
    said = response(completion(words))
    writer.write(said[: random.Random(words).randrange(len(said))])
    return False


async def close_after_answer(writer: asyncio.StreamWriter, words: str) -> bool:
    writer.write(response(completion(words)))
    return False


WAYS: list[AnswerRequest] = [
    answer_normally,
    answer_byte_by_byte,
    answer_with_delay,
    answer_compressed,
    answer_followed_by_junk,
    answer_twice,
    answer_with_too_short_a_length,
    answer_with_too_long_a_length,
    answer_with_two_lengths,
    close_early,
    close_after_answer,
]


@asynccontextmanager
async def serve_badly(way: Callable[[], AnswerRequest]) -> AsyncIterator[str]:
    """Serve an endpoint that repeats each request, and answers in this way."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            goes_on = True
            while goes_on:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().rpartition(b"content-length: ")[2].split(b"\r\n")[0])
                asked = json.loads(await reader.readexactly(length))
                goes_on = await way()(writer, asked["messages"][-1]["content"])
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1#echo"


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_every_call_gets_its_own_reply_or_an_error(way: AnswerRequest) -> None:
    """Every other answer is normal; a call without a reply is an error."""
    turns = iter(lambda: None, 1)
    ways = (answer_normally if turn % 2 else way for turn, _ in enumerate(turns))
    async with serve_badly(lambda: next(ways)) as address:
        model = model_of(address, limits=Limits(concurrency=4, attempts=20))
        words = [f"{way.__name__} {number}" for number in range(40)]
        replies = await asyncio.gather(*(model(Request.of("Repeat.", word)) for word in words))
    assert [reply.text for reply in replies] == words


async def test_replies_are_never_mixed_up_between_requests() -> None:
    """Four hundred calls, some of which are cancelled."""
    drawn = random.Random(7)
    async with serve_badly(lambda: drawn.choice(WAYS)) as address:
        model = model_of(address, limits=Limits(concurrency=16, attempts=30))
        words = [f"words {number}" for number in range(400)]
        calls = [asyncio.ensure_future(model(Request.of("Repeat.", word))) for word in words]
        for call in calls[::10]:
            asyncio.get_running_loop().call_later(drawn.random() / 10, call.cancel)
        replies = await asyncio.gather(*calls, return_exceptions=True)
    answered = 0
    for word, reply in zip(words, replies, strict=True):
        if isinstance(reply, BaseException):
            assert isinstance(reply, asyncio.CancelledError)
        else:
            assert reply.text == word
            answered += 1
    assert answered >= 360


@pytest.mark.parametrize("kind", ["gzip", "length", "chunks", "until the end"])
async def test_a_reply_has_a_size_limit(kind: str) -> None:
    """A million compressed bytes that hold three hundred million, or as many uncompressed ones."""
    size, connections = 320_000_000, 0
    bomb = gzip.compress(b"x" * size, compresslevel=1) if kind == "gzip" else b""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await reader.readuntil(b"\r\n\r\n")
        if kind == "gzip":
            writer.write(response(bomb, "Content-Encoding: gzip"))
        elif kind == "length":
            writer.write(response(b"", length=size))
        else:
            coding = "Transfer-Encoding: chunked\r\n" if kind == "chunks" else ""
            writer.write(f"HTTP/1.1 200 OK\r\n{coding}\r\n".encode())
        piece = b"x" * 1_000_000
        said = b"%x\r\n%b\r\n" % (len(piece), piece) if kind == "chunks" else piece
        try:
            while kind != "gzip":
                writer.write(said)
                await writer.drain()
            await reader.read()
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        model = model_of(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1#x")
        tracemalloc.start()
        try:
            with pytest.raises(ModelError, match="longer than 64 MiB"):
                await model(Request.of("s", "u"))
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert most < size
        assert connections == 1
