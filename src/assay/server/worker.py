"""Worker: one process that scores. Started by the supervisor, and ends with it."""

import asyncio
import gc
import logging
import signal
import socket
import sys
from collections.abc import Sequence

from assay.models import Ledger, budget
from assay.redaction import logger_of, redacted
from assay.rubric import Rubric
from assay.server.app import RewardApp
from assay.server.board import Board
from assay.server.control import Alive, Begin, Channel, Failed, Load, Loaded, Note, Ready, Swap
from assay.server.listening import Listening
from assay.server.metrics import FAMILIES, JUDGING, Counts
from assay.server.sources import Loader, Source
from assay.wording import described

logger = logger_of("assay.server")


class Worker:
    """A server on a shared socket, and what the supervisor has it do."""

    def __init__(self, begin: Begin, channel: Channel, board: Board, loader: Loader) -> None:
        self._channel = channel
        self._loader = loader
        counts = Counts(board, begin.place)
        self._app = RewardApp(loader.rubric(begin.source), begin.settings, counts)
        self._server = Listening(self._app)
        self._waiting: dict[int, Rubric] = {}
        self._stopping: asyncio.Task[None] | None = None
        self._told = 0.0

    async def run(self, listening: socket.socket, spent: Ledger) -> None:
        """Serve until told to stop, or until the supervisor is gone."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        if hasattr(signal, "SIGHUP"):
            signal.signal(signal.SIGHUP, signal.SIG_IGN)  # for the supervisor to hear
        beside = [asyncio.create_task(self._obey()), asyncio.create_task(self._beat(spent))]
        for task in beside:
            task.add_done_callback(self._end_if_broken)
        await self._server.serve(sockets=[listening])
        for task in beside:
            task.cancel()

    def stop(self) -> None:
        """Begin to end."""
        if self._stopping is None:
            self._stopping = asyncio.get_running_loop().create_task(self._server.stop())

    def _end_if_broken(self, task: "asyncio.Task[None]") -> None:
        """End this worker when a task beside the server failed: the supervisor starts another."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._channel.send(Failed(described(error)))
            self.stop()

    async def _obey(self) -> None:
        while (message := await self._channel.next()) is not None:
            if isinstance(message, Load):
                error = await self._load(message.number, message.source)
                self._channel.send(Loaded(message.number, error))
            elif isinstance(message, Swap) and message.number in self._waiting:
                self._app.serve(self._waiting[message.number])
                self._waiting.clear()
            elif isinstance(message, Note):
                self._app.reload_error = message.reload_error
        self.stop()

    async def _load(self, number: int, source: Source) -> str:
        """Make a rubric ready in a thread, for requests must not wait; gives what is wrong with it."""
        try:
            self._waiting[number] = await asyncio.to_thread(self._loader.rubric, source)
        except Exception as error:  # noqa: BLE001 - a rubric file may run anything
            return redacted(str(error)) or described(error)
        return ""

    async def _beat(self, spent: Ledger) -> None:
        """Once a second, show that the loop turns, and write down what changes slowly."""
        await self._server.up.wait()
        self._channel.send(Ready())
        written = Written(spent)
        while True:
            self._channel.send(Alive())
            self._app.write_gauges()
            written.catch_up(self._app.counts)
            self._tell_unscored()
            await asyncio.sleep(1)

    def _tell_unscored(self) -> None:
        """One line in the log when rollouts could not be scored; the replies have it all."""
        unscored = self._app.counts.unscored
        if unscored > self._told:
            logger.warning(
                "%d rollouts could not be scored in the last second; the last: %s",
                unscored - self._told, self._app.last_error,
            )  # fmt: skip
        self._told = unscored


class Written:
    """What of a ledger stands on the board already."""

    def __init__(self, spent: Ledger) -> None:
        self._spent = spent
        self._before = self._now()

    def _now(self) -> tuple[float, ...]:
        spent = self._spent
        usage = spent.usage
        errors = sum(spent.errors.values())
        return (spent.calls, spent.hits, errors, usage.prompt, usage.completion, spent.cost)

    def catch_up(self, counts: Counts) -> None:
        now = self._now()
        if now != self._before:
            for (name, labels), new, old in zip(JUDGING, now, self._before, strict=True):
                counts.row.add(name, new - old, labels)
            self._before = now


async def work(control: socket.socket, listening: socket.socket, board: int) -> int:
    """Be a worker: hear what to do, do it, and give the exit code."""
    channel = await Channel.over(control)
    begin = await channel.next()
    if not isinstance(begin, Begin):
        return 1
    loader = Loader(begin.judge)
    money = begin.judge.money
    share = None if money is None else money / begin.settings.workers
    with budget(dollars=share) as spent:
        try:
            board_here = Board.at(board, FAMILIES, begin.rows)
            worker = Worker(begin, channel, board_here, loader)
        except Exception as error:  # noqa: BLE001 - a rubric file may run anything
            channel.send(Failed(redacted(str(error)) or described(error)))
            channel.close()
            return 1
        _collect_seldom()
        await worker.run(listening, spent)
    loader.close()
    channel.close()
    return 0


def _collect_seldom() -> None:
    """Have the collector look for rings less often, and never again at what is here for good.

    Requests leave next to none, and looking for them at every seven hundredth object costs a tenth of it all.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def main(arguments: Sequence[str]) -> int:
    """Three file descriptors: the channel, the listening socket, and the board."""
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("assay").addFilter(lambda record: False)  # replies and metrics say it all
    control, listening, board = map(int, arguments)
    return asyncio.run(work(socket.socket(fileno=control), socket.socket(fileno=listening), board))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
