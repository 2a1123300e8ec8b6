"""`assay eval DATASET -m MODEL -r RUBRIC -o FOLDER`: a model is asked, and its answers are scored."""

from dataclasses import dataclass

import click

from assay.cli.options import (
    Input,
    Judging,
    Rubrics,
    Saving,
    Showing,
    bundled,
    count,
    input_options,
    judge_options,
    number,
    rubric_options,
    save_options,
    show_options,
)
from assay.cli.root import Command


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
@save_options
@judge_options()
@show_options
def command(
    given: Input,
    asking: Asking,
    rubrics: Rubrics,
    saving: Saving,
    judging: Judging,
    showing: Showing,
) -> int:
    """Ask a model every question of a data set, and score its answers.

    The DATASET is a .jsonl, .json, .csv, .tsv or .parquet file whose rows have a `question` or a
    `prompt`, and may have an `answer` and columns of your own. --judge is who judges the answers,
    where the rubric asks a model; not the model that is asked, unless you say so.
    """
    from assay.cli.evaluating import evaluate

    return evaluate(given, asking, rubrics, saving, judging, showing)
