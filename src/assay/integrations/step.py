"""A Step scores the rollouts of one call of a trainer, group by group and within a timeout."""

import asyncio
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Final, Literal, TypeAlias

from assay.aggregation import Policy, check_policy, fill_unscored
from assay.base_rubric import BaseRubric
from assay.concurrency import LoopThread, run_concurrently, set_variable
from assay.engine import checks_use_threads
from assay.errors import AssayError, RubricError
from assay.graders.grader import JudgeSource
from assay.integrations.monitor import RewardMonitor
from assay.messages import as_text_if_single
from assay.plan import Traits
from assay.report import EvaluationReport
from assay.rubric import Rubric
from assay.runs.row import own_rubric
from assay.runs.row_rubrics import RowRubrics

# The name under which trainers get the weighted sum before shaping, for example to filter groups.
OUTCOME: Final = "outcome"
# The error of a rollout that needs its group and came without it.
GROUP_MISSING: Final = "RubricError: a check compares the rollouts of a group, and this one came alone: send groups, or score without it"
MAX_THREADS: Final = 32  # for one call, if nothing waits and checks may block
# What a trainer gets as the reward: the weighted sum, or the same normalised to 0-1.
Value: TypeAlias = Literal["reward", "score"]

# A rubric in this process or on a server, or the file of one.
RubricSource: TypeAlias = BaseRubric | str | Path


@dataclass(frozen=True)
class Scored:
    """The result of one rollout for a trainer."""

    reward: float | None  # None if it is unscored
    score: float | None  # the same between 0 and 1, whatever the reward is
    # The `outcome` and the value of every criterion, with the same names for all rollouts; None
    # for no answer.
    parts: Mapping[str, float | None]
    error: str = ""  # why it is unscored
    version: str = ""  # the hash of the rubric, if it may change during training
    # The reward of each turn; None if the rubric has no criteria about steps.
    steps: Sequence[float | None] | None = None

    @classmethod
    def of(
        cls,
        report: EvaluationReport,
        names: Iterable[str],
        value: Value = "reward",
        version: str = "",
    ) -> "Scored":
        """Return the result for a report; `names` are the criteria of its parts."""
        # A score is None if nothing can be gained or lost; there is a reward all the same.
        score = report.raw_score if report.score is None else report.score
        parts = {OUTCOME: report.metrics.get(OUTCOME, report.outcome)}
        for name in names:
            if name != OUTCOME:
                parts[name] = report.metrics.get(name)
        steps = None
        if report.step_rewards is not None:
            steps = list(report.step_rewards.values())
        errors = [f"{name}: {reason}" for name, reason in report.why_unscored.items()]
        return cls(
            reward=report.raw_score if value == "reward" else score,
            score=score,
            parts=parts,
            error="; ".join(errors),
            version=version,
            steps=steps,
        )

    @property
    def answered(self) -> dict[str, float]:
        """The parts that have a value."""
        return {name: part for name, part in self.parts.items() if part is not None}


