"""Answer every criterion of a rubric for a batch of rollouts: a Plan makes them ready, an Engine asks them."""

import asyncio
import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import partial
from graphlib import CycleError, TopologicalSorter
from inspect import getattr_static
from itertools import groupby, islice
from types import FunctionType
from typing import Any, NamedTuple, TypeAlias, cast

from assay import isolation  # whose modules load when a check is isolated
from assay.aggregation import (
    AGGREGATIONS,
    Aggregation,
    Scale,
    stakes,
    summed_by_name,
    total,
    weighted_sums,
)
from assay.concurrency import FAILURES, is_stop, setting, side_by_side
from assay.criterion import LARGEST, Criterion, is_scorer
from assay.errors import JudgeError, MissingExtraError, RubricError, SignatureError
from assay.graders.grader import Grader, JudgeAnswer, ask_grader
from assay.graders.judge_input import JudgeInput, build_judge_input, system_prompt
from assay.graders.verdicts import finite, number_of, verdict_score
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
    line_of,
)
from assay.rollout import Batch, Call, Read
from assay.trajectory import as_it_stood, by_turn, join_steps, steps_of
from assay.types import OnError
from assay.wording import described, short_repr

logger = logger_of("assay")

CHUNK = 512  # rollouts checked between two breaths of the event loop
MOST_STEPS = 3000  # of one rollout that a check is asked about


# The plan: what can fail at construction fails there.


class Traits(NamedTuple):
    """What has to be known of a rubric before rollouts are handed to it."""

    waits: bool = False  # whether a model, another process or a network is waited for, so that rollouts go side by side
    # Whether an async function answers for many rollouts at once: it is better off with a batch.
    takes_many: bool = False
    asks: bool = False  # whether a model answers anything, here or in a rubric inside
    # The criteria that weigh the rollouts of a group against each other, also further in.
    compares: tuple[str, ...] = ()

    @classmethod
    def of(cls, scorer: object) -> "Traits":
        """Those of a rubric. Of anything else with a `score` nothing is known, so its rollouts go alone."""
        traits = getattr(scorer, "traits", None)
        return traits if isinstance(traits, Traits) else cls(waits=True)

    @classmethod
    def joined(cls, parts: Sequence["Traits"]) -> "Traits":
        """The traits of a whole, from those of its parts."""
        waits, takes_many, asks, _ = zip(*parts, strict=True) if parts else ((), (), (), ())
        compares = dict.fromkeys(name for part in parts for name in part.compares)
        return cls(any(waits), any(takes_many), any(asks), tuple(compares))


class PlannedCriterion:
    """One criterion in its place, with its check ready to call."""

    def __init__(self, index: int, criterion: Criterion) -> None:
        self.index = index
        self.criterion = criterion
        self.call: Call | None = None  # None when a model or a nested rubric answers
        self.each: Plan | None = (
            None  # where code answers about each step: the same question about one of them
        )
        self.reads_completion = criterion.judged or criterion.scope != "rollout"
        """Whether it needs a completion that can be read. A rubric inside sees to that by itself."""
        if criterion.check is not None and criterion.scope != "rollout":
            self.each = Plan(
                [criterion.with_fields(scope="rollout", combine="all", when=())],
                AGGREGATIONS["sum"],
            )
            for name in self.each.planned[0].traits.compares:
                raise RubricError(
                    f"criterion {name!r} scores a whole group, and has a scope: drop one of the two"
                )
        elif criterion.check is not None and not is_scorer(criterion.check):
            call = self.call = Call(criterion.check, criterion.name)
            if call.compares and criterion.when:
                said = f"criterion {criterion.name!r} scores a whole group and has a `when`"
                raise RubricError(f"{said}, which holds for single rollouts: drop one of the two")
            if criterion.isolate:
                _isolate(call, criterion)
            self.reads_completion = call.everything or any(
                a.field == "completion" for a in call.arguments
            )

    @property
    def is_single(self) -> bool:
        """Whether a function answers for one rollout at a time."""
        return self.call is not None and not self.call.is_group

    @property
    def traits(self) -> Traits:
        call = self.call
        if self.each is not None:
            return self.each.planned[0].traits
        if call is None:
            return (
                Traits(waits=True, asks=True)
                if self.criterion.judged
                else Traits.of(self.criterion.check)
            )
        compares = (self.criterion.name,) if call.compares else ()
        return Traits(
            call.is_async and not call.is_group, call.is_async and call.is_group, compares=compares
        )


