"""`assay eval DATASET -m MODEL -r RUBRIC -o FOLDER`, or `assay eval ENV -m MODEL`: ask a model, and score its answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
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
    for verifiers 0.1. --judge is who judges the answers, where the rubric asks a model; not the
    model that is asked, unless you say so.
    """
    if envs.is_environment(options.data):
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
        rubric = environment.scoring or assay.Rubric()
    else:
        if options.rubric is None or options.env_args:
            wrong = (
                "Missing option '-r'"
                if options.rubric is None
                else "--env-args is for an environment"
            )
            raise click.UsageError(wrong)
        rubric = cli.rubric_of(options)
        # A path is handed on as it is, so that errors name the file and the line.
        data = (
            rows_of(options.data, mapping=dict(options.mapping))
            if options.mapping
            else options.data
        )
        environment = envs.SingleTurnEnv(
            eval_dataset=data, rubric=rubric, system_prompt=options.system_prompt
        )
    if not envs.Environment.get_eval_dataset(
        environment
    ):  # as it is asked, in whatever form a class shows it
        raise TableError(f"{options.data} has no rows: there is nothing to ask")
    if not options.dry_run:
        cli.see_to_engine(options.model, quiet=options.quiet)
    sampling = {"temperature": options.temperature, "max_tokens": options.max_tokens}
    with cli.judging_with(options, rubric, quiet=options.quiet) as grader:
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

        return cli.Runner(options, rubric, grader).run(work)
