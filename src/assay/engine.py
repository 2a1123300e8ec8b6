"""Answer every criterion of a rubric for a batch of rollouts; nothing is written into the rollouts.

`Plan` makes the criteria ready at construction, `Engine` asks them of a batch, and a `BatchResult` holds what came back.
"""

import asyncio
import inspect
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from inspect import getattr_static
from itertools import chain
from types import FunctionType
from typing import Any, NamedTuple, TypeAlias, cast, overload

from assay.aggregation import Aggregation, Scale, stakes, summed_by_name, total, weighted_sum
from assay.call import Call
from assay.concurrency import FAILURES, is_stop, side_by_side, together
from assay.criterion import LARGEST, Criterion, Scorer, is_scorer
from assay.errors import MissingExtraError, RubricError, SignatureError
from assay.graders.autograder import Autograder
from assay.graders.judge_input import JudgeInput, view_of
from assay.graders.verdicts import finite, number_of, verdict_score
from assay.messages import question_text, read_completion
from assay.models.budgets import is_dry_run, refuse_unpriced, rollout_spending
from assay.models.model import has_room
from assay.redaction import logger_of
from assay.report import (
    NOTHING_APPLIES,
    UNASKED,
    CriterionReport,
    EvaluationReport,
    Lines,
    Score,
    aggregate,
    full_report,
    line_of,
    sum_reports,
)
from assay.rollout import Batch
from assay.types import OnError
from assay.wording import described, short_repr

logger = logger_of("assay")

CHUNK = 512
"""Rollouts checked between two breaths of the event loop."""

Column: TypeAlias = list[Any]
"""The answers to one criterion, one a rollout: a number, or a `Score` where there is more to say. None
stands where a grader gave one report for all of its criteria."""

_NUMBERS = frozenset({float, int, bool})


# The plan: what can fail at construction fails there.


class Traits(NamedTuple):
    """What has to be known of a rubric before rollouts are handed to it."""

    waits: bool = False
    """Whether a model, another process or a network is waited for, so that rollouts go side by side."""
    takes_many: bool = False
    """Whether an async function answers for many rollouts at once; it is better off with a batch."""
    asks: bool = False
    """Whether a model answers anything, here or in a rubric inside."""
    compares: tuple[str, ...] = ()
    """The criteria that weigh the rollouts of a group against each other, here or in a rubric inside."""

    @classmethod
    def of(cls, scorer: object) -> "Traits":
        """Those of a rubric. Of anything else with a `score` nothing is known, so its rollouts go alone."""
        traits = getattr(scorer, "traits", None)
        return traits if isinstance(traits, Traits) else cls(waits=True)

    @classmethod
    def joined(cls, parts: Sequence["Traits"]) -> "Traits":
        """The traits of a whole, from those of its parts."""
        return cls(
            waits=any(part.waits for part in parts),
            takes_many=any(part.takes_many for part in parts),
            asks=any(part.asks for part in parts),
            compares=tuple(dict.fromkeys(name for part in parts for name in part.compares)),
        )


@dataclass(frozen=True, slots=True)
class PlannedCriterion:
    """One criterion in its place, with its check ready to call."""

    index: int
    criterion: Criterion
    call: Call | None
    """None when a model or a nested rubric answers."""

    @classmethod
    def of(cls, index: int, criterion: Criterion) -> "PlannedCriterion":
        check: Any = criterion.check
        if check is None or is_scorer(check):
            return cls(index, criterion, None)
        call = Call(check, criterion.name)
        if call.compares and criterion.when:
            raise RubricError(
                f"criterion {criterion.name!r} scores a whole group and has a `when`, which holds for "
                "single rollouts: drop one of the two"
            )
        return cls(index, criterion, _isolated(call, criterion) if criterion.isolate else call)

    @property
    def reads_completion(self) -> bool:
        """Whether it needs a completion that can be read. A rubric inside sees to that by itself."""
        if self.criterion.judged or self.call is None:
            return self.criterion.judged
        return self.call.everything or any(a.field == "completion" for a in self.call.arguments)

    @property
    def compares(self) -> bool:
        """Whether it weighs the rollouts of a group against each other."""
        return self.call is not None and self.call.compares

    @property
    def traits(self) -> Traits:
        if self.criterion.judged:
            return Traits(waits=True, asks=True)
        if self.call is None:
            return Traits.of(self.criterion.check)
        group, is_async = self.call.is_group, self.call.is_async
        compares = (self.criterion.name,) if self.call.compares else ()
        return Traits(is_async and not group, is_async and group, compares=compares)


