"""`assay grade TEXT -r RUBRIC`: texts, graded with a rubric."""

import click

from assay.cli.options import (
    Judging,
    Rubrics,
    Showing,
    judge_options,
    rubric_options,
    show_options,
)
from assay.cli.root import Command


@click.command(
    "grade",
    cls=Command,
    epilog="Exit code: 0 all scored, 100 a threshold missed, 1 one unscored, 2 bad usage.",
    example="assay grade rollouts.jsonl -r rubric.yaml",
)
@click.argument("texts", nargs=-1, required=True, metavar="TEXT...")
@rubric_options()
@click.option("--text", "are_words", is_flag=True, help="Every TEXT is words, and no file.")
@click.option("--query", default="", help="What was asked, where a row does not say.")
@judge_options("-m", "--model")
@show_options
def command(
    texts: tuple[str, ...],
    rubrics: Rubrics,
    are_words: bool,
    query: str,
    judging: Judging,
    showing: Showing,
) -> int:
    """Grade texts with a rubric, and print a report of each.

    A TEXT is a file, - for standard input, a .jsonl file with one text a line (completion, prompt,
    answer), or the words themselves.
    """
    from assay.cli.grading import grade
    from assay.cli.sources import rubric_of, texts_of

    rubric = rubric_of(rubrics)
    return grade(rubric, texts_of(texts, query, are_words=are_words), judging, showing)
