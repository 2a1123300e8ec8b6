"""`assay eval DATASET -m MODEL -r RUBRIC -o FOLDER`, or `assay eval ENV -m MODEL`: ask a model, and score its answers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

import click

import assay
from assay import cli, envs, runs
from assay.tables import TableError, rows_of


def mapping(value: Any) -> Mapping[str, Any]:
    try:
        found = json.loads(value) if isinstance(value, str) else value
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is no JSON: {error}") from None
    if not isinstance(found, Mapping):
        raise click.BadParameter(f"{value!r} is no object: write '{{\"max_turns\": 5}}'")
    return cast("Mapping[str, Any]", found)


def _alone(ctx: object, param: object, value: str) -> tuple[str, ...]:
    return (value,)


class EvalOptions(cli.RunOptions):
    """Which model is asked, and how."""

    files: tuple[str, ...] = cli.argument("DATASET|ENV", callback=_alone)
    rubric: str | None = cli.value_of()
    env_args: Mapping[str, Any] = cli.value_of(mapping, "{}")
    model: str = cli.value_of(required=True)
    samples: int = cli.value_of(cli.positive, 1)
    system_prompt: str | None = cli.value_of()
    temperature: float | None = cli.value_of(cli.number(0))
    max_tokens: int | None = cli.value_of(cli.positive)
    judge: str | None = cli.value_of()


@cli.declare("eval")
def command(options: EvalOptions) -> int:
    """Ask a model every question of a data set, and score its answers.

    The DATASET is a .jsonl, .json, .csv, .tsv or .parquet file whose rows have a `question` or a
    `prompt`, and may have an `answer` and columns of your own. An ENV is an installed package, a
    folder or a Python file with load_environment(), written for assay or, with ASSAY_AS_VERIFIERS=1,
    for verifiers 0.1. An answer to a row with a `rubric` of its own is scored by that; -r is for the
    other rows. --judge is who judges the answers, where a rubric asks a model; not the model that
    is asked, unless you say so.
    """
    is_environment = envs.is_environment(options.data)
    if is_environment:
        given = {
            "--rubric": options.rubric,
            "--map": options.mapping,
            "--system-prompt": options.system_prompt,
        }
        if unfit := [name for name, value in given.items() if value]:
            raise click.UsageError(
                f"{unfit[0]} is for a data set: the environment {options.data} has its own"
            )
        environment = envs.load_environment(options.data, **options.env_args)
        if environment.scoring is not None:
            cli.apply_view(environment.scoring, options)
    else:
        if options.env_args:
            raise click.UsageError("--env-args is for an environment")
        if options.rubric is not None:
            rubric = cli.rubric_of(options)
        else:
            rubric = assay.Rubric()  # every row has to bring its own
            cli.apply_view(rubric, options)
        # A path is handed on as it is, so that errors name the file and the line.
        data = (
            rows_of(options.data, mapping=dict(options.mapping))
            if options.mapping
            else options.data
        )
        environment = envs.SingleTurnEnv(
            eval_dataset=data, rubric=rubric, system_prompt=options.system_prompt
        )
    # The examples as they are asked, in whatever form a class shows them.
    examples = envs.Environment.get_eval_dataset(environment)
    if not examples:
        raise TableError(f"{options.data} has no rows: there is nothing to ask")
    rubric = environment.scoring
    rows_need_rubrics = rubric is None and not is_environment
    rows_have_rubrics = _find_row_rubrics(options, examples, are_needed=rows_need_rubrics)
    if not options.dry_run:
        cli.see_to_engine(options.model, quiet=options.quiet)
    sampling = {"temperature": options.temperature, "max_tokens": options.max_tokens}
    with cli.judging_with(
        options, rubric, quiet=options.quiet, rows_may_ask=rows_have_rubrics
    ) as grader:
        if grader is not None and options.judge == options.model:
            cli.say(
                f"{options.model} judges its own answers: name another with --judge",
                quiet=options.quiet,
            )

        async def work(under: cli.Conditions) -> runs.Summary:
            results = await environment.evaluate(
                model=options.model,
                num_examples=-1 if options.limit is None else options.limit,
                rollouts_per_example=options.samples,
                sampling_args={
                    name: value for name, value in sampling.items() if value is not None
                },
                run=options.folder,
                **under.settings(options, grader),
            )
            return results.summary

        return cli.Runner(options, rubric, grader, environment.pass_rule).run(work)


def _find_row_rubrics(
    options: EvalOptions, examples: Sequence[Mapping[str, Any]], *, are_needed: bool
) -> bool:
    """Return whether examples bring their own rubrics; refuse some without if all need one."""
    rubrics = [runs.row.own_rubric(example) for example in examples[: options.limit]]
    missing_count = rubrics.count(None)
    if are_needed and missing_count == len(rubrics):
        raise click.UsageError(
            f"nothing scores the answers to {options.data}: "
            "give -r/--rubric RUBRIC, or every row a `rubric` of its own"
        )
    if are_needed and missing_count:
        raise click.UsageError(
            f"{missing_count} of {len(rubrics)} rows of {options.data} have no `rubric` of their "
            "own: give -r/--rubric RUBRIC for them"
        )
    return missing_count < len(rubrics)
