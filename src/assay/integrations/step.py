"""A Step scores the rollouts that a trainer wants rewarded at once, group by group and within a time."""

import asyncio
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Final, Literal, TypeAlias

from assay.aggregation import Policy, check_policy, fill_unscored, group_by_key
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

OUTCOME: Final = (
    "outcome"  # the name under which trainers get what the criteria came to, to filter groups by
)
# Why a rollout is unscored that a trainer hands over by itself.
ALONE: Final = "RubricError: a check compares the rollouts of a group, and this one came alone: send groups, or score without it"
MOST_THREADS: Final = 32  # of one call, where nothing waits and a check may block
# What a trainer is paid in: the weighted sum, or its normalised view between 0 and 1.
Value: TypeAlias = Literal["reward", "score"]

RubricSource: TypeAlias = (
    BaseRubric | str | Path
)  # a rubric, here or behind a server, or the file it stands in


@dataclass(frozen=True)
class Scored:
    """What a trainer is told about one rollout."""

    reward: float | None  # None when it is unscored
    score: float | None  # the same between 0 and 1, whatever the trainer is paid in
    # The `outcome` before shaping, and the value of every criterion, always under the same names; None without an
    # answer.
    parts: Mapping[str, float | None]
    error: str = ""  # why it is unscored
    version: str = ""  # the hash of the rubric, where that may change while training runs
    steps: Sequence[float | None] | None = (
        None  # the reward of each turn, where the rubric has criteria about steps
    )

    @classmethod
    def of(
        cls,
        report: EvaluationReport,
        names: Iterable[str],
        value: Value = "reward",
        version: str = "",
    ) -> "Scored":
        metrics, score = report.metrics, report.score
        score = (
            report.raw_score if score is None else score
        )  # nothing was at stake, and still there is a reward
        return cls(
            reward=report.raw_score if value == "reward" else score,
            score=score,
            parts={
                n: metrics.get(n, report.outcome if n == OUTCOME else None)
                for n in (OUTCOME, *names)
            },
            error="; ".join(f"{name}: {why}" for name, why in report.why_unscored.items()),
            version=version,
            steps=None if report.step_rewards is None else [*report.step_rewards.values()],
        )

    @property
    def answered(self) -> dict[str, float]:
        return {name: part for name, part in self.parts.items() if part is not None}


