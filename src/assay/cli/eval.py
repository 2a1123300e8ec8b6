"""`assay eval DATASET -m MODEL -r RUBRIC -o FOLDER`: ask a model, and score its answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from assay.cli import options
from assay.cli.options import count, number, record, value_of
from assay.cli.root import Command

if TYPE_CHECKING:
    from assay.cli.runner import Conditions
    from assay.runs import Summary


@dataclass(frozen=True)
class ModelOptions:
    """Which model is asked, and how."""

    model: str = value_of(
        "-m --model MODEL", "Who is asked: openai/…, anthropic/…, http://…#name, or local.", required=True,
        env="ASSAY_MODEL",
    )  # fmt: skip
    samples: int = value_of(
        "--samples N", "How often each example is asked; gives pass@k.", count(1), 1, env="ASSAY_SAMPLES"
    )
    system_prompt: str | None = value_of(
        "--system-prompt WORDS", "What the model is told before every question.", env="ASSAY_SYSTEM_PROMPT"
    )
    temperature: float | None = value_of(
        "--temperature T", "How far answers to the same question may differ; by default as the endpoint has it.",
        number(0), env="ASSAY_TEMPERATURE",
    )  # fmt: skip
    max_tokens: int | None = value_of(
        "--max-tokens N", "The most that an answer may have.", count(1), env="ASSAY_MAX_TOKENS"
    )


def _alone(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, ...]:
    return (value,)


@click.command(
    "eval",
    cls=Command,
    epilog="Exit code: 0 all scored, 100 a threshold missed, 1 one unscored or broken off, 2 bad "
    "usage or data, 130 stopped.",
    example="assay eval questions.jsonl -m openai/gpt-5-mini -r rubric.yaml -o run --samples 4",
)
@options.input_options("DATASET", callback=_alone)
@record("asking", ModelOptions)
@options.rubric_options()
@options.output_options
@options.judge_options()
@options.display_options
def command(
    given: options.InputOptions,
    asking: ModelOptions,
    rubrics: options.RubricOptions,
    output: options.OutputOptions,
    judging: options.JudgeOptions,
    display: options.DisplayOptions,
) -> int:
    """Ask a model every question of a data set, and score its answers.

    The DATASET is a .jsonl, .json, .csv, .tsv or .parquet file whose rows have a `question` or a
    `prompt`, and may have an `answer` and columns of your own. --judge is who judges the answers,
    where the rubric asks a model; not the model that is asked, unless you say so.
    """
    from assay.cli.runner import Runner, say
    from assay.cli.sources import judging_with, rubric_of, see_to_engine
    from assay.envs import SingleTurnEnv
    from assay.tables import TableError, rows_of

    rubric = rubric_of(rubrics)
    # A path is handed on as it is, so that errors name the file and the line.
    data = rows_of(given.data, mapping=dict(given.mapping)) if given.mapping else given.data
    environment = SingleTurnEnv(eval_dataset=data, rubric=rubric, system_prompt=asking.system_prompt)
    if not environment.eval_dataset:
        raise TableError(f"{given.data} has no rows: there is nothing to ask")
    if not judging.dry_run:
        see_to_engine(asking.model, quiet=display.quiet)
    sampling = {"temperature": asking.temperature, "max_tokens": asking.max_tokens}

    async def work(under: Conditions) -> Summary:
        results = await environment.evaluate(
            model=asking.model,
            num_examples=-1 if given.limit is None else given.limit,
            rollouts_per_example=asking.samples,
            sampling_args={name: value for name, value in sampling.items() if value is not None},
            run=under.folder,
            **under.settings(output),
        )
        return results.summary

    with judging_with(judging, rubric, quiet=display.quiet) as grader:
        if grader is not None and judging.judge == asking.model:
            say(f"{asking.model} judges its own answers: name another with --judge", quiet=display.quiet)
        return Runner(given.data, rubric, judging, output, display).run(work, grader)
