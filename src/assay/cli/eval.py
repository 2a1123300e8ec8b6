"""`assay eval DATASET -m MODEL -r RUBRIC -o FOLDER`, or `assay eval ENV -m MODEL`: ask a model, and score its answers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import click

import assay
from assay import envs, runs
from assay.cli.base_command import Command, print_note
from assay.cli.inputs import apply_view, load_rubric, make_row_rubrics, note_rubrics_of_rows
from assay.cli.judging import (
    DEFAULT_JUDGE,
    allow_media,
    check_local_model,
    do_rows_ask,
    find_price,
    open_judge,
)
from assay.cli.options import (
    RunOptions,
    allow_code_option,
    display_options,
    limit_rows_option,
    map_option,
    number_type,
    output_options,
    positive,
    rubric_option,
    separate_judge_options,
    view_options,
)
from assay.cli.run_output import RunOutput
from assay.cli.runner import Interrupt
from assay.tables import TableError, rows_of

if TYPE_CHECKING:
    from assay.runs.pipeline import OnProgress


def _parse_object(value: Any) -> Mapping[str, Any]:
    """Parse a JSON object."""
    if isinstance(value, Mapping):  # click may pass a value that is already parsed
        return cast("Mapping[str, Any]", value)
    try:
        data = json.loads(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is not valid JSON: {error}") from None
    if not isinstance(data, dict):
        raise click.BadParameter(f"{value!r} is not a JSON object: write '{{\"max_turns\": 5}}'")
    return cast("dict[str, Any]", data)


@click.command(
    "eval",
    cls=Command,
    epilog="Exit codes: 0 all scored, 100 a threshold missed, 1 a rollout is unscored or the run "
    "ended early, 2 bad usage or data, 130 stopped.",
    example="assay eval questions.jsonl -m openai/gpt-5-mini -r rubric.yaml -o run --samples 4",
)
@click.argument("data", metavar="DATASET|ENV", type=click.Path())
@rubric_option(
    help="The rubric file, or module:object, for rows without their own `rubric`. An environment "
    "has its own."
)
@click.option(
    "-m",
    "--model",
    metavar="MODEL",
    required=True,
    envvar="ASSAY_MODEL",
    show_envvar=True,
    help="The model: openai/…, anthropic/…, http://…#name, or local.",
)
@click.option(
    "--samples",
    metavar="N",
    type=positive,
    default=1,
    show_default=True,
    envvar="ASSAY_SAMPLES",
    show_envvar=True,
    help="Rollouts per example; several give pass@k.",
)
@click.option(
    "--system-prompt",
    metavar="TEXT",
    envvar="ASSAY_SYSTEM_PROMPT",
    show_envvar=True,
    help="The system prompt of every rollout.",
)
@click.option(
    "--temperature",
    metavar="T",
    type=number_type(0),
    envvar="ASSAY_TEMPERATURE",
    show_envvar=True,
    help="The sampling temperature.",
)
@click.option(
    "--max-tokens",
    metavar="N",
    type=positive,
    envvar="ASSAY_MAX_TOKENS",
    show_envvar=True,
    help="The most output tokens of a rollout.",
)
@click.option(
    "--env-args",
    metavar="JSON",
    type=_parse_object,
    default="{}",
    show_default=True,
    help="The arguments of the environment's load_environment.",
)
@map_option("completion=output")
@limit_rows_option
@output_options
@display_options
@view_options
@separate_judge_options
@allow_code_option
def command(data: str, **values: Any) -> int:
    """Ask a model every question of a data set, and score its answers.

    The DATASET is a .jsonl, .json, .csv, .tsv or .parquet file whose rows have a `question` or a
    `prompt`, and may have an `answer` and columns of your own. An ENV is an installed package, a
    folder or a Python file with load_environment(), written for assay or, with
    ASSAY_AS_VERIFIERS=1, for verifiers 0.1. An answer to a row with its own `rubric` is scored by
    that rubric; -r is for the other rows. --judge names the model that judges the answers, if a
    rubric needs one; it is not the model that is asked, unless you name the same.
    """
    options = EvalOptions(files=(data,), **values)
    if envs.is_environment(data):
        environment = _load_environment(options)
        needs_row_rubrics = False
    else:
        environment = _make_environment(options)
        needs_row_rubrics = environment.scoring is None
    # Not `environment.get_eval_dataset`: a subclass may show other examples than it asks.
    examples = envs.Environment.get_eval_dataset(environment)
    if not examples:
        raise TableError(f"{data} has no rows: there is nothing to ask")
    examples = examples[: options.limit]
    if needs_row_rubrics:
        _check_all_have_rubrics(examples, data)
    note_rubrics_of_rows(examples[0], data, options)
    rows_ask = do_rows_ask(make_row_rubrics(environment.scoring, options), examples)
    if not options.dry_run:
        check_local_model(options.model, quiet=options.quiet)
    return _evaluate(environment, options, rows_ask=rows_ask)


@dataclass(frozen=True, kw_only=True)
class EvalOptions(RunOptions):
    """The options of `assay eval`."""

    model: str
    samples: int
    system_prompt: str | None
    temperature: float | None
    max_tokens: int | None
    env_args: Mapping[str, Any]

    @property
    def sampling_arguments(self) -> dict[str, float]:
        """The temperature and the maximum number of tokens, if they are set."""
        arguments: dict[str, float] = {}
        if self.temperature is not None:
            arguments["temperature"] = self.temperature
        if self.max_tokens is not None:
            arguments["max_tokens"] = self.max_tokens
        return arguments


def _load_environment(options: EvalOptions) -> envs.Environment:
    """Load the environment that the options name, which has its own rubric and data."""
    data_set_options = {
        "--rubric": options.rubric,
        "--map": options.mapping,
        "--system-prompt": options.system_prompt,
    }
    for name, value in data_set_options.items():
        if value:
            raise click.UsageError(
                f"{name} is for a data set: the environment {options.data} has its own"
            )
    environment = envs.load_environment(options.data, **options.env_args)
    if environment.scoring is not None:
        apply_view(environment.scoring, options)
    return environment


def _make_environment(options: EvalOptions) -> envs.Environment:
    """Make an environment that asks every question of a data set once."""
    if options.env_args:
        raise click.UsageError("--env-args is for an environment")
    if options.rubric is None:
        rubric = assay.Rubric()  # every row has to bring its own
    else:
        rubric = load_rubric(options.rubric, allow_code=options.allow_code)
    apply_view(rubric, options)
    data: Any = options.data  # given as a path, so that errors name the file and the line
    if options.mapping:
        data = rows_of(options.data, mapping=dict(options.mapping))
    return envs.SingleTurnEnv(
        eval_dataset=data,
        rubric=rubric,
        system_prompt=options.system_prompt,
    )


def _check_all_have_rubrics(examples: Sequence[Mapping[str, Any]], data: str) -> None:
    """Raise a usage error if an example has no rubric of its own."""
    rubrics = [runs.row.own_rubric(example) for example in examples]
    missing_count = rubrics.count(None)
    if missing_count == len(rubrics):
        raise click.UsageError(
            f"nothing scores the answers to {data}: give -r/--rubric RUBRIC, or a `rubric` in "
            "every row"
        )
    if missing_count:
        raise click.UsageError(
            f"{missing_count} of {len(rubrics)} rows of {data} have no `rubric`: give -r/--rubric "
            "RUBRIC for them"
        )


def _evaluate(environment: envs.Environment, options: EvalOptions, *, rows_ask: bool) -> int:
    """Ask the model, score its answers, and return the exit code."""
    rubric = environment.scoring
    with (
        allow_media(options, options.files),
        open_judge(
            options,
            rubric,
            quiet=options.quiet,
            rows_ask=rows_ask,
            model_under_test=options.model,
        ) as grader,
    ):
        if grader is not None and options.judge == options.model:
            print_note(
                f"{options.model} judges its own answers: name another model with --judge",
                quiet=options.quiet,
            )
        judge = None if grader is None else options.judge or DEFAULT_JUDGE
        price = find_price(options.prices, options.model, other_model=judge)
        output = RunOutput(options, rubric, grader, pass_rule=environment.pass_rule)

        async def evaluate(on_progress: OnProgress | None, interrupt: Interrupt) -> runs.Summary:
            results = await environment.evaluate(
                model=options.model,
                price=price,
                num_examples=-1 if options.limit is None else options.limit,
                rollouts_per_example=options.samples,
                sampling_args=options.sampling_arguments,
                run=options.folder,
                **output.make_arguments(on_progress, interrupt),
            )
            return results.summary

        return output.run(evaluate)
