"""A Rubric scores rollouts by weighted criteria, and a RubricGroup adds up several rubrics."""

import asyncio
import inspect
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Final, Self, TypeAlias, cast

from assay.advantage import Estimator, advantages, gdpo_advantages
from assay.aggregation import Totals, aggregation_of, normalise
from assay.concurrency import FAILURES, is_stop, run_sync, setting, side_by_side
from assay.criterion import Criterion, Scorer, hash_of
from assay.display import Page, Section
from assay.engine import (
    CHUNK,
    BatchResult,
    Engine,
    Outcomes,
    Plan,
    Summed,
    Traits,
    bound_to,
    named_apart,
)
from assay.errors import AssayError, GradingError, RubricError, SignatureError
from assay.graders.grader import Grader
from assay.graders.judge_input import ToGrade, showing, view_of
from assay.graders.verdicts import number_of
from assay.loading import Loadable, criterion_of
from assay.loading.document import Node
from assay.loading.rubric_reader import (
    criterion_nodes,
    group_parts,
    inner_options,
    is_group,
    object_of,
)
from assay.messages import read_completion, shows_of
from assay.parsers import Parser
from assay.redaction import logger_of
from assay.report import CriterionReport, EvaluationReport, aggregate
from assay.rollout import OUTPUTS, Batch, Rollout
from assay.shaping import ShapingPart, shaped, shaping_of
from assay.types import Messages, OnError, RewardFunc, Rewards
from assay.wording import counted, described, short_repr

logger = logger_of("assay")

_WRITTEN: Final = OUTPUTS | {
    "outcome"
}  # a check may name a field `outcome`: only a shaping writes it
# What environments hand over, one a rollout; scoring writes into them.
States: TypeAlias = Sequence[MutableMapping[str, Any]]