class Plan:
    """Every criterion of a rubric, in the phases they are asked in."""

    def __init__(
        self, criteria: Sequence[Criterion], aggregation: Aggregation, known: "Plan | None" = None
    ) -> None:
        """The criteria that open the `known` plan are not read again."""
        ready = known.planned if known is not None else ()
        rest = enumerate(criteria[len(ready) :], start=len(ready))
        self.planned = (*ready, *(PlannedCriterion(index, criterion) for index, criterion in rest))
        self.criteria = tuple(criteria)
        self.aggregation = aggregation
        self.names = tuple(criterion.name for criterion in criteria)
        self.weights = tuple(criterion.weight for criterion in criteria)
        self.stakes = stakes(self.weights)  # what the weights could gain and lose, all answered
        self.counted = sum(criterion.counts for criterion in criteria)
        self.judged = any(criterion.judged for criterion in criteria)
        self.about_steps = any(c.scope != "rollout" or c.credit != "rollout" for c in criteria)
        plain = not (
            self.about_steps or any(c.required or c.report_only or c.when for c in criteria)
        )
        self.is_async = any(one.call is not None and one.call.is_async for one in self.planned)
        self.adds_up = aggregation.sums and plain
        """Whether the reward is the weighted sum of the answers: no veto, condition or line left out."""
        lowest = min(criteria, key=lambda criterion: criterion.weight, default=None)
        if aggregation.name == "tree" and lowest is not None and lowest.weight < 0:
            said = f"criterion {lowest.name!r} has weight {lowest.weight}, and a tree takes none below 0"
            raise RubricError(
                f"{said}: state the requirement positively, or use another aggregation"
            )
        self.phases: list[tuple[list[list[PlannedCriterion]], list[PlannedCriterion]]] = []
        """Criteria that can be asked at the same time: those for code in order, and those for a model. What code
        answers is cut before and after each that needs the whole batch to be done first."""
        for names in _layers({criterion.name: criterion for criterion in criteria}):
            own = [one for one in self.planned if one.criterion.name in names]
            checked = [one for one in own if not one.criterion.judged]
            runs = [
                list(run) for _, run in groupby(checked, key=lambda one: one.is_single or id(one))
            ]
            self.phases.append((runs, [one for one in own if one.criterion.judged]))


def _layers(criteria: Mapping[str, Criterion]) -> Iterator[frozenset[str]]:
    """The names of criteria that can be asked together, after those that their `when` asks for; refuses unknown names and rings."""
    for asking, (other, verdicts) in (
        (criterion, when) for criterion in criteria.values() for when in criterion.when
    ):
        asked = f"criterion {asking.name!r} is asked when {other!r}"
        if other not in criteria:
            raise RubricError(
                f"{asked} holds, and there is no such criterion: name one of {', '.join(criteria)}"
            )
        offered = (*criteria[other].choices, "N/A")
        for verdict in verdicts:
            if verdict not in offered:
                raise RubricError(
                    f"{asked} is {verdict!r}, which can never be: it offers {', '.join(offered)}"
                )
    waiting = TopologicalSorter({c.name: [name for name, _ in c.when] for c in criteria.values()})
    try:
        waiting.prepare()
    except CycleError as error:
        ring = ", ".join(map(repr, dict.fromkeys(error.args[1])))
        raise RubricError(f"the `when` of {ring} wait for each other: break the ring") from None
    while waiting:
        yield frozenset(ready := waiting.get_ready())
        waiting.done(*ready)


def _isolate(call: Call, criterion: Criterion) -> None:
    """Have a call made in a worker process. A check that cannot be sent there is refused now, at construction."""
    isolation.protocol.readable(Score)
    if call.is_group:
        said = f"criterion {criterion.name!r} scores a whole group"
        raise RubricError(
            f"{said}, and only a check of single rollouts can be isolated: drop `isolate`"
        )
    check, seconds = call.function, criterion.timeout
    try:
        home = isolation.protocol.packed(check).home
    except (TypeError, MissingExtraError) as error:
        raise RubricError(f"criterion {criterion.name!r} cannot be isolated: {error}") from error
    preload = (home,) if home else ()

    async def checked(*args: Any, **keywords: Any) -> Any:
        outcome = await isolation.shared_pool(*preload).run(
            check, *args, timeout=seconds, keywords=keywords
        )
        return outcome.value if outcome.ok else Score.failed(outcome.message)

    call.run_by(checked)


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
    if isinstance(check, FunctionType):
        for cls in type(owner).__mro__[:-1]:
            if getattr_static(cls, check.__name__, None) is check:
                return check.__get__(owner)
    return check


