"""Scoring: rollouts that are over become rows, each group by the rubric that is for it."""

import time
from collections.abc import Sequence
from typing import Any

from assay.aggregation import advantages
from assay.envs.options import Settings
from assay.envs.rows import UNSCORED, Scored, row_of, shares
from assay.envs.work import Group, Job
from assay.errors import RubricError, SignatureError
from assay.models import budget
from assay.models.judge_log import judge_log
from assay.report import EvaluationReport
from assay.rubric import Rubric
from assay.runs import Row
from assay.runs.pipeline import reports_on
from assay.runs.row import Key, exchanges_told
from assay.runs.row_rubrics import COLUMN, RowRubrics, Way, unreadable_report


class Scoring:
    """How the rollouts of one evaluation are scored."""

    def __init__(self, rubric: Rubric | None, settings: Settings) -> None:
        """Without a `rubric` only examples that bring their own are scored."""
        self._rubric = rubric
        self._rubrics = RowRubrics(rubric)
        self._settings = settings
        way = Way() if rubric is None else Way.of(rubric)
        self._by_group = way.waits or bool(way.compares)
        self._fits = False
        """Whether a rollout has been scored, so that the rubric cannot be altogether wrong."""

    async def refuse_unfit(self) -> None:
        """Say what is wrong with the rubric, as when nobody is there to judge, before it costs."""
        if self._rubric is not None:
            await self._rubric.score([], autograder=self._settings.grader)

    def waits(self, group: Group) -> bool:
        """Whether a group is scored by itself: for its rubric waits for somebody, or compares."""
        return self._by_group or group.jobs[0].example.get(COLUMN) is not None

    def compares(self, group: Group) -> bool:
        """Whether the rollouts of a group are weighed against each other."""
        try:
            rubric = self._rubric_of(group)
        except RubricError:
            return False
        return rubric is not None and rubric.compares

    async def rows(self, groups: Sequence[Group]) -> list[Row]:
        """What is kept of the rollouts that are over and not kept yet; several groups if none waits."""
        jobs = [
            job
            for group in groups
            for job in group.jobs
            if job.row is None and job.state is not None
        ]
        scored = await self._scored(groups, [job for job in jobs if job.error is None])
        columns = self._settings.state_columns
        rows: list[Row] = []
        for job in jobs:
            job.row = row_of(job, scored.get(job.key, UNSCORED), columns)
            rows.append(job.row)
        return rows

    async def _scored(self, groups: Sequence[Group], jobs: Sequence[Job]) -> dict[Key, Scored]:
        """What scoring gives for each of them; nothing where there is no rubric."""
        if not jobs:
            return {}
        started = time.monotonic()
        wanted = self._settings.exchanges
        with budget() as ledger, judge_log(wanted=wanted) as said:
            if self.waits(groups[0]):
                reports = await self._of_group(groups[0], jobs)
            else:
                reports = await self._of_many(groups, jobs)
        seconds = (time.monotonic() - started) / len(jobs)
        parts = zip(jobs, reports, shares(ledger, len(jobs)), strict=False)
        scored = {job.key: Scored(report, spent, seconds) for job, report, spent in parts}
        if said and scored:
            first = jobs[0].key
            scored[first] = scored[first]._replace(exchanges=exchanges_told(said))
        return scored

    async def _of_group(self, group: Group, jobs: Sequence[Job]) -> Sequence[EvaluationReport]:
        try:
            rubric = self._rubric_of(group)
        except RubricError as error:
            return _all_unreadable(error, jobs)
        if rubric is None:
            return ()
        # Those that were kept before are only compared with.
        kept = [job for job in group.jobs if job.row is not None and job.error is None]
        states = _states([*jobs, *kept] if rubric.compares else jobs)
        try:
            found = await rubric.reports_on_group(states, self._settings.grader)
        except SignatureError as error:
            return self._of_misfit(error, jobs)
        self._fits = True
        return found

    async def _of_many(
        self, groups: Sequence[Group], jobs: Sequence[Job]
    ) -> Sequence[EvaluationReport]:
        """Each rollout by itself, all at once: a call for each would cost more than the checks do."""
        if self._rubric is None:
            return ()
        states = _states(jobs)
        # A field that no rollout has is the rubric's fault at first, and then those examples'.
        reports = [*await reports_on(self._rubric, states, None, lenient=self._fits)]
        self._fits = True
        rewards: dict[Key, float | None] = {}
        for job, state, report in zip(jobs, states, reports, strict=True):
            state["reward"] = report.raw_score
            state["metrics"] = report.metrics
            if not report.scored:
                state["partial_reward"] = report.partial_reward
            if errors := report.errors | report.why_unscored:
                state["errors"] = errors
            rewards[job.key] = report.raw_score
        for group in groups:
            if len(group.jobs) > 1:
                _write_advantages(group, rewards)
        return reports

    def _of_misfit(self, error: SignatureError, jobs: Sequence[Job]) -> list[EvaluationReport]:
        """A field is missing. If others have it, that is these examples' fault; if not, the rubric's."""
        if not self._fits:
            raise error
        return _all_unreadable(error, jobs)

    def _rubric_of(self, group: Group) -> Rubric | None:
        example = group.jobs[0].example
        if self._rubric is None and example.get(COLUMN) is None:
            return None
        return self._rubrics.of(example)[0]


def _states(jobs: Sequence[Job]) -> list[dict[str, Any]]:
    return [job.state for job in jobs if job.state is not None]


def _all_unreadable(
    error: RubricError | SignatureError, jobs: Sequence[Job]
) -> list[EvaluationReport]:
    return [unreadable_report(error, f"example {job.key[0]}") for job in jobs]


def _write_advantages(group: Group, rewards: dict[Key, float | None]) -> None:
    worth = advantages([rewards.get(job.key) for job in group.jobs])
    for job, advantage in zip(group.jobs, worth, strict=True):
        if job.state is not None:
            job.state["advantage"] = advantage
