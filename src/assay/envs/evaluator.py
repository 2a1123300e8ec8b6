"""Evaluator: does the rollouts of an environment, and has each group scored as soon as it is over."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from assay.concurrency import FAILURES, is_stop, walk_together
from assay.envs.examples import Example
from assay.envs.options import SIDE_BY_SIDE, Settings
from assay.envs.scoring import Scoring
from assay.envs.speaker import Speaker
from assay.envs.work import Group, Job
from assay.models import budget
from assay.models.budgets import RolloutSpending
from assay.redaction import logger_of
from assay.rubric import Rubric
from assay.runs import Row, Spending
from assay.types import State
from assay.wording import described, short_repr

STAND_IN = "An answer of about this length stands for what the model would have written. " * 8
"""What a dry run scores."""

logger = logger_of("assay")


class Rolls(Protocol):
    """What an evaluator needs of an environment."""

    async def rollout(
        self, input: Example, client: Any, model: Any, sampling_args: Any = None
    ) -> State: ...


class Evaluator:
    """Carries out one evaluation."""

    def __init__(
        self,
        environment: Rolls,
        rubric: Rubric | None,
        speaker: Speaker,
        settings: Settings,
        keep: Callable[[Sequence[Row]], None],
    ) -> None:
        """Without a `rubric` only examples that bring their own are scored."""
        self._environment = environment
        self._scoring = Scoring(rubric, settings)
        self._speaker = speaker
        self._settings = settings
        self._keep = keep
        self._over: list[Group] = []
        """Groups that are to be scored next, together."""

    async def run(self, jobs: Sequence[Job]) -> None:
        """Do the jobs, and fill each in."""
        await self._scoring.refuse_unfit()
        stopping = self._settings.stopping

        async def walk(places: Iterator[int]) -> None:
            for place in places:
                if stopping is not None and stopping():
                    return
                job = jobs[place]
                with await _begun(job.group):
                    await self._do(job)
                    if job.group.over:
                        await self._settle(job.group)

        limit = self._settings.max_concurrent or SIDE_BY_SIDE
        try:
            await walk_together(walk, len(jobs), limit=limit)
            if stopping is not None:
                await self._settle_rest(jobs)
        finally:
            _end(job.group for job in jobs)
        _report_failures(jobs)

    async def _do(self, job: Job) -> None:
        """Have the model do one rollout. What goes wrong is this rollout's, and no other's."""
        started = time.monotonic()
        with budget() as ledger:
            try:
                state = await self._rolled(job)
            except FAILURES as error:
                if is_stop(error):
                    raise
                state = State(input=job.example, completion=[], error=error)
        job.seconds = time.monotonic() - started
        job.spent = Spending.of(ledger)
        if ledger.is_dry_run:
            # Nothing was generated, and what would be asked about it counts all the same.
            state |= {"completion": [{"role": "assistant", "content": STAND_IN}], "error": None}
        job.error = _why(state.get("error"))
        job.state = state

    async def _rolled(self, job: Job) -> State:
        speaker = self._speaker
        state = await self._environment.rollout(
            job.example, speaker, speaker.name, speaker.sampling_args
        )
        if not isinstance(state, dict):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"rollout gave {short_repr(state)}: return the state")
        return state

    async def _settle(self, group: Group) -> None:
        """Score a group that is over, and keep it. Groups that end together are scored together.

        That is for rubrics that wait for nobody. For any other it would make one group wait for
        what another is waiting for.
        """
        if self._scoring.waits(group):
            self._keep(await self._scoring.rows([group]))
            _end([group])
            return
        self._over.append(group)
        if len(self._over) > 1:
            return
        try:
            # What else ends in this turn of the loop is there after the next.
            await asyncio.sleep(0)
        finally:
            # On Ctrl-C too: it is paid for.
            groups, self._over = self._over, []
            self._keep(await self._scoring.rows(groups))
            _end(groups)

    async def _settle_rest(self, jobs: Sequence[Job]) -> None:
        """Score what is over in groups that are not.

        Where rollouts are compared, part of a group is no group: it is done again on resuming.
        """
        groups = {id(job.group): job.group for job in jobs if not job.group.over}
        parts = [group for group in groups.values() if not self._scoring.compares(group)]
        for group in parts:
            self._keep(await self._scoring.rows([group]))


async def _begun(group: Group) -> AbstractContextManager[None]:
    """A group that has begun, which it does when the money does for it; around what is done for it."""
    async with group.beginning:
        if group.spending is None:
            group.spending = await RolloutSpending.begun()
    return nullcontext() if group.spending is None else group.spending.inside()


def _end(groups: Iterable[Group]) -> None:
    """Let other groups begin."""
    for group in groups:
        if group.spending is not None:
            group.spending.end()


def _why(error: object) -> str | None:
    if error is None:
        return None
    return described(error) if isinstance(error, BaseException) else str(error)


def _report_failures(jobs: Sequence[Job]) -> None:
    errors = [job.error for job in jobs if job.error is not None]
    if errors:
        logger.error("%d of %d rollouts failed; the first: %s", len(errors), len(jobs), errors[0])