@dataclass(frozen=True, slots=True)
class Phase:
    """Criteria that can be asked at the same time."""

    by_code: tuple[PlannedCriterion, ...]
    judged: tuple[PlannedCriterion, ...]
    runs: Sequence[Sequence[PlannedCriterion]]
    """Those for code, cut wherever the whole batch must be done before going on."""

    @classmethod
    def of(cls, planned: Sequence[PlannedCriterion]) -> "Phase":
        by_code = tuple(one for one in planned if not one.criterion.judged)
        judged = tuple(one for one in planned if one.criterion.judged)
        return cls(by_code, judged, _runs(by_code))


def _runs(planned: Sequence[PlannedCriterion]) -> list[list[PlannedCriterion]]:
    """Criteria in order, cut before and after each that needs the whole batch to be done first."""
    runs: list[list[PlannedCriterion]] = []
    joins = False
    for one in planned:
        single = one.call is not None and not one.call.is_group
        if single and joins:
            runs[-1].append(one)
        else:
            runs.append([one])
        joins = single
    return runs


@dataclass(frozen=True, slots=True)
class Plan:
    """Every criterion of a rubric, in the phases they are asked in."""

    planned: tuple[PlannedCriterion, ...]
    phases: tuple[Phase, ...]
    """A criterion with a `when` stands in a phase after the ones it depends on."""
    aggregation: Aggregation
    criteria: tuple[Criterion, ...]
    names: tuple[str, ...]
    weights: tuple[float, ...]
    adds_up: bool
    """Whether the reward is the weighted sum of the answers: no veto, condition or line left out."""
    stakes: tuple[float, float]
    """What the counted weights could gain and lose, all answered."""
    counted: int
    """How many criteria count."""
    judged: bool
    """Whether a model answers any."""

    @classmethod
    def of(cls, criteria: Sequence[Criterion], aggregation: Aggregation, known: "Plan | None" = None) -> "Plan":
        """The plan for these criteria; those that open the `known` plan are not read again."""
        ready = known.planned if known is not None else ()
        rest = enumerate(criteria[len(ready) :], start=len(ready))
        planned = (*ready, *(PlannedCriterion.of(index, criterion) for index, criterion in rest))
        if aggregation.name == "tree":
            _refuse_negative(criteria)
        special = any(c.required or c.report_only or c.when for c in criteria)
        return cls(
            planned=planned,
            phases=_phases(planned),
            aggregation=aggregation,
            criteria=tuple(criteria),
            names=tuple(criterion.name for criterion in criteria),
            weights=tuple(criterion.weight for criterion in criteria),
            adds_up=aggregation.sums and not special,
            stakes=stakes([criterion.weight for criterion in criteria]),
            counted=sum(criterion.counts for criterion in criteria),
            judged=any(criterion.judged for criterion in criteria),
        )

    @property
    def scorers(self) -> list[Scorer]:
        """The rubrics inside."""
        return [one.criterion.check for one in self.planned if is_scorer(one.criterion.check)]


def _phases(planned: Sequence[PlannedCriterion]) -> tuple[Phase, ...]:
    if not any(one.criterion.when for one in planned):
        return (Phase.of(planned),) if planned else ()
    depths = _depths({one.criterion.name: one.criterion for one in planned})
    return tuple(
        Phase.of([one for one in planned if depths[one.criterion.name] == depth])
        for depth in range(max(depths.values()) + 1)
    )


def _depths(criteria: Mapping[str, Criterion]) -> dict[str, int]:
    """How many criteria must be known before each one; refuses unknown names and rings."""
    depths = {name: 0 for name, criterion in criteria.items() if not criterion.when}
    waiting = [criterion for criterion in criteria.values() if criterion.when]
    for criterion in waiting:
        _refuse_bad_conditions(criterion, criteria)
    while waiting:
        ready = [c for c in waiting if all(w.criterion in depths for w in c.when)]
        if not ready:
            names = ", ".join(repr(criterion.name) for criterion in waiting)
            raise RubricError(f"the `when` of {names} wait for each other: break the ring")
        for criterion in ready:
            depths[criterion.name] = 1 + max(depths[w.criterion] for w in criterion.when)
        waiting = [criterion for criterion in waiting if criterion.name not in depths]
    return depths


