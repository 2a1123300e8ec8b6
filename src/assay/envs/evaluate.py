"""Evaluate an environment: generate the rollouts of every example, and score and save each group."""

import inspect
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypedDict, cast

from assay import __version__
from assay.engine import logging_once
from assay.envs.dataset import Example
from assay.envs.evaluator import Evaluator, RolloutJob, list_groups, make_jobs, make_outputs
from assay.envs.model_under_test import ModelUnderTest
from assay.envs.results import Results
from assay.graders.grader import Grader, JudgeSource, grader_of
from assay.identity import identify_or_unknown
from assay.models.budgets import (
    budget,
    raise_if_price_unknown,
)
from assay.models.callable_tool import get_tool_name
from assay.models.limiter import Limits
from assay.models.model import Price
from assay.plan import Traits
from assay.rubric import Rubric
from assay.runs import pipeline
from assay.runs.journal import Run
from assay.runs.jsonable import as_text, to_jsonable
from assay.runs.metadata import RunAbout, describe_file, judge_of
from assay.runs.row import own_rubric
from assay.runs.summary import Summary
from assay.types import State
from assay.wording import suggest_word

if TYPE_CHECKING:
    from assay.envs.base_env import Environment


class Options(TypedDict, total=False):
    """The options of `evaluate` and `generate`."""

    # How many rollouts to generate for each example, by default 1. They are scored as a group.
    rollouts_per_example: int
    # How many rollouts to generate at once; None or -1 for no limit.
    max_concurrent: int | None
    # `temperature`, `max_tokens`, `seed`, and whatever else the endpoint takes.
    sampling_args: Mapping[str, Any] | None
    # The price of a model that is given by its name, its address or a client, if it is not known or
    # is another one.
    price: Price | None
    # The limits of its endpoint, such as the seconds that one attempt may take.
    limits: Limits | None
    # What answers the judged criteria: a grader, a model, or the name of one; by default that of the
    # rubric.
    judge: JudgeSource | None
    # Fields of the state to save with each rollout.
    state_columns: Sequence[str]
    # The folder of the run. Each rollout is saved as soon as its group is scored.
    run: str | os.PathLike[str] | None
    # Whether to save every request to the model under test and to judges, and the reply.
    save_requests: bool
    # Whether to resume the run in that folder: only what is missing or failed is done.
    resume: bool
    # Whether to resume also with another git commit or another version, which the run records.
    allow_changes: bool
    # Called with the `Row` of each rollout as soon as it is scored, and saved if there is a folder.
    on_row: pipeline.OnRow | None
    # Called with a `Progress` from time to time.
    on_progress: pipeline.OnProgress | None
    # Called between rollouts. Once it returns True, no further rollout is started.
    stopping: Callable[[], bool] | None


def check_options(options: Options) -> None:
    """Raise `TypeError` for an unknown option, and `ValueError` for a value that cannot be used."""
    for name in options:
        if name not in Options.__annotations__:
            raise TypeError(
                f"there is no option {name!r}: {suggest_word(name, Options.__annotations__)}"
            )
    sample_count = options.get("rollouts_per_example", 1)
    if type(sample_count) is not int or sample_count < 1:
        raise ValueError(f"rollouts_per_example is {sample_count!r}: give 1 or more")
    max_concurrent = options.get("max_concurrent")
    if max_concurrent is not None and max_concurrent != -1 and max_concurrent < 1:
        raise ValueError(f"max_concurrent is {max_concurrent!r}: give 1 or more")
    if options.get("resume") and options.get("run") is None:
        raise ValueError("resume continues a run: name its folder with run=")
    state_columns = options.get("state_columns")
    if isinstance(state_columns, str):
        raise ValueError(f"state_columns is {state_columns!r}: give a list of names")


async def run_evaluation(
    environment: "Environment",
    examples: Sequence[Example],
    under_test: ModelUnderTest,
    options: Options,
    *,
    data: Sequence[Example],
) -> Results:
    """Generate and score the rollouts of some examples, and save them if a folder is named.

    `data` are all examples of the data set, by which a run recognizes it.
    """
    start = time.monotonic()
    rubric = environment.scoring  # None if only rows bring rubrics, or if nothing is scored
    grader = grader_of(options.get("judge"))  # None leaves the judge to the rubric
    judge = _find_judge(environment, data, grader)
    sample_count = options.get("rollouts_per_example", 1)
    folder = options.get("run")
    if folder is None:
        about = RunAbout.of("evaluate", options={"pass_rule": asdict(environment.pass_rule)})
    else:
        about = _describe_run(environment, under_test, judge, data, sample_count=sample_count)
    jobs = make_jobs(examples, sample_count=sample_count)
    example_ids = {job.example_id for job in jobs}
    _raise_if_price_unknown(under_test, rubric, grader)
    with budget() as ledger, logging_once():
        ledger.has_stand_ins = ledger.is_dry_run  # a dry run scores stand-ins for replies
        # The sink saves finished rows, and knows which an earlier session has finished.
        with pipeline.open_sink(
            folder,
            about,
            resume=options.get("resume", False),
            allow_changes=options.get("allow_changes", False),
            on_row=options.get("on_row"),
            watch=pipeline.Watch(options.get("on_progress"), len(jobs), ledger),
            unique_examples=len(example_ids) == len(jobs),
        ) as sink:
            if folder is not None and not sink.is_fresh:
                _restore_finished(jobs, folder, sink)
            restored_jobs = [job for job in jobs if job.row is not None]
            missing_jobs = [job for job in jobs if job.row is None]
            evaluator = Evaluator(
                environment,
                rubric,
                under_test,
                grader,
                sink,
                save_requests=options.get("save_requests", False),
                state_columns=options.get("state_columns", ()),
                stopping=options.get("stopping"),
            )
            await evaluator.evaluate(missing_jobs)
            for group in list_groups(restored_jobs):
                make_outputs(group)
            done_jobs = [job for job in jobs if job.output is not None]
            summary = sink.finish(complete=len(done_jobs) == len(jobs))
    metadata = {
        **_describe_evaluation(environment, under_test),
        "num_examples": len(example_ids),
        "rollouts_per_example": sample_count,
        "time_ms": 1000 * (time.monotonic() - start),
        **_summarize(summary, rollout_count=len(done_jobs)),
        "path_to_save": None if folder is None else str(folder),
    }
    return Results(
        outputs=[job.output for job in done_jobs if job.output is not None],
        states=[job.state or State() for job in done_jobs],
        metadata=metadata,
        summary=summary,
        records=[{**job.record, "judge": judge} for job in done_jobs if job.record is not None],
    )


