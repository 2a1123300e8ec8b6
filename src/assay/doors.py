"""Doors: the familiar ways in, each a thin translation of one function. Only state doors write."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, cast

from assay.advantage import advantages
from assay.concurrency import run_sync
from assay.engine import CHUNK, Found, Reports, Rewards, rewards_of
from assay.errors import GradingError
from assay.graders.base import Autograder
from assay.graders.views import ToGrade, view_of
from assay.report import EvaluationReport
from assay.rollout import Batch, Rollout
from assay.types import Messages
from assay.wording import shown


class Doors(ABC):
    """Every way into a rubric. A subclass says how a batch is answered, and what it may refuse."""

    @abstractmethod
    def _find(self, batch: Batch, autograder: Autograder | None = None) -> Found:
        """What is found about every rollout of a batch."""

    @abstractmethod
    def _refuse_alone(self) -> None:
        """Raise when a single rollout cannot be scored by itself."""

    @abstractmethod
    def _get_reward_func_names(self) -> list[str]: ...

    @property
    @abstractmethod
    def compares(self) -> bool:
        """Whether a check weighs the rollouts of a group against each other, here or further in."""

    def get_reward_func_names(self) -> list[str]:
        """The names that scores are reported under."""
        return self._get_reward_func_names()

    async def score(
        self,
        rollouts: Sequence[Rollout | Mapping[str, Any]],
        *,
        autograder: Autograder | None = None,
    ) -> list[EvaluationReport]:
        """One report a rollout, or a state, in order. Writes nothing.

        Group functions see all of them at once.
        """
        findings = await self._find(Batch.of_rollouts(rollouts), autograder)
        reports = Reports(findings, len(rollouts))
        made: list[EvaluationReport] = []
        for start in range(0, len(rollouts), CHUNK):
            if start:
                await asyncio.sleep(0)
            made += reports[start : start + CHUNK]
        return made

    async def grade(
        self,
        to_grade: ToGrade,
        autograder: Autograder | None = None,
        query: str | None = None,
        *,
        answer: Any = "",
        info: Mapping[str, Any] | None = None,
    ) -> EvaluationReport:
        """The report on one text: a string, messages, or a mapping with `thinking` and `output`.

        Raises `GradingError`, which holds the partial report, when a counted line has no answer.
        """
        completion, view = view_of(to_grade)
        row: dict[str, Any] = {"prompt": query or "", "completion": completion, "answer": answer}
        row["info"] = dict(info or {})
        findings = await self._find(Batch([row], [row], [view]), autograder)
        report = findings.report(0)
        if report.applies and not report.scored:
            raise GradingError(_what_is_missing(report), report)
        return report

    def grade_sync(
        self,
        to_grade: ToGrade,
        autograder: Autograder | None = None,
        query: str | None = None,
        *,
        answer: Any = "",
        info: Mapping[str, Any] | None = None,
    ) -> EvaluationReport:
        """`grade`, from synchronous code; works inside a running loop too."""
        return run_sync(self.grade(to_grade, autograder, query, answer=answer, info=info))

    async def score_rollout(self, state: MutableMapping[str, Any]) -> EvaluationReport:
        """Score one state and write `reward`, `metrics`, `errors` and timing into it.

        An unscored rollout gets the reward None, and the sum of what was answered as `partial_reward`.
        A group function needs `score_group`, and an empty rubric has nothing to score.
        """
        self._refuse_alone()
        return (await self._score_states([state], in_group=False))[0]

    async def score_group(
        self,
        states: Sequence[MutableMapping[str, Any]],
        *,
        autograder: Autograder | None = None,
    ) -> Sequence[EvaluationReport]:
        """Score the states of one group; writes what `score_rollout` does, and `advantage`."""
        return await self._score_states(states, in_group=True, autograder=autograder)

    async def _score_states(
        self,
        states: Sequence[MutableMapping[str, Any]],
        *,
        in_group: bool,
        autograder: Autograder | None = None,
    ) -> Sequence[EvaluationReport]:
        _refuse_no_states(states)
        started = time.perf_counter()
        findings = await self._find(Batch.of_states(states), autograder)
        found = rewards_of(findings)
        worth = advantages(found.rewards) if in_group else None
        if len(states) > CHUNK:
            await asyncio.sleep(0)
        metrics = findings.metrics()
        elapsed_ms = (time.perf_counter() - started) * 1000
        _write_states(states, self._paid(found), metrics, worth, elapsed_ms)
        return Reports(findings, len(states))

    def _paid(self, found: Rewards) -> Rewards:
        """The rewards as they are written for callers of the doors that give numbers."""
        return found

    def score_rollout_sync(
        self,
        prompt: Messages = "",
        completion: Messages = "",
        answer: Any = "",
        state: Mapping[str, Any] | None = None,
        task: str = "default",
        info: Mapping[str, Any] | None = None,
    ) -> dict[str, float | None]:
        """The value of every criterion by name, and `reward`; None where there is no answer.

        When the rollout is unscored, `partial_reward` is the sum of what was answered.
        """
        self._refuse_alone()
        scores = self.score_rollouts(
            [prompt], [completion], [answer], [{} if state is None else state], [task], [info or {}]
        )
        return {name: column[0] for name, column in scores.items()}

    def score_rollouts(
        self,
        prompts: Sequence[Messages],
        completions: Sequence[Messages],
        answers: Sequence[Any],
        states: Sequence[Mapping[str, Any]] | None = None,
        tasks: Sequence[str] | None = None,
        infos: Sequence[Mapping[str, Any]] | None = None,
    ) -> dict[str, list[float | None]]:
        """A column of values a criterion, and `reward`; None where there is no answer.

        When a rollout is unscored, the column `partial_reward` holds the sums of what was answered.
        """
        size = len(prompts)
        given = [cast("Mapping[str, Any]", {}) for _ in prompts] if states is None else states
        columns: dict[str, Sequence[Any]] = {
            "prompt": prompts,
            "completion": completions,
            "answer": answers,
            "task": ["default"] * size if tasks is None else tasks,
            "info": [{} for _ in prompts] if infos is None else infos,
        }
        _refuse_uneven({**columns, "state": given})
        fields = zip(*columns.values(), strict=True)
        rows = [
            {**state, **dict(zip(columns, values, strict=True))}
            for state, values in zip(given, fields, strict=True)
        ]
        findings = run_sync(self._find(Batch(rows, given)))
        metrics = findings.metrics()
        scores: dict[str, list[float | None]] = {
            name: [row.get(name) for row in metrics] for name in self._get_reward_func_names()
        }
        found = self._paid(rewards_of(findings))
        scores["reward"] = [*found.rewards]
        if found.partial is not None:
            scores["partial_reward"] = [*found.partial]
        return scores


def _write_states(
    states: Sequence[MutableMapping[str, Any]],
    found: Rewards,
    all_metrics: Sequence[dict[str, float]],
    worth: Sequence[float | None] | None,
    elapsed_ms: float,
) -> None:
    """The one place that writes into states: everything at once, from the total."""
    rows = zip(states, found.rewards, all_metrics, worth or [None] * len(states), strict=True)
    for state, reward, metrics, advantage in rows:
        state["reward"] = reward
        state["metrics"] = metrics
        if worth is not None:
            state["advantage"] = advantage
        if "errors" in state:
            state["errors"] = {}
        if "partial_reward" in state:
            del state["partial_reward"]
        timing: dict[str, Any] | None = state.get("timing")
        if timing is None:
            timing = state["timing"] = {}
        if timing.__class__ is dict or isinstance(timing, MutableMapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            # Scoring again replaces the time of scoring before, in the total too.
            earlier = timing.get("scoring_ms") or 0.0
            timing["scoring_ms"] = elapsed_ms
            timing["total_ms"] = (timing.get("total_ms") or 0.0) - earlier + elapsed_ms
        steps: list[Any] | None = state.get("trajectory")
        if steps.__class__ is list and steps:
            _write_steps(steps, reward, advantage)
    for state, error in zip(states, found.errors or (), strict=False):
        state["errors"] = error
    for state, reward, partial in zip(states, found.rewards, found.partial or (), strict=False):
        if reward is None:
            state["partial_reward"] = partial


def _write_steps(steps: list[Any], reward: float | None, advantage: float | None) -> None:
    """Steps of a trajectory that have no reward or advantage of their own get the rollout's."""
    for step in steps:
        if isinstance(step, MutableMapping):
            own = cast("MutableMapping[str, Any]", step)
            if own.get("reward") is None:
                own["reward"] = reward
            if advantage is not None and own.get("advantage") is None:
                own["advantage"] = advantage


def _what_is_missing(report: EvaluationReport) -> str:
    missing = [line for line in report.lines if line.counted and not line.answered]
    listed = "; ".join(f"{line.name}: {line.error}" for line in missing[:3])
    more = f"; and {len(missing) - 3} more" if len(missing) > 3 else ""
    return (
        f"{report.asked - report.answered} of {report.asked} criteria have no answer "
        f"({listed}{more}): the partial report is in .report"
    )


def _refuse_no_states(states: Sequence[object]) -> None:
    if not hasattr(states, "__len__") or isinstance(states, Mapping):
        raise TypeError(f"score_group takes a list of states, and this is {shown(states)}")
    for kind in set(map(type, states)) - {dict}:
        if not issubclass(kind, MutableMapping):
            state = next(state for state in states if type(state) is kind)
            raise TypeError(f"a state is {shown(state)}: give a dict")


def _refuse_uneven(columns: Mapping[str, Sequence[Any]]) -> None:
    sizes = {name: len(column) for name, column in columns.items()}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{size} {name}s" for name, size in sizes.items())
        raise ValueError(f"the columns differ in length ({listed}): give one of each a rollout")