def _refuse_bad_conditions(criterion: Criterion, criteria: Mapping[str, Criterion]) -> None:
    for other, verdicts in criterion.when:
        if other not in criteria:
            raise RubricError(
                f"criterion {criterion.name!r} is asked when {other!r} holds, and there is no such "
                f"criterion: name one of {', '.join(criteria)}"
            )
        offered = (*criteria[other].choices, "N/A")
        for verdict in verdicts:
            if verdict not in offered:
                raise RubricError(
                    f"criterion {criterion.name!r} is asked when {other!r} is {verdict!r}, which "
                    f"can never be: it offers {', '.join(offered)}"
                )


def _refuse_negative(criteria: Sequence[Criterion]) -> None:
    for criterion in criteria:
        if criterion.weight < 0:
            raise RubricError(
                f"criterion {criterion.name!r} has weight {criterion.weight}, and a tree takes none "
                "below 0: state the requirement positively, or use another aggregation"
            )


def _isolated(call: Call, criterion: Criterion) -> Call:
    """The same call, made in a worker process; what goes wrong there is a failed score.

    The check is packed here and now, so that one which cannot be sent is refused at construction.
    """
    # Late, since a rubric that isolates nothing needs none of it.
    from assay.isolation import shared_pool
    from assay.isolation.protocol import packed, readable

    readable(Score)
    if call.is_group:
        raise RubricError(
            f"criterion {criterion.name!r} scores a whole group, and only a check of single "
            "rollouts can be isolated: drop `isolate`"
        )
    check, seconds = call.function, criterion.timeout
    try:
        home = packed(check).home
    except (TypeError, MissingExtraError) as error:
        raise RubricError(f"criterion {criterion.name!r} cannot be isolated: {error}") from error
    preload = (home,) if home else ()

    async def checked(*args: Any, **keywords: Any) -> Any:
        pool = shared_pool(*preload)
        outcome = await pool.run(check, *args, timeout=seconds, keywords=keywords)
        return outcome.value if outcome.ok else Score.failed(outcome.message)

    call.function = checked
    call.is_async = True
    call.by_position = False  # by name, so that an error can say which argument cannot be sent
    return call


def named_apart(criteria: Sequence[Criterion], taken: Collection[str] = ()) -> list[Criterion]:
    """The criteria with a name each and no name twice: `length`, `length_2`; a lambda is `check_1`."""
    used = set(taken)
    seen: Counter[str] = Counter()
    named: list[Criterion] = []
    for place, criterion in enumerate(criteria, start=len(used) + 1):
        base = criterion.name or f"{'criterion' if criterion.judged else 'check'}_{place}"
        name = base
        while name in used:
            seen[base] += 1
            name = f"{base}_{seen[base] + 1}"
        used.add(name)
        named.append(criterion if name == criterion.name else criterion.with_fields(name=name))
    return named


def bound_to(owner: object, check: Any) -> Any:
    """A check that is a method of the owner's class, bound to the owner; any other as it is."""
    if not isinstance(check, FunctionType):
        return check
    for cls in type(owner).__mro__[:-1]:
        static: Callable[..., Any] | None = getattr_static(cls, check.__name__, None)
        if static is check:
            return check.__get__(owner)
    return check


# The results: numbers for every rollout, and reports for those that are looked at.


class Outcomes(NamedTuple):
    """The numbers that the rollouts of a batch earned, one of each a rollout."""

    rewards: Sequence[float | None]
    """None where a rollout is unscored: missing is never zero."""
    partial: Sequence[float]
    """The sum of weight × value over what was answered: the reward, where there is one."""
    metrics: Sequence[dict[str, float]]
    """The value of every answered criterion by name."""
    errors: Sequence[dict[str, str]] | None = None
    """What went wrong by name; None when nothing did."""
    idle: Collection[int] = ()
    """The places of rollouts to which no counted criterion applies."""

    @classmethod
    def of(cls, reports: Iterable[EvaluationReport]) -> "Outcomes":
        rows = [(r.scored, r.partial_reward, r.metrics, r.errors, r.applies) for r in reports]
        errors = [row[3] for row in rows]
        return cls(
            [partial if scored else None for scored, partial, *_ in rows],
            [row[1] for row in rows],
            [row[2] for row in rows],
            errors if any(errors) else None,
            {place for place, row in enumerate(rows) if not row[4]},
        )

    @property
    def problems(self) -> Sequence[dict[str, str]] | None:
        """The errors; and where nothing failed and nothing applies, that."""
        if not self.idle:
            return self.errors
        errors = self.errors or [{} for _ in self.rewards]
        idle = {"rubric": NOTHING_APPLIES}
        return [e or ({**idle} if place in self.idle else e) for place, e in enumerate(errors)]