def _raise_if_price_unknown(
    under_test: ModelUnderTest, rubric: Rubric | None, grader: Grader | None
) -> None:
    """Raise `BudgetExceeded` if dollars are limited, and the price of a model or judge is unknown.

    `grader` is the judge that the caller named, in place of the rubric's own.
    """
    raise_if_price_unknown([under_test.model])
    if rubric is not None:
        grader = grader or rubric.grader
        needs_judge = Traits.of(rubric).asks_model
    else:  # rows have rubrics of their own, which may need one
        needs_judge = True
    if grader is not None and needs_judge:
        raise_if_price_unknown(grader.models())


def _describe_evaluation(environment: "Environment", under_test: ModelUnderTest) -> dict[str, Any]:
    """Return what was evaluated and when, for the metadata."""
    return {
        "env_id": environment.env_id,
        "model": under_test.name,
        "base_url": under_test.base_url,
        "sampling_args": under_test.sampling_args,
        "date": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "version_info": {"assay": __version__},
    }


def _summarize(summary: Summary, *, rollout_count: int) -> dict[str, Any]:
    """Return the counts of errors, and the means over the other rollouts, for the metadata."""
    return {
        "num_rollouts": rollout_count,
        "num_errors": summary.failed,
        "num_unscored": summary.unscored - summary.failed,
        "errors": dict(summary.errors),
        "avg_reward": summary.reward.mean,
        "avg_metrics": {name: line.value.mean for name, line in summary.criteria.items()},
        "avg_error": summary.failed / rollout_count if rollout_count else 0.0,
        "usage": {"input_tokens": summary.spent.prompt, "output_tokens": summary.spent.completion},
        "cost": summary.spent.cost,
    }


def _restore_finished(
    jobs: Sequence[RolloutJob], folder: str | os.PathLike[str], sink: pipeline.Sink
) -> None:
    """Set the row and the state of those rollouts that an earlier session has finished."""
    saved_rows = {row.key: row for row in Run.open(folder).rows()}
    for job in jobs:
        if not sink.has(job.key):  # it is not finished, or it failed
            continue
        row = saved_rows[job.key]
        fields = dict(row.fields)
        completion = fields.pop("completion", None)
        job.row = row
        job.state = State(
            input=fields,
            completion=completion,
            reward=row.report.raw_score,
            metrics=row.report.metrics,
            error=row.error,
        )


# What a run records.


def _describe_run(
    environment: "Environment",
    under_test: ModelUnderTest,
    judge: str | None,
    data: Sequence[Example],
    *,
    sample_count: int,
) -> RunAbout:
    """Return the metadata of a run of this environment, by which it is recognized when resumed."""
    digest = blake2b(digest_size=16)  # of all examples
    for example in data:
        example_json = as_text(to_jsonable(example))
        digest.update(example_json.encode("utf-8", "surrogatepass"))
    prompt = environment.prompt
    options: dict[str, Any] = {
        "rollouts_per_example": sample_count,
        "max_concurrent": under_test.at_once,
        "pass_rule": asdict(environment.pass_rule),
    }
    if prompt is not None and prompt.name:
        options["prompt_name"] = prompt.name
    return RunAbout.of(
        "evaluate",
        rubric=environment.scoring,
        judge=judge,
        model=under_test.name,
        config={
            **_describe_environment(environment),
            "sampling_args": under_test.sampling_args,
        },
        options=options,
        data={
            **describe_file(environment.data_source),
            "rows": len(data),
            "fingerprint": digest.hexdigest(),
        },
    )


def _find_judge(
    environment: "Environment", data: Sequence[Example], grader: Grader | None
) -> str | None:
    """Return the name of the judge that scores the answers; None if no rubric needs one.

    `grader` is the judge that the caller named, in place of the rubric's own.
    """
    rubric = environment.scoring
    if any(own_rubric(example) is not None for example in data):  # which may need a judge too
        rubrics = pipeline.RowRubrics(rubric, shows=environment.rubric.caller_shows)
        return judge_of(rubrics, grader)
    return None if rubric is None else judge_of(rubric, grader)


def _describe_environment(environment: "Environment") -> dict[str, Any]:
    """Return what identifies an environment: its class, settings, name, arguments and tools."""
    description: dict[str, Any] = {
        "environment": type(environment).__name__,
        "settings": _read_settings(environment),
    }
    if environment.env_id:
        description["env_id"] = environment.env_id
    if environment.env_args:
        description["env_args"] = dict(environment.env_args)
    # A version of assay is recorded anyway. The code of other classes is recorded by its hash.
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
