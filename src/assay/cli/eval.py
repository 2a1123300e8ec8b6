"""`assay eval DATASET -m MODEL -r RUBRIC -o FOLDER`, or `assay eval ENV -m MODEL`: ask a model, and score its answers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import click

import assay
from assay import envs, runs
from assay.cli.base_command import Command, print_note
from assay.cli.inputs import (
    apply_view_options,
    load_rubric,
    make_row_rubrics,
    note_rubrics_of_rows,
    refuse_unknown_columns,
    suggest_question_mapping,
)
from assay.cli.judging import (
    allow_media,
    check_local_model,
    do_rows_need_judge,
    find_price,
    open_judge,
)
from assay.cli.matrix import MatrixRun, evaluate_matrix, make_matrix
from assay.cli.models_under_test import read_named_model
from assay.cli.options import (
    RunOptions,
    allow_code_option,
    count,
    display_options,
    judging_options,
    limit_rows_option,
    map_option,
    number_type,
    output_options,
    pass_at_option,
    positive,
    rubric_option,
    section_option,
    view_options,
)
from assay.cli.run_output import RunOutput
from assay.cli.runner import Interrupt
from assay.tables import TableError, rows_of

if TYPE_CHECKING:
    from assay.graders import Grader
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


_prompt_option = section_option("Prompt")
_sampling_option = section_option("Sampling")


@click.command(
    "eval",
    cls=Command,
    epilog="Exit codes: 0 all scored, 100 a threshold missed, 1 a rollout is unscored or the run "
    "ended early, 2 bad usage or data, 130 stopped.",
    example="assay eval questions.jsonl -m openai/gpt-5-mini -r rubric.yaml -o run --samples 4\n"
    "assay eval questions.jsonl -m small -m big --prompt a.yaml --prompt b.yaml -r rubric.yaml "
    "-o runs",
    main_options=("model", "rubric", "judge", "output", "limit"),
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
    multiple=True,
    envvar="ASSAY_MODEL",
    show_envvar=True,
    help="The model: openai/…, anthropic/…, http://…#name, local, or a table [models.NAME] of the "
    "config file. Repeatable: every model is asked, and the table compares them.",
)
@_prompt_option(
    "--prompt",
    metavar="FILE",
    type=click.Path(),
    multiple=True,
    envvar="ASSAY_PROMPT",
    show_envvar=True,
    help="A prompt template with {column} placeholders: the text of the user message, or YAML or "
    "JSON with messages. Repeatable: every prompt is sent to every model.",
)
@_prompt_option(
    "--system-prompt",
    metavar="TEXT",
    envvar="ASSAY_SYSTEM_PROMPT",
    show_envvar=True,
    help="The system prompt of every rollout, with {column} placeholders.",
)
@_prompt_option(
    "--few-shot",
    metavar="FILE",
    type=click.Path(),
    envvar="ASSAY_FEW_SHOT",
    show_envvar=True,
    help="A table of examples to show before the question. The reply of an example is its "
    "`completion` or `answer`.",
)
@_prompt_option(
    "--shots",
    metavar="N",
    type=positive,
    envvar="ASSAY_SHOTS",
    show_envvar=True,
    help="Show only the first N rows of --few-shot.",
)
@_sampling_option(
    "--samples",
    metavar="N",
    type=positive,
    default=1,
    show_default=True,
    envvar="ASSAY_SAMPLES",
    show_envvar=True,
    help="Rollouts per example; several give pass@k.",
)
@_sampling_option(
    "--temperature",
    metavar="T",
    type=number_type(0),
    envvar="ASSAY_TEMPERATURE",
    show_envvar=True,
    help="The sampling temperature.",
)
@_sampling_option(
    "--top-p",
    metavar="P",
    type=number_type(0),
    envvar="ASSAY_TOP_P",
    show_envvar=True,
    help="Sample from the most likely tokens whose probabilities add up to P.",
)
@_sampling_option(
    "--seed",
    metavar="N",
    type=count,
    envvar="ASSAY_SEED",
    show_envvar=True,
    help="The seed of the first sample of each example; the next samples have N+1, N+2, …",
)
@_sampling_option(
    "--stop",
    metavar="TEXT",
    multiple=True,
    help="End a reply before this text. Repeatable.",
)
@_sampling_option(
    "--max-tokens",
    metavar="N",
    type=positive,
    envvar="ASSAY_MAX_TOKENS",
    show_envvar=True,
    help="The most output tokens of a reply.",
)
@click.option(
    "--env-args",
    metavar="JSON",
    type=_parse_object,
    default="{}",
    show_default=True,
    help="The arguments of the environment's load_environment.",
)
@pass_at_option
@map_option("completion=output")
@limit_rows_option
@output_options
@display_options
@view_options
@judging_options
@allow_code_option
def command(data: str, model: tuple[str, ...], prompt: tuple[str, ...], **values: Any) -> int:
    """Ask a model every question of a data set, and score its answers.

    The DATASET is a .jsonl, .json, .csv, .tsv, .xlsx or .parquet file whose rows have a `question`
    or a `prompt`, and may have an `answer` and other columns. An ENV is an installed package, a
    folder or a Python file with load_environment(), written for assay or, with
    ASSAY_AS_VERIFIERS=1, for verifiers 0.1. An answer to a row with its own `rubric` is scored by
    that rubric; -r is for the other rows. --judge names the model that judges the answers, if a
    rubric needs one; the model under test never judges its own answers by default.

    With several models or prompts, the FOLDER of -o holds a run for each pair, and one table
    compares them by overall score and by category (the column `category` or `task` of the rows).
    """
    options = EvalOptions(files=(data,), models=model, prompts=prompt, **values)
    models = [read_named_model(name, options.sampling) for name in options.models]
    environments = _make_environments(options)
    # With several prompts there are several environments, which have the same data and rubric.
    first = environments[0]
    rubric = first.scoring  # None if it has no criteria
    # Not `first.get_eval_dataset`: a subclass may show other examples than it asks.
    examples = envs.Environment.get_eval_dataset(first)
    if not examples:
        raise TableError(f"{data} has no rows: there is nothing to ask")
    examples = examples[: options.limit]
    _check_rubrics(rubric, examples, options)
    rows_need_judge = do_rows_need_judge(make_row_rubrics(rubric, options), examples)
    if options.dry_run:
        _note_turns(first, data, quiet=options.quiet)
    else:
        for named_model in models:
            check_local_model(named_model.source, quiet=options.quiet)
    # A run for every model and prompt.
    matrix = make_matrix(models, environments, options.folder)
    with (
        allow_media(options, options.files),
        open_judge(
            options,
            rubric,
            quiet=options.quiet,
            rows_need_judge=rows_need_judge,
            models_under_test=options.models,
        ) as grader,
    ):
        matrix = [_add_price(run, options, has_judge=grader is not None) for run in matrix]
        if len(matrix) > 1:
            return evaluate_matrix(matrix, options, grader, evaluate=_evaluate)
        return _evaluate_one(matrix[0], options, grader)


@dataclass(frozen=True, kw_only=True)
class EvalOptions(RunOptions):
    """The options of `assay eval`."""

    models: tuple[str, ...]
    prompts: tuple[str, ...]
    system_prompt: str | None
    few_shot: str | None
    shots: int | None
    samples: int
    temperature: float | None
    top_p: float | None
    seed: int | None
    stop: tuple[str, ...]
    max_tokens: int | None
    env_args: Mapping[str, Any]
    pass_at: float | None

    def __post_init__(self) -> None:
        """Raise a usage error for options that do not go together."""
        super().__post_init__()
        for option, names in (("-m", self.models), ("--prompt", self.prompts)):
            for name in names:
                if names.count(name) > 1:
                    raise click.UsageError(f"{option} {name} was given twice: give it once")
        if self.shots is not None and self.few_shot is None:
            raise click.UsageError("--shots counts rows of --few-shot: give --few-shot FILE too")

    @property
    def sampling(self) -> dict[str, Any]:
        """The sampling options that are set."""
        arguments: dict[str, Any] = {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "seed": self.seed,
            "stop": list(self.stop) or None,
            "max_tokens": self.max_tokens,
        }
        return {name: value for name, value in arguments.items() if value is not None}


def _make_environments(options: EvalOptions) -> list[envs.Environment]:
    """Return the environment that the options name, or one for every prompt of a data set."""
    if envs.is_environment(options.data):
        environments = [_load_environment(options)]
    else:
        environments = _make_data_set_environments(options)
    if options.pass_at is not None:
        for environment in environments:
            environment.pass_threshold = options.pass_at
    return environments


def _load_environment(options: EvalOptions) -> envs.Environment:
    """Load the environment that the options name, which brings its own rubric, data and prompt."""
    data_set_options = {
        "--rubric": options.rubric,
        "--map": options.mapping,
        "--prompt": options.prompts,
        "--system-prompt": options.system_prompt,
        "--few-shot": options.few_shot,
    }
    for name, value in data_set_options.items():
        if value:
            raise click.UsageError(
                f"{name} is only for data sets: the environment {options.data} has its own"
            )
    environment = envs.load_environment(options.data, **options.env_args)
    rubric = environment.scoring  # None if it has no criteria
    if rubric is not None:
        apply_view_options(rubric, options)
    return environment


def _make_data_set_environments(options: EvalOptions) -> list[envs.Environment]:
    """Make an environment for every prompt; each asks the questions of the data set with its prompt."""
    if options.env_args:
        raise click.UsageError("--env-args is only for environments")
    if options.rubric is None:
        rubric = assay.Rubric()  # every row has to bring its own
    else:
        rubric = load_rubric(options.rubric, allow_code=options.allow_code)
    apply_view_options(rubric, options)
    environments: list[envs.Environment] = []
    for prompt in _read_prompts(options):
        data: Any = options.data  # given as a path, so that errors name the file and the line
        if options.mapping:
            data = rows_of(options.data, mapping=dict(options.mapping))
        asks_as_rows_say = prompt is None or prompt.user is None
        if asks_as_rows_say:
            _refuse_missing_question(options)
        environment = envs.SingleTurnEnv(eval_dataset=data, rubric=rubric, prompt=prompt)
        environment.data_source = options.data
        environments.append(environment)
    return environments


def _refuse_missing_question(options: EvalOptions) -> None:
    """Raise a usage error if the question is in a column with another name that is usual for it.

    Rows without any such column are left to the environment, which says what they lack.
    """
    row = next(rows_of(options.data, mapping=dict(options.mapping)), None)
    if row is None or "prompt" in row or "question" in row:
        return
    suggestion = suggest_question_mapping(list(row))
    if suggestion:
        raise click.UsageError(
            f"{options.data} has no column 'prompt' or 'question' (columns: {', '.join(row)}): "
            f"give {suggestion}"
        )


def _read_prompts(options: EvalOptions) -> list[envs.PromptTemplate | None]:
    """Return the prompts that the options name, with `--system-prompt` and `--few-shot` added.

    None stands for no prompt: the model is asked what the rows say.
    """
    templates = [envs.PromptTemplate.from_file(path) for path in options.prompts]
    names = [template.name for template in templates]
    for name in names:
        if names.count(name) > 1:
            raise click.UsageError(
                f"two prompts are called {name!r}, after their files: rename one of the files"
            )
    if not templates:
        if options.system_prompt is None and options.few_shot is None:
            return [None]
        templates = [envs.PromptTemplate()]  # for the system prompt and the examples alone
    prompts: list[envs.PromptTemplate | None] = []
    for template in templates:
        if options.system_prompt is not None:
            if template.system is not None:
                raise click.UsageError(
                    f"the prompt {template.name!r} has its own system prompt: remove it from "
                    "the file, or leave out --system-prompt"
                )
            template = replace(template, system=options.system_prompt)
        if options.few_shot is not None:
            rows = rows_of(options.few_shot)
            template = template.with_examples(rows, options.shots)
        prompts.append(template)
    return prompts


def _note_turns(environment: envs.Environment, data: str, *, quiet: bool) -> None:
    """Say on stderr that a dry run, which has no replies, counts only the first turn of a dialogue."""
    # An environment made of several, such as `EnvGroup`, has them in `envs`. One without `max_turns`
    # asks once.
    members = getattr(environment, "envs", [environment])
    turn_limits = [getattr(member, "max_turns", 1) for member in members]
    most_turns = max(turn_limits, default=1)
    if -1 in turn_limits:  # no limit
        call_count = "any number of times"
    elif most_turns > 1:
        call_count = f"up to {most_turns} times"
    else:
        return
    print_note(
        f"{data} may ask the model {call_count} in a rollout, with longer and longer prompts; a dry run "
        "counts only the first call, so that neither figure is a maximum",
        quiet=quiet,
    )


def _check_rubrics(
    rubric: assay.Rubric | None, examples: Sequence[Mapping[str, Any]], options: EvalOptions
) -> None:
    """Check, before a model is asked, that every answer can be scored.

    An environment is trusted to have what its own rubric needs.
    """
    is_environment = envs.is_environment(options.data)
    if not is_environment and rubric is None:
        _check_all_have_rubrics(examples, options.data)
    if any(runs.row.own_rubric(example) is not None for example in examples):
        note_rubrics_of_rows(options.data, options)
    elif not is_environment:
        refuse_unknown_columns(rubric, examples, options.data)


def _check_all_have_rubrics(examples: Sequence[Mapping[str, Any]], data: str) -> None:
    """Raise a usage error if an example has no rubric of its own."""
    rubrics = [runs.row.own_rubric(example) for example in examples]
    missing_count = rubrics.count(None)
    if missing_count == len(rubrics):
        raise click.UsageError(
            f"there is no rubric to score the answers to {data}: give -r/--rubric RUBRIC, or a `rubric` in "
            "every row"
        )
    if missing_count:
        raise click.UsageError(
            f"{missing_count} of {len(rubrics)} rows of {data} have no `rubric`: give -r/--rubric "
            "RUBRIC for them"
        )


def _add_price(run: MatrixRun, options: EvalOptions, *, has_judge: bool) -> MatrixRun:
    """Return the run with the price that `--price` gives its model, if it gives one.

    Also note on stderr that the model judges its own answers, if it does.
    """
    other_models = [name for name in options.models if name != run.model.name]
    if has_judge and options.judge is not None:
        other_models.append(options.judge)
        if options.judge == run.model.name:
            print_note(
                f"{options.judge} judges its own answers: name another model with --judge",
                quiet=options.quiet,
            )
    price = find_price(options.prices, run.model.name, other_models=other_models)
    if price is None:
        return run
    return replace(run, model=replace(run.model, price=price))


def _evaluate_one(run: MatrixRun, options: EvalOptions, grader: Grader | None) -> int:
    """Ask the model, print its rollouts and the summary, and return the exit code."""
    environment = run.environment
    rubric = environment.scoring
    output = RunOutput(options, rubric, grader, pass_rule=environment.pass_rule)

    async def evaluate(on_progress: OnProgress | None, interrupt: Interrupt) -> runs.Summary:
        arguments = output.make_arguments(on_progress, interrupt)
        return await _evaluate(run, options, arguments)

    return output.run(evaluate)


async def _evaluate(
    run: MatrixRun, options: EvalOptions, arguments: Mapping[str, Any]
) -> runs.Summary:
    """Ask one model with one prompt, and return the summary of the run.

    `arguments` are more arguments of `Environment.evaluate`, such as the judge and `on_progress`.
    """
    results = await run.environment.evaluate(
        model=run.model.source,
        price=run.model.price,
        limits=options.limits,
        num_examples=-1 if options.limit is None else options.limit,  # -1 asks all
        rollouts_per_example=options.samples,
        sampling_args=run.model.sampling,
        run=run.folder,
        **arguments,
    )
    return results.summary()
