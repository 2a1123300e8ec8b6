"""A Step scores the rollouts that a trainer wants rewarded at once, group by group and within a time."""

import asyncio
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, TypeAlias

from assay.aggregation import Fallback
from assay.criterion import Scorer
from assay.errors import RubricError
from assay.report import EvaluationReport
from assay.rubric import BaseRubric, Rubric

Value: TypeAlias = Literal["reward", "score"]
"""What a trainer is paid in: the weighted sum, or its normalised view between 0 and 1."""

RubricSource: TypeAlias = BaseRubric | str | Path  # a rubric, here or behind a server, or the file it stands in


@dataclass(frozen=True)
class Scored:
    """What a trainer is told about one rollout."""

    reward: float | None  # None when it is unscored
    score: float | None  # the same between 0 and 1, whatever the trainer is paid in
    parts: Mapping[str, float | None]
    """The value of every criterion, always under the same names; None where there is no answer."""
    error: str = ""  # why it is unscored

    @classmethod
    def of(cls, report: EvaluationReport, names: Iterable[str], value: Value = "reward") -> "Scored":
        metrics, score = report.metrics, report.score
        score = report.raw_score if score is None else score  # nothing was at stake, and still there is a reward
        return cls(
            reward=report.raw_score if value == "reward" else score,
            score=score,
            parts={name: metrics.get(name) for name in names},
            error="; ".join(f"{name}: {why}" for name, why in report.why_unscored.items()),
        )

    @property
    def answered(self) -> dict[str, float]:
        return {name: part for name, part in self.parts.items() if part is not None}


@dataclass
class Step:
    """A rubric as trainers ask it. `timeout` is in seconds, for all rollouts of one call."""

    source: RubricSource
    value: Value = "reward"
    timeout: float | None = None
    scorer: Scorer | None = None  # what scores instead of the rubric, where rows bring rubrics of their own

    def __post_init__(self) -> None:
        if self.value not in ("reward", "score"):
            raise RubricError(f"value is {self.value!r}: give 'reward' or 'score'")
        if self.timeout is not None and not self.timeout > 0:
            raise RubricError(f"timeout is {self.timeout!r}: give seconds above 0, or None")
        self.rubric = rubric_of(self.source)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.rubric.get_reward_func_names()))

    @cached_property
    def _compares(self) -> bool:
        return self.rubric.compares

    async def score(self, rows: Sequence[Mapping[str, Any]], groups: Sequence[Hashable] | None = None) -> list[Scored]:
        """Return what is found about each rollout; late ones are unscored. Checks that compare see whole groups."""
        if not rows:
            return []
        if self.timeout is None and not self._compares:
            return [Scored.of(report, self.names, self.value) for report in await self._ask(rows)]
        late = Scored(
            None, None, dict.fromkeys(self.names), f"DeadlineExceeded: not scored within {self.timeout} seconds"
        )
        answered = [late] * len(rows)
        members: dict[Hashable, list[int]] = {}
        for place, group in enumerate(range(len(rows)) if groups is None else groups):
            members.setdefault(group, []).append(place)
        tasks = {asyncio.ensure_future(self._ask([rows[place] for place in some])): some for some in members.values()}
        try:
            done, _ = await asyncio.wait(tasks, timeout=self.timeout)
            for task in done:
                for place, report in zip(tasks[task], task.result(), strict=True):
                    answered[place] = Scored.of(report, self.names, self.value)
        finally:
            for task in tasks:
                task.cancel()
        return answered

    async def _ask(self, rows: Sequence[Mapping[str, Any]]) -> Sequence[EvaluationReport]:
        # Checks may write into a state, and the trainer's columns are not theirs to write into.
        return await (self.scorer or self.rubric).score([dict(row) for row in rows])


def paid(found: Sequence[Scored], fallback: Fallback, groups: Sequence[Hashable] | None = None) -> list[float | None]:
    """The rewards, with those of unscored rollouts filled in by the fallback."""
    return fallback.fill([one.reward for one in found], groups, [one.error for one in found])


def parts_of(
    found: Sequence[Scored], fallback: Fallback, groups: Sequence[Hashable] | None = None
) -> list[dict[str, float | None]]:
    """The parts of each rollout, with a number for each that has no answer.

    Trainers average these columns, and train on them: one NaN or one gap spoils all of them. The number is 0, as what the
    criterion adds to the reward; with `group_mean` it is the mean of the group's answers. With `drop` it stays None.
    """
    if fallback.policy == "drop":
        return [dict(one.parts) for one in found]
    members = groups or [None] * len(found)
    answers: dict[tuple[Hashable, str], list[float]] = {}
    if fallback.policy == "group_mean":
        for one, group in zip(found, members, strict=True):
            for name, part in one.answered.items():
                answers.setdefault((group, name), []).append(part)
    return [
        {name: fmean(answers.get((group, name), [0.0])) if part is None else part for name, part in one.parts.items()}
        for one, group in zip(found, members, strict=True)
    ]


def rubric_of(source: RubricSource) -> BaseRubric:
    """The rubric itself, or the one that a file holds."""
    return source if isinstance(source, BaseRubric) else Rubric.from_file(source)