class BatchResult(Sequence[EvaluationReport]):
    """What was found about a batch: a report a rollout, made when it is looked at, and the numbers of all.

    A trainer wants the numbers of a batch and hardly ever a report, which costs more than scoring does.
    """

    def __init__(self, reports: Sequence[EvaluationReport] = ()) -> None:
        self._reports = reports

    def report(self, place: int) -> EvaluationReport:
        """The report on the rollout at this place."""
        return self._reports[place]

    def outcomes(self) -> Outcomes:
        """The numbers of every rollout."""
        return Outcomes.of(self)

    def __len__(self) -> int:
        return len(self._reports)

    @overload
    def __getitem__(self, index: int) -> EvaluationReport: ...
    @overload
    def __getitem__(self, index: slice) -> list[EvaluationReport]: ...
    def __getitem__(self, index: int | slice) -> EvaluationReport | list[EvaluationReport]:
        places = range(len(self))[index]
        return self.report(places) if isinstance(places, int) else [*map(self.report, places)]

    def __iter__(self) -> Iterator[EvaluationReport]:
        return map(self.report, range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(cast("Sequence[Any]", other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Reports on {len(self)} rollouts>"

    def __reduce__(self) -> tuple[Any, ...]:
        # As plain reports: a rubric may hold functions that cannot be pickled.
        return list, (list(self),)


class Answered(BatchResult):
    """The answers to the criteria of one rubric, a row of them a rollout."""

    def __init__(
        self,
        plan: Plan,
        rows: Sequence[Sequence[Any]],
        kinds: Set[type],
        whole: dict[int, EvaluationReport],
        scale: Scale | None,
        on_error: OnError,
    ) -> None:
        super().__init__()
        self._plan = plan
        self._rows = rows
        # As nearly always, so that no answer need be looked at.
        self._all_floats = kinds == {float}
        self._whole = whole
        """Reports of graders that judge as a whole, by place."""
        self._scale: Scale | None = scale
        self._on_error: OnError = on_error

    def __len__(self) -> int:
        return len(self._rows)

    def outcomes(self) -> Outcomes:
        plan, rows = self._plan, self._rows
        if not plan.adds_up or self._whole:
            # Made once: a caller's own formula may log, or take its time.
            self._reports = self._reports or [self._made(place) for place in range(len(self))]
            return super().outcomes()
        if not self._all_floats:
            rows = [_values(row) for row in rows]
        if not plan.counted or None in rows:
            return super().outcomes()
        numbers = cast("Sequence[Sequence[float]]", rows)
        rewards = [weighted_sum(plan.weights, row) for row in numbers]
        return Outcomes(rewards, rewards, [dict(zip(plan.names, row)) for row in numbers])  # noqa: B905 - the lengths are known, and looking costs

    def report(self, place: int) -> EvaluationReport:
        return self._reports[place] if self._reports else self._made(place)

    def _made(self, place: int) -> EvaluationReport:
        plan, row, whole = self._plan, self._rows[place], self._whole.get(place)
        values: Sequence[float] | None = None
        if plan.adds_up and whole is None:
            values = row if self._all_floats else _values(row)
        if values is not None:
            return full_report(
                weighted_sum(plan.weights, values),
                plan.stakes,
                Lines(plan.criteria, row),
                self._scale or plan.aggregation.scale,
                counted=plan.counted,
                judged=plan.judged,
            )
        if whole is None:
            return self._aggregated(plan.criteria, row)
        own = [index for index, answer in enumerate(row) if answer is not None]
        if not own:
            return whole
        return self._aggregated([plan.criteria[i] for i in own], [row[i] for i in own]) + whole

    def _aggregated(self, criteria: Sequence[Criterion], answers: Sequence[Any]) -> EvaluationReport:
        """What the answers come to. A caller's formula that fails leaves this rollout alone unscored."""
        lines, rule, scale = Lines(criteria, answers), self._plan.aggregation, self._scale
        try:
            return aggregate(lines, criteria, aggregation=rule, scale=scale)
        except FAILURES as error:
            if rule.over_lines is None or self._on_error == "raise" or is_stop(error):
                raise
            logger.error("aggregation %r failed: %s", rule.name, described(error))
            failed = CriterionReport(name=rule.name, error=described(error))
            return aggregate([*lines, failed], criteria, scale=scale)


def _values(row: Sequence[Any]) -> list[float] | None:
    """The number in every answer; None when one has none."""
    values = [answer.value if type(answer) is Score else float(answer) for answer in row]
    return None if None in values else cast("list[float]", values)


class Summed(BatchResult):
    """The results of several rubrics about one batch, added up."""

    def __init__(self, parts: Sequence[BatchResult]) -> None:
        super().__init__()
        # A group inside a group adds its rubrics, so that each sum is rounded once.
        split = ([*one.parts] if isinstance(one, Summed) else [one] for one in parts)
        self.parts = [*chain.from_iterable(split)]

    def __len__(self) -> int:
        return len(self.parts[0])

    def report(self, place: int) -> EvaluationReport:
        return sum_reports(part.report(place) for part in self.parts)

    def outcomes(self) -> Outcomes:
        parts = [part.outcomes() for part in self.parts]
        partial = [total(row) for row in zip(*(part.partial for part in parts), strict=True)]
        rewards: list[float | None] = [*partial]
        # A rubric of which nothing applies adds nothing, as long as another one has a reward.
        idle = set(range(len(self))).intersection(*(part.idle for part in parts))
        for part in parts:
            if None in part.rewards:
                for place, reward in enumerate(part.rewards):
                    if reward is None and (place in idle or place not in part.idle):
                        rewards[place] = None
        failed = [part.errors for part in parts if part.errors is not None]
        return Outcomes(
            rewards,
            partial,
            [_summed(row) for row in zip(*(part.metrics for part in parts), strict=True)],
            [{k: v for one in row for k, v in one.items()} for row in zip(*failed, strict=True)] if failed else None,
            idle,
        )


def _summed(metrics: Sequence[dict[str, float]]) -> dict[str, float]:
    return summed_by_name(pair for one in metrics for pair in one.items())


# The engine: the criteria, asked.

_LOGGED: ContextVar[set[str] | None] = ContextVar("logged", default=None)
"""Criteria whose errors were logged, where each is to be logged once."""


@contextmanager
def logging_once() -> Generator[None]:
    """Log the errors of a criterion once, and not for every batch: a run counts them anyway."""
    token = _LOGGED.set(set())
    try:
        yield
    finally:
        _LOGGED.reset(token)


@dataclass(slots=True)
class Engine:
    """What the criteria of one rubric are answered with."""

    plan: Plan
    objects: Mapping[str, Any]
    """What checks may name as an argument, beside the fields of a rollout."""
    grader: Autograder | None
    on_error: OnError
    read: Callable[[object], Any] = read_completion
    """How a completion is read; a TypeError says why it cannot be."""
    columns: list[Column] = field(init=False)
    whole: dict[int, EvaluationReport] = field(init=False)

    async def answer(self, batch: Batch) -> Answered:
        """Ask everything of every rollout of a batch."""
        self._refuse_without_grader()
        scale = self.grader.scale if self.grader else None
        batch, unreadable = batch.readable(self.read)
        if unreadable and self.on_error == "raise":
            raise TypeError(next(iter(unreadable.values())).removeprefix("TypeError: "))
        size = len(batch)
        self.columns = [[UNASKED] * size for _ in self.plan.criteria]
        self.whole = {}
        for depth, phase in enumerate(self.plan.phases if size else ()):
            if depth or unreadable:
                await self._ask_some(phase, batch, unreadable)
            elif not phase.judged:
                await self._check_all(phase, batch)
            elif not phase.by_code:
                await self._judge([phase.judged] * size, batch)
            else:
                # The model is asked while the checks run.
                await together(self._judge([phase.judged] * size, batch), self._check_all(phase, batch))
        kinds = set(chain.from_iterable(map(type, column) for column in self.columns))
        if Score in kinds:
            for criterion, column in zip(self.plan.criteria, self.columns, strict=True):
                self._log_errors(criterion, column)
        rows = list(zip(*self.columns, strict=True)) if self.columns else [()] * size
        return Answered(self.plan, rows, kinds, self.whole, scale, self.on_error)

    async def _check_all(self, phase: Phase, batch: Batch) -> None:
        columns = await self._check(phase.runs, batch)
        for one, column in zip(phase.by_code, columns, strict=True):
            self.columns[one.index] = column

    async def _ask_some(self, phase: Phase, batch: Batch, unreadable: Mapping[int, str]) -> None:
        """Ask each criterion where its `when` holds; elsewhere it is not applicable.

        Where the completion is `unreadable`, a criterion about it is not asked either, and says why.
        """
        asked: list[list[PlannedCriterion]] = [[] for _ in range(len(batch))]
        for one in (*phase.by_code, *phase.judged):
            column = self.columns[one.index]
            places: list[int] = []
            for place in range(len(batch)):
                known = self._known_by_condition(one.criterion, place)
                if known is None and place in unreadable and one.reads_completion:
                    known = Score.failed(unreadable[place])
                if known is None:
                    places.append(place)
                else:
                    column[place] = known
            if one.criterion.judged:
                for place in places:
                    asked[place].append(one)
            elif places:
                [answers] = await self._check([[one]], batch.select(places))
                for place, answer in zip(places, answers, strict=True):
                    column[place] = answer
        if any(asked):
            await self._judge(asked, batch)

    def _known_by_condition(self, criterion: Criterion, place: int) -> Score | None:
        """None when the criterion is to be asked of this rollout, else the answer it has already."""
        if is_dry_run():
            return None  # where nothing is answered, everything that could be asked counts
        for name, verdicts in criterion.when:
            index = self.plan.names.index(name)
            answer = self.columns[index][place]
            if answer is None:
                return Score.failed(f"JudgeError: it depends on {name!r}, which was judged as part of the whole")
            line = line_of(self.plan.criteria[index], answer)
            if line.error is not None:
                return Score.failed(f"JudgeError: it depends on {name!r}, which has no answer")
            holds = line.verdict in verdicts if verdicts else bool(line.passed)
            if not holds:
                return Score.not_applicable(f"{name!r} came out {line.verdict or line.value}")
        return None

    async def _judge(self, asked: Sequence[Sequence[PlannedCriterion]], batch: Batch) -> None:
        """Ask the grader about every rollout what is asked of it, all criteria at once."""
        grader = self.grader
        assert grader is not None

        async def judge(place: int) -> None:
            planned = asked[place]
            if not planned:
                return
            criteria = [one.criterion for one in planned]
            try:
                view, query = _view(batch, place), question_text(batch.rows[place].get("prompt"))
                async with rollout_spending():
                    answer = await grader.answer(view, criteria, query or None, on_error=self.on_error)
            except FAILURES as error:
                if self.on_error == "raise" or is_stop(error):
                    raise
                answer = [Score.failed(error)] * len(criteria)
            if isinstance(answer, EvaluationReport):
                self.whole[place] = self.whole.get(place, EvaluationReport()) + answer
                for one in planned:
                    self.columns[one.index][place] = None
                return
            for one, score in zip(planned, answer, strict=True):
                self.columns[one.index][place] = finite(one.criterion, score)

        models = grader.models()
        refuse_unpriced(models)
        # A text is begun when its calls would soon go out: its prompts then go one after the other,
        # while an endpoint still remembers how the first of them began.
        room = (lambda: all(map(has_room, models))) if models else None
        await side_by_side(judge, range(len(batch)), room=room)

    # Checks. Those of one rollout run in the order listed: a later one may read what an earlier one left in the state.

    async def _check(self, runs: Sequence[Sequence[PlannedCriterion]], batch: Batch) -> list[Column]:
        """One column a criterion that code answers."""
        columns: list[Column] = []
        for run in runs:
            first = run[0]
            if first.call is None:
                columns.append(await self._nested(first, batch))
            elif first.call.is_group:
                columns.append(await self._group(first, first.call, batch))
            elif any(one.call and one.call.is_async for one in run):
                columns += await self._rollout_by_rollout(run, batch)
            else:
                columns += await self._column_by_column(run, batch)
        return columns

    async def _column_by_column(self, run: Sequence[PlannedCriterion], batch: Batch) -> list[Column]:
        """The answers of plain functions. Asking one function about many rollouts at a time is what makes
        10,000 of them cheap: arguments are looked up by column, and results are looked over at once."""
        columns: list[Column] = [[] for _ in run]
        for number, chunk in enumerate(batch.chunks(CHUNK)):
            if number:
                await asyncio.sleep(0)
            for one, column in zip(run, columns, strict=True):
                assert one.call is not None
                values = self._collect(one.call.each(chunk, self.objects, whole=batch), len(chunk))
                column += values if _are_numbers(values) else await self._coerced(one, values)
        return columns

    def _collect(self, results: Iterator[Any], size: int) -> Column:
        """Every result, with an error in the place of each that failed."""
        values: Column = []
        while len(values) < size:
            try:
                # An exception leaves what came before in place, and the iterator at the next item.
                values.extend(results)
                if len(values) < size:
                    raise RuntimeError("the check raised StopIteration")
            except FAILURES as error:
                if self.on_error == "raise" or isinstance(error, KeyboardInterrupt):
                    raise
                values.append(Score.failed(error))
        return values

    async def _coerced(self, one: PlannedCriterion, values: Column) -> Column:
        """Results that are not all plain numbers: awaitables awaited, the rest read or refused."""
        pending = [place for place, value in enumerate(values) if inspect.isawaitable(value)]
        if pending:
            results = await side_by_side(self._awaited, [values[place] for place in pending])
            for place, value in zip(pending, results, strict=True):
                values[place] = value
        answers: Column = []
        for start in range(0, len(values), CHUNK):
            if start:
                await asyncio.sleep(0)
            answers += [coerce_answer(one.criterion, v) for v in values[start : start + CHUNK]]
        return answers

    async def _awaited(self, value: Awaitable[Any]) -> Any:
        try:
            return await value
        except FAILURES as error:
            if self.on_error == "raise" or is_stop(error):
                raise
            return Score.failed(error)

    async def _rollout_by_rollout(self, run: Sequence[PlannedCriterion], batch: Batch) -> list[Column]:
        async def check(place: int) -> list[Any]:
            alone = Batch(batch.rows[place : place + 1], batch.states[place : place + 1])
            return [await self._one(one, alone, batch) for one in run]

        rows = await side_by_side(check, range(len(batch)))
        return [list(column) for column in zip(*rows, strict=True)]

    async def _one(self, one: PlannedCriterion, alone: Batch, batch: Batch) -> Any:
        call = one.call
        assert call is not None
        results = call.each(alone, self.objects, whole=batch)
        try:
            value = next(results)
            if call.is_async or inspect.isawaitable(value):
                value = await value
        except FAILURES as error:
            if self.on_error == "raise" or is_stop(error):
                raise
            value = Score.failed(error)
        return value if _are_numbers((value,)) else coerce_answer(one.criterion, value)

    async def _group(self, one: PlannedCriterion, call: Call, batch: Batch) -> Column:
        lacking = {} if call.compares else call.lacking(batch, self.objects)
        if not lacking:
            return await self._grouped(one, batch)
        # Each stands for itself, so those that can be answered are.
        missing = [SignatureError(f"this rollout has no field {n!r}") for n in lacking.values()]
        if self.on_error == "raise":
            raise missing[0]
        rest = [place for place in range(len(batch)) if place not in lacking]
        answers = iter(await self._grouped(one, batch.select(rest)))
        errors = dict(zip(lacking, map(Score.failed, missing), strict=True))
        return [errors[p] if p in errors else next(answers) for p in range(len(batch))]

    async def _grouped(self, one: PlannedCriterion, batch: Batch) -> Column:
        assert one.call is not None
        try:
            values = one.call.group(batch, self.objects)
            if inspect.isawaitable(values):
                values = await values
            column = _one_a_rollout(values, len(batch))
        except FAILURES as error:
            return await self._failed_together(error, self._grouped, one, batch, compares=one.call.compares)
        return column if _are_numbers(column) else await self._coerced(one, column)

    async def _nested(self, one: PlannedCriterion, batch: Batch) -> Column:
        """A whole rubric as one line, worth its normalised score."""
        scorer: Any = one.criterion.check
        inherits = getattr(scorer, "autograder", self) is None and self.grader is not None
        options = {"autograder": self.grader} if inherits else {}
        try:
            reports = await scorer.score(batch.rollouts(), **options)
            if len(reports) != len(batch):
                raise ValueError(f"it gave {len(reports)} reports on {len(batch)} rollouts")
        except FAILURES as error:
            compares = getattr(scorer, "compares", False)
            return await self._failed_together(error, self._nested, one, batch, compares=compares)
        return [_score_of_report(report) for report in reports]

    async def _failed_together(
        self,
        error: BaseException,
        ask: Callable[[PlannedCriterion, Batch], Awaitable[Column]],
        one: PlannedCriterion,
        batch: Batch,
        *,
        compares: bool,
    ) -> Column:
        """Ask about each rollout by itself, after asking about all of them failed: whose fault it was
        comes out, and the others keep their answers. Where it compares them, none has an answer."""
        if self.on_error == "raise" or isinstance(error, SignatureError) or is_stop(error):
            raise error
        size = len(batch)
        if size > 1 and not compares:
            each = await side_by_side(lambda place: ask(one, batch.select([place])), range(size))
            return [answer for [answer] in each]
        message = described(error)
        if size > 1:
            message += f" (it compares the {size} rollouts of the group, so that none of them has an answer)"
        return [Score.failed(message)] * size

    def _log_errors(self, criterion: Criterion, column: Column) -> None:
        """One line in the log when a criterion has no answer somewhere."""
        errors = [a.error for a in column if isinstance(a, Score) and a.error is not None]
        if not errors:
            return
        if self.on_error == "raise":
            raise RubricError(f"criterion {criterion.name!r} has no answer: {errors[0]}")
        logged = _LOGGED.get()
        if logged is not None:
            if criterion.name in logged:
                return
            logged.add(criterion.name)
        logger.error(
            "criterion %r has no answer for %d of %d rollouts; the first: %s",
            criterion.name, len(errors), len(column), errors[0],
        )  # fmt: skip

    def _refuse_without_grader(self) -> None:
        if self.grader is not None or not self.plan.judged:
            return
        for place, criterion in enumerate(self.plan.criteria, start=1):
            if criterion.judged:
                raise RubricError(
                    f"criterion {place} ({criterion.requirement!r}) is judged by a model, and no "
                    "grader was given: pass autograder="
                )


def _view(batch: Batch, place: int) -> JudgeInput:
    row = batch.rows[place]
    if batch.views is not None:
        return JudgeInput(batch.views[place], row)
    if "completion" not in row:
        raise SignatureError("this rollout has no field 'completion' for a model to judge")
    return JudgeInput(view_of(row["completion"])[1], row)


def _are_numbers(values: Sequence[Any]) -> bool:
    """Whether all are plain numbers of a sensible size, as nearly all results are."""
    if not _NUMBERS.issuperset(map(type, values)):
        return False
    try:
        # The cheapest look at all of them at once: NaN stays NaN, infinity stays infinity.
        return math.hypot(*values) <= LARGEST
    except OverflowError:
        return False


def coerce_answer(criterion: Criterion, value: Any) -> float | Score:
    """A check's result as an answer; what is no finite number is an error that says so."""
    if isinstance(value, Score):
        return finite(criterion, value)
    if isinstance(value, str) and criterion.value_of(value) is not None:
        return verdict_score(criterion, value)
    if isinstance(value, bool):
        return value
    number = number_of(value)
    if number is None:
        return Score.failed(f"ValueError: the check returned {short_repr(value)}, not a finite number")
    return number


def _one_a_rollout(values: Any, size: int) -> Column:
    if isinstance(values, str | bytes | Mapping | Set) or not hasattr(values, "__iter__"):
        raise ValueError(
            f"the group function returned {short_repr(cast('object', values))}: return a list of {size} numbers"
        )
    column = list(cast("Sequence[Any]", values))
    if len(column) != size:
        raise ValueError(f"the group function returned {len(column)} numbers for {size} rollouts: return one each")
    return column


def _score_of_report(report: EvaluationReport) -> Score:
    """The score of a nested rubric's line."""
    lines = tuple(report.lines)
    if not report.applies and any(line.counted for line in lines):
        reason = "no counted criterion of it applies to this rollout"
        return Score.not_applicable(reason)._replace(lines=lines)
    if report.score is None:
        errors = report.errors
        reason = "; ".join(f"{name}: {error}" for name, error in errors.items())
        return Score(error=f"GradingError: {reason or 'nothing in it counts'}", lines=lines)
    return Score(report.score, lines=lines)
