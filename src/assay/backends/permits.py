"""PermitServer: one gate for the judge calls of all workers, wherever they run, and one purse.

A limit of 64 calls at once is 64 for the cluster, and ten dollars are ten dollars. The driver keeps gates
and purse; a worker asks here before it asks an endpoint, over a connection that gives all its turns back
when it breaks. What is said are lines of JSON; the first is the secret that came with the address.

    {"endpoint": where, "limits": {…}}                          before the first turn there
    {"enter": where, "tokens": 900, "again": false, "id": 1}    answered when it is its turn: {"id": 1}
    {"leave": 1, "outcome": "answered", "seconds": 0.8}
    {"begin": true, "id": 3}                                    answered when a rollout can be paid for
    {"reserve": 0.02, "rollout": 3, "id": 2}                    answered, perhaps with an `error`
    {"spent": [900, 0, 40, 0], "cost": 0.013, "model": "m", "rollout": 3}    of every call that was answered
    {"settle": 2}
    {"end": 3}
    {"cancel": 1}                                               whether it was answered or not
    {"shard": 7, "progress": {…}}
"""

import asyncio
import hmac
import json
import secrets
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from assay.errors import BudgetExceeded
from assay.models.budgets import Ledger, RolloutSpending, counting_in
from assay.models.limiter import Limiter, Limits, Outcome
from assay.models.model import NOTHING, Usage
from assay.redaction import logger_of
from assay.runs.pipeline import Progress

logger = logger_of(__name__)

HOST = "127.0.0.1"

GREETING_SECONDS = 10.0
"""How long whoever calls may take to say the secret."""


