"""Evaluate an environment: generate the rollouts of every example, score each group, and keep the rows."""

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol, TypedDict

from assay import __version__
from assay.aggregation import advantages
from assay.concurrency import FAILURES, is_stop, walk_together
from assay.engine import Traits, logging_once
from assay.envs.dataset import Example
from assay.envs.model_under_test import ModelUnderTest
from assay.envs.results import Results
from assay.errors import RubricError, SignatureError
from assay.graders.autograder import Autograder
from assay.models import Ledger, budget
from assay.models.budgets import RolloutSpending
from assay.models.model import judge_log
from assay.redaction import logger_of
from assay.report import EvaluationReport
from assay.rubric import Rubric
from assay.runs import Run, RunAbout, Summary
from assay.runs.jsonable import as_text, holdable, to_jsonable
from assay.runs.metadata import judge_of
from assay.runs.pipeline import Numbering, OnProgress, OnRow, Sink, Watch, opened_sink, reports_on
from assay.runs.row import Key, Row, exchanges_told
from assay.runs.row_rubrics import COLUMN, RowRubrics, unreadable_report
from assay.runs.spending import NOTHING, Spending
from assay.types import State
from assay.wording import described, did_you_mean, short_repr

SIDE_BY_SIDE = 256
"""Rollouts under way at once, unless said otherwise; the endpoint's limits may allow fewer."""


class Options(TypedDict, total=False):
    """What `evaluate` and `generate` take besides what is asked of whom."""

    rollouts_per_example: int
    """How often each example is asked; the answers to one are scored as a group. 1."""
    max_concurrent: int | None
    """Rollouts under way at once. Said, the endpoint is pressed that hard from the start."""
    sampling_args: Mapping[str, Any] | None
    """`temperature`, `max_tokens`, `seed`, and whatever else the endpoint takes."""
    grader: Autograder | None
    """Who answers the criteria for a model, where the rubric does not say."""
    state_columns: Sequence[str]
    """Fields of the state to keep with each result."""
    run: str | os.PathLike[str] | None
    """The folder to keep the run in, a row as soon as its group is scored."""
    exchanges: bool
    """Whether to keep what judges were asked and said, word for word; on the first row of a group."""
    resume: bool
    """Whether to go on with the run in that folder: only what is missing or failed is done."""
    on_row: OnRow | None
    """Called with the `Row` of each rollout as soon as it is scored, and kept if there is a folder."""
    on_progress: OnProgress | None
    """Called with a `Progress` now and then."""
    stopping: Callable[[], bool] | None
    """Asked between rollouts. Once true, what is under way is finished, and no more begun."""


@dataclass(frozen=True)
class Settings:
    """The same, with everything filled in."""

    rollouts_per_example: int = 1
    max_concurrent: int | None = None
    sampling_args: Mapping[str, Any] | None = None
    grader: Autograder | None = None
    state_columns: Sequence[str] = ()
    run: str | os.PathLike[str] | None = None
    exchanges: bool = False
    resume: bool = False
    on_row: OnRow | None = None
    on_progress: OnProgress | None = None
    stopping: Callable[[], bool] | None = None

    @classmethod
    def of(cls, options: Options) -> "Settings":
        for name in options:
            if name not in cls.__dataclass_fields__:
                raise TypeError(f"there is no option {name!r}: {did_you_mean(name, cls.__dataclass_fields__)}")
        return cls(**options)

    def __post_init__(self) -> None:
        if type(self.rollouts_per_example) is not int or self.rollouts_per_example < 1:
            raise ValueError(f"rollouts_per_example is {self.rollouts_per_example!r}: give 1 or more")
        if self.max_concurrent == -1:  # as elsewhere, for as many as may be
            object.__setattr__(self, "max_concurrent", None)
        if self.max_concurrent is not None and self.max_concurrent < 1:
            raise ValueError(f"max_concurrent is {self.max_concurrent!r}: give 1 or more")
        if self.resume and self.run is None:
            raise ValueError("resume goes on with a run: name its folder with run=")
        if isinstance(self.state_columns, str):
            raise ValueError(f"state_columns is {self.state_columns!r}: give a list of names")


