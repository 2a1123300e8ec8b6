"""Evaluate an environment: generate the rollouts of every example, and give each group to the pipeline that scores it."""

import asyncio
import inspect
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypedDict, cast

from assay import __version__
from assay.advantage import advantages
from assay.concurrency import FAILURES, is_stop_request, run_workers
from assay.engine import logging_once
from assay.envs.dataset import Example, copied
from assay.envs.model_under_test import ModelUnderTest
from assay.envs.results import Results
from assay.envs.saved_state import describe_state, restore_state
from assay.errors import RubricError, SignatureError
from assay.graders.grader import Grader, JudgeSource, grader_of
from assay.identity import identify_or_unknown
from assay.models.budgets import (
    Ledger,
    RolloutSpending,
    budget,
    counting_in,
    raise_if_price_unknown,
)
from assay.models.callable_tool import get_tool_name
from assay.models.limiter import Limits
from assay.models.model import Price, log_calls
from assay.plan import Traits
from assay.redaction import get_logger
from assay.report import EvaluationReport
from assay.rubric import Rubric
from assay.runs import pipeline
from assay.runs.export import Record, make_record
from assay.runs.journal import Run
from assay.runs.jsonable import as_text, to_jsonable
from assay.runs.metadata import RunAbout, describe_file, judge_of
from assay.runs.row import Key, Row, own_rubric
from assay.runs.row_rubrics import unreadable_report
from assay.runs.spending import Spending
from assay.state_outputs import write_outputs, write_step_rewards
from assay.types import State
from assay.wording import describe_error, format_value, suggest_word

if TYPE_CHECKING:
    from assay.envs.base_env import Environment

SIDE_BY_SIDE = (
    256  # rollouts under way at once, unless said otherwise; the endpoint's limits may allow fewer
)
# Fields of a state that are kept with every rollout that has them.
KEPT = ("is_truncated", "stop_condition", "tool_failures")
STAND_IN = (
    "An answer of about this length stands for what the model would have written. " * 8
)  # what a dry run scores
logger = get_logger("assay")


class Options(TypedDict, total=False):
    """What `evaluate` and `generate` take besides what is asked of whom."""

    rollouts_per_example: (
        int  # how often each example is asked; the answers to one are scored as a group. 1
    )
    # Rollouts under way at once; None or -1 is no limit. A number given is the concurrency from the start.
    max_concurrent: int | None
    sampling_args: (
        Mapping[str, Any] | None
    )  # `temperature`, `max_tokens`, `seed`, and whatever else the endpoint takes
    # The price of a model that is given by its name, its address or a client, if it is not known or
    # is another one.
    price: Price | None
    # The limits of its endpoint, such as the seconds that one attempt may take.
    limits: Limits | None
    # What answers the judged criteria: a grader, a model, or the name of one; by default that of the
    # rubric.
    judge: JudgeSource | None
    state_columns: Sequence[str]  # fields of the state to keep with each result
    run: (
        str | os.PathLike[str] | None
    )  # the folder to keep the run in, a row as soon as its group is scored
    save_requests: (
        bool  # whether to save every request to the model under test and to judges, and the reply
    )
    resume: (
        bool  # whether to go on with the run in that folder: only what is missing or failed is done
    )
    # Whether to go on also with another git commit or another version, which the run records.
    allow_changes: bool
    # Called with the `Row` of each rollout as soon as it is scored, and kept if there is a folder.
    on_row: pipeline.OnRow | None
    on_progress: pipeline.OnProgress | None  # called with a `Progress` now and then
    # Asked between rollouts. Once true, what is under way is finished, and no more begun.
    stopping: Callable[[], bool] | None


def refuse_wrong(options: Options) -> None:
    """Raise when an option is none, or has a value that it cannot have."""
    for name in options:
        if name not in Options.__annotations__:
            raise TypeError(
                f"there is no option {name!r}: {suggest_word(name, Options.__annotations__)}"
            )
    times, most = options.get("rollouts_per_example", 1), options.get("max_concurrent")
    if type(times) is not int or times < 1:
        raise ValueError(f"rollouts_per_example is {times!r}: give 1 or more")
    if most is not None and most != -1 and most < 1:
        raise ValueError(f"max_concurrent is {most!r}: give 1 or more")
    if options.get("resume") and options.get("run") is None:
        raise ValueError("resume goes on with a run: name its folder with run=")
    if isinstance(options.get("state_columns"), str):
        raise ValueError(f"state_columns is {options.get('state_columns')!r}: give a list of names")