@dataclass
class Step:
    """A rubric with the options of a trainer's adapter.

    A row with a `rubric` of its own is scored by that one, as in files; equal rubrics are built once.
    """

    source: RubricSource
    value: Value = "reward"
    timeout: float | None = None  # seconds for all rollouts of one call
    # The trainer that calls with a single rollout at a time, so that there are no groups.
    single_rollout_trainer: str = ""
    monitor: RewardMonitor | None = None
    # The reward of a rollout without a score; `raise` or `zero` if there are no groups.
    unscored: Policy = "raise"
    # Answers the judged criteria: a grader, a model or the name of one; None for that of the rubric.
    judge: JudgeSource | None = None

    def __post_init__(self) -> None:
        """Raise `RubricError` for options that do not fit the rubric or the trainer."""
        if self.value not in ("reward", "score"):
            raise RubricError(f"value is {self.value!r}: give 'reward' or 'score'")
        if self.timeout is not None and not self.timeout > 0:
            raise RubricError(f"timeout is {self.timeout!r}: give seconds above 0, or None")
        check_policy(self.unscored)
        if self.single_rollout_trainer:
            check_policy(self.unscored, ("raise", "zero"), self.single_rollout_trainer)
        self.rubric = load_rubric(self.source)
        # Nothing is asked of a server here: it may not be up yet.
        self._is_remote = bool(getattr(self.rubric, "reads_row_rubrics", False))
        if self.single_rollout_trainer and not self._is_remote and self.rubric.compares:
            raise RubricError(
                "a check of the rubric compares the rollouts of a group, and "
                f"{self.single_rollout_trainer} hands over one at a time: leave the check out, or "
                "use a trainer that rewards whole groups (TRL, slime with --group-rm)"
            )
        if self.value == "score" and self.rubric.shaping:
            raise RubricError(
                "the shaping of the rubric changes the reward and not the score: pay value='reward'"
            )
        if self.judge is not None and self._is_remote:
            raise RubricError("the judge of a rubric on a server is chosen there: leave judge out")
        judge = self.judge
        if judge is None:
            judge = getattr(self.rubric, "grader", None)
        self._rows = RowRubrics(self.rubric, judge=judge)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parts of a result."""
        return tuple(dict.fromkeys((OUTCOME, *self.rubric.get_reward_func_names())))

    async def score(
        self, rows: Sequence[Mapping[str, Any]], groups: Sequence[Hashable] | None = None
    ) -> list[Scored]:
        """Return the result of each row. Rows that are late are unscored.

        Checks that compare rollouts see whole groups; `groups` holds the group of each row.
        """
        if not rows:
            return []
        names = self.names
        rubric = self.rubric
        if self.timeout is not None:
            rubric = await rubric.pinned()
        batches, waits = self._make_batches(rubric, rows, groups)
        calls: list[_Batch] = []
        results: dict[int, Scored] = {}  # by the index of the row
        for batch in batches:
            if batch.is_group and len(batch.indices) == 1:
                # Compared with nothing, it would get the value of the best rollout of a group.
                results[batch.indices[0]] = self.make_unscored(GROUP_MISSING, rubric.version)
            else:
                calls.append(batch)
        if self.timeout is None:
            reports = await self._score_batches(rubric, rows, calls)
        else:
            reports = await self._score_in_time(rubric, rows, calls, self.timeout, waits=waits)
        for index, report in reports.items():
            version = report.version if rubric.version else ""
            results[index] = Scored.of(report, names, self.value, version)
        late = self.make_unscored(
            f"DeadlineExceeded: not scored within {self.timeout} seconds", rubric.version
        )
        ordered = [results.get(index, late) for index in range(len(rows))]
        if self.monitor is not None:
            await watch_results(self.monitor, rows, ordered, groups)
        return ordered

    def _make_batches(
        self,
        rubric: BaseRubric,
        rows: Sequence[Mapping[str, Any]],
        groups: Sequence[Hashable] | None,
    ) -> "tuple[list[_Batch], bool]":
        """Divide the rows into those that have to be scored together.

        The second value is whether scoring waits for a judge, a process or a network.
        """
        traits = Traits.of(rubric)
        compares_usually = bool(rubric.compares)
        any_waits = False
        batches: dict[Hashable, _Batch] = {}
        for index, row in enumerate(rows):
            compares, waits = compares_usually, traits.waits
            if own_rubric(row) is not None:
                compares, waits = self._read_row_traits(row)
            any_waits = any_waits or waits
            key: Hashable = None  # all in one batch
            if compares:
                key = ("group", index if groups is None else groups[index])
            elif self.timeout is not None:
                key = ("single", index)  # so that a late row does not make others late
            batch = batches.setdefault(key, _Batch([], is_group=compares))
            batch.indices.append(index)
        return list(batches.values()), any_waits

    def _read_row_traits(self, row: Mapping[str, Any]) -> tuple[bool, bool]:
        """Return whether a row's own rubric compares rollouts, and whether it waits for anything."""
        try:
            traits = self._rows.of(row)[1]
        except AssayError:  # it is in the report of this row
            return False, False
        return bool(traits.comparing_criteria), traits.waits

    async def _score_batches(
        self, rubric: BaseRubric, rows: Sequence[Mapping[str, Any]], batches: "Sequence[_Batch]"
    ) -> dict[int, EvaluationReport]:
        """Return the report of each row, by its index."""

        async def score_batch(batch: _Batch) -> Sequence[EvaluationReport]:
            return await self._score_batch(rubric, rows, batch)

        reports: dict[int, EvaluationReport] = {}
        results = await run_concurrently(score_batch, batches)
        for batch, batch_reports in zip(batches, results, strict=True):
            reports.update(zip(batch.indices, batch_reports, strict=True))
        return reports

    async def _score_in_time(
        self,
        rubric: BaseRubric,
        rows: Sequence[Mapping[str, Any]],
        batches: "Sequence[_Batch]",
        seconds: float,
        *,
        waits: bool,
    ) -> dict[int, EvaluationReport]:
        """Return the reports that are ready after this many seconds, by the index of the row.

        `waits` says whether scoring waits for a judge, a process or a network. The event loop of the
        caller does not score, since a check that blocks it would stop the timeout as well.
        """
        # If scoring waits, one loop is enough: checks that block get threads of their own then.
        thread_count = 1 if waits else min(MAX_THREADS, len(batches))
        threads = [LoopThread() for _ in range(thread_count)]
        tasks: dict[asyncio.Future[Sequence[EvaluationReport]], _Batch] = {}
        reports: dict[int, EvaluationReport] = {}
        try:
            with set_variable(checks_use_threads, waits):
                for number, batch in enumerate(batches):
                    thread = threads[number % thread_count]
                    tasks[thread.start(self._score_batch(rubric, rows, batch))] = batch
            done, _ = await asyncio.wait(tasks, timeout=seconds)
            for task in done:
                reports.update(zip(tasks[task].indices, task.result(), strict=True))
        finally:
            for thread in threads:
                thread.stop()
        return reports

    async def _score_batch(
        self, rubric: BaseRubric, rows: Sequence[Mapping[str, Any]], batch: "_Batch"
    ) -> Sequence[EvaluationReport]:
        """Return the reports of the rows of one batch, in its order."""
        rollouts: list[dict[str, Any]] = []
        for index in batch.indices:
            # A copy, because checks may write into a state, but not into the trainer's columns.
            rollout = dict(rows[index])
            # Depending on the data, trainers give the same reply as a text or as a message.
            if "completion" in rollout:
                rollout["completion"] = as_text_if_single(rollout["completion"])
            rollouts.append(rollout)
        if self._is_remote:
            # A server reads the rubrics of rows itself, since it has the judge.
            return await rubric.score(rollouts)
        # Rows with a rubric of their own are scored by that one, and the others by this one.
        row_rubrics = self._rows.around(rubric)
        return await row_rubrics.score(rollouts)

    def make_unscored(self, error: str, version: str = "") -> Scored:
        """Return the result of a rollout that could not be scored."""
        return Scored(
            reward=None,
            score=None,
            parts=dict.fromkeys(self.names),
            error=error,
            version=version,
        )

    def get_single_reward(self, result: Scored) -> float:
        """Return the reward of a rollout without a group, filled in by the policy."""
        [reward] = fill_rewards([result], self.unscored)
        assert reward is not None  # the policy is `raise` or `zero`
        return reward