@dataclass(slots=True)
class RolloutJob:
    """One rollout to do; what follows its group is filled in as it goes."""

    key: Key
    example: Example
    group: "ExampleGroup"
    number: int
    """Its place among all of them."""
    state: State | None = None
    """What the rollout left behind, once it is over."""
    error: str | None = None
    """Why there is nothing to score."""
    spent: Spending = NOTHING
    """What it asked of models, without its scoring."""
    seconds: float = 0.0
    """How long it took, without its scoring."""
    row: Row | None = None
    """What is kept of it, once it is scored."""

    @property
    def metrics(self) -> Mapping[str, float]:
        """The value of every criterion that has one, by name."""
        # GroupScorer left them in the state; out of the report they would have to be made anew.
        found = self.state.get("metrics") if self.state is not None else None
        return found or {}


@dataclass(slots=True)
class ExampleGroup:
    """The rollouts of one example, which are scored together."""

    jobs: list[RolloutJob] = field(default_factory=list[RolloutJob])
    spending: RolloutSpending | None = None
    """What it has asked of models so far, where money is limited and it has begun."""
    beginning: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def over(self) -> bool:
        """Whether all of them can be scored."""
        return all(job.state is not None for job in self.jobs)


def jobs_of(examples: Iterable[Example], *, times: int = 1) -> list[RolloutJob]:
    """Every rollout, in order. An example that comes again, or is to be asked again, is sampled again."""
    jobs: list[RolloutJob] = []
    groups: dict[str, ExampleGroup] = {}
    numbering = Numbering()
    for example in examples:
        own = example.get("sample")
        known = {"example_id": example["example_id"], "sample": own if times == 1 else None}
        for _ in range(times):
            key = numbering.key_of(known)
            group = groups.setdefault(key[0], ExampleGroup())
            # A column of that name with something else in it is the data set's own affair.
            numbered = own is None or type(own) is int
            job = RolloutJob(key, {**example, "sample": key[1]} if numbered else example, group, len(jobs))
            group.jobs.append(job)
            jobs.append(job)
    return jobs


KEPT = ("is_truncated", "stop_condition", "tool_failures")
"""Fields of a state that are kept with every rollout that has them."""


class ScoredRollout(NamedTuple):
    """What scoring gave for one rollout, and what it took."""

    report: EvaluationReport
    spent: Spending = NOTHING
    seconds: float = 0.0
    exchanges: tuple[Mapping[str, Any], ...] = ()
    """What judges were asked and said about its group, on the first of it."""


UNSCORED = ScoredRollout(EvaluationReport())


def row_of(job: RolloutJob, scored: ScoredRollout, columns: Sequence[str]) -> Row:
    """What is kept of a rollout."""
    state = job.state or State()
    fields = {**job.example, "completion": state.get("completion")}
    fields |= {name: state[name] for name in (*KEPT, *columns) if state.get(name)}
    replies = state.get("responses")
    return Row(
        *job.key,
        fields=fields,
        report=scored.report,
        error=job.error,
        spent=job.spent if scored.spent is NOTHING else job.spent + scored.spent,
        timing={"generation": round(job.seconds, 6), "scoring": round(scored.seconds, 6)},
        model=replies[-1].model or None if replies else None,
        exchanges=scored.exchanges,
        number=job.number,
    )


def state_of(row: Row) -> State:
    """The state of a rollout that was kept earlier, as far as it was kept."""
    fields = dict(row.fields)
    return State(
        input=fields,
        completion=fields.pop("completion", None),
        reward=row.report.raw_score,
        metrics=row.report.metrics,
        error=row.error,
    )


def shares(ledger: Ledger, count: int) -> list[Spending]:
    """What a group took, as one part a rollout; the parts add up."""
    if not ledger.calls and not ledger.hits:
        return [NOTHING] * count
    spent = Spending.of(ledger)
    names = ("calls", "hits", "prompt", "completion", "unpriced")
    parts = {name: _parts(getattr(spent, name), count) for name in names}
    cost = (spent.cost or 0.0) / count
    return [Spending(cost=cost, **{name: part[place] for name, part in parts.items()}) for place in range(count)]


def _parts(number: int, count: int) -> list[int]:
    each, rest = divmod(number, count)
    return [each + (place < rest) for place in range(count)]


