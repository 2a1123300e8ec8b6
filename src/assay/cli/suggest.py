"""`assay suggest`: criteria drafted from references, or from pairs of which one is preferred."""

import click

from assay.cli.options import Judging, count, files, judge_options
from assay.cli.root import Command


@click.command(
    "suggest",
    cls=Command,
    epilog="Exit code: 0 a rubric was drafted, 100 no criterion was kept, 1 something was not judged or "
    "drafted, 2 bad usage.",
    example="assay suggest --pairs pairs.jsonl -m openai/gpt-5-mini -o rubric.yaml\n"
    "assay suggest --prompt task.txt --references answers.jsonl -m openai/gpt-5-mini --dry-run",
)
@click.option(
    "--pairs", metavar="FILE", shell_complete=files,
    help="A table with prompt, chosen and rejected.",
)  # fmt: skip
@click.option("--prompt", metavar="FILE", shell_complete=files, help="A text file with the task.")
@click.option(
    "--references", metavar="FILE", shell_complete=files,
    help="With --prompt: good answers, one in a text file, or one a row of a table.",
)  # fmt: skip
@judge_options("-m", "--model")
@click.option(
    "--most", type=count(1), default=12, show_default=True, metavar="N",
    help="How many drafted criteria to judge.",
)  # fmt: skip
@click.option("--limit", type=count(1), metavar="N", help="Only the first N pairs.")
@click.option(
    "--seed", type=count(), default=0, show_default=True, metavar="N",
    help="Which of the pairs the drafter sees.",
)  # fmt: skip
@click.option(
    "-o", "--output", metavar="FILE", shell_complete=files,
    help="Write the rubric to this YAML file, which must not be there; by default it is printed.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print what was kept and dropped as JSON.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors on standard error.")
def command(
    pairs: str | None,
    prompt: str | None,
    references: str | None,
    judging: Judging,
    most: int,
    limit: int | None,
    seed: int,
    output: str | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """Draft a rubric with golden examples, from pairs of responses or from a prompt with references.

    The model drafts criteria, and then judges by each of them. Of pairs, it drafts from a third of the
    prompts and is tested on the others: a criterion is kept when it agrees with the preferences there
    clearly more often than chance would. Of references, it is kept when they all pass it and texts about
    something else do not. What is dropped is shown, with why.
    """
    from assay.cli.suggesting import Source, Wanted, suggest_rubric

    source = Source(pairs, prompt, references, limit)
    return suggest_rubric(source, judging, Wanted(most, seed, output, as_json, quiet))