@dataclass(slots=True)
class RolloutJob:
    """One rollout to do; what follows its group is filled in as it goes."""

    key: Key
    example: Example
    group: "ExampleGroup"
    number: int  # its place among all of them
    state: State | None = None  # what the rollout left behind, once it is over
    generated: Row | None = None  # what is known of it when it is over, before it is scored
    row: Row | None = None  # what is kept of it, once it is scored and until its group is
    output: dict[str, Any] | None = None  # what the caller gets of it, once its group is scored
    record: Record | None = None  # the same in the layout of exports


@dataclass(slots=True)
class ExampleGroup:
    """The rollouts of one example, which are scored together."""

    jobs: list[RolloutJob] = field(default_factory=list[RolloutJob])
    # What it has asked of models so far, where there is a budget in dollars and it has begun.
    spending: RolloutSpending | None = None
    is_settled: bool = False  # whether it is over, and is being scored or has been

    @property
    def over(self) -> bool:
        return None not in [job.state for job in self.jobs]


def jobs_of(examples: Iterable[Example], *, times: int = 1) -> list[RolloutJob]:
    """Every rollout, in order. An example that comes again, or is to be asked again, is sampled again."""
    jobs: list[RolloutJob] = []
    groups: dict[str, ExampleGroup] = {}
    numbering = pipeline.Numbering()
    for example in examples:
        own = example.get("sample")
        known = {"example_id": example["example_id"], "sample": own if times == 1 else None}
        for _ in range(times):
            key = numbering.read_key(known)
            group = groups.setdefault(key[0], ExampleGroup())
            # A column of that name with something else in it is the data set's own affair.
            numbered = own is None or type(own) is int
            job = RolloutJob(
                key, {**example, "sample": key[1]} if numbered else example, group, len(jobs)
            )
            group.jobs.append(job)
            jobs.append(job)
    return jobs


