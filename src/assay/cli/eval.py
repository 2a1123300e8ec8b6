"""`assay eval DATASET -m MODEL -r RUBRIC -o FOLDER`: a model is asked, and its answers are scored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from assay.cli.options import (
    DisplayOptions,
    InputOptions,
    JudgeOptions,
    OutputOptions,
    RubricOptions,
    bundled,
    count,
    display_options,
    input_options,
    judge_options,
    number,
    output_options,
    rubric_options,
)
from assay.cli.root import Command

if TYPE_CHECKING:
    from assay.cli.runner import Conditions, Work
    from assay.envs import SingleTurnEnv
    from assay.runs import Summary


@dataclass(frozen=True)
class Asking:
    """Which model is asked, and how."""

    model: str
    samples: int
    system_prompt: str | None
    temperature: float | None
    max_tokens: int | None


_asking = bundled(
    "asking",
    Asking,
    click.option(
        "-m", "--model", required=True, metavar="MODEL", envvar="ASSAY_MODEL", show_envvar=True,
        help="Who is asked: openai/…, anthropic/…, http://…#name, or local.",
    ),
    click.option(
        "--samples", type=count(1), default=1, show_default=True, metavar="N",
        envvar="ASSAY_SAMPLES", show_envvar=True, help="How often each example is asked; gives pass@k.",
    ),
    click.option(
        "--system-prompt", metavar="WORDS", envvar="ASSAY_SYSTEM_PROMPT", show_envvar=True,
        help="What the model is told before every question.",
    ),
    click.option(
        "--temperature", type=number(0), metavar="T", envvar="ASSAY_TEMPERATURE", show_envvar=True,
        help="How far answers to the same question may differ; by default as the endpoint has it.",
    ),
    click.option(
        "--max-tokens", type=count(1), metavar="N", envvar="ASSAY_MAX_TOKENS", show_envvar=True,
        help="The most that an answer may have.",
    ),
)  # fmt: skip


@click.command(
    "eval",
    cls=Command,
    epilog="Exit code: 0 all scored, 100 a threshold missed, 1 one unscored or broken off, 2 bad "
    "usage or data, 130 stopped.",
    example="assay eval questions.jsonl -m openai/gpt-5-mini -r rubric.yaml -o run --samples 4",
)
@input_options("DATASET")
@_asking
@rubric_options()
@output_options
@judge_options()
@display_options
def command(
    given: InputOptions,
    asking: Asking,
    rubrics: RubricOptions,
    output: OutputOptions,
    judging: JudgeOptions,
    display: DisplayOptions,
) -> int:
    """Ask a model every question of a data set, and score its answers.

    The DATASET is a .jsonl, .json, .csv, .tsv or .parquet file whose rows have a `question` or a
    `prompt`, and may have an `answer` and columns of your own. --judge is who judges the answers,
    where the rubric asks a model; not the model that is asked, unless you say so.
    """
    from assay.cli.judges import judging_with, see_to_engine
    from assay.cli.runner import Runner, say
    from assay.cli.sources import rubric_of
    from assay.envs import SingleTurnEnv
    from assay.tables import TableError, rows_of

    rubric = rubric_of(rubrics)
    # A path is handed on as it is, so that errors name the file and the line.
    data = rows_of(given.data, mapping=dict(given.mapping)) if given.mapping else given.data
    environment = SingleTurnEnv(eval_dataset=data, rubric=rubric, system_prompt=asking.system_prompt)
    if not environment.eval_dataset:
        raise TableError(f"{given.data} has no rows: there is nothing to ask")
    names = [criterion.name for criterion in rubric.criteria]
    runner = Runner(given.data, names, judging, output, display)
    if not judging.dry_run:
        see_to_engine(asking.model, quiet=display.quiet)
    with judging_with(judging, rubric, quiet=display.quiet) as grader:
        if grader is not None and judging.judge == asking.model:
            say(f"{asking.model} judges its own answers: name another with --judge", display)
        work = _work(environment, given, asking, output)
        return runner.run(work, grader)


def _work(environment: SingleTurnEnv, given: InputOptions, asking: Asking, output: OutputOptions) -> Work:
    from assay.runs import Run

    async def work(under: Conditions) -> Summary:
        if under.folder is not None:
            return await asked(under, under.folder)
        # The rollouts of a run that is not kept are printed from a folder that is not kept.
        with TemporaryDirectory(prefix="assay-") as folder:
            summary = await asked(under, folder)
            if under.on_row is not None:
                for row in Run.open(folder).rows():
                    under.on_row(row)
            return summary

    async def asked(under: Conditions, folder: str) -> Summary:
        results = await environment.evaluate(
            model=asking.model,
            num_examples=-1 if given.limit is None else given.limit,
            rollouts_per_example=asking.samples,
            max_concurrent=output.concurrency,
            sampling_args=_sampling(asking),
            grader=under.grader,
            run=folder,
            exchanges=output.judge_log,
            resume=under.resume,
            on_progress=under.on_progress,
            stopping=under.stopping,
        )
        return results.summary

    return work


def _sampling(asking: Asking) -> Mapping[str, Any]:
    said = {"temperature": asking.temperature, "max_tokens": asking.max_tokens}
    return {name: value for name, value in said.items() if value is not None}