class BaseRubric(ABC):
    """Every way to score by a rubric. A subclass says how a batch is answered, and what it may refuse.

    A subclass may have its own `score_rollout`, `score_group` or `score`; whatever scores by the rubric then calls it.
    """

    on_error: OnError = "record"
    shaping: tuple[ShapingPart, ...] = ()  # what makes the reward of the outcome, in order

    _own: frozenset[str] = frozenset()  # the scoring methods that a subclass has of its own

    def __init_subclass__(cls, **options: Any) -> None:
        """Note when a method of a subclass's own is under way, so that what it calls asks the criteria."""
        super().__init_subclass__(**options)
        cls._own = frozenset(n for n in _METHODS if getattr(cls, n) is not getattr(BaseRubric, n))
        for name in cls._own:
            method = getattr(cls, name)
            if inspect.iscoroutinefunction(method) and not hasattr(method, "notes_calls"):
                setattr(cls, name, _noting(method))

    @abstractmethod
    async def _ask_criteria(self, batch: Batch, autograder: Grader | None = None) -> BatchResult:
        """What is found about every rollout of a batch, by the criteria alone."""

    @property
    def own_methods(self) -> frozenset[str]:
        """The scoring methods that a subclass has of its own, here or in a rubric inside."""
        return self._own

    async def score_batch(self, batch: Batch, autograder: Grader | None = None) -> BatchResult:
        """What is found about every rollout of a batch, by a method of a subclass if it has one."""
        call = _under_way(self)
        if call is not None:
            return await self._ask_and_shape(batch, autograder or call.grader)
        own = self._own
        if not own or not len(batch):
            return await self._ask_and_shape(batch, autograder)
        if "score" in own:
            options = {} if autograder is None else {"autograder": autograder}
            with _calling(_Call(self, autograder)):
                return BatchResult(list(await self.score(batch.rollouts(), **options)))
        states: list[MutableMapping[str, Any]] = [
            row if row is state and isinstance(row, MutableMapping) else {**state, **row}
            for row, state in zip(batch.rows, batch.states, strict=True)
        ]
        # What it writes is read from the states; the caller decides what is left there.
        earlier = [{n: state.pop(n) for n in _WRITTEN if n in state} for state in states]
        try:
            return BatchResult(await self._ask_own(states, autograder, quietly=True))
        finally:
            for state, outputs in zip(states, earlier, strict=True):
                for name in _WRITTEN:
                    state.pop(name, None)
                state.update(outputs)

    async def _ask_and_shape(self, batch: Batch, autograder: Grader | None) -> BatchResult:
        result = await self._ask_criteria(batch, autograder)
        if not self.shaping:
            return result
        return BatchResult(shaped(result, batch.rows, self.shaping, self.on_error), is_shaped=True)

    async def _ask_own(
        self, states: States, autograder: Grader | None, *, quietly: bool = False
    ) -> list[EvaluationReport]:
        """A report a state, from what a subclass's own method writes or returns."""

        async def ask(some: States) -> list[EvaluationReport]:
            call = _Call(self, autograder, quietly)
            error: str | None = None
            returned: Any = None
            try:
                with _calling(call):
                    result: Any = getattr(self, method)(some if in_group else some[0])
                    returned = await result if inspect.isawaitable(result) else result
            except FAILURES as failure:
                if (
                    self.on_error == "raise"
                    or is_stop(failure)
                    or isinstance(failure, SignatureError | RubricError)
                ):
                    raise
                error = described(failure)
            reports: list[Any] = [*(returned or ())] if in_group else [returned]
            reports += [None] * (len(some) - len(reports))
            name, found = f"{method} of {type(self).__name__}", call.found
            pairs = zip(some, reports, strict=False)
            return [
                _own_report(name, state, report, found.get(id(state)), error)
                for state, report in pairs
            ]

        in_group = "score_group" in self._own
        method = "score_group" if in_group else "score_rollout"
        if in_group:
            return await ask(states)
        return [report for [report] in await side_by_side(lambda state: ask([state]), states)]

    async def reports_on_group(
        self, states: States, autograder: Grader | None = None
    ) -> Sequence[EvaluationReport]:
        """Score a group as `score_group` does, with a report a state, also where a subclass's method returns none."""
        if "score_group" in self._own:
            return await self._ask_own(states, autograder)
        return await self.score_group(states, autograder=autograder)

    @property
    def version(self) -> str:
        """The hash of a rubric that may change between calls; empty for any other."""
        return ""

    async def pinned(self) -> "BaseRubric":
        """This rubric as it is now, for several calls that belong together; one that does not change is itself."""
        return self

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

    @property
    @abstractmethod
    def counted_weights(self) -> dict[str, float]:
        """The weight of every criterion that counts, by the name that its values are reported under."""

    def get_reward_func_names(self) -> list[str]:
        """The names that scores are reported under."""
        return self._get_reward_func_names()

    async def score(
        self,
        rollouts: Sequence[Rollout | Mapping[str, Any]],
        *,
        autograder: Grader | None = None,
    ) -> list[EvaluationReport]:
        """Return one report a rollout or state, in order. Writes nothing; group functions see all of them at once."""
        result = await self.score_batch(Batch.of_rollouts(rollouts), autograder)
        reports: list[EvaluationReport] = []
        for start in range(0, len(rollouts), CHUNK):
            if start:
                await asyncio.sleep(0)
            reports += result[start : start + CHUNK]
        return reports

    async def grade(
        self,
        to_grade: ToGrade,
        autograder: Grader | None = None,
        query: str | None = None,
        *,
        answer: Any = "",
        info: Mapping[str, Any] | None = None,
    ) -> EvaluationReport:
        """The report on one text: a string, messages, or a mapping with `thinking` and `output`.

        Raises `GradingError`, which holds the partial report, when a counted line has no answer.
        """
        completion, view = view_of(to_grade)
        in_parts = isinstance(to_grade, Mapping) and "role" not in to_grade
        row: dict[str, Any] = {"prompt": query or "", "completion": completion, "answer": answer}
        row["info"] = dict(info or {})
        [report] = await self.score_batch(
            Batch([row], [row], [view] if in_parts else None), autograder
        )
        if report.applies and not report.scored:
            missing = [line for line in report.lines if line.counted and not line.answered]
            listed = "; ".join(f"{line.name}: {line.error}" for line in missing[:3])
            more = f"; and {len(missing) - 3} more" if len(missing) > 3 else ""
            said = f"{report.asked - report.answered} of {report.asked} criteria have no answer ({listed}{more})"
            raise GradingError(f"{said}: the partial report is in .report", report)
        return report

    def grade_sync(
        self,
        to_grade: ToGrade,
        autograder: Grader | None = None,
        query: str | None = None,
        *,
        answer: Any = "",
        info: Mapping[str, Any] | None = None,
    ) -> EvaluationReport:
        """`grade`, from synchronous code; works inside a running loop too."""
        return run_sync(self.grade(to_grade, autograder, query, answer=answer, info=info))

    async def score_rollout(self, state: MutableMapping[str, Any]) -> EvaluationReport:
        """Score one state: write `reward`, `metrics`, `errors` and timing into it. Group functions need `score_group`.

        An unscored rollout gets the reward None, and the sum of what was answered as `partial_reward`.
        """
        await self._prepare()
        self._refuse_alone()
        return (await self._score_states([state]))[0]

    async def score_group(
        self, states: States, *, autograder: Grader | None = None, advantage: Estimator = "mean"
    ) -> Sequence[EvaluationReport]:
        """Score the states of one group; writes what `score_rollout` does, and `advantage`, by this estimator."""
        return await self._score_states(states, advantage, autograder=autograder)

    async def _score_states(
        self,
        states: States,
        advantage: Estimator | None = None,
        autograder: Grader | None = None,
    ) -> Sequence[EvaluationReport]:
        if not hasattr(states, "__len__") or isinstance(states, Mapping):
            raise TypeError(f"score_group takes a list of states, and this is {short_repr(states)}")
        for kind in set(map(type, states)) - {dict}:
            if not issubclass(kind, MutableMapping):
                state = next(state for state in states if type(state) is kind)
                raise TypeError(f"a state is {short_repr(state)}: give a dict")
        started = time.perf_counter()
        result = await self.score_batch(Batch(states, states), autograder)
        outcomes = result.outcomes()
        worth = None if advantage is None else self._advantages(outcomes, advantage)
        if len(states) > CHUNK:
            await asyncio.sleep(0)
        elapsed_ms = (time.perf_counter() - started) * 1000
        call = _under_way(self)
        _write_states(
            states, self._paid(outcomes), worth, elapsed_ms, alone=call is None or not call.quietly
        )
        for state in states if result.version else ():
            state["rubric_version"] = result.version
        if call is not None:
            call.found.update(zip(map(id, states), result, strict=True))
        return result

    def _advantages(self, outcomes: Outcomes, estimator: Estimator) -> Rewards:
        if estimator != "gdpo":
            return advantages(outcomes.rewards, estimator)
        weights = self.counted_weights
        columns = {name: [metrics.get(name) for metrics in outcomes.metrics] for name in weights}
        return gdpo_advantages(columns, weights, rewards=outcomes.rewards)

    def _paid(self, outcomes: Outcomes) -> Outcomes:
        """The outcomes as they are written into states and columns."""
        return outcomes

    def score_rollout_sync(
        self,
        prompt: Messages = "",
        completion: Messages = "",
        answer: Any = "",
        state: Mapping[str, Any] | None = None,
        task: str = "default",
        info: Mapping[str, Any] | None = None,
    ) -> dict[str, float | None]:
        """Return the value of every criterion by name, `reward` and, where that is None, `partial_reward`."""
        self._refuse_alone()
        given: Mapping[str, Any] = {} if state is None else state
        scores = self.score_rollouts(
            [prompt], [completion], [answer], [given], [task], [info or {}]
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
        """Return a column of values a criterion, `reward` and, where one is None, `partial_reward`."""
        size = len(prompts)
        given = [cast("Mapping[str, Any]", {}) for _ in prompts] if states is None else states
        columns: dict[str, Sequence[Any]] = {
            "prompt": prompts,
            "completion": completions,
            "answer": answers,
            "task": ["default"] * size if tasks is None else tasks,
            "info": [{} for _ in prompts] if infos is None else infos,
        }
        sizes = {name: len(column) for name, column in {**columns, "state": given}.items()}
        if len(set(sizes.values())) > 1:
            listed = ", ".join(f"{size} {name}s" for name, size in sizes.items())
            raise ValueError(f"the columns differ in length ({listed}): give one of each a rollout")
        fields = zip(given, zip(*columns.values(), strict=True), strict=True)
        rows = [{**state, **dict(zip(columns, values, strict=True))} for state, values in fields]
        outcomes = self._paid(run_sync(self.score_batch(Batch(rows, given))).outcomes())
        names = dict.fromkeys(self._get_reward_func_names())
        if self.own_methods:
            names |= dict.fromkeys(name for row in outcomes.metrics for name in row)
        scores: dict[str, list[float | None]] = {
            name: [row.get(name) for row in outcomes.metrics] for name in names
        }
        scores["reward"] = [*outcomes.rewards]
        if outcomes.unshaped is not None:
            scores["outcome"] = [*outcomes.unshaped]
        if None in outcomes.rewards:
            scores["partial_reward"] = [*outcomes.partial]
        return scores


def _write_states(
    states: States,
    outcomes: Outcomes,
    worth: Sequence[float | None] | None,
    elapsed_ms: float,
    *,
    alone: bool = True,
) -> None:
    """Write everything into states, here alone; unless `alone`, another rubric writes time and the rewards of steps."""
    gaps = [None] * len(states)
    rows = zip(
        states,
        outcomes.rewards,
        outcomes.metrics,
        worth or gaps,
        outcomes.steps or gaps,
        strict=True,
    )
    for state, reward, metrics, advantage, steps in rows:
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
            state["timing"] = {"scoring_ms": elapsed_ms, "total_ms": elapsed_ms}
        elif timing.__class__ is dict or isinstance(timing, MutableMapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            # Scoring again replaces the time of scoring before, in the total too.
            earlier = timing.get("scoring_ms") or 0.0
            timing["scoring_ms"] = elapsed_ms
            timing["total_ms"] = (timing.get("total_ms") or 0.0) - earlier + elapsed_ms
        if "trajectory" in state:
            pay_steps(state, reward, advantage, steps)
    for state, outcome in zip(states, outcomes.unshaped or (), strict=False):
        state["outcome"] = outcome
    for state, problems in zip(states, outcomes.problems or (), strict=False):
        state["errors"] = problems
    if None in outcomes.rewards:
        for state, partial in zip(states, outcomes.partial, strict=True):
            if state["reward"] is None:
                state["partial_reward"] = partial


def pay_steps(
    state: Mapping[str, Any],
    reward: float | None,
    advantage: float | None,
    steps: Mapping[str, float | None] | None,
) -> None:
    """Give the steps of a trajectory their rewards, or the rollout's where they have none of their own; and its advantage."""
    trajectory: list[Any] | None = state.get("trajectory")
    if trajectory.__class__ is not list or not trajectory:
        return
    own = [*(steps or {}).values()] if len(steps or ()) == len(trajectory) else None
    for place, given in enumerate(trajectory):
        if isinstance(given, MutableMapping):
            step = cast("MutableMapping[str, Any]", given)
            if own is not None or step.get("reward") is None:
                step["reward"] = reward if own is None else own[place]
            if advantage is not None and step.get("advantage") is None:
                step["advantage"] = advantage


@dataclass
class _Call:
    """A call of a subclass's own method that is under way: from inside it, the criteria are asked."""

    rubric: BaseRubric
    grader: Grader | None
    # Whether time and steps are left alone, since those of a whole group are written by the group.
    quietly: bool = False
    # What the base class's method found, by the id of the state.
    found: dict[int, EvaluationReport] = field(default_factory=dict[int, EvaluationReport])


_METHODS = ("score_group", "score_rollout", "score")
_CALLS: ContextVar[tuple[_Call, ...]] = ContextVar("calls", default=())


def _under_way(rubric: BaseRubric) -> _Call | None:
    return (
        next((c for c in reversed(calls) if c.rubric is rubric), None)
        if (calls := _CALLS.get())
        else None
    )


def _calling(call: _Call) -> AbstractContextManager[object]:
    return setting(_CALLS, (*_CALLS.get(), call))


def _noting(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    async def noted(self: BaseRubric, *args: Any, **options: Any) -> Any:
        is_inside = _under_way(self) is not None
        with nullcontext() if is_inside else _calling(_Call(self, options.get("autograder"))):
            return await method(self, *args, **options)

    noted.__dict__["notes_calls"] = True
    return noted


def _own_report(
    name: str,
    state: Mapping[str, Any],
    returned: object,
    base: EvaluationReport | None,
    error: str | None,
) -> EvaluationReport:
    """Report on a state that a subclass's own method scored; `base` is what the base class found when called."""
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
        error = f"ValueError: {name} wrote {short_repr(reward)} as the reward, not a finite number"
    metrics: Any = state.get("metrics") or {}
    if error is None and not isinstance(metrics, Mapping):
        error = f"TypeError: {name} wrote {short_repr(metrics)} as the metrics, not a mapping"
    if error is not None or number is None:
        return aggregate([CriterionReport(name=name, error=error)])
    metrics = cast("Mapping[str, Any]", metrics)
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
    return given.model_copy(
        update={"score": score, "raw_score": number, "report": lines, "worth": None}
    )


class Rubric(BaseRubric, Loadable):
    """Weighted criteria whose answers add up. The same rubric evaluates, rewards and filters.

    The first argument holds functions, `Criterion`s, mappings or whole rubrics, in any mix.

    >>> def exact(completion, answer):
    ...     return completion == answer
    >>> rubric = Rubric([exact, lambda completion: len(completion) < 10], weights=[0.8, 0.2])
    >>> rubric.score_rollout_sync(prompt="2+2?", completion="4", answer="4")
    {'exact': 1.0, 'check_2': 1.0, 'reward': 1.0}
    """

    def __init__(
        self,
        funcs: Sequence[RewardFunc | Criterion | Mapping[str, Any] | Scorer] | None = None,
        weights: Sequence[float | None] | None = None,
        parser: Parser | None = None,
        *,
        autograder: Grader | None = None,
        aggregation: Any = "weighted",
        on_error: OnError = "record",
        name: str = "",
        shows: str | Sequence[str] | None = None,
        shaping: Sequence[Any] = (),
    ) -> None:
        """`on_error="raise"` raises what checks and judges raise. `aggregation` is a name or a function of lines.

        `shows` narrows what judges read of a rollout, as in `messages.SHOWS`; None is as the rubric around it, else all.
        `shaping` makes the reward of what the criteria come to, by parts as in `assay.shaping`; the score stays as it is.
        """
        if on_error not in ("record", "raise"):
            raise RubricError(f"on_error is {on_error!r}: give 'record' or 'raise'")
        self.name = name
        self._stand_in = self._default_parser()
        self.class_objects: dict[str, Any] = {
            "parser": parser if parser is not None else self._stand_in
        }
        self.autograder = autograder
        self.on_error: OnError = on_error
        self.aggregation = aggregation_of(aggregation)
        self.shows = None if shows is None else shows_of(shows)
        self._plan = Plan(named_apart(self._criteria_of(funcs, weights)), self.aggregation)
        # A preset adds criteria of its own later, which a gate may name.
        names = self._plan.names if type(self) is Rubric else None
        self.shaping = shaping_of(shaping, names) if shaping else ()

    @property
    def parser(self) -> Parser:
        """What checks read with: the class object of that name."""
        return self.class_objects["parser"]

    @parser.setter
    def parser(self, parser: Parser) -> None:
        self.class_objects["parser"] = parser

    def inherit_parser(self, parser: Parser) -> None:
        """Read with this parser if none was given, also in the rubrics inside: an environment hands its own down."""
        if self.parser is self._stand_in:
            self._stand_in = self.parser = parser
        for inner in self._inside():
            inner.inherit_parser(self.parser)

    def show(self, shows: str | Sequence[str]) -> None:
        """Show judges this much from now on, in the rubrics inside too, whatever they were made with."""
        self.shows = self.told_shows = shows_of(shows)
        for inner in self._inside():
            inner.show(shows)

    def _default_parser(self) -> Parser:
        return Parser()

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        """Every criterion, in order, under the name it is reported by."""
        return tuple(self._plan.criteria)

    @property
    def counted_weights(self) -> dict[str, float]:
        return {criterion.name: criterion.weight for criterion in self.criteria if criterion.counts}

    @property
    def compares(self) -> bool:
        return bool(self.traits.compares)

    @property
    def traits(self) -> Traits:
        """Whether it waits, asks a model or compares, here or in a rubric inside."""
        own = self.own_methods  # a subclass's own methods may wait, and one for a group compares
        comparing = (*(["score_group"] if "score_group" in own else []), *self._comparing_parts())
        return Traits.joined([*self._parts(), Traits(waits=bool(own), compares=comparing)])

    def _comparing_parts(self) -> list[str]:
        return [part.name for part in self.shaping if part.compares]

    def _parts(self) -> list[Traits]:
        return [one.traits for one in self._plan.planned]

    @property
    def own_methods(self) -> frozenset[str]:
        return self._own.union(*(inner.own_methods for inner in self._inside()))

    def add_reward_func(self, func: RewardFunc, weight: float = 1.0) -> None:
        """Add a check at the end, with this weight."""
        added = named_apart(self._criteria_of([func], [weight]), self._plan.names)
        _refuse_ring(self, [criterion.check for criterion in added])
        self._plan = Plan((*self._plan.criteria, *added), self.aggregation, known=self._plan)

    def add_metric(self, func: RewardFunc, weight: float = 0.0) -> None:
        """Add a check that is reported and, with weight 0, never counted."""
        self.add_reward_func(func, weight)

    def add_class_object(self, name: str, obj: Any) -> None:
        """Let checks name `obj` as an argument; it goes before a field of the same name."""
        self.class_objects[name] = obj

    def as_criterion(self, weight: float = 1.0, name: str = "") -> Criterion:
        """This rubric as one line of another, worth its normalised score."""
        return Criterion(check=self, weight=weight, name=name or self.name or "rubric")

    def __len__(self) -> int:
        return len(self.criteria)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        names = ", ".join(f"{c.name} {c.weight:+g}" for c in self.criteria[:8])
        more = f", … {len(self) - 8} more" if len(self) > 8 else ""
        title = f" {self.name}" if self.name else ""
        return f"<{type(self).__name__}{title} [{names}{more}]>"

    def _repr_html_(self) -> str:
        how = {True: "a model", False: "code"}
        rows = [
            (c.name, f"{c.weight:+g}", how[c.judged], c.requirement or "") for c in self.criteria
        ]
        title = f"{self.name or type(self).__name__}: {counted(len(rows), 'criterion', 'criteria')}"
        return Page(
            title, [Section(("criterion", "weight", "answered by", "requirement"), rows)]
        ).text("html")

    async def _ask_criteria(self, batch: Batch, autograder: Grader | None = None) -> BatchResult:
        grader = autograder if autograder is not None else self.autograder
        engine = Engine(
            self._plan, self._objects_for(batch), grader, self.on_error, self._read_completion
        )
        if self.shows is None:
            return await engine.answer(batch)
        with showing(self.shows):
            return await engine.answer(batch)

    def _objects_for(self, batch: Batch) -> Mapping[str, Any]:
        """What checks may name beside the fields of these rollouts. A subclass may know more of them."""
        return self.class_objects

    def _read_completion(self, completion: object) -> Any:
        """The completion as its criteria read it; a TypeError says why it cannot be read."""
        return read_completion(completion)

    def _refuse_alone(self) -> None:
        if self._own & {"score_rollout", "score"}:
            return
        if not self._plan.planned:
            raise RubricError(
                "this rubric has no criteria, so there is nothing to score: add_reward_func(...)"
            )
        for one in self._plan.planned:
            if one.call is not None and one.call.compares:
                raise RubricError(
                    f"check {one.criterion.name!r} scores a whole group: use score_group"
                )
        self._refuse_comparing_parts()

    def _refuse_comparing_parts(self) -> None:
        for name in self._comparing_parts():
            raise RubricError(
                f"the shaping {name!r} compares the rollouts of a group: use score_group"
            )

    def _criteria_of(self, funcs: Any, weights: Iterable[float | None] | None) -> list[Criterion]:
        """The criteria that are given, with methods of this very class bound to this rubric."""
        funcs = () if funcs is None else funcs
        if isinstance(funcs, (str, bytes, Mapping, Criterion)) or not hasattr(funcs, "__iter__"):
            given = short_repr(cast("object", funcs))
            raise RubricError(
                f"a rubric takes a list of criteria, and this is {given}: put it in brackets"
            )
        if weights is not None and not hasattr(weights, "__iter__"):
            raise RubricError(f"weights is {short_repr(weights)}: give a list, one a function")
        questions = list(funcs)
        each = list(() if weights is None else weights) or [None] * len(questions)
        if len(each) != len(questions):
            raise RubricError(
                f"Number of weights ({len(each)}) must match number of functions ({len(questions)})"
            )
        criteria: list[Criterion] = []
        for index, (question, weight) in enumerate(zip(questions, each, strict=True)):
            is_data = isinstance(question, Mapping)
            read = (
                criterion_of(cast("Mapping[str, Any]", question), index, Rubric)
                if is_data
                else question
            )
            criterion = Criterion.of(read, weight)
            if getattr(criterion.check, "shaping", ()):
                said = f"criterion {criterion.name!r} is a rubric with a shaping of its own, and is worth its score"
                raise RubricError(f"{said}: shape the reward of the rubric around it")
            check = bound_to(self, criterion.check)
            criteria.append(
                criterion if check is criterion.check else criterion.with_fields(check=check)
            )
        return criteria

    def _inside(self) -> "list[Rubric]":
        return [c.check for c in self._plan.criteria if isinstance(c.check, Rubric)]

    # The names of the systems it grew from.

    def _get_reward_func_names(self) -> list[str]:
        return [criterion.name for criterion in self.criteria]

    def get_reward_funcs(self) -> list[Any]:
        """The functions of the criteria that code answers, in order; a copy."""
        return [c.check for c in self.criteria if not c.judged]

    def get_reward_weights(self) -> list[float]:
        """The weight of each of `funcs`; a copy."""
        return [c.weight for c in self.criteria if not c.judged]

    _get_reward_funcs, _get_reward_weights = get_reward_funcs, get_reward_weights
    funcs = reward_funcs = property(get_reward_funcs)
    weights = reward_weights = property(get_reward_weights)


def _refuse_ring(rubric: Rubric, inside: Sequence[object], above: tuple[int, ...] = ()) -> None:
    """Raise when a rubric is somewhere inside itself, since it could never be scored."""
    above = (*above, id(rubric))
    for inner in inside:
        if id(inner) in above:
            raise RubricError(
                "a rubric cannot be inside itself: take it out of its own criteria or .rubrics"
            )
        if isinstance(inner, Rubric):
            _refuse_ring(inner, inner._inside(), above)  # pyright: ignore[reportPrivateUsage]


class RubricGroup(Rubric):
    """Several rubrics as one, each with its own parser and grader: rewards are added, and metrics of one name too.

    >>> group = RubricGroup([Rubric([lambda: 1.0]), Rubric([lambda: 0.5], weights=[0.8])])
    >>> group.score_rollout_sync()["reward"]
    1.4
    """

    def __init__(
        self, rubrics: Sequence[Rubric], *, shaping: Sequence[Any] = (), **kwargs: Any
    ) -> None:
        if not rubrics:
            raise RubricError("RubricGroup must have at least one rubric")
        for rubric in rubrics:
            if not isinstance(rubric, Rubric):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise RubricError(f"a RubricGroup takes rubrics, and this is {short_repr(rubric)}")
        super().__init__(**kwargs)
        if self._plan.planned:
            raise RubricError("a RubricGroup has no criteria of its own: put them in a Rubric")
        self.rubrics: list[Rubric] = list(rubrics)
        self.shaping = shaping_of(shaping, self.get_reward_func_names()) if shaping else ()

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        """The criteria of every child, in order; equal names are summed in metrics."""
        return tuple(criterion for child in self._children() for criterion in child.criteria)

    def _first(self, what: str) -> Rubric:
        logger.warning("the %s goes to the first rubric of the group only", what)
        return self.rubrics[0]

    def add_reward_func(self, func: RewardFunc, weight: float = 1.0) -> None:
        """Add a check to the first rubric of the group."""
        self._first("reward function").add_reward_func(func, weight)

    def add_class_object(self, name: str, obj: Any) -> None:
        self._first("class object").add_class_object(name, obj)

    @classmethod
    def from_node(cls, node: Node, *, allow_code: bool = False, **options: Any) -> Self:
        """A group from a mapping with `rubrics`, a list in which each is a rubric or a group."""
        parts, given = group_parts(node, allow_code=allow_code)
        rubrics = [
            rubric_at(part, allow_code=allow_code, **inner_options(options)) for part in parts
        ]
        return cls(rubrics, **given | options)

    def to_dict(self) -> dict[str, Any]:
        data: dict[str, Any] = ({"name": self.name} if self.name else {}) | self.options_data()
        return {**data, "rubrics": [child.to_dict() for child in self._children()]}

    @property
    def content_hash(self) -> str:
        hashes = [child.content_hash for child in self._children()]
        data = self.options_data(as_hash=True)
        return hash_of({"format": "assay.group/1", "name": self.name, "rubrics": hashes, **data})

    async def _ask_criteria(self, batch: Batch, autograder: Grader | None = None) -> BatchResult:
        results: list[BatchResult] = []
        # One after the other: a later rubric may read what an earlier one left in the state.
        for child in self._children():
            # A grader given for this call goes before the child's own, and that before the group's.
            grader = autograder or child.autograder or self.autograder
            with nullcontext() if self.shows is None else showing(self.shows):
                results.append(await child.score_batch(batch, grader))
        return Summed(results)

    def _refuse_alone(self) -> None:
        children = [child for child in self._children() if len(child) or child.own_methods]
        if not children:
            super()._refuse_alone()
        for child in children:
            child._refuse_alone()  # pyright: ignore[reportPrivateUsage]
        self._refuse_comparing_parts()

    def _children(self) -> list[Rubric]:
        # Looked at each time, since `rubrics` is the caller's to change.
        _refuse_ring(self, self.rubrics)
        return self.rubrics

    def _inside(self) -> list[Rubric]:
        return self.rubrics

    def _parts(self) -> list[Traits]:
        return [child.traits for child in self._children()]


def rubric_at(node: Node, *, allow_code: bool = False, **options: Any) -> Rubric:
    """The rubric, or the group of rubrics, that stands at a node of a file that was read."""
    kind = RubricGroup if is_group(node) else Rubric
    return kind.from_node(node, allow_code=allow_code, **options)


def rubrics_inside(
    rubric: Rubric, node: Node | None = None, inside: str = ""
) -> Iterator[tuple[str, Rubric, Sequence[Node | None]]]:
    """The names of the rubrics around it, the rubric, and where its criteria stand in a file; then of those inside it."""
    if isinstance(rubric, RubricGroup):
        for index, part in enumerate(rubric.rubrics):
            there = None if node is None else node.at("rubrics").at(index)
            yield from rubrics_inside(part, there, f"{inside}{part.name or index}/")
        return
    nodes = [None] * len(rubric) if node is None else criterion_nodes(node)
    yield inside, rubric, nodes
    for criterion, where in zip(rubric.criteria, nodes, strict=True):
        if isinstance(criterion.check, Rubric):
            there = where.at("rubric") if where is not None and "rubric" in where.data else None
            yield from rubrics_inside(criterion.check, there, f"{inside}{criterion.name}/")


def rubric_in_python(reference: str) -> Rubric:
    """The rubric that `module:object` names: one as it is, what a function makes of nothing, or a list of criteria."""
    found = object_of(reference)
    if callable(found) and not isinstance(found, Rubric):
        try:
            found = found()
        except AssayError:
            raise
        except Exception as error:  # it is code of the user's, so anything may be raised
            said = f"{reference} could not be called without arguments to make a rubric"
            raise RubricError(
                f"{said}: {described(error)}; put a single check in a list"
            ) from error
    if isinstance(found, list | tuple):
        return Rubric(cast("Sequence[Any]", found))
    if not isinstance(found, Rubric):
        makes = "name a Rubric, a function that makes one, or a list of criteria"
        raise RubricError(f"{reference} is {short_repr(found)}: {makes}")
    return found