class Evaluator(pipeline.Pipeline):
    """Generates the rollouts of one evaluation, and scores each group as soon as it is over."""

    def __init__(
        self,
        environment: "Environment",
        rubric: Rubric | None,
        under_test: ModelUnderTest,
        grader: Grader | None,
        options: Options,
        sink: pipeline.Sink,
    ) -> None:
        """Without a `rubric` only examples that bring their own are scored."""
        self._limit = under_test.at_once or SIDE_BY_SIDE
        super().__init__(
            sink,
            grader,
            self._limit,
            save_requests=options.get("save_requests", False),
        )
        self._environment = environment
        self._rubric = rubric
        # What judges read, if the caller said so, holds for the rubrics of rows too.
        self._rubrics = pipeline.RowRubrics(rubric, shows=environment.rubric.caller_shows)
        plan = Traits() if rubric is None else Traits.of(rubric)
        self._by_group = plan.waits or bool(plan.compares)
        self._under_test = under_test
        self._stopping = options.get("stopping")
        self._columns = (*KEPT, *options.get("state_columns", ()))
        self._sampled: set[str] = set()  # examples with several rollouts
        self._over: list[ExampleGroup] = []  # groups that are to be scored next, together
        self._errors: list[str] = []

    async def evaluate(self, jobs: Sequence[RolloutJob]) -> None:
        if self._rubric is not None:
            # What is wrong with the rubric, as when it has no judge, is said before it costs.
            await self._rubric.score([], judge=self._grader)
        self._sampled = {job.key[0] for job in jobs if len(job.group.jobs) > 1}
        stopping, around = self._stopping, Ledger.current()
        limited, beginning = around is not None and around.needs_prices, asyncio.Lock()

        async def walk(places: Iterator[int]) -> None:
            for place in places:
                if stopping is not None and stopping():
                    return
                job = jobs[place]
                group = job.group
                if limited and group.spending is None:
                    async with beginning:
                        # A group begins when the budget covers it.
                        group.spending = group.spending or await RolloutSpending.start()
                with nullcontext() if group.spending is None else group.spending.inside():
                    if not self._restore_generation(job):
                        await self._generate(job)
                    if group.over and not group.is_settled:
                        group.is_settled = True
                        await self._settle(group)

        try:
            await run_workers(walk, len(jobs), limit=self._limit)
            if stopping is not None:
                # Where rollouts are compared, part of a group is no group: it is done again on resuming.
                for group in {
                    id(job.group): job.group for job in jobs if not job.group.over
                }.values():
                    if not self._compares(group):
                        await self._score_groups([group])
        finally:
            _end(job.group for job in jobs)
        if self._errors:
            logger.error(
                "%d of %d rollouts failed; the first: %s",
                len(self._errors),
                len(jobs),
                self._errors[0],
            )

    def _restore_generation(self, job: RolloutJob) -> bool:
        """Take over what was generated in an earlier session; return whether there is anything."""
        saved = self._sink.read_generation(job.key)
        if saved is None:
            return False
        job.generated, state = saved
        job.state = restore_state(state, client=self._under_test)
        return True

    def _save_generation(self, job: RolloutJob) -> None:
        """Save what was generated, unless that failed or objects in the state cannot be saved."""
        if job.generated is None or job.generated.error is not None or job.state is None:
            return
        state = describe_state(job.state)
        if state is not None:
            self._sink.save_generation(job.generated, state)

    async def _generate(self, job: RolloutJob) -> None:
        """Have the model do one rollout. What goes wrong is this rollout's, and no other's."""
        started = time.monotonic()
        under_test = self._under_test
        with (
            counting_in(Ledger(parent=Ledger.current())) as ledger,
            log_calls(wanted=self._save_requests) as calls,
        ):
            try:
                args = (under_test, under_test.name, under_test.sampling_args)
                state = await self._environment.attempt(job.example, *args)
                if not isinstance(state, dict):  # pyright: ignore[reportUnnecessaryIsInstance]
                    raise TypeError(f"rollout gave {format_value(state)}: return the state")
            except FAILURES as error:
                if is_stop_request(error):
                    raise
                state = State(input=job.example, completion=[], error=error)
        if ledger.is_dry_run:
            # Nothing was generated, and what would be asked about it counts all the same. Each
            # sample has another text, as it would have: equal texts would be judged once.
            stand_in = f"{STAND_IN}{job.number}"
            state |= {"completion": [{"role": "assistant", "content": stand_in}], "error": None}
        try:
            fields, error, model = _told(job.example, state)
        except FAILURES as failure:  # a state of the environment's own making may hold anything
            if is_stop_request(failure):
                raise
            state = State(input=job.example, completion=[], error=failure)
            fields, error, model = _told(job.example, state)
        if error is not None:
            self._errors.append(error)
        spent = Spending.of(ledger)
        job.generated = Row(
            *job.key,
            fields=fields,
            error=error,
            spent=spent,
            spent_on_model=spent,
            timing={"generation": round(time.monotonic() - started, 6)},
            model=model,
            calls=tuple(call._asdict() for call in calls),
            number=job.number,
        )
        job.state = state
        if not ledger.is_dry_run:
            self._save_generation(job)

    async def _settle(self, group: ExampleGroup) -> None:
        """Score a group that is over; those that end together are scored together, if nothing is waited for."""
        if self._waits(group):
            await self._score_groups([group])
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
            await self._score_groups(groups)

    def _waits(self, group: ExampleGroup) -> bool:
        """Whether a group is scored by itself: for its rubric waits for a model, or compares."""
        return self._by_group or own_rubric(group.jobs[0].example) is not None

    def _compares(self, group: ExampleGroup) -> bool:
        try:
            return bool(self._rubrics.of(group.jobs[0].example)[1].compares)
        except RubricError:
            return False

    async def _score_groups(self, groups: Sequence[ExampleGroup]) -> None:
        """Score what is over of some groups, and keep it: several of them only if none waits."""
        jobs: list[RolloutJob] = []
        unit: list[pipeline.Pending] = []
        for group in groups:
            scorer = None if self._rubric is None and not self._waits(group) else self._rubrics
            for job in group.jobs:
                if job.row is None and job.generated is not None:
                    scores = job.generated.error is None or self._environment.scores_failures
                    own = scorer if scores else None
                    unit.append(
                        pipeline.Pending(job.generated, own, state=job.state, columns=self._columns)
                    )
                    jobs.append(job)
            if self._compares(group):
                # Those that were kept before are only compared with.
                kept = [
                    (job.row, job.state)
                    for job in group.jobs
                    if job.row is not None and job.row.error is None
                ]
                unit += [
                    pipeline.Pending(row, scorer, is_done=True, state=state) for row, state in kept
                ]
        if jobs:
            for job, row in zip(jobs, await self.score(unit), strict=True):
                job.row = row
            for _, group in groupby(jobs, key=lambda job: id(job.group)):
                await self._environment.after_scoring([job.state or State() for job in group])
        for group in groups:
            if group.over:
                _give_outputs(group)
        _end(groups)

    async def make_reports(self, unit: Sequence[pipeline.Pending]) -> Sequence[EvaluationReport]:
        scored = [pending for pending in unit if pending.scorer is not None]
        states = [pending.state for pending in scored if pending.state is not None]
        found: Sequence[EvaluationReport] = ()
        by_group = self._by_group or own_rubric(unit[0].row.fields) is not None
        if scored and by_group:
            try:
                rubric, _ = self._rubrics.of(scored[0].row.fields)
                found = await rubric.reports_on_group(states, self._grader)
            except (RubricError, SignatureError) as error:
                found = [unreadable_report(error, f"example {each.row.example}") for each in scored]
        elif scored:
            # Each rollout by itself, all at once: a call for each group would cost more than the checks do.
            found = await pipeline.score_states(self._rubric, states, None)
        by_row = dict(zip(map(id, scored), found, strict=True))
        reports = [by_row.get(id(pending)) or EvaluationReport() for pending in unit]
        if not by_group:
            self._write_states(unit, reports)
        return reports

    def _write_states(
        self, unit: Sequence[pipeline.Pending], reports: Sequence[EvaluationReport]
    ) -> None:
        """Write what was found about rollouts that were scored each by itself, and their advantage in their group."""
        groups: dict[str, list[dict[str, Any]]] = {}
        for pending, report in zip(unit, reports, strict=True):
            state = pending.state
            if state is None:
                continue
            groups.setdefault(pending.row.example, []).append(state)
            if pending.scorer is None:
                continue
            write_outputs(state, report, report.raw_score, report.metrics)
            if report.unshaped is not None:
                state["outcome"] = report.outcome
            if self._rubric is not None and self._rubric.version:
                state["rubric_version"] = report.version
            write_step_rewards(state, report.raw_score, None, report.step_rewards)
        for example in groups.keys() & self._sampled:
            worth = advantages([state.get("reward") for state in groups[example]])
            for state, advantage in zip(groups[example], worth, strict=True):
                state["advantage"] = advantage