def outputs_of(jobs: Sequence[RolloutJob]) -> Iterator[dict[str, Any]]:
    """One dict a rollout that is done, in order; every metric stands under its own name too."""
    compared = {id(job.group): _advantages(job) for job in jobs if len(job.group.jobs) > 1}
    for job in jobs:
        if job.row is not None:
            output = _output(job.row, job.metrics)
            if id(job.group) in compared:
                output["advantage"] = compared[id(job.group)].get(job.key[1])
            named = {n: v for n, v in output["metrics"].items() if n not in output}
            yield output | named


def _advantages(job: RolloutJob) -> dict[int, float | None]:
    """Of each rollout in a job's group, by sample."""
    rows = [other.row for other in job.group.jobs if other.row is not None]
    worth = advantages([row.reward for row in rows])
    return {row.sample: advantage for row, advantage in zip(rows, worth, strict=True)}


def _output(row: Row, metrics: Mapping[str, float]) -> dict[str, Any]:
    fields = dict(row.fields)
    unscored = row.error is None and not row.scored
    return {
        "example_id": fields.pop("example_id", row.example),
        "sample": row.sample,
        "prompt": fields.pop("prompt", None),
        "completion": fields.pop("completion", None),
        "answer": fields.pop("answer", None),
        "task": fields.pop("task", None),
        "info": fields.pop("info", None),
        "reward": row.reward,
        **({"partial_reward": row.report.partial_reward} if unscored else {}),
        "score": row.score,
        "metrics": metrics,
        "errors": row.errors,
        "error": row.error,
        "is_truncated": fields.pop("is_truncated", False),
        "stop_condition": fields.pop("stop_condition", None),
        "timing": {f"{part}_ms": 1000 * seconds for part, seconds in row.timing.items()},
        "token_usage": {"input_tokens": row.spent.prompt, "output_tokens": row.spent.completion},
        "cost": row.spent.cost,
        "model": row.model,
        **{name: value for name, value in fields.items() if name != "sample"},
    }


class GroupScorer:
    """How the rollouts of one evaluation are scored."""

    def __init__(self, rubric: Rubric | None, settings: Settings) -> None:
        """Without a `rubric` only examples that bring their own are scored."""
        self._rubric = rubric
        self._rubrics = RowRubrics(rubric)
        self._settings = settings
        plan = Traits() if rubric is None else Traits.of(rubric)
        self._by_group = plan.waits or bool(plan.compares)
        self._fits = False
        """Whether a rollout has been scored, so that the rubric cannot be altogether wrong."""

    async def refuse_unfit(self) -> None:
        """Say what is wrong with the rubric, as when it has no judge, before it costs."""
        if self._rubric is not None:
            await self._rubric.score([], autograder=self._settings.grader)

    def waits(self, group: ExampleGroup) -> bool:
        """Whether a group is scored by itself: for its rubric waits for a model, or compares."""
        return self._by_group or group.jobs[0].example.get(COLUMN) is not None

    def compares(self, group: ExampleGroup) -> bool:
        """Whether the rollouts of a group are weighed against each other."""
        try:
            rubric = self._rubric_of(group)
        except RubricError:
            return False
        return rubric is not None and rubric.compares

    async def rows(self, groups: Sequence[ExampleGroup]) -> list[Row]:
        """What is kept of the rollouts that are over and not kept yet; several groups if none waits."""
        jobs = [job for group in groups for job in group.jobs if job.row is None and job.state is not None]
        scored = await self._scored(groups, [job for job in jobs if job.error is None])
        columns = self._settings.state_columns
        rows: list[Row] = []
        for job in jobs:
            job.row = row_of(job, scored.get(job.key, UNSCORED), columns)
            rows.append(job.row)
        return rows

    async def _scored(self, groups: Sequence[ExampleGroup], jobs: Sequence[RolloutJob]) -> dict[Key, ScoredRollout]:
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
        scored = {job.key: ScoredRollout(report, spent, seconds) for job, report, spent in parts}
        if said and scored:
            first = jobs[0].key
            scored[first] = scored[first]._replace(exchanges=exchanges_told(said))
        return scored

    async def _of_group(self, group: ExampleGroup, jobs: Sequence[RolloutJob]) -> Sequence[EvaluationReport]:
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

    async def _of_many(self, groups: Sequence[ExampleGroup], jobs: Sequence[RolloutJob]) -> Sequence[EvaluationReport]:
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

    def _of_misfit(self, error: SignatureError, jobs: Sequence[RolloutJob]) -> list[EvaluationReport]:
        """A field is missing. If others have it, that is these examples' fault; if not, the rubric's."""
        if not self._fits:
            raise error
        return _all_unreadable(error, jobs)

    def _rubric_of(self, group: ExampleGroup) -> Rubric | None:
        example = group.jobs[0].example
        if self._rubric is None and example.get(COLUMN) is None:
            return None
        return self._rubrics.of(example)[0]