class PermitServer:
    """Hands out turns, and money, from a thread of its own. `address` is what workers are given."""

    def __init__(
        self, host: str = HOST, *, money: float | None = None, spent: float = 0.0, rollout: float | None = None
    ) -> None:
        """`money`, of which `spent` are gone, is for all workers together, as in `budget`; None is no limit."""
        self._host = host
        self._secret = secrets.token_hex(16)
        self._turns: dict[str, tuple[Limits, Limiter]] = {}
        self.purse = Ledger(dollars=money, spent=spent, rollout=rollout)
        """What all workers spend."""
        self._progress: dict[int, Progress] = {}
        self.address = ""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="assay-permits", daemon=True)

    def __enter__(self) -> "PermitServer":
        self._thread.start()
        try:
            self._server = self._run(asyncio.start_server(self._serve, self._host, 0))
        except BaseException:
            self._end()
            raise
        port = self._server.sockets[0].getsockname()[1]
        self.address = f"{self._host}:{port}/{self._secret}"
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._stop())
        self._end()

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _stop(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def progress(self) -> list[Progress]:
        """How far the shards are that somebody is at."""
        return list(self._progress.copy().values())

    def tell(self, shard: int, progress: Progress | None) -> None:
        """Take note of how far a shard is; None when nobody is at it any more."""
        if progress is None:
            self._progress.pop(shard, None)
        else:
            self._progress[shard] = progress

    def turns_at(self, where: str) -> Limiter:
        return self._turns[where][1]

    def bound(self, where: str, limits: Limits) -> None:
        """Have these limits hold for an endpoint, for all workers."""
        known = self._turns.get(where)
        if known is None or known[0] != limits:
            self._turns[where] = (limits, Limiter(limits))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        worker = _Worker(self, writer)
        try:
            async with asyncio.timeout(GREETING_SECONDS):
                secret = (await reader.readline()).strip()
            if hmac.compare_digest(secret, self._secret.encode()):
                while line := await reader.readline():
                    worker.hear(json.loads(line))
        except (OSError, ValueError, TypeError, LookupError):
            pass  # it has gone, or says what nobody understands, and is shown the door
        finally:
            worker.leave()
            writer.close()


class _Worker:
    """A worker at the other end of a connection, and what it holds."""

    def __init__(self, server: PermitServer, writer: asyncio.StreamWriter) -> None:
        self._server = server
        self._writer = writer
        self._waiting: dict[int, asyncio.Task[None]] = {}
        self._turns: dict[int, Limiter] = {}
        self._reserved: dict[int, tuple[float, RolloutSpending | None]] = {}
        self._rollouts: dict[int, RolloutSpending] = {}
        self._shard = -1

    def hear(self, said: Mapping[str, Any]) -> None:
        """Do what a line asks for."""
        if "enter" in said:
            turns = self._server.turns_at(said["enter"])
            again, tokens = bool(said["again"]), int(said["tokens"])
            self._wait(said["id"], lambda: self._enter(said["id"], turns, tokens, again=again))
        elif "leave" in said:
            self._leave_one(said["leave"], said["outcome"], said["seconds"])
        elif "reserve" in said:
            dollars, rollout = float(said["reserve"]), self._rollouts.get(said["rollout"])
            self._wait(said["id"], lambda: self._reserve(said["id"], dollars, rollout))
        elif "settle" in said:
            self._settle(said["settle"])
        elif "spent" in said:
            with _inside(self._rollouts.get(said["rollout"])):
                self._server.purse.add(Usage(*said["spent"]), said["cost"], said["model"])
        elif "begin" in said:
            self._wait(said["id"], lambda: self._begin(said["id"]))
        elif "end" in said:
            self._end(said["end"])
        elif "cancel" in said:
            self._cancel(said["cancel"])
        elif "endpoint" in said:
            self._server.bound(said["endpoint"], Limits(**said["limits"]))
        else:
            self._shard = said["shard"]
            self._server.tell(self._shard, Progress(**said["progress"]))

    def leave(self) -> None:
        """Give everything back. What was set aside counts as spent: an endpoint may have answered."""
        for task in self._waiting.values():
            task.cancel()
        for number in list(self._turns):
            self._leave_one(number)
        for number, (dollars, rollout) in list(self._reserved.items()):
            with _inside(rollout):
                self._server.purse.add(NOTHING, dollars)
            self._settle(number)
        for number in list(self._rollouts):
            self._end(number)
        self._server.tell(self._shard, None)

    def _wait(self, number: int, what: Callable[[], Awaitable[None]]) -> None:
        task = asyncio.create_task(self._answer(number, what))
        self._waiting[number] = task
        task.add_done_callback(lambda _: self._waiting.pop(number))

    async def _answer(self, number: int, what: Callable[[], Awaitable[None]]) -> None:
        answer: dict[str, Any] = {"id": number}
        try:
            await what()
        except BudgetExceeded as error:
            answer["error"] = str(error)
        except Exception:
            # The worker waits for an answer; a connection that ends tells it that none will come.
            logger.exception("a turn could not be given, and the worker that asked is cut off")
            self._writer.close()
            return
        if not self._writer.is_closing():
            self._writer.write(json.dumps(answer).encode() + b"\n")

    async def _enter(self, number: int, turns: Limiter, tokens: int, *, again: bool) -> None:
        await turns.enter(tokens, again=again)
        self._turns[number] = turns

    def _leave_one(self, number: int, outcome: Outcome | None = None, seconds: float = 0.0) -> None:
        # One that is not known was had over a connection that broke, and is back already.
        turns = self._turns.pop(number, None)
        if turns is not None:
            turns.leave(outcome, seconds)

    def _cancel(self, number: int) -> None:
        task = self._waiting.get(number)
        if task is not None and not task.done():
            task.cancel()
        else:
            self._leave_one(number)
            self._settle(number)
            self._end(number)

    async def _reserve(self, number: int, dollars: float, rollout: RolloutSpending | None) -> None:
        with _inside(rollout):
            await self._server.purse.reserve(dollars)
        self._reserved[number] = (dollars, rollout)

    def _settle(self, number: int) -> None:
        # One that is not known was had over a connection that broke, and is settled already.
        if number in self._reserved:
            dollars, rollout = self._reserved.pop(number)
            with _inside(rollout):
                self._server.purse.settle(dollars)

    async def _begin(self, number: int) -> None:
        with counting_in(self._server.purse):
            rollout = await RolloutSpending.begun()
        if rollout is not None:
            self._rollouts[number] = rollout

    def _end(self, number: int) -> None:
        rollout = self._rollouts.pop(number, None)
        if rollout is not None:
            rollout.end()


def _inside(rollout: RolloutSpending | None) -> AbstractContextManager[None]:
    """Around what is counted for a rollout."""
    return nullcontext() if rollout is None else rollout.inside()