def _told(example: Example, state: State) -> tuple[dict[str, Any], str | None, str | None]:
    """What a row holds of a state: its fields, why there is nothing to score, and the model that replied."""
    error, replies = state.get("error"), state.get("responses")
    if error is not None:
        error = describe_error(error) if isinstance(error, BaseException) else str(error)
    fields = {**example, "completion": state.get("completion")}
    # What was asked and looked for: an environment may make up a task of its own out of the example.
    for name in ("prompt", "answer", "info") if state.get("input") is not example else ():
        if name in state:
            try:
                fields[name] = copied(state[name])
            except RecursionError:  # one that holds itself
                fields[name] = state[name]
    return fields, error, replies[-1].model or None if replies else None


def _end(groups: Iterable[ExampleGroup]) -> None:
    for group in groups:
        if group.spending is not None:
            group.spending.end()


def _refuse_unknown_prices(
    under_test: ModelUnderTest, rubric: Rubric | None, grader: Grader | None
) -> None:
    """Raise `BudgetExceeded` if dollars are limited and a price is not known, before any call."""
    raise_if_price_unknown([under_test.model])
    if rubric is not None:
        grader = grader or rubric.grader
        rubric_asks = Traits.of(rubric).asks
    else:  # rows have rubrics of their own, which may ask
        rubric_asks = True
    if grader is not None and rubric_asks:
        raise_if_price_unknown(grader.models())