def _states(jobs: Sequence[RolloutJob]) -> list[dict[str, Any]]:
    return [job.state for job in jobs if job.state is not None]


def _all_unreadable(error: RubricError | SignatureError, jobs: Sequence[RolloutJob]) -> list[EvaluationReport]:
    return [unreadable_report(error, f"example {job.key[0]}") for job in jobs]


def _write_advantages(group: ExampleGroup, rewards: dict[Key, float | None]) -> None:
    worth = advantages([rewards.get(job.key) for job in group.jobs])
    for job, advantage in zip(group.jobs, worth, strict=True):
        if job.state is not None:
            job.state["advantage"] = advantage


STAND_IN = "An answer of about this length stands for what the model would have written. " * 8
"""What a dry run scores."""

logger = logger_of("assay")


class Evaluated(Protocol):
    """What is needed of an environment to evaluate it."""

    env_id: str

    @property
    def scoring(self) -> Rubric | None:
        """What scores its rollouts; None when nothing does."""
        ...

    async def rollout(self, input: Example, client: Any, model: Any, sampling_args: Any = None) -> State: ...


class Evaluator:
    """Carries out one evaluation."""

    def __init__(
        self, environment: Evaluated, rubric: Rubric | None, under_test: ModelUnderTest, settings: Settings, sink: Sink
    ) -> None:
        """Without a `rubric` only examples that bring their own are scored."""
        self._environment = environment
        self._scoring = GroupScorer(rubric, settings)
        self._under_test = under_test
        self._settings = settings
        self._sink = sink
        self._over: list[ExampleGroup] = []
        """Groups that are to be scored next, together."""

    async def run(self, jobs: Sequence[RolloutJob]) -> None:
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

    async def _do(self, job: RolloutJob) -> None:
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

    async def _rolled(self, job: RolloutJob) -> State:
        under_test = self._under_test
        state = await self._environment.rollout(job.example, under_test, under_test.name, under_test.sampling_args)
        if not isinstance(state, dict):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"rollout gave {short_repr(state)}: return the state")
        return state

    async def _settle(self, group: ExampleGroup) -> None:
        """Score a group that is over, and keep it. Groups that end together are scored together.

        That is for rubrics that wait for nothing. For any other it would make one group wait for
        what another is waiting for.
        """
        if self._scoring.waits(group):
            await self._score([group])
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
            await self._score(groups)
            _end(groups)

    async def _score(self, groups: Sequence[ExampleGroup]) -> None:
        """Score groups, and keep their rows: from then on they survive whatever happens to the process."""
        rows = await self._scoring.rows(groups)
        saved = self._settings.run is not None
        self._sink.take(rows, [holdable(row.fields) for row in rows] if saved else ())

    async def _settle_rest(self, jobs: Sequence[RolloutJob]) -> None:
        """Score what is over in groups that are not.

        Where rollouts are compared, part of a group is no group: it is done again on resuming.
        """
        groups = {id(job.group): job.group for job in jobs if not job.group.over}
        parts = [group for group in groups.values() if not self._scoring.compares(group)]
        for group in parts:
            await self._score([group])


async def _begun(group: ExampleGroup) -> AbstractContextManager[None]:
    """A group that has begun, which it does when the money does for it; around what is done for it."""
    async with group.beginning:
        if group.spending is None:
            group.spending = await RolloutSpending.begun()
    return nullcontext() if group.spending is None else group.spending.inside()


def _end(groups: Iterable[ExampleGroup]) -> None:
    """Let other groups begin."""
    for group in groups:
        if group.spending is not None:
            group.spending.end()