@dataclass
class Step:
    """A rubric as trainers ask it, and what they pay. `timeout` is in seconds, for all rollouts of one call.

    A row with a `rubric` of its own is scored by that one, as in files; equal rubrics are built once.
    """

    source: RubricSource
    value: Value = "reward"
    timeout: float | None = None
    hands_over_one: str = (
        ""  # the trainer that calls with one rollout at a time, so that there is no group
    )
    monitor: RewardMonitor | None = None
    unscored: Policy = "raise"  # what is paid for a rollout without a score; `raise` or `zero` where there is no group
    # Answers the judged criteria: a grader, a model, or the name of one; None means that of the rubric.
    judge: JudgeSource | None = None

    def __post_init__(self) -> None:
        if self.value not in ("reward", "score"):
            raise RubricError(f"value is {self.value!r}: give 'reward' or 'score'")
        if self.timeout is not None and not self.timeout > 0:
            raise RubricError(f"timeout is {self.timeout!r}: give seconds above 0, or None")
        check_policy(self.unscored)
        if self.hands_over_one:
            check_policy(self.unscored, ("raise", "zero"), self.hands_over_one)
        self.rubric = rubric_of(self.source)
        is_here = not getattr(self.rubric, "reads_row_rubrics", False)  # a server may not be up yet
        if self.hands_over_one and is_here and self.rubric.compares:
            told = f"compares the rollouts of a group, and {self.hands_over_one} hands over one at a time"
            advice = "leave the check out, or use a trainer that rewards whole groups (TRL, slime with --group-rm)"
            raise RubricError(f"a check of the rubric {told}: {advice}")
        if self.value == "score" and self.rubric.shaping:
            raise RubricError(
                "the shaping of the rubric changes the reward and not the score: pay value='reward'"
            )
        if self.judge is not None and not is_here:
            raise RubricError("the judge of a rubric on a server is chosen there: leave judge out")
        judge = getattr(self.rubric, "grader", None) if self.judge is None else self.judge
        self._rows = RowRubrics(self.rubric, judge=judge)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((OUTCOME, *self.rubric.get_reward_func_names())))

    async def score(
        self, rows: Sequence[Mapping[str, Any]], groups: Sequence[Hashable] | None = None
    ) -> list[Scored]:
        """Return what is found about each rollout; late ones are unscored. Checks that compare see whole groups."""
        if not rows:
            return []
        names, rubric = (
            self.names,
            self.rubric if self.timeout is None else await self.rubric.pinned(),
        )
        usual = bool(rubric.compares), Traits.of(rubric).waits
        late = self.without_score(
            f"DeadlineExceeded: not scored within {self.timeout} seconds", rubric.version
        )
        found = [late] * len(rows)
        parts: dict[
            tuple[str, Hashable] | None, list[int]
        ] = {}  # the places of the rows that are scored by one call
        waits = False
        for place, row in enumerate(rows):
            compares, row_waits = usual if own_rubric(row) is None else self._plan(row)
            waits = waits or row_waits
            apart = None if self.timeout is None else ("alone", place)
            part = ("group", place if groups is None else groups[place]) if compares else apart
            parts.setdefault(part, []).append(place)
        asked: list[list[int]] = []
        for part, places in parts.items():
            if part is not None and part[0] == "group" and len(places) == 1:
                # Compared with nothing it would get whatever the best of a group gets.
                found[places[0]] = self.without_score(ALONE, rubric.version)
            else:
                asked.append(places)
        if self.timeout is None:
            results = await run_concurrently(
                lambda places: self._ask(rubric, [rows[place] for place in places]), asked
            )
            answered = list(zip(asked, results, strict=True))
        else:
            # Not in this loop, which a check that blocks would stop, and the deadline with it.
            # Where judges are asked, one loop is enough, and checks that block get threads of their own.
            threads = [LoopThread() for _ in range(1 if waits else min(MOST_THREADS, len(asked)))]
            with set_variable(checks_use_threads, waits):
                tasks = {
                    threads[number % len(threads)].start(
                        self._ask(rubric, [rows[place] for place in places])
                    ): places
                    for number, places in enumerate(asked)
                }
            try:
                done, _ = await asyncio.wait(tasks, timeout=self.timeout)
                answered = [(tasks[task], task.result()) for task in done]
            finally:
                for thread in threads:
                    thread.stop()
        for places, reports in answered:
            for place, report in zip(places, reports, strict=True):
                version = report.version if rubric.version else ""
                found[place] = Scored.of(report, names, self.value, version)
        if self.monitor is not None:
            await watched(self.monitor, rows, found, groups)
        return found

    def without_score(self, why: str, version: str = "") -> Scored:
        """What is told about a rollout that could not be scored."""
        return Scored(None, None, dict.fromkeys(self.names), why, version)

    def paid_alone(self, found: Scored) -> float:
        """The reward of a rollout that came alone."""
        [reward] = paid([found], self.unscored)
        assert reward is not None  # with `raise` and `zero` there is always one
        return reward

    def _plan(self, row: Mapping[str, Any]) -> tuple[bool, bool]:
        """Whether the own rubric of a row compares rollouts, and whether it waits for anything."""
        try:
            traits = self._rows.of(row)[1]
        except AssayError:  # an error of this row, which its report tells
            return False, False
        return bool(traits.compares), traits.waits

    async def _ask(
        self, rubric: BaseRubric, rows: Sequence[Mapping[str, Any]]
    ) -> Sequence[EvaluationReport]:
        # Checks may write into a state, and the trainer's columns are not theirs to write into.
        # A server reads the rubrics of rows itself: it has the judge.
        scorer = (
            rubric if getattr(rubric, "reads_row_rubrics", False) else self._rows.around(rubric)
        )
        rollouts: list[dict[str, Any]] = []
        for row in rows:
            rollout = dict(row)
            # Trainers hand over the same reply as a text or as a message, depending on the data.
            if "completion" in rollout:
                rollout["completion"] = as_text_if_single(rollout["completion"])
            rollouts.append(rollout)
        return await scorer.score(rollouts)


async def watched(
    monitor: RewardMonitor,
    rows: Sequence[Mapping[str, Any]],
    found: Sequence[Scored],
    groups: Sequence[Hashable] | None = None,
    *,
    is_step: bool = False,
) -> dict[str, float]:
    """The signs that a monitor sees in what was found."""
    # Without shaping the outcome is the reward itself, and would explain all of it.
    parts = [{n: v for n, v in one.parts.items() if n != OUTCOME} for one in found]
    return await monitor.watch(rows, [one.reward for one in found], parts, groups, is_step=is_step)


def paid(
    found: Sequence[Scored], unscored: Policy, groups: Sequence[Hashable] | None = None
) -> list[float | None]:
    """The rewards, with what the policy pays for unscored rollouts."""
    return fill_unscored(
        [one.reward for one in found], unscored, groups, [one.error for one in found]
    )


def parts_of(
    found: Sequence[Scored], unscored: Policy, groups: Sequence[Hashable] | None = None
) -> list[dict[str, float | None]]:
    """The parts of each rollout, with a number for each that has no answer.

    Trainers average these columns, and train on them: one NaN or one gap spoils all of them. The number is 0, as what the
    criterion adds to the reward; with `group_mean` it is the mean of the group's answers. With `drop` it stays None.
    """
    if unscored == "drop":
        return [dict(one.parts) for one in found]
    pairs = list(zip(found, groups or [None] * len(found), strict=True))
    averaged = pairs if unscored == "group_mean" else ()
    answers = group_by_key(
        ((group, name), part) for one, group in averaged for name, part in one.answered.items()
    )
    return [
        {
            name: fmean(answers.get((group, name), [0.0])) if part is None else part
            for name, part in one.parts.items()
        }
        for one, group in pairs
    ]


def rubric_of(source: RubricSource) -> BaseRubric:
    """The rubric itself, or the one that a file holds."""
    return source if isinstance(source, BaseRubric) else Rubric.from_file(source)