async def carry_out(
    environment: "Environment",
    examples: Sequence[Example],
    under_test: ModelUnderTest,
    options: Options,
    *,
    data: Sequence[Example],
) -> Results:
    """Ask the model about every example, score what it says, and save the rows if a folder is named."""
    started = time.monotonic()
    grader = grader_of(options.get("judge"))
    rubric = environment.scoring
    pass_rule = asdict(environment.pass_rule)
    about = RunAbout.of("evaluate", options={"pass_rule": pass_rule})
    times, folder, resume = (
        options.get("rollouts_per_example", 1),
        options.get("run"),
        options.get("resume", False),
    )
    if folder is not None:
        # What the data set is known by: a hash of all that is in it.
        digest = blake2b(digest_size=16)
        for example in data:
            digest.update(as_text(to_jsonable(example)).encode("utf-8", "surrogatepass"))
        about = RunAbout.of(
            "evaluate",
            rubric=rubric,
            judge=_find_judge(environment, data, grader),
            model=under_test.name,
            config={
                **_describe_environment(environment),
                "sampling_args": under_test.sampling_args,
            },
            options={
                "rollouts_per_example": times,
                "max_concurrent": under_test.at_once,
                "pass_rule": pass_rule,
                **_name_prompt(environment),
            },
            data={
                **describe_file(environment.data_source),
                "rows": len(data),
                "fingerprint": digest.hexdigest(),
            },
        )
    jobs = jobs_of(examples, times=times)
    _refuse_unknown_prices(under_test, rubric, grader)
    with budget() as ledger, logging_once():
        ledger.has_stand_ins = ledger.is_dry_run
        watch, on_row = (
            pipeline.Watch(options.get("on_progress"), len(jobs), ledger),
            options.get("on_row"),
        )
        asked = {job.key[0] for job in jobs}
        alone = len(asked) == len(jobs)
        with pipeline.open_sink(
            folder,
            about,
            resume=resume,
            allow_changes=options.get("allow_changes", False),
            on_row=on_row,
            watch=watch,
            alone=alone,
        ) as sink:
            if folder is not None and not sink.is_fresh:
                _restore(jobs, folder, sink)
            evaluator = Evaluator(environment, rubric, under_test, grader, options, sink)
            await evaluator.evaluate([job for job in jobs if job.row is None])
            for group in {id(job.group): job.group for job in jobs if job.row is not None}.values():
                _give_outputs(group)
            done = [job for job in jobs if job.output is not None]
            summary = sink.finish(complete=len(done) == len(jobs))
    metadata = {
        "env_id": environment.env_id,
        "model": under_test.name,
        "base_url": under_test.base_url,
        "num_examples": len(asked),
        "rollouts_per_example": times,
        "sampling_args": under_test.sampling_args,
        "date": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "time_ms": 1000 * (time.monotonic() - started),
        # What went wrong, and then the means over the rest.
        "num_rollouts": len(done),
        "num_errors": summary.failed,
        "num_unscored": summary.unscored - summary.failed,
        "errors": dict(summary.errors),
        "avg_reward": summary.reward.mean,
        "avg_metrics": {name: line.value.mean for name, line in summary.criteria.items()},
        "avg_error": summary.failed / len(done) if done else 0.0,
        "usage": {"input_tokens": summary.spent.prompt, "output_tokens": summary.spent.completion},
        "cost": summary.spent.cost,
        "path_to_save": None if folder is None else str(folder),
        "version_info": {"assay": __version__},
    }
    outputs = [job.output for job in done if job.output is not None]
    judge = _find_judge(environment, data, grader)
    records = [{**job.record, "judge": judge} for job in done if job.record is not None]
    return Results(outputs, [job.state or State() for job in done], metadata, summary, records)


def _find_judge(
    environment: "Environment", data: Sequence[Example], grader: Grader | None
) -> str | None:
    """Return who judges the answers, also where only the rubrics of examples ask a judge."""
    rubric = environment.scoring
    if any(own_rubric(example) is not None for example in data):
        return judge_of(pipeline.RowRubrics(rubric, shows=environment.rubric.caller_shows), grader)
    return None if rubric is None else judge_of(rubric, grader)


