"""Gathering: small requests that come in the same turn of the event loop are scored as one batch.

Trainers send one rollout a request, and scoring sixteen at once costs little more than scoring one.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from assay.concurrency import at_once
from assay.engine.checking import CHUNK
from assay.report import EvaluationReport
from assay.rollout import Rollout

FEW: Final = 32
"""Rollouts of a request that is gathered with others; a larger one gains nothing."""

Reports = list[EvaluationReport]
Score = Callable[[Sequence[Rollout]], Coroutine[Any, Any, Reports]]


class _Waiting(NamedTuple):
    rollouts: Sequence[Rollout]
    reports: "asyncio.Future[Reports]"


class Gathering:
    """Scores rollouts together with those of other requests.

    Only for what waits for nobody and compares nothing: then nobody waits longer for it, and nobody's
    score depends on who else was there. When scoring together raises, `alone` is asked for each request.
    """

    def __init__(self, score: Score, alone: Score) -> None:
        self._score = score
        self._alone = alone
        self._waiting: list[_Waiting] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def reports(self, rollouts: Sequence[Rollout]) -> Reports:
        """The reports on these rollouts, in order."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._begin)
        waiting = _Waiting(rollouts, loop.create_future())
        self._waiting.append(waiting)
        return await waiting.reports

    def _begin(self) -> None:
        waiting, self._waiting = self._waiting, []
        together = [rollout for one in waiting for rollout in one.rollouts]
        if len(together) <= CHUNK:
            with suppress(Exception):  # whose fault it is comes out below
                reports = at_once(self._score(together))
                if reports is not None:
                    _tell_all(waiting, reports)
                    return
        task = asyncio.get_running_loop().create_task(self._answer(waiting, together))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, waiting: Sequence[_Waiting], together: Sequence[Rollout]) -> None:
        try:
            try:
                _tell_all(waiting, await self._score(together))
            except Exception:  # noqa: BLE001 - whose fault it is comes out below
                for one in waiting:
                    await self._answer_alone(one)
        finally:
            # Only when this task was cancelled: no request may wait for what will not come.
            for one in waiting:
                one.reports.cancel()

    async def _answer_alone(self, one: _Waiting) -> None:
        try:
            _tell(one, await self._alone(one.rollouts))
        except Exception as error:  # noqa: BLE001 - the request that it belongs to is told
            if not one.reports.done():
                one.reports.set_exception(error)


def _tell_all(waiting: Sequence[_Waiting], found: Iterable[EvaluationReport]) -> None:
    reports = iter(found)
    for one in waiting:
        _tell(one, [next(reports) for _ in one.rollouts])


def _tell(one: _Waiting, reports: Reports) -> None:
    if not one.reports.done():  # it may have been cancelled
        one.reports.set_result(reports)
