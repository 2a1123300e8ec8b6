"""Generate the rollouts of an evaluation, and score each group as soon as it is generated."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, cast

from assay.advantage import advantages
from assay.concurrency import FAILURES, is_stop_request, run_workers
from assay.envs.dataset import Example, copy_nested
from assay.envs.model_under_test import ModelUnderTest
from assay.envs.saved_state import describe_state, restore_state
from assay.errors import RubricError, SignatureError
from assay.graders.grader import Grader
from assay.models.budgets import (
    Ledger,
    RolloutSpending,
    counting_in,
)
from assay.models.model import LoggedCall, log_calls
from assay.plan import Traits
from assay.redaction import get_logger
from assay.report import EvaluationReport
from assay.rubric import Rubric
from assay.runs import pipeline
from assay.runs.export import Record, make_record
from assay.runs.row import Key, Row, own_rubric
from assay.runs.row_rubrics import unreadable_report
from assay.runs.spending import Spending
from assay.state_outputs import write_outputs, write_step_rewards
from assay.types import State
from assay.wording import describe_error, format_value

if TYPE_CHECKING:
    from assay.envs.base_env import Environment

# How many rollouts are generated at once by default. The endpoint's limits may allow fewer.
DEFAULT_CONCURRENCY: Final = 256
# Fields of the state that are saved with every rollout that has them.
SAVED_STATE_FIELDS: Final = ("is_truncated", "stop_condition", "tool_failures")
# What a dry run scores in place of a reply.
STAND_IN_COMPLETION: Final = (
    "An answer of about this length stands for what the model would have written. " * 8
)
logger = get_logger("assay")


@dataclass(slots=True)
class RolloutJob:
    """One rollout to generate and to score. The fields without a value are filled in on the way."""

    key: Key
    example: Example
    group: "ExampleGroup"
    number: int  # its position among all rollouts
    state: State | None = None  # set when the rollout is generated
    generated: Row | None = None  # the row without its results; set when the rollout is generated
    row: Row | None = None  # the row with its results, from scoring until the group is scored
    output: dict[str, Any] | None = None  # what the caller gets; set when the group is scored
    record: Record | None = None  # the same in the layout of exports

    @property
    def example_id(self) -> str:
        return self.key[0]


@dataclass(slots=True)
class ExampleGroup:
    """The rollouts of one example, which are scored together."""

    jobs: list[RolloutJob] = field(default_factory=list[RolloutJob])
    # What the group has spent on models; None before it starts, and if dollars are not limited.
    spending: RolloutSpending | None = None
    is_scoring: bool = False  # whether scoring has started

    @property
    def is_generated(self) -> bool:
        """Whether all rollouts of the group are generated."""
        return all(job.state is not None for job in self.jobs)


def make_jobs(examples: Iterable[Example], *, sample_count: int = 1) -> list[RolloutJob]:
    """Return a job for each rollout, `sample_count` for each example, in the order of the examples.

    If an example is listed twice, its second rollout is another sample of the same group.
    """
    jobs: list[RolloutJob] = []
    groups: dict[str, ExampleGroup] = {}
    numbering = pipeline.Numbering()  # counts the samples of each example
    for example in examples:
        # The data may say which sample a row is, unless several are generated from it here.
        sample_column = example.get("sample")
        identity = {
            "example_id": example["example_id"],
            "sample": sample_column if sample_count == 1 else None,
        }
        # A column of that name may also hold something else, which stays as it is.
        is_sample_number = sample_column is None or type(sample_column) is int
        for _ in range(sample_count):
            key = numbering.number_row(identity)
            example_id, sample = key
            group = groups.setdefault(example_id, ExampleGroup())
            job = RolloutJob(
                key=key,
                example={**example, "sample": sample} if is_sample_number else example,
                group=group,
                number=len(jobs),
            )
            group.jobs.append(job)
            jobs.append(job)
    return jobs


def list_groups(jobs: Iterable[RolloutJob]) -> list[ExampleGroup]:
    """Return the groups of some rollouts, each group once."""
    groups = {id(job.group): job.group for job in jobs}
    return list(groups.values())


class Evaluator(pipeline.Pipeline):
    """Generates the rollouts of one evaluation, and scores each group when it is generated."""

    def __init__(
        self,
        environment: "Environment",
        rubric: Rubric | None,
        under_test: ModelUnderTest,
        grader: Grader | None,
        sink: pipeline.Sink,
        *,
        save_requests: bool,
        state_columns: Sequence[str],
        stopping: Callable[[], bool] | None,
    ) -> None:
        """Without a `rubric`, only examples with their own rubric are scored.

        A `grader` of None leaves the judge to the rubric. Finished rollouts are saved in the `sink`.
        `state_columns` are more fields of the states to save. Once `stopping` returns True, no
        further rollout is started.
        """
        self._limit = under_test.at_once or DEFAULT_CONCURRENCY
        super().__init__(sink, grader, self._limit, save_requests=save_requests)
        self._environment = environment
        self._rubric = rubric
        # What the caller of the environment lets judges read also applies to the rubrics of rows.
        self._rubrics = pipeline.RowRubrics(rubric, shows=environment.rubric.caller_shows)
        traits = Traits() if rubric is None else Traits.of(rubric)
        # A group is scored in a call of its own if scoring waits for something, such as a judge, or
        # if it compares the rollouts of the group.
        self._scores_groups_alone = traits.waits or bool(traits.comparing_criteria)
        self._under_test = under_test
        self._stopping = stopping
        self._columns = (*SAVED_STATE_FIELDS, *state_columns)
        self._repeated_examples: set[str] = set()  # those with several rollouts
        self._generated_groups: list[ExampleGroup] = []  # to be scored next, in one call
        self._errors: list[str] = []

    async def evaluate(self, jobs: Sequence[RolloutJob]) -> None:
        """Generate the rollouts, and score each group as soon as all its rollouts are generated."""
        if self._rubric is not None:
            # A rubric that cannot be used, for example without a judge, raises before anything is
            # spent.
            await self._rubric.score([], judge=self._grader)
        self._repeated_examples = {job.example_id for job in jobs if len(job.group.jobs) > 1}
        ledger = Ledger.current()
        limits_dollars = ledger is not None and ledger.needs_prices
        start_lock = asyncio.Lock()  # one group after the other waits for its dollars

        async def process(indices: Iterator[int]) -> None:
            """Process the jobs at the next positions. Several of these tasks share the iterator."""
            for index in indices:
                if self._is_stopping():
                    return
                job = jobs[index]
                if limits_dollars:
                    async with start_lock:
                        is_first_of_group = job.group.spending is None
                        if is_first_of_group:
                            # Waits until the rest of the budget is enough for a group.
                            job.group.spending = await RolloutSpending.start()
                await self._process_job(job)

        try:
            await run_workers(process, len(jobs), limit=self._limit)
            if self._is_stopping():
                await self._score_incomplete_groups(jobs)
        finally:
            _end_spending(job.group for job in jobs)
        if self._errors:
            logger.error(
                "%d of %d rollouts failed; the first: %s",
                len(self._errors),
                len(jobs),
                self._errors[0],
            )

    def _is_stopping(self) -> bool:
        return self._stopping is not None and self._stopping()

    async def _process_job(self, job: RolloutJob) -> None:
        """Generate one rollout. If it is the last of its group, score the group."""
        group = job.group
        spending = nullcontext() if group.spending is None else group.spending.inside()
        with spending:
            if not self._restore_generation(job):
                await self._generate(job)
            if group.is_generated and not group.is_scoring:
                group.is_scoring = True
                await self._score_group_soon(group)

    async def _score_incomplete_groups(self, jobs: Sequence[RolloutJob]) -> None:
        """Score the rollouts that were generated before the evaluation was stopped.

        A rubric that compares rollouts needs the whole group, so that is done when the run is
        resumed.
        """
        for group in list_groups(jobs):
            if not group.is_generated and not self._compares(group):
                await self._score_groups([group])

    # Generating.

    def _restore_generation(self, job: RolloutJob) -> bool:
        """Take over what an earlier session generated; return whether there is anything."""
        saved = self._sink.read_generation(job.key)
        if saved is None:
            return False
        job.generated, saved_state = saved
        job.state = restore_state(saved_state, client=self._under_test)
        return True

    async def _generate(self, job: RolloutJob) -> None:
        """Generate one rollout, and save it. If that fails, the error is in its row."""
        start = time.monotonic()
        ledger_of_rollout = Ledger(parent=Ledger.current())
        with (
            counting_in(ledger_of_rollout) as ledger,
            log_calls(wanted=self._save_requests) as calls,
        ):
            state = await self._attempt(job.example)
        if ledger.is_dry_run:
            # Nothing was generated, but the questions about it are counted. Every sample gets
            # another text, since equal texts would be judged once.
            stand_in = f"{STAND_IN_COMPLETION}{job.number}"
            state |= {"completion": [{"role": "assistant", "content": stand_in}], "error": None}
        seconds = time.monotonic() - start
        spent = Spending.of(ledger)
        try:
            row = _make_row(job, state, spent=spent, seconds=seconds, calls=calls)
        except FAILURES as error:  # an environment may put any object into the state
            if is_stop_request(error):
                raise
            state = State(input=job.example, completion=[], error=error)
            row = _make_row(job, state, spent=spent, seconds=seconds, calls=calls)
        if row.error is not None:
            self._errors.append(row.error)
        job.generated = row
        job.state = state
        if not ledger.is_dry_run:
            self._save_generation(job)

    async def _attempt(self, example: Example) -> State:
        """Return the state of a rollout by the environment; a failure is in its `error`."""
        under_test = self._under_test
        try:
            state: Any = await self._environment.attempt(
                example, under_test, under_test.name, under_test.sampling_args
            )
            if not isinstance(state, dict):
                raise TypeError(f"rollout gave {format_value(state)}: return the state")
        except FAILURES as error:
            if is_stop_request(error):
                raise
            return State(input=example, completion=[], error=error)
        return cast("State", state)

    def _save_generation(self, job: RolloutJob) -> None:
        """Save what was generated, unless that failed or objects in the state cannot be saved."""
        if job.generated is None or job.generated.error is not None or job.state is None:
            return
        state = describe_state(job.state)
        if state is not None:
            self._sink.save_generation(job.generated, state)

    # Scoring.

    async def _score_group_soon(self, group: ExampleGroup) -> None:
        """Score a group, together with others that are generated at the same time if possible."""
        if self._is_scored_alone(group):
            await self._score_groups([group])
            return
        self._generated_groups.append(group)
        if len(self._generated_groups) > 1:
            return  # the call that appended the first group scores this one too
        try:
            # Other groups that are generated in this turn of the event loop are there after it.
            await asyncio.sleep(0)
        finally:
            # Also on Ctrl-C, since the rollouts are paid for.
            groups = self._generated_groups
            self._generated_groups = []
            await self._score_groups(groups)

    def _is_scored_alone(self, group: ExampleGroup) -> bool:
        """Whether a group is scored in a call of its own: its rubric waits for a model, or compares."""
        return self._scores_groups_alone or own_rubric(group.jobs[0].example) is not None

    def _compares(self, group: ExampleGroup) -> bool:
        """Whether the rubric of a group compares its rollouts."""
        try:
            _, traits = self._rubrics.of(group.jobs[0].example)
        except RubricError:  # it cannot be read, which is an error of each rollout
            return False
        return bool(traits.comparing_criteria)

    async def _score_groups(self, groups: Sequence[ExampleGroup]) -> None:
        """Score the rollouts of some groups that are generated and not yet scored, and save them."""
        jobs: list[RolloutJob] = []
        unit: list[pipeline.Pending] = []  # the rollouts to score in one call
        for group in groups:
            has_rubric = self._rubric is not None or self._is_scored_alone(group)
            scorer = self._rubrics if has_rubric else None
            for job in group.jobs:
                if job.row is None and job.generated is not None:
                    jobs.append(job)
                    unit.append(self._make_pending(job, scorer))
            if self._compares(group):  # with the rollouts that an earlier session has scored
                unit += _list_finished(group, scorer)
        if jobs:
            rows = await self.score(unit)  # without those of an earlier session
            for job, row in zip(jobs, rows, strict=True):
                job.row = row
            # The jobs of a group follow each other.
            for _, group_jobs in groupby(jobs, key=lambda job: id(job.group)):
                states = [job.state or State() for job in group_jobs]
                await self._environment.after_scoring(states)
        for group in groups:
            if group.is_generated:
                make_outputs(group)
        _end_spending(groups)

    def _make_pending(self, job: RolloutJob, scorer: Any) -> pipeline.Pending:
        """Return a generated rollout for scoring, with what scores it.

        A rollout that failed is not scored, unless the environment says so.
        """
        assert job.generated is not None
        is_scored = job.generated.error is None or self._environment.scores_failures
        return pipeline.Pending(
            job.generated,
            scorer if is_scored else None,
            state=job.state,
            columns=self._columns,
        )

    async def make_reports(self, unit: Sequence[pipeline.Pending]) -> Sequence[EvaluationReport]:
        """Return the report on every rollout of a unit; those that failed get an empty report.

        A unit is one group, or several groups whose rubric needs no model and compares nothing.
        """
        to_score = [pending for pending in unit if pending.scorer is not None]
        is_one_group = self._scores_groups_alone or own_rubric(unit[0].row.fields) is not None
        reports: Sequence[EvaluationReport] = ()
        if to_score and is_one_group:
            reports = await self._report_on_group(to_score)
        elif to_score:
            # One call for all rollouts: a call for each group would cost more than the checks.
            states = [pending.state for pending in to_score if pending.state is not None]
            reports = await pipeline.score_states(self._rubric, states, None)
        report_of = {id(pending): report for pending, report in zip(to_score, reports, strict=True)}
        all_reports = [report_of.get(id(pending)) or EvaluationReport() for pending in unit]
        if not is_one_group:  # a call for one group has written them into the states itself
            self._write_results(unit, all_reports)
        return all_reports

    async def _report_on_group(
        self, rollouts: Sequence[pipeline.Pending]
    ) -> Sequence[EvaluationReport]:
        """Score the rollouts of one group together, and write the results into their states.

        If their rubric cannot be read, the reports say so.
        """
        states = [pending.state for pending in rollouts if pending.state is not None]
        try:
            rubric, _ = self._rubrics.of(rollouts[0].row.fields)
            return await rubric.reports_on_group(states, self._grader)
        except (RubricError, SignatureError) as error:
            return [
                unreadable_report(error, f"example {pending.row.example}") for pending in rollouts
            ]

    def _write_results(
        self, unit: Sequence[pipeline.Pending], reports: Sequence[EvaluationReport]
    ) -> None:
        """Write reward, metrics and advantage into the states of rollouts of several groups."""
        states_by_example: dict[str, list[dict[str, Any]]] = {}
        for pending, report in zip(unit, reports, strict=True):
            state = pending.state
            if state is None:
                continue
            states_by_example.setdefault(pending.row.example, []).append(state)
            if pending.scorer is None:  # it failed, so it has no results
                continue
            write_outputs(state, report, reward=report.raw_score, metrics=report.metrics)
            if report.unshaped is not None:  # shaping has changed the reward of this outcome
                state["outcome"] = report.outcome
            if self._rubric is not None and self._rubric.version:
                state["rubric_version"] = report.version
            write_step_rewards(
                state,
                reward=report.raw_score,
                advantage=None,
                step_rewards=report.step_rewards,
            )
        for example in states_by_example.keys() & self._repeated_examples:
            states = states_by_example[example]
            group_advantages = advantages([state.get("reward") for state in states])
            for state, advantage in zip(states, group_advantages, strict=True):
                state["advantage"] = advantage


def _list_finished(group: ExampleGroup, scorer: Any) -> list[pipeline.Pending]:
    """Return the rollouts that were scored before, with which the others are compared."""
    finished: list[pipeline.Pending] = []
    for job in group.jobs:
        if job.row is not None and job.row.error is None:
            pending = pipeline.Pending(job.row, scorer, is_done=True, state=job.state)
            finished.append(pending)
    return finished


def _end_spending(groups: Iterable[ExampleGroup]) -> None:
    """End the groups for the budget, so that others can start."""
    for group in groups:
        if group.spending is not None:
            group.spending.end()


def _make_row(
    job: RolloutJob,
    state: State,
    *,
    spent: Spending,
    seconds: float,
    calls: Sequence[LoggedCall],
) -> Row:
    """Return the row of a rollout that is generated and not yet scored.

    `spent`, `seconds` and `calls` are those of generating it.
    """
    return Row(
        *job.key,
        fields=_read_fields(job.example, state),
        error=_read_error(state),
        spent=spent,
        spent_on_model=spent,
        timing={"generation": round(seconds, 6)},
        model=_read_model(state),
        calls=tuple(call._asdict() for call in calls),
        number=job.number,
    )


def _read_fields(example: Example, state: State) -> dict[str, Any]:
    """Return the fields of the row of a rollout: the columns of its example, and the completion."""
    fields = {**example, "completion": state.get("completion")}
    if state.get("input") is example:  # the state of a rollout that failed
        return fields
    # An environment may have changed what is asked, or made up a task out of the example.
    for name in ("prompt", "answer", "info"):
        if name in state:
            try:
                fields[name] = copy_nested(state[name])
            except RecursionError:  # it contains itself
                fields[name] = state[name]
    return fields


def _read_error(state: State) -> str | None:
    """Return why there is nothing to score; None if there is something."""
    error = state.get("error")
    if isinstance(error, BaseException):
        return describe_error(error)
    return None if error is None else str(error)


def _read_model(state: State) -> str | None:
    """Return the id of the model that gave the last reply; None if that is not known."""
    replies = state.get("responses")
    if not replies:
        return None
    return replies[-1].model or None


# What the caller gets.


def make_outputs(group: ExampleGroup) -> None:
    """Make the outputs of the rollouts that are scored, and drop their rows to save memory.

    If there are several rollouts of the example, the output of each has its advantage.
    """
    rows = [job.row for job in group.jobs if job.row is not None]
    scored_jobs = [job for job in group.jobs if job.row is not None]
    group_advantages = None
    if len(group.jobs) > 1:
        group_advantages = advantages([row.reward for row in rows])
    for index, (job, row) in enumerate(zip(scored_jobs, rows, strict=True)):
        group_results: dict[str, Any] = {}
        if group_advantages is not None:
            group_results["advantage"] = group_advantages[index]
        job.output = _make_output(job, row, group_results)
        job.record = make_record(row)
        job.row = None
        job.generated = None


def _make_output(job: RolloutJob, row: Row, group_results: Mapping[str, Any]) -> dict[str, Any]:
    """Return one rollout as the caller gets it, with every column and metric under its name.

    `group_results` are further fields. A column with the name of another field, such as `error`, is
    left out.
    """
    report = row.report
    metrics = _read_metrics(job, row)
    columns = dict(row.fields)
    columns.pop("sample", None)
    output: dict[str, Any] = {
        "example_id": columns.pop("example_id", row.example),
        "sample": row.sample,
    }
    for name in ("prompt", "completion", "answer", "task", "info"):
        output[name] = columns.pop(name, None)
    output["reward"] = row.reward
    if report.unshaped is not None:  # shaping has changed the reward of this outcome
        output["outcome"] = report.outcome
    if row.error is None and not row.scored:  # the sum of the criteria that have an answer
        output["partial_reward"] = report.partial_reward
    output |= {
        "score": row.score,
        "metrics": metrics,
        "errors": row.errors,
        "error": row.error,
        "is_truncated": columns.pop("is_truncated", False),
        "stop_condition": columns.pop("stop_condition", None),
        "timing": {f"{stage}_ms": 1000 * seconds for stage, seconds in row.timing.items()},
        "token_usage": {
            "input_tokens": row.spent.prompt,
            "output_tokens": row.spent.completion,
        },
        "cost": row.spent.cost,
        "model": row.model,
        **group_results,
    }
    for name, value in (*columns.items(), *metrics.items()):
        output.setdefault(name, value)
    return output


def _read_metrics(job: RolloutJob, row: Row) -> Mapping[str, float]:
    """Return the metrics of a rollout: those in its state if there are any, else those of its report."""
    metrics: Any = None if job.state is None else job.state.get("metrics")
    if isinstance(metrics, Mapping):
        return cast("Mapping[str, float]", metrics)
    return row.report.metrics