# The results: numbers for every rollout, and reports for those that are looked at.


class Outcomes(NamedTuple):
    """The numbers that the rollouts of a batch earned, one of each a rollout."""

    rewards: Sequence[float | None]  # None where a rollout is unscored: missing is never zero
    partial: Sequence[
        float
    ]  # the sum of weight × value over what was answered: the reward, where there is one
    metrics: Sequence[dict[str, float]]  # the value of every answered criterion by name
    errors: Sequence[dict[str, str]] | None = None  # what went wrong by name; None when nothing did
    idle: Collection[int] = ()  # the places of rollouts to which no counted criterion applies
    unshaped: Sequence[float | None] | None = (
        None  # the rewards before shaping; None where nothing shapes them
    )
    steps: Sequence[Mapping[str, float | None] | None] | None = (
        None  # the rewards of turns; None without any
    )

    @property
    def problems(self) -> Sequence[dict[str, str]] | None:
        """The errors; and where nothing failed and nothing applies, that."""
        if not self.idle:
            return self.errors
        errors = self.errors or [{} for _ in self.rewards]
        return [
            e or ({"rubric": NOTHING_APPLIES} if place in self.idle else e)
            for place, e in enumerate(errors)
        ]


class BatchResult(Sequence[EvaluationReport]):
    """The numbers of a batch, and its reports, made when they are looked at: a report costs more than scoring does."""

    _reports: Sequence[EvaluationReport] = ()
    is_shaped, version = False, ""

    def __init__(
        self, reports: Sequence[EvaluationReport], *, is_shaped: bool = False, version: str = ""
    ) -> None:
        self._reports = (
            [r.model_copy(update={"version": version}) for r in reports] if version else reports
        )
        self.version = version
        self.is_shaped = is_shaped or any(report.unshaped is not None for report in reports)

    def report(self, place: int) -> EvaluationReport:
        return self._reports[place]

    def outcomes(self) -> Outcomes:
        rows = [
            (r.scored, r.partial_reward, r.metrics, r.errors, r.applies, r.step_rewards)
            for r in self
        ]
        errors, steps = [row[3] for row in rows], [row[5] for row in rows]
        return Outcomes(
            [partial if scored else None for scored, partial, *_ in rows],
            [row[1] for row in rows],
            [row[2] for row in rows],
            errors if any(errors) else None,
            {place for place, row in enumerate(rows) if not row[4]},
            [report.outcome for report in self] if self.is_shaped else None,
            steps if any(steps) else None,
        )

    def __len__(self) -> int:
        return len(self._reports)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [*map(self.report, range(len(self))[index])]
        return self.report(range(len(self))[cast("int", index)])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(cast("Sequence[Any]", other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Reports on {len(self)} rollouts>"

    def __reduce__(self) -> tuple[Any, ...]:
        # As plain reports: a rubric may hold functions that cannot be pickled.
        return list, (list(self),)


class Summed(BatchResult):
    """The results of several rubrics about one batch, added up."""

    def __init__(self, parts: Sequence[BatchResult]) -> None:
        # A group inside a group adds its rubrics, so that each sum is rounded once.
        self.parts = [
            part for one in parts for part in (one.parts if isinstance(one, Summed) else [one])
        ]
        self.is_shaped = any(part.is_shaped for part in self.parts)

    def __len__(self) -> int:
        return len(self.parts[0])

    def report(self, place: int) -> EvaluationReport:
        return EvaluationReport.summed(part.report(place) for part in self.parts)

    def outcomes(self) -> Outcomes:
        parts = [] if self.is_shaped else [part.outcomes() for part in self.parts]
        if self.is_shaped or any(part.steps for part in parts):
            return super().outcomes()
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
        metrics = zip(*(part.metrics for part in parts), strict=True)
        return Outcomes(
            rewards,
            partial,
            [summed_by_name(pair for one in row for pair in one.items()) for row in metrics],
            [{k: v for one in row for k, v in one.items()} for row in zip(*failed, strict=True)]
            if failed
            else None,
            idle,
        )


# The engine: the criteria, asked.

_Ask: TypeAlias = Callable[[PlannedCriterion, Batch], Awaitable[list[Any]]]
# Criteria whose errors were logged, where each is to be logged once.
_LOGGED: ContextVar[set[str] | None] = ContextVar("logged", default=None)


def logging_once() -> AbstractContextManager[object]:
    """Log the errors of a criterion once, and not for every batch: a run counts them anyway."""
    return setting(_LOGGED, set[str]())


class Engine(BatchResult):
    """The criteria of one rubric, asked of one batch; and then the answers, a row of them a rollout.

    An answer is a number, a `Score`, or None where a grader gave one report for all of its criteria.
    """

    def __init__(
        self,
        plan: Plan,
        objects: Mapping[str, Any],
        grader: Grader | None,
        on_error: OnError,
        read: Read,
    ) -> None:
        """Checks may name `objects` as arguments."""
        self._plan = plan
        self._objects = objects
        self._grader = grader
        self._scale: Scale | None = grader.scale if grader else None
        self._on_error: OnError = on_error
        self._read = read
        self._whole: dict[
            int, EvaluationReport
        ] = {}  # reports of graders that judge as a whole, by place
        self._shown: dict[int, str] = {}  # what judges were not shown, by place
        self._turns: dict[
            int, list[str]
        ] = {}  # the turns of the assistant, by place, where criteria are about steps
        self._are_floats = (
            True  # whether all answers are, as nearly always, so that none need be looked at
        )

    async def answer(self, batch: Batch) -> "Engine":
        """Ask everything of every rollout of a batch."""
        await self.ask(batch)
        if not self._are_floats:
            self._log_errors()
        del self._batch  # what a trainer keeps of a batch should not keep its rollouts alive
        return self

    async def ask(self, batch: Batch) -> None:
        if self._plan.judged and self._grader is None:
            place, first = next(
                (place, c) for place, c in enumerate(self._plan.criteria, start=1) if c.judged
            )
            asked = f"criterion {place} ({first.requirement!r}) is judged by a model"
            raise RubricError(f"{asked}, and no grader was given: pass autograder=")
        self._batch, self._unreadable = batch.readable(self._read)
        if self._unreadable and self._on_error == "raise":
            raise TypeError(next(iter(self._unreadable.values())).removeprefix("TypeError: "))
        unasked = [UNASKED] * len(self._plan.criteria)
        self._rows: list[list[Any]] = [unasked.copy() for _ in batch.rows]
        for runs, judged in self._plan.phases if len(batch) else ():
            if not judged:
                await self._check(runs)
            elif not runs:
                await self._judge(judged)
            else:
                # The model is asked while the checks run.
                await side_by_side(
                    lambda ask: ask(), [partial(self._check, runs), partial(self._judge, judged)]
                )
        if self._plan.about_steps:
            turns = {
                p: steps_of(row, "step")
                for p, row in enumerate(self._batch.rows)
                if p not in self._unreadable
            }
            self._turns = {place: [step.address for step in own] for place, own in turns.items()}

    def _is_asked(self, one: PlannedCriterion, place: int) -> bool:
        """Tell whether a criterion is asked: its `when` holds, and the completion can be read; if not, note why."""
        known: Score | None = None
        # Where nothing is answered, everything that could be asked counts.
        for name, verdicts in () if is_dry_run() else one.criterion.when:
            index = self._plan.names.index(name)
            answer = self._rows[place][index]
            if answer is None:
                known = Score.failed(
                    f"JudgeError: it depends on {name!r}, which was judged as part of the whole"
                )
                break
            line = line_of(self._plan.criteria[index], answer)
            if line.error is not None:
                known = Score.failed(f"JudgeError: it depends on {name!r}, which has no answer")
                break
            if not (line.verdict in verdicts if verdicts else line.passed):
                known = Score.not_applicable(f"{name!r} came out {line.verdict or line.value}")
                break
        if known is None and place in self._unreadable and one.reads_completion:
            known = Score.failed(self._unreadable[place])
        if known is not None:
            self._set(one, place, known)
        return known is None

    def _set(self, one: PlannedCriterion, place: int, answer: Any) -> None:
        self._are_floats = self._are_floats and type(answer) is float
        self._rows[place][one.index] = answer

    def _failed(self, error: BaseException, *, waited: bool = True) -> Score:
        """The answer where something failed, unless failures are raised or we are to stop."""
        # A function that was called, and not waited for, is told to stop by Ctrl-C alone.
        if self._on_error == "raise" or (
            is_stop(error) if waited else isinstance(error, KeyboardInterrupt)
        ):
            raise error
        return Score.failed(error)

    async def _judge(self, judged: Sequence[PlannedCriterion]) -> None:
        """Ask the grader about every rollout what is asked of it, all criteria at once."""
        grader, batch = self._grader, self._batch
        assert grader is not None

        async def judge(place: int) -> None:
            asked = [one for one in judged if self._is_asked(one, place)]
            if not asked:
                return
            criteria, row = [one.criterion for one in asked], batch.rows[place]
            try:
                if batch.views is None and "completion" not in row:
                    raise SignatureError(
                        "this rollout has no field 'completion' for a model to judge"
                    )
                view = None if batch.views is None else batch.views[place]
                judge_input = build_judge_input(row, view=view, takes_media=grader.takes_media)
                if judge_input.left_out:
                    self._shown[place] = judge_input.left_out
                async with rollout_spending():
                    answer = await self._answers(grader, row, judge_input, criteria)
            except FAILURES as error:
                answer = [self._failed(error)] * len(criteria)
            if isinstance(answer, EvaluationReport):
                self._whole[place] = self._whole.get(place, EvaluationReport()) + answer
                answer = [None] * len(criteria)
            for one, score in zip(asked, answer, strict=True):
                self._set(one, place, score and finite(one.criterion, score))

        models = grader.models()
        refuse_unpriced(models)
        # A text is begun when its calls would soon go out: its prompts then go one after the other,
        # while an endpoint still remembers how the first of them began.
        room = (lambda: all(map(has_room, models))) if models else None
        await side_by_side(judge, range(len(batch)), room=room)

    async def _answers(
        self,
        grader: Grader,
        row: Mapping[str, Any],
        judge_input: JudgeInput,
        criteria: list[Criterion],
    ) -> JudgeAnswer:
        """What the grader answers; for a criterion about steps what it answers about each, all criteria at once."""
        if all(criterion.scope == "rollout" for criterion in criteria):
            return await ask_grader(grader, judge_input, criteria, on_error=self._on_error)
        asked = [_at_steps(criterion, row, judge_input) for criterion in criteria]
        each = [question for own in asked for question in own.values()]
        answer: JudgeAnswer = []
        if each:
            answer = await ask_grader(grader, judge_input, each, on_error=self._on_error)
        if isinstance(answer, EvaluationReport):
            told = (
                f"{grader.title} gives one number for all criteria, and some are asked about steps"
            )
            raise JudgeError(f"{told}: use a grader that answers each criterion")
        found = iter(answer)
        return [
            next(found)
            if c.scope == "rollout"
            else join_steps(c, [*own], [finite(c, next(found)) for _ in own])
            for c, own in zip(criteria, asked, strict=True)
        ]

    async def _check(self, runs: Sequence[Sequence[PlannedCriterion]]) -> None:
        for run in runs:
            one = run[0]
            if one.is_single:
                await self._check_each(run)
                continue
            places = [place for place in range(len(self._rows)) if self._is_asked(one, place)]
            if places:
                ask = (
                    self._by_step if one.each else self._nested if one.call is None else self._group
                )
                answers = await ask(one, self._batch.select(places))
                for place, answer in zip(places, answers, strict=True):
                    self._set(one, place, answer)

    async def _check_each(self, run: Sequence[PlannedCriterion]) -> None:
        """Ask functions about each rollout, in the order listed: a later one may read what an earlier one left in
        the state, or in the rubric. Rollouts go one after the other until a function waits, and then side by side.

        A group of 8 to 16 rollouts is the common case, and this loop is as fast there as calls by column were.
        What 10,000 rollouts need is that nothing else is done for each of them: no task, and no report.
        """
        batch, objects, size = self._batch, self._objects, len(self._rows)
        rows = list(zip(range(size), batch.rows, batch.states, self._rows, strict=True))
        asked = [(one, one.index, *one.call.bound(objects)) for one in run if one.call is not None]
        guarded = (
            bool(self._unreadable) or len(self._plan.phases) > 1
        )  # a `when` makes another phase
        waits, failed = (
            self._plan.is_async and any(one.call is not None and one.call.is_async for one in run),
            False,
        )

        def refuse_unsupplied() -> None:
            for one in run:
                if one.call is not None:
                    one.call.refuse_unsupplied(batch, objects)

        async def check(
            some: Sequence[tuple[int, Mapping[str, Any], Mapping[str, Any], list[Any]]],
        ) -> None:
            nonlocal waits, failed
            low, high = -LARGEST, LARGEST
            for place, row, state, answers in some:
                for one, index, ask, many, first, second in asked:
                    if guarded and not self._is_asked(one, place):
                        continue
                    try:
                        try:  # here and not by another function, which would take as long as a check
                            if many == 2:
                                value = ask(row[first], row[second])
                            elif many == 1:
                                value = ask(row[first])
                            else:
                                value = ask(*first(row)) if many else ask(row, state)
                        except KeyError:
                            call = one.call
                            if (
                                call is None
                                or not many
                                or all(a.field in row for a in call.arguments)
                            ):
                                raise
                            value = call.by_name(objects, row, state)
                    except FAILURES as error:
                        if self._on_error == "raise":
                            refuse_unsupplied()
                        failed, value = True, self._failed(error, waited=False)
                    if type(value) is float and low <= value <= high:
                        answers[index] = value
                    elif (
                        type(value) is bool
                    ):  # as most checks return; all the rest may be waited for
                        self._set(one, place, value)
                    else:
                        waits = waits or inspect.isawaitable(value)
                        self._set(one, place, await self._settled(one.criterion, value))

        done, end = (
            0,
            1,
        )  # the first one alone shows whether a plain function returns something to wait for
        while done < size and not waits:
            if done > 1:
                await asyncio.sleep(0)
            await check(rows[done:end])
            done, end = end, min(end + CHUNK, size)
        if done < size:
            await side_by_side(lambda row: check([row]), rows[done:])
        if failed:
            refuse_unsupplied()

    async def _settled(self, criterion: Criterion, value: Any) -> float | Score:
        """What a check returned as an answer, after it was waited for."""
        try:
            return coerce_answer(criterion, await value if inspect.isawaitable(value) else value)
        except FAILURES as error:
            return self._failed(error)

    async def _group(self, one: PlannedCriterion, batch: Batch) -> list[Any]:
        """What a group function gives. One that compares nothing answers for the rollouts it can."""
        call, size = one.call, len(batch)
        assert call is not None
        lacking = {} if call.compares else call.lacking(batch, self._objects)
        if lacking:
            errors = {
                p: self._failed(SignatureError(f"this rollout has no field {n!r}"))
                for p, n in lacking.items()
            }
            rest = [place for place in range(size) if place not in lacking]
            found = iter(await self._group(one, batch.select(rest)) if rest else [])
            return [errors[place] if place in errors else next(found) for place in range(size)]
        try:
            values = call.group(batch, self._objects)
            if inspect.isawaitable(values):
                values = await values
            values = _one_a_rollout(values, size)
        except FAILURES as error:
            return await self._failed_together(
                error, self._group, one, batch, compares=call.compares
            )
        answers: list[Any] = []
        for start in range(0, size, CHUNK):
            if start:
                await asyncio.sleep(0)
            part = values[start : start + CHUNK]
            answers += await side_by_side(lambda value: self._settled(one.criterion, value), part)
        return answers

    async def _by_step(self, one: PlannedCriterion, batch: Batch) -> list[Any]:
        """Ask code about every step, with the rollout as it stood then, and join the answers about each rollout."""
        assert one.each is not None
        steps = [steps_of(row, one.criterion.scope) for row in batch.rows]
        stood = zip(batch.rows, batch.states, steps, strict=True)
        # Each step gets the messages before it, so that very many would cost the square of their number.
        few = ((row, state, own) for row, state, own in stood if len(own) <= MOST_STEPS)
        every = ((each, state) for row, state, own in few for each in as_it_stood(row, own))
        answers: list[Any] = []
        while some := list(
            islice(every, CHUNK)
        ):  # a rollout of many steps is long, and each of its openings too
            rows, states = zip(*some, strict=True)
            each = Engine(one.each, self._objects, self._grader, self._on_error, self._read)
            await each.ask(Batch(rows, states))
            answers += [answer for [answer] in each._rows]
        found, joined = iter(answers), list[Any]()
        for own in steps:
            if len(own) > MOST_STEPS:
                said = f"the rollout has {len(own):,} steps, and at most {MOST_STEPS:,} are asked about"
                joined.append(Score.failed(RubricError(said)))
            else:
                joined.append(
                    join_steps(one.criterion, [s.address for s in own], [next(found) for _ in own])
                )
        return joined

    async def _nested(self, one: PlannedCriterion, batch: Batch) -> list[Any]:
        """A whole rubric as one line, worth its normalised score."""
        scorer: Any = one.criterion.check
        inherits = getattr(scorer, "autograder", self) is None and self._grader is not None
        options = {"autograder": self._grader} if inherits else {}
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
        ask: _Ask,
        one: PlannedCriterion,
        batch: Batch,
        *,
        compares: bool,
    ) -> list[Any]:
        """Ask about each rollout alone after all failed together: those at fault fail alone, unless compared."""
        if isinstance(error, SignatureError):
            raise error
        failed, size = self._failed(error), len(batch)
        if size == 1:
            return [failed]
        if compares:
            why = (
                f"it compares the {size} rollouts of the group, so that none of them has an answer"
            )
            return [Score.failed(f"{failed.error} ({why})")] * size
        each = await side_by_side(lambda place: ask(one, batch.select([place])), range(size))
        return [answer for [answer] in each]

    def _log_errors(self) -> None:
        logged = _LOGGED.get()
        for criterion, column in zip(
            self._plan.criteria, zip(*self._rows, strict=True), strict=True
        ):
            errors = [a.error for a in column if isinstance(a, Score) and a.error is not None]
            if errors and self._on_error == "raise":
                raise RubricError(f"criterion {criterion.name!r} has no answer: {errors[0]}")
            if errors and (logged is None or criterion.name not in logged):
                told = (criterion.name, len(errors), len(column), errors[0])
                logger.error(
                    "criterion %r has no answer for %d of %d rollouts; the first: %s", *told
                )
                if logged is not None:
                    logged.add(criterion.name)

    # What came back.

    def __len__(self) -> int:
        return len(self._rows)

    def outcomes(self) -> Outcomes:
        plan, rows = self._plan, self._rows
        if not plan.adds_up or self._whole:
            # Made once: a caller's own formula may log, or take its time.
            self._reports = self._reports or [self._made(place) for place in range(len(self))]
            return super().outcomes()
        numbers = rows if self._are_floats else [_values(row) for row in rows]
        if not plan.counted or (not self._are_floats and None in numbers):
            return super().outcomes()
        rewards = weighted_sums(plan.weights, cast("list[list[float]]", numbers))
        return Outcomes(rewards, rewards, [dict(zip(plan.names, row)) for row in numbers])  # type: ignore[arg-type]  # noqa: B905 - the lengths are known, and looking costs

    def report(self, place: int) -> EvaluationReport:
        return self._reports[place] if self._reports else self._made(place)

    def _made(self, place: int) -> EvaluationReport:
        made, shown = self._summed(place), self._shown.get(place)
        update: dict[str, Any] = {} if shown is None else {"shown": shown}
        if place in self._turns:
            update["step_rewards"] = self._step_rewards(place, made)
        return made.model_copy(update=update) if update else made

    def _step_rewards(self, place: int, made: EvaluationReport) -> dict[str, float | None]:
        """What the rubric would pay if the rollout had done throughout what it did in each turn."""
        turns, criteria = self._turns[place], self._plan.criteria
        if not made.scored or place in self._whole:
            return dict.fromkeys(turns, made.raw_score)
        lines = [
            (line.as_score, by_turn(c, line, turns))
            for c, line in zip(criteria, made.lines, strict=True)
        ]
        return {
            t: self._aggregated(criteria, [own.get(t, score) for score, own in lines]).raw_score
            for t in turns
        }

    def _summed(self, place: int) -> EvaluationReport:
        plan, row, whole = self._plan, self._rows[place], self._whole.get(place)
        values = (
            (row if self._are_floats else _values(row)) if plan.adds_up and whole is None else None
        )
        if values is not None:
            scale = self._scale or plan.aggregation.scale
            [raw], lines = weighted_sums(plan.weights, [values]), Lines(plan.criteria, row)
            return EvaluationReport.full(
                raw, plan.stakes, lines, scale, counted=plan.counted, judged=plan.judged
            )
        if whole is None:
            return self._aggregated(plan.criteria, row)
        own = [index for index, answer in enumerate(row) if answer is not None]
        if not own:
            return whole
        return self._aggregated([plan.criteria[i] for i in own], [row[i] for i in own]) + whole

    def _aggregated(
        self, criteria: Sequence[Criterion], answers: Sequence[Any]
    ) -> EvaluationReport:
        """What the answers come to. A caller's formula that fails leaves this rollout alone unscored."""
        lines, rule, scale = Lines(criteria, answers), self._plan.aggregation, self._scale
        try:
            return aggregate(lines, criteria, aggregation=rule, scale=scale)
        except FAILURES as error:
            if rule.formula is None or self._on_error == "raise" or is_stop(error):
                raise
            logger.error("aggregation %r failed: %s", rule.name, described(error))
            return aggregate(
                [*lines, CriterionReport(name=rule.name, error=described(error))],
                criteria,
                scale=scale,
            )


def _at_steps(
    criterion: Criterion, row: Mapping[str, Any], judge_input: JudgeInput
) -> dict[str, Criterion]:
    """A criterion as it is asked about each step of a rollout, by address; as it is when it is about the whole.

    What was shown stays the same for all of them, so that they share it. Raises a `JudgeError` for a step that was not shown.
    """
    if criterion.scope == "rollout":
        return {"": criterion}
    asked: dict[str, Criterion] = {}
    known = criterion.question_hash
    there = {name for part in judge_input.parts for name in (part.address, part.message)}
    steps = steps_of(row, criterion.scope)
    for step in steps:
        address, question = step.address, criterion.requirement
        # A single reply is shown without its address, and then nothing but the only turn can be asked about.
        if (
            address not in there
            if judge_input.parts
            else len(steps) > 1 or criterion.scope == "call"
        ):
            told = f"criterion {criterion.name!r} is asked about {address}, which the judge is not shown"
            raise JudgeError(f"{told}: let `shows` show it, or leave `scope` out")
        if judge_input.parts:  # a reply by itself is shown without an address
            question = f"{question}\n\n{system_prompt('step').format(address=address)}"
        name = f"{criterion.name}@{address}"
        made = criterion.with_fields(
            requirement=question, name=name, scope="rollout", combine="all"
        )
        made.memo.update(question_hash=f"{known}@{address}", step=address)
        asked[address] = made
    return asked


def _values(row: Sequence[Any]) -> list[float] | None:
    """The number in every answer; None when one has none."""
    values = [answer.value if type(answer) is Score else float(answer) for answer in row]
    return None if None in values else cast("list[float]", values)


def coerce_answer(criterion: Criterion, value: Any) -> float | Score:
    """A check's result as an answer; what is no finite number is an error that says so."""
    if isinstance(value, Score):
        return finite(criterion, value)
    if isinstance(value, str) and value in criterion.values:
        return verdict_score(criterion, value)
    number = value if isinstance(value, bool) else number_of(value)
    if number is None:
        return Score.failed(
            f"ValueError: the check returned {short_repr(value)}, not a finite number"
        )
    return number


def _one_a_rollout(values: Any, size: int) -> list[Any]:
    if isinstance(values, str | bytes | Mapping | Set) or not hasattr(values, "__iter__"):
        given = short_repr(cast("object", values))
        raise ValueError(f"the group function returned {given}: return a list of {size} numbers")
    column = list(cast("Sequence[Any]", values))
    if len(column) != size:
        raise ValueError(
            f"the group function returned {len(column)} numbers for {size} rollouts: return one each"
        )
    return column


def _score_of_report(report: EvaluationReport) -> Score:
    lines = tuple(report.lines)
    if not report.applies and any(line.counted for line in lines):
        return Score.not_applicable("no counted criterion of it applies to this rollout")._replace(
            lines=lines
        )
    if report.score is None:
        reason = "; ".join(f"{name}: {error}" for name, error in report.errors.items())
        return Score(error=f"GradingError: {reason or 'nothing in it counts'}", lines=lines)
    return Score(
        report.score, f"judges were shown: {report.shown}" if report.shown else "", lines=lines
    )