def _describe_environment(environment: "Environment") -> dict[str, Any]:
    """Return what identifies an environment: its class, settings and name, and the arguments it was loaded with."""
    description: dict[str, Any] = {
        "environment": type(environment).__name__,
        "settings": _read_settings(environment),
    }
    if environment.env_id:
        description["env_id"] = environment.env_id
    if environment.env_args:
        description["env_args"] = dict(environment.env_args)
    if not type(environment).__module__.startswith("assay."):
        description["code"] = identify_or_unknown(type(environment))
    tools = getattr(environment, "tools", None)
    if isinstance(tools, Sequence) and tools:
        functions = cast("Sequence[Any]", tools)
        # The hash of a tool covers its code, on which the answers of the model depend.
        description["tools"] = {
            get_tool_name(function): identify_or_unknown(function) for function in functions
        }
    if environment.prompt is not None:
        description["prompt"] = environment.prompt.to_dict()
    elif environment.system_prompt or environment.few_shot:
        description["prompt"] = {
            "system": environment.system_prompt,
            "few_shot": environment.few_shot,
        }
    return description


def _name_prompt(environment: "Environment") -> dict[str, str]:
    """Return the name of the prompt template, which may change when a run is resumed."""
    prompt = environment.prompt
    return {"prompt_name": prompt.name} if prompt is not None and prompt.name else {}


def _read_settings(environment: "Environment") -> dict[str, Any]:
    """Return the plain arguments of an environment's constructors that it keeps as attributes.

    The system prompt is left out: it is part of the description of the prompt.
    """
    names: set[str] = set()
    for base in type(environment).__mro__:
        if "__init__" in vars(base):
            names |= inspect.signature(vars(base)["__init__"]).parameters.keys()
    names -= {"system_prompt", "env_id"}
    attributes = vars(environment)
    return {
        name: attributes[name]
        for name in sorted(names)
        if isinstance(attributes.get(name), bool | int | float | str)
    }


def _restore(
    jobs: Sequence[RolloutJob], folder: str | os.PathLike[str], sink: pipeline.Sink
) -> None:
    """Fill in the jobs that were done in an earlier sitting, as far as they were kept."""
    saved = {row.key: row for row in Run.open(folder).rows()}
    for job in jobs:
        if sink.has(job.key):
            row = job.row = saved[job.key]
            fields, report = dict(row.fields), row.report
            completion = fields.pop("completion", None)
            scored = {"reward": report.raw_score, "metrics": report.metrics, "error": row.error}
            job.state = State(input=fields, completion=completion, **scored)


def _give_outputs(group: ExampleGroup) -> None:
    """Make what the caller gets of the rollouts that were scored, and let go of their rows: a run may have millions."""
    jobs = [(job, job.row) for job in group.jobs if job.row is not None]
    worth = (
        advantages([row.reward for _, row in jobs]) if len(group.jobs) > 1 else [None] * len(jobs)
    )
    for (job, row), advantage in zip(jobs, worth, strict=True):
        # Scoring left the metrics in the state; out of the report they would have to be made anew.
        found: Any = None if job.state is None else job.state.get("metrics")
        metrics = (
            cast("Mapping[str, float]", found) if isinstance(found, Mapping) else row.report.metrics
        )
        fields = dict(row.fields)
        fields.pop("sample", None)
        output: dict[str, Any] = {
            "example_id": fields.pop("example_id", row.example),
            "sample": row.sample,
            **{
                name: fields.pop(name, None)
                for name in ("prompt", "completion", "answer", "task", "info")
            },
            "reward": row.reward,
            **({} if row.report.unshaped is None else {"outcome": row.report.outcome}),
            **(
                {"partial_reward": row.report.partial_reward}
                if row.error is None and not row.scored
                else {}
            ),
            "score": row.score,
            "metrics": metrics,
            "errors": row.errors,
            "error": row.error,
            "is_truncated": fields.pop("is_truncated", False),
            "stop_condition": fields.pop("stop_condition", None),
            "timing": {f"{part}_ms": 1000 * seconds for part, seconds in row.timing.items()},
            "token_usage": {
                "input_tokens": row.spent.prompt,
                "output_tokens": row.spent.completion,
            },
            "cost": row.spent.cost,
            "model": row.model,
        }
        if len(group.jobs) > 1:
            output["advantage"] = advantage
        # Every column and metric stands under its own name, unless it is called as one of these: a data set may have `error`.
        for name, value in (*fields.items(), *metrics.items()):
            output.setdefault(name, value)
        job.output, job.record = output, make_record(row)
        job.row = job.generated = None
