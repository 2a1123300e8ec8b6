"""PermitClient: a worker's side of the permits that all workers share."""

import asyncio
import json
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary

from assay.errors import BudgetExceeded, Overloaded
from assay.models.limiter import Limits, Outcome


class PermitClient:
    """Where a worker asks for permits; from any event loop, over a connection of its own for each."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._connections: WeakKeyDictionary[asyncio.AbstractEventLoop, _Connection]
        self._connections = WeakKeyDictionary()

    def turns(self, where: str, limits: Limits) -> "SharedTurns":
        """The turns at an endpoint."""
        return self.here.turns(where, limits)

    def tell(self, said: Mapping[str, Any]) -> None:
        """Say what needs no answer."""
        self.here.tell(said)

    async def close(self) -> None:
        """Hang up, in the running loop."""
        await self.here.close()

    @property
    def here(self) -> "_Connection":
        """The connection of the running loop."""
        loop = asyncio.get_running_loop()
        connection = self._connections.get(loop)
        if connection is None:
            connection = self._connections[loop] = _Connection(self._address)
        return connection


class _Connection:
    """To the server, from one event loop. It is opened when first needed, and again when it broke."""

    def __init__(self, address: str) -> None:
        place, _, self._secret = address.partition("/")
        self._host, _, self._port = place.rpartition(":")
        self._numbers = count(1)
        self._answers: dict[int, asyncio.Future[None]] = {}
        self._turns: dict[tuple[str, Limits], SharedTurns] = {}
        self._told: set[tuple[str, Limits]] = set()
        self._opening = asyncio.Lock()
        self._writer: asyncio.StreamWriter | None = None
        self._listening: asyncio.Task[None] | None = None

    def turns(self, where: str, limits: Limits) -> "SharedTurns":
        """The turns at an endpoint."""
        key = (where, limits)
        if key not in self._turns:
            self._turns[key] = SharedTurns(self, where, limits)
        return self._turns[key]

    async def enter(self, where: str, limits: Limits, tokens: int, *, again: bool) -> int:
        """Wait for a turn; the number to leave by."""
        await self.open()
        if (where, limits) not in self._told:
            self._told.add((where, limits))
            self.tell({"endpoint": where, "limits": asdict(limits)})
        return await self._ask({"enter": where, "tokens": tokens, "again": again})

    async def reserve(self, dollars: float, rollout: int | None = None) -> int:
        """Wait for money; the number to settle by. Raises `BudgetExceeded` when there is none left."""
        await self.open()
        return await self._ask({"reserve": dollars, "rollout": rollout})

    async def begin(self) -> int:
        """Wait until a rollout can be paid for; the number to end it by."""
        await self.open()
        return await self._ask({"begin": True})

    def tell(self, said: Mapping[str, Any]) -> None:
        """Say what needs no answer; to nobody, where nobody is."""
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(json.dumps(said).encode() + b"\n")

    async def close(self) -> None:
        """Hang up."""
        if self._listening is not None and self._writer is not None:
            self._listening.cancel()
            await asyncio.wait([self._listening])
            self._writer.close()  # a task that is cancelled before its first step closes nothing
            try:
                await self._writer.wait_closed()
            except OSError:
                return  # it broke before

    @property
    def _is_open(self) -> bool:
        return self._listening is not None and not self._listening.done()

    async def _ask(self, said: Mapping[str, Any]) -> int:
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        self.tell({**said, "id": number})
        try:
            await answer
        except asyncio.CancelledError:
            self.tell({"cancel": number})
            raise
        finally:
            self._answers.pop(number, None)
        return number

    async def open(self) -> None:
        """Connect, unless that is done."""
        if self._is_open:
            return
        async with self._opening:
            if self._is_open:
                return
            try:
                reader, writer = await asyncio.open_connection(self._host, self._port)
            except OSError as error:
                raise Overloaded(
                    f"nobody hands out turns at {self._host}:{self._port} ({error.strerror or error}): "
                    "is the driver still running, and can it be reached from here?"
                ) from None
            writer.write(f"{self._secret}\n".encode())
            self._writer = writer
            self._told.clear()
            self._listening = asyncio.ensure_future(self._listen(reader, writer))

    async def _listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                said: dict[str, Any] = json.loads(line)
                self._resolve(said["id"], said.get("error"))
        except OSError:
            pass  # as good as the end
        finally:
            writer.close()
            for answer in self._answers.values():
                if not answer.done():
                    answer.set_exception(Overloaded("whoever hands out turns has gone: resume"))

    def _resolve(self, number: int, error: str | None) -> None:
        answer = self._answers.get(number)
        if answer is None or answer.done():
            return  # it was cancelled, and whoever gave it is told so
        if error is None:
            answer.set_result(None)
        else:
            answer.set_exception(BudgetExceeded(error))


class SharedTurns:
    """Turns at one endpoint that all workers share."""

    def __init__(self, connection: _Connection, where: str, limits: Limits) -> None:
        self._connection = connection
        self._where = where
        self._limits = limits
        self._held: deque[int] = deque()

    async def enter(self, tokens: int = 0, *, again: bool = False) -> None:
        number = await self._connection.enter(self._where, self._limits, tokens, again=again)
        self._held.append(number)

    def leave(self, outcome: Outcome | None, seconds: float = 0.0) -> None:
        # One turn is as good as another, so whoever leaves first gives back the oldest.
        number = self._held.popleft()
        self._connection.tell({"leave": number, "outcome": outcome, "seconds": seconds})
