"""Permits: one gate for the judge calls of all workers, wherever they run.

A limit of 64 calls at once is 64 for the cluster. The driver keeps the gates; before a worker asks an
endpoint it asks here for its turn, over a connection that gives all its turns back when it breaks. What
is said are lines of JSON; the first names the secret that came with the address.
"""

import asyncio
import hmac
import json
import secrets
import threading
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any
from weakref import WeakKeyDictionary

from assay.errors import Overloaded
from assay.models.endpoint import Endpoint
from assay.models.gate import Outcome
from assay.models.limits import Limits
from assay.models.turns import LocalTurns, Turns

HOST = "127.0.0.1"


class PermitServer:
    """Hands out turns from a thread of its own. `address` is what workers are given."""

    def __init__(self, host: str = HOST) -> None:
        self._host = host
        self._secret = secrets.token_hex(16)
        self._turns: dict[str, LocalTurns] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="assay-permits", daemon=True
        )
        self.address = ""
        self.most: Counter[str] = Counter()
        """The most calls that were under way at once, by endpoint."""

    def __enter__(self) -> "PermitServer":
        self._thread.start()
        starting = asyncio.run_coroutine_threadsafe(self._start(), self._loop)
        self._server = starting.result()
        port = self._server.sockets[0].getsockname()[1]
        self.address = f"{self._host}:{port}/{self._secret}"
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _start(self) -> asyncio.Server:
        return await asyncio.start_server(self._serve, self._host, 0)

    async def _stop(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held: Counter[str] = Counter()
        try:
            secret = (await reader.readline()).decode(errors="replace").strip()
            if not hmac.compare_digest(secret, self._secret):
                return
            async with asyncio.TaskGroup() as asking:
                while line := await reader.readline():
                    said: dict[str, Any] = json.loads(line)
                    if "enter" in said:
                        asking.create_task(self._let_in(said, writer, held))
                    else:
                        held[said["leave"]] -= 1
                        self._turns[said["leave"]].leave(said["outcome"], said["seconds"])
                raise ConnectionResetError
        except* (ConnectionError, ValueError):
            pass
        finally:
            for where, count in held.items():
                for _ in range(count):
                    self._turns[where].leave(None)
            writer.close()

    async def _let_in(
        self, said: Mapping[str, Any], writer: asyncio.StreamWriter, held: Counter[str]
    ) -> None:
        where: str = said["enter"]
        turns = self._turns.get(where)
        if turns is None:
            turns = self._turns[where] = LocalTurns(Limits(**said["limits"]))
        await turns.enter(said["tokens"], again=said["again"])
        held[where] += 1
        self.most[where] = max(self.most[where], turns.gate.active)
        writer.write(json.dumps({"id": said["id"]}).encode() + b"\n")


class _Line:
    """The connection of one event loop to the server."""

    def __init__(self, address: str) -> None:
        place, _, self._secret = address.partition("/")
        self._host, _, self._port = place.rpartition(":")
        self._answers: dict[int, asyncio.Future[None]] = {}
        self._asked = 0
        self._opening = asyncio.Lock()
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, said: dict[str, Any]) -> None:
        """Wait for a turn."""
        writer = await self._open()
        self._asked += 1
        answer = self._answers[self._asked] = asyncio.get_running_loop().create_future()
        self._say(writer, said | {"id": self._asked})
        try:
            await answer
        except asyncio.CancelledError:
            # Let in all the same, perhaps: the turn is given back when the word comes.
            answer.add_done_callback(
                lambda _: self.tell({"leave": said["enter"], "outcome": None, "seconds": 0})
            )
            raise

    def tell(self, said: dict[str, Any]) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._say(self._writer, said)

    async def _open(self) -> asyncio.StreamWriter:
        async with self._opening:
            if self._writer is None or self._writer.is_closing():
                try:
                    reader, self._writer = await asyncio.open_connection(self._host, self._port)
                except OSError as error:
                    raise Overloaded(
                        f"nobody hands out turns at {self._host}:{self._port} ({error}): is the "
                        "driver still running?"
                    ) from None
                self._writer.write(f"{self._secret}\n".encode())
                self._listening = asyncio.ensure_future(self._listen(reader))
            return self._writer

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            answer = self._answers.pop(json.loads(line)["id"])
            if not answer.cancelled():
                answer.set_result(None)
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(Overloaded("whoever hands out turns has gone"))
        self._answers.clear()

    def _say(self, writer: asyncio.StreamWriter, said: Mapping[str, Any]) -> None:
        writer.write(json.dumps(said).encode() + b"\n")


_LINES: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, _Line]] = WeakKeyDictionary()


class SharedTurns:
    """Turns at one endpoint that all workers share."""

    def __init__(self, address: str, where: str, limits: Limits) -> None:
        self._address = address
        self._where = where
        self._limits = asdict(limits)

    async def enter(self, tokens: int, *, again: bool) -> None:
        said = {"enter": self._where, "tokens": tokens, "again": again, "limits": self._limits}
        await self._line().ask(said)

    def leave(self, outcome: Outcome | None, seconds: float = 0.0) -> None:
        self._line().tell({"leave": self._where, "outcome": outcome, "seconds": seconds})

    def _line(self) -> _Line:
        lines = _LINES.setdefault(asyncio.get_running_loop(), {})
        if self._address not in lines:
            lines[self._address] = _Line(self._address)
        return lines[self._address]


@contextmanager
def asking_at(address: str | None) -> Generator[None]:
    """Have every endpoint of this process ask there for its turns; None leaves each to its own."""
    if address is None:
        yield
        return

    def turns(where: str, limits: Limits) -> Turns:
        return SharedTurns(address, where, limits)

    with Endpoint.sharing(turns):
        yield
