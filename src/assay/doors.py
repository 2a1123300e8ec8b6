"""Doors: the familiar ways in, each a thin translation of one function. Only state doors write."""

import asyncio
import inspect
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, cast

from assay.advantage import advantages
from assay.aggregation import Totals, normalise
from assay.concurrency import FAILURES, is_stop, run_sync, side_by_side
from assay.engine import CHUNK, Findings, Found, Reported, Reports, Rewards, rewards_of
from assay.errors import GradingError, RubricError, SignatureError
from assay.graders.base import Autograder
from assay.graders.verdicts import number_of
from assay.graders.views import ToGrade, view_of
from assay.lines import CriterionReport
from assay.report import EvaluationReport, aggregate
from assay.rollout import OUTPUTS, Batch, Rollout
from assay.types import Messages, OnError
from assay.wording import described, shown


class Doors(ABC):
    """Every way into a rubric. A subclass says how a batch is answered, and what it may refuse.

    A subclass may also have a `score_rollout`, `score_group` or `score` of its own, which calls that of
    its base class or does not. Whatever scores by the rubric then calls that method: groups, rubrics around
    it, environments, runs, servers and trainers.
    """

    on_error: OnError = "record"

    def __init_subclass__(cls, **options: Any) -> None:
        """Note when a method of a subclass's own is under way, so that what it calls asks the criteria."""
        super().__init_subclass__(**options)
        for name in _METHODS:
            method = getattr(cls, name)
            is_ours = method is getattr(Doors, name) or hasattr(method, "notes_calls")
            if not is_ours and inspect.iscoroutinefunction(method):
                setattr(cls, name, _noting(method))

    @abstractmethod
    def _find(self, batch: Batch, autograder: Autograder | None = None) -> Found:
        """What is found about every rollout of a batch, by the criteria alone."""

    @property
    def own_methods(self) -> frozenset[str]:
        """The scoring methods that a subclass has of its own, here or in a rubric inside."""
        return self._own_methods()

    def _own_methods(self) -> frozenset[str]:
        kind = type(self)
        return frozenset(n for n in _METHODS if getattr(kind, n) is not getattr(Doors, n))

    async def _findings(self, batch: Batch, autograder: Autograder | None = None) -> Findings:
        """What is found about every rollout of a batch, by a method of a subclass if it has one."""
        call = _under_way(self)
        if call is not None:
            return await self._find(batch, autograder or call.grader)
        own = self._own_methods()
        if not own or not len(batch):
            return await self._find(batch, autograder)
        if "score" in own:
            options = {} if autograder is None else {"autograder": autograder}
            with _calling(_Call(self, autograder)):
                return Reported(list(await self.score(batch.rollouts(), **options)))
        pairs = zip(batch.rows, batch.states, strict=True)
        states = [_own_state(row, state) for row, state in pairs]
        # What it writes is read from the states; whoever asked decides what is left there.
        earlier = [{n: state.pop(n) for n in OUTPUTS if n in state} for state in states]
        try:
            return Reported(await self._ask_own(states, autograder, quietly=True))
        finally:
            for state, outputs in zip(states, earlier, strict=True):
                for name in OUTPUTS:
                    state.pop(name, None)
                state.update(outputs)

    async def _ask_own(
        self,
        states: Sequence[MutableMapping[str, Any]],
        autograder: Autograder | None,
        *,
        quietly: bool = False,
    ) -> list[EvaluationReport]:
        """A report a state, from what a subclass's own method writes or returns."""

        async def ask(some: Sequence[MutableMapping[str, Any]]) -> list[EvaluationReport]:
            call = _Call(self, autograder, quietly)
            error: str | None = None
            returned: Any = None
            try:
                with _calling(call):
                    method: Any = self.score_group if in_group else self.score_rollout
                    result: Any = method(some if in_group else some[0])
                    returned = await result if inspect.isawaitable(result) else result
            except (SignatureError, RubricError):
                raise
            except FAILURES as failure:
                if self.on_error == "raise" or is_stop(failure):
                    raise
                error = described(failure)
            reports: list[Any] = [*(returned or ())] if in_group else [returned]
            reports += [None] * (len(some) - len(reports))
            name = f"{'score_group' if in_group else 'score_rollout'} of {type(self).__name__}"
            return [
                own_report(name, state, report, call.found.get(id(state)), error)
                for state, report in zip(some, reports, strict=False)
            ]

        in_group = "score_group" in self._own_methods()
        if in_group:
            return await ask(states)
        each = await side_by_side(lambda state: ask([state]), states)
        return [report for [report] in each]

    async def reports_on_group(
        self, states: Sequence[MutableMapping[str, Any]], autograder: Autograder | None = None
    ) -> Sequence[EvaluationReport]:
        """Score the states of one group as `score_group` does, with a report a state in any case: a
        subclass's own `score_group` may return none."""
        if "score_group" in self._own_methods():
            return await self._ask_own(states, autograder)
        return await self.score_group(states, autograder=autograder)

    async def _prepare(self) -> None:  # noqa: B027 - most have nothing to prepare
        """What has to be awaited before a single rollout can be refused."""

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
        findings = await self._findings(Batch.of_rollouts(rollouts), autograder)
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
        findings = await self._findings(Batch([row], [row], [view]), autograder)
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
        await self._prepare()
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
        findings = await self._findings(Batch.of_states(states), autograder)
        found = rewards_of(findings)
        worth = advantages(found.rewards) if in_group else None
        if len(states) > CHUNK:
            await asyncio.sleep(0)
        metrics = findings.metrics()
        elapsed_ms = (time.perf_counter() - started) * 1000
        call = _under_way(self)
        _write_states(
            states,
            self._paid(found),
            metrics,
            worth,
            elapsed_ms,
            alone=call is None or not call.quietly,
        )
        reports = Reports(findings, len(states))
        if call is not None:
            call.found.update(zip(map(id, states), reports, strict=True))
        return reports

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
        findings = run_sync(self._findings(Batch(rows, given)))
        metrics = findings.metrics()
        names = dict.fromkeys(self._get_reward_func_names())
        if self.own_methods:
            names |= dict.fromkeys(name for row in metrics for name in row)
        scores: dict[str, list[float | None]] = {
            name: [row.get(name) for row in metrics] for name in names
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
    *,
    alone: bool = True,
) -> None:
    """The one place that writes into states: everything at once, from the total.

    Unless the rubric is `alone`, another one writes the time and the rewards of steps.
    """
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
        if not alone:
            continue
        timing: dict[str, Any] | None = state.get("timing")
        if timing is None:
            timing = state["timing"] = {}
        if timing.__class__ is dict or isinstance(timing, MutableMapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            # Scoring again replaces the time of scoring before, in the total too.
            earlier = timing.get("scoring_ms") or 0.0
            timing["scoring_ms"] = elapsed_ms
            timing["total_ms"] = (timing.get("total_ms") or 0.0) - earlier + elapsed_ms
        trajectory: list[Any] | None = state.get("trajectory")
        if trajectory.__class__ is list and trajectory:
            _write_steps(trajectory, reward, advantage)
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


@dataclass
class _Call:
    """A call of a subclass's own method that is under way: from inside it, the criteria are asked."""

    rubric: Doors
    grader: Autograder | None
    quietly: bool = False
    """Whether time and steps are left alone, since those of a whole group are written by the group."""
    found: dict[int, EvaluationReport] = field(default_factory=dict[int, EvaluationReport])
    """What the base class's method found, by the id of the state."""


_METHODS = ("score_group", "score_rollout", "score")
_CALLS: ContextVar[tuple[_Call, ...]] = ContextVar("calls", default=())


def _under_way(rubric: Doors) -> _Call | None:
    return next((call for call in reversed(_CALLS.get()) if call.rubric is rubric), None)


@contextmanager
def _calling(call: _Call) -> Generator[None]:
    token = _CALLS.set((*_CALLS.get(), call))
    try:
        yield
    finally:
        _CALLS.reset(token)


def _noting(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method of a subclass, under way while it runs."""

    @wraps(method)
    async def noted(self: Doors, *args: Any, **options: Any) -> Any:
        if _under_way(self) is not None:
            return await method(self, *args, **options)
        with _calling(_Call(self, options.get("autograder"))):
            return await method(self, *args, **options)

    noted.__dict__["notes_calls"] = True
    return noted


def _own_state(row: Mapping[str, Any], state: Mapping[str, Any]) -> MutableMapping[str, Any]:
    """What a subclass's own method is given: the state, or one made of a rollout's fields."""
    if row is state and isinstance(row, MutableMapping):
        return row
    return {**state, **row}


def own_report(
    name: str,
    state: Mapping[str, Any],
    returned: object,
    base: EvaluationReport | None,
    error: str | None,
) -> EvaluationReport:
    """The report on a state that a subclass's own method has scored.

    `base` is what the base class's method found when it was called from there, and `error` what was
    raised instead of an answer.
    """
    given = returned if isinstance(returned, EvaluationReport) else base
    reward = state.get("reward")
    if given is not None and not given.scored and (reward is None or state.get("errors") or error):
        return given
    if error is None and isinstance(returned, EvaluationReport):
        untouched = base is not None and base.raw_score == reward
        if "reward" not in state or (untouched and returned.raw_score != reward):
            return returned
    if error is None and "reward" not in state:
        error = f"TypeError: {name} wrote no reward into the state and returned no report: do one"
    number = number_of(reward)
    if error is None and number is None:
        error = f"ValueError: {name} wrote {shown(reward)} as the reward, not a finite number"
    if error is not None or number is None:
        return aggregate([CriterionReport(name=name, error=error)])
    metrics = cast("Mapping[str, Any]", state.get("metrics") or {})
    if given is not None and given.raw_score == number and given.metrics == metrics:
        return given
    known = {} if given is None else {line.name: line for line in given.lines}
    lines = [
        known[metric]
        if metric in known and known[metric].value == value
        else CriterionReport(name=str(metric), weight=0.0, value=number_of(value), counted=False)
        for metric, value in metrics.items()
    ]
    if given is None or not given.asked:
        # Nothing says how much there was to gain, so that the reward is the score, as with a formula.
        return EvaluationReport(
            number, number, report=lines, gain=1.0, asked=1, answered=1, scale="raw"
        )
    score = normalise(Totals(number, given.gain, given.loss), given.scale)
    update = {"score": score, "raw_score": number, "report": lines, "worth": None}
    return given.model_copy(update=update)


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
