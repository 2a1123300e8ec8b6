"""The endpoint that evaluations ask: one answer, after a fixed time, at next to no cost of its own.

Started in a process of its own; its only argument is the seconds an answer takes. Prints its address and
serves until its standard input closes. It does so little because a burst of a hundred calls must not
wait for it: then it would be the server that is measured.
"""

import asyncio
import json
import sys
from typing import Any

ANSWER = "The heat pump moves warmth instead of making it, so it gives back three times what it draws: 42"
REPLY = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "model-2026-01-01",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": ANSWER}, "finish_reason": "stop", "logprobs": None}
    ],
    "usage": {"prompt_tokens": 60, "completion_tokens": 20, "total_tokens": 80},
}


class Connection(asyncio.Protocol):
    """Answers one request after the other, each when its time has come."""

    def __init__(self, latency: float) -> None:
        body = json.dumps(REPLY).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self._answer = head.encode() + body
        self._latency = latency
        self._loop = asyncio.get_running_loop()
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:end].lower()
            found = head.find(b"content-length:")
            length = int(head[found + 15 :].split(b"\r\n", 1)[0]) if found >= 0 else 0
            if len(self._buffer) < end + 4 + length:
                return
            self._buffer = self._buffer[end + 4 + length :]
            self._loop.call_later(self._latency, self._transport.write, self._answer)


async def serve(latency: float) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(latency), "127.0.0.1", 0, backlog=1024)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1])))