@dataclass(frozen=True)
class _Batch:
    """Rows that are scored by one call of the rubric."""

    indices: list[int]
    is_group: bool  # whether a check compares these rows


async def watch_results(
    monitor: RewardMonitor,
    rows: Sequence[Mapping[str, Any]],
    results: Sequence[Scored],
    groups: Sequence[Hashable] | None = None,
    *,
    is_step: bool = False,
) -> dict[str, float]:
    """Pass results to a monitor, and return its signs; empty if its step is not complete."""
    parts: list[dict[str, float | None]] = []
    for result in results:
        # Without shaping, the outcome is the reward itself, and would explain all of it.
        parts.append({name: value for name, value in result.parts.items() if name != OUTCOME})
    rewards = [result.reward for result in results]
    return await monitor.watch(rows, rewards, parts, groups, is_step=is_step)


def fill_rewards(
    results: Sequence[Scored], unscored: Policy, groups: Sequence[Hashable] | None = None
) -> list[float | None]:
    """Return the rewards, with those of unscored rollouts filled in by the policy."""
    rewards = [result.reward for result in results]
    return fill_unscored(rewards, unscored, groups, [result.error for result in results])


def fill_parts(
    results: Sequence[Scored], unscored: Policy, groups: Sequence[Hashable] | None = None
) -> list[dict[str, float | None]]:
    """Return the parts of each rollout, with a number for each criterion that has no answer.

    Trainers average these columns and train on them, and a single NaN or gap spoils them. The
    number is 0, as in the sum of the reward. With `group_mean` it is the mean of the answers in the
    group, or 0 if there are none; with `drop` it stays None.
    """
    if unscored == "drop":
        return [dict(result.parts) for result in results]
    group_of_result = groups or [None] * len(results)
    # The answers of each group on each criterion; empty if their means are not needed.
    answers: defaultdict[tuple[Hashable, str], list[float]] = defaultdict(list)
    if unscored == "group_mean":
        for result, group in zip(results, group_of_result, strict=True):
            for name, value in result.answered.items():
                answers[group, name].append(value)
    filled: list[dict[str, float | None]] = []
    for result, group in zip(results, group_of_result, strict=True):
        parts = dict(result.parts)
        for name, value in parts.items():
            if value is None:
                parts[name] = fmean(answers.get((group, name), [0.0]))
        filled.append(parts)
    return filled


def load_rubric(source: RubricSource) -> BaseRubric:
    """Return the rubric itself, or the one in a file."""
    if isinstance(source, BaseRubric):
        return source
    return Rubric.from_file(source)