def _why(error: object) -> str | None:
    if error is None:
        return None
    return described(error) if isinstance(error, BaseException) else str(error)


def _report_failures(jobs: Sequence[RolloutJob]) -> None:
    errors = [job.error for job in jobs if job.error is not None]
    if errors:
        logger.error("%d of %d rollouts failed; the first: %s", len(errors), len(jobs), errors[0])


def _restore(jobs: Sequence[RolloutJob], folder: str | os.PathLike[str], sink: Sink) -> None:
    """Fill in the jobs that were done in an earlier sitting."""
    kept = {row.key: row for row in Run.open(folder).rows()}
    for job in jobs:
        if sink.has(job.key):
            job.row = kept[job.key]
            job.state = state_of(job.row)


def fingerprint(examples: Iterable[Mapping[str, Any]]) -> str:
    """What a data set is known by: a hash of all that is in it."""
    digest = blake2b(digest_size=16)
    for example in examples:
        digest.update(as_text(to_jsonable(example)).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


async def carry_out(
    environment: Evaluated,
    examples: Sequence[Example],
    under_test: ModelUnderTest,
    settings: Settings,
    *,
    data: Sequence[Example],
) -> Results:
    """Ask the model about every example, score what it says, and keep the rows if a folder is named.

    `data` is all there is to ask about, by which a run is known again when more of it is asked.
    """
    started = time.monotonic()
    rubric = environment.scoring
    about = _about(environment, data, under_test, settings, rubric)
    jobs = jobs_of(examples, times=settings.rollouts_per_example)
    with budget() as ledger, logging_once():
        watch = Watch(settings.on_progress, len(jobs), ledger)
        with opened_sink(settings.run, about, resume=settings.resume, on_row=settings.on_row, watch=watch) as sink:
            if settings.run is not None and not sink.is_fresh:
                _restore(jobs, settings.run, sink)
            to_do = [job for job in jobs if job.row is None]
            await Evaluator(environment, rubric, under_test, settings, sink).run(to_do)
            done = [job for job in jobs if job.row is not None]
            summary = sink.finish(complete=len(done) == len(jobs))
    metadata = {
        "env_id": environment.env_id,
        "model": under_test.name,
        "base_url": under_test.base_url,
        "num_examples": len({job.key[0] for job in jobs}),
        "rollouts_per_example": settings.rollouts_per_example,
        "sampling_args": under_test.sampling_args,
        "date": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "time_ms": 1000 * (time.monotonic() - started),
        **_outcome(done, summary),
        "path_to_save": None if settings.run is None else str(settings.run),
        "version_info": {"assay": __version__},
    }
    states = [job.state or State() for job in done]
    return Results(list(outputs_of(done)), states, metadata, summary)


def _about(
    environment: Evaluated,
    data: Sequence[Example],
    under_test: ModelUnderTest,
    settings: Settings,
    rubric: Rubric | None,
) -> RunAbout:
    """What run.json says, where one is written."""
    if settings.run is None:
        return RunAbout.of("evaluate")
    return RunAbout.of(
        "evaluate",
        rubric=rubric,
        judge=None if rubric is None else judge_of(rubric, settings.grader),
        model=under_test.name,
        config={"environment": type(environment).__name__, "sampling_args": under_test.sampling_args},
        options={"rollouts_per_example": settings.rollouts_per_example, "max_concurrent": settings.max_concurrent},
        data={"rows": len(data), "fingerprint": fingerprint(data)},
    )


def _outcome(jobs: Sequence[RolloutJob], summary: Summary) -> dict[str, Any]:
    """What went wrong, and then the means over the rest."""
    count = len(jobs)
    return {
        "num_rollouts": count,
        "num_errors": summary.failed,
        "num_unscored": summary.unscored - summary.failed,
        "errors": dict(summary.errors),
        "avg_reward": summary.reward.mean,
        "avg_metrics": {name: line.value.mean for name, line in summary.criteria.items()},
        "avg_error": summary.failed / count if count else 0.0,
        "usage": {"input_tokens": summary.spent.prompt, "output_tokens": summary.spent.completion},
        "cost": summary.spent.cost,
    }
