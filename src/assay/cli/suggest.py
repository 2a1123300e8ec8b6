"""`assay suggest`: draft criteria from references, or from preference pairs."""

from __future__ import annotations

import sys
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay import suggest
from assay.cli.base_command import EXIT_ERROR, EXIT_OK, EXIT_THRESHOLD, Command, print_note
from assay.cli.formats import describe_spending, to_json
from assay.cli.inputs import read_texts
from assay.cli.judging import make_grader, make_judge_model, open_cache
from assay.cli.options import JudgingOptions, count, judging_options, positive, quiet_option
from assay.cli.runner import Interrupt, run_command
from assay.display import Section, escape_control_characters, format_table
from assay.wording import format_count

if TYPE_CHECKING:
    from assay.models import Ledger
    from assay.runs.pipeline import OnProgress


@click.command(
    "suggest",
    cls=Command,
    epilog="Exit codes: 0 a rubric was drafted, 100 no criterion was kept, 1 something was not "
    "judged or drafted, 2 bad usage.",
    example="assay suggest --pairs pairs.jsonl --judge openai/gpt-5-mini -o rubric.yaml\n"
    "assay suggest --prompt task.txt --references answers.jsonl --judge openai/gpt-5-mini --dry-run",
)
@click.option(
    "--pairs",
    metavar="FILE",
    type=click.Path(),
    help="A table with prompt, chosen and rejected.",
)
@click.option("--prompt", metavar="FILE", type=click.Path(), help="A text file with the task.")
@click.option(
    "--references",
    metavar="FILE",
    type=click.Path(),
    help="With --prompt: good answers, one in a text file, or one in each row of a table.",
)
@click.option(
    "--most",
    metavar="N",
    type=positive,
    default=12,
    show_default=True,
    help="How many drafted criteria to judge.",
)
@click.option("--limit", metavar="N", type=positive, help="Use only the first N pairs.")
@click.option(
    "--seed",
    metavar="N",
    type=count,
    default=0,
    show_default=True,
    help="The random seed for the pairs that the drafter sees.",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(),
    help="The new YAML file to write; by default the rubric is printed.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what was kept and dropped as JSON.")
@quiet_option
@judging_options
def command(**values: Any) -> int:
    """Draft a rubric with golden examples, from pairs of responses or from a prompt with references.

    The model drafts criteria, and then judges by each of them. From pairs, criteria are drafted on a
    third of the prompts and tested on the others: a criterion is kept if it agrees with the
    preferences significantly more often than chance. From references, a criterion is kept if all
    references pass it and unrelated texts do not. Dropped criteria are shown with the reason.
    """
    options = SuggestOptions(**values)
    output = None
    if options.output is not None:
        output = _check_output(options.output)  # before anything is paid for
    with open_cache(options) as cache:
        model = make_judge_model(options, cache, quiet=options.quiet)
        grader = make_grader(options, model)
        pairs: list[suggest.Pair] | None = None
        if options.pairs is not None:
            pairs = suggest.read_pairs(options.pairs)[: options.limit]
        prompts = _read_texts(options.prompt)
        references = _read_texts(options.references)
        if len(prompts) > 1:
            raise click.UsageError(
                f"--prompt {options.prompt} holds several prompts: give a text file"
            )

        def work(
            on_progress: OnProgress | None, interrupt: Interrupt
        ) -> Coroutine[Any, Any, suggest.Suggestion]:
            if pairs is not None:
                return suggest.suggest_from_pairs(
                    pairs,
                    model,
                    grader,
                    seed=options.seed,
                    most=options.most,
                    on_progress=on_progress,
                )
            return suggest.suggest_from_references(
                prompts[0],
                references,
                model,
                grader,
                most=options.most,
                on_progress=on_progress,
            )

        def print_result(suggestion: suggest.Suggestion, spent: Ledger) -> int:
            return _print_suggestion(suggestion, output, options)

        return run_command(
            work,
            options=options,
            quiet=options.quiet,
            noun="verdicts",
            describe_size=lambda _: "it",  # for a dry run: "it would take 3 calls"
            print_result=print_result,
            checks_interrupt=False,  # the first Ctrl-C cancels the work
        )


@dataclass(frozen=True, kw_only=True)
class SuggestOptions(JudgingOptions):
    """The options of `assay suggest`."""

    pairs: str | None
    prompt: str | None
    references: str | None
    most: int
    limit: int | None
    seed: int
    output: str | None
    as_json: bool
    quiet: bool

    def __post_init__(self) -> None:
        """Raise a usage error for options that do not go together."""
        has_pairs = self.pairs is not None
        has_prompt = self.prompt is not None
        has_references = self.references is not None
        has_both = has_pairs and (has_prompt or has_references)
        has_nothing = not has_pairs and not has_prompt and not has_references
        if has_both or has_nothing:
            raise click.UsageError("give either --pairs, or --prompt and --references")
        if has_prompt != has_references:
            raise click.UsageError("--prompt and --references go together: give both")


def _check_output(name: str) -> Path:
    """Return the path of a new YAML file; raise a usage error if it cannot be written."""
    path = Path(name)
    if path.suffix.lower() not in (".yaml", ".yml"):
        raise click.UsageError(f"{path} must end in .yaml: a rubric is written as YAML")
    if path.exists():
        raise click.UsageError(f"{path} would be overwritten: name another file")
    if not path.parent.is_dir():
        raise click.UsageError(f"{path.parent} is not a folder: create it first")
    return path


def _read_texts(name: str | None) -> list[str]:
    """Return the text of a file, or the texts of a table; an empty list if no file is named."""
    from assay.graders.judge_input import read_to_grade

    if name is None:
        return []
    if name != "-" and not Path(name).is_file():
        raise click.UsageError(f"{name} is not a file: name a text, or a table")
    texts: list[str] = []
    for text in read_texts([name]):
        try:
            # The text that a judge would read, also if the completion is a list of messages.
            _, text_for_judge = read_to_grade(text.rollout["completion"])
        except TypeError as error:
            raise click.UsageError(f"{name}: {error}") from None
        texts.append(text_for_judge)
    return texts


def _print_suggestion(
    suggestion: suggest.Suggestion, output: Path | None, options: SuggestOptions
) -> int:
    """Write a rubric of the criteria that were kept to `output`, or print it if `output` is None.

    With `--json`, print the whole suggestion instead of a rubric. What was kept and dropped goes to
    stderr. Returns the exit code.
    """
    if options.as_json:
        print(to_json(suggestion.to_dict()))
    if suggestion.kept and output is not None:
        rubric_name = output.stem
        with output.open("x", encoding="utf-8") as file:
            file.write(suggestion.to_yaml(rubric_name))
    elif suggestion.kept and not options.as_json:
        sys.stdout.write(suggestion.to_yaml())
    # While the suggested criteria were tried; `suggestion.errors` are those before that.
    error_count = sum(judged.errors for judged in suggestion.criteria)
    paragraphs = _describe_suggestion(suggestion, output, error_count)
    print_note("\n\n".join(paragraphs), quiet=options.quiet)
    if suggestion.errors or error_count:
        return EXIT_ERROR
    if not suggestion.kept:
        return EXIT_THRESHOLD
    return EXIT_OK


def _describe_suggestion(
    suggestion: suggest.Suggestion, output: Path | None, error_count: int
) -> Iterator[str]:
    """Yield paragraphs: how many criteria were kept, each criterion, what went wrong, and the cost."""
    total = format_count(len(suggestion.criteria), "criterion", "criteria")
    summary = f"{len(suggestion.kept):,} of {total} kept"
    if output is not None and suggestion.kept:
        summary += f", written to {output}"
    yield summary
    if suggestion.criteria:
        yield _format_criteria(suggestion)
    for error in suggestion.errors:
        yield escape_control_characters(f"a drafter gave no proposal: {error}")
    for finding in suggestion.findings():  # of `assay lint` in the drafted rubric
        yield escape_control_characters(str(finding))
    if error_count:
        yield f"{format_count(error_count, 'comparison')} without a verdict, left out"
    yield describe_spending(suggestion.spent)


def _format_criteria(suggestion: suggest.Suggestion) -> str:
    """Return the table of drafted criteria, kept or dropped, with the reason."""
    from assay.suggest.suggestion import UNJUDGED

    rows: list[tuple[object, ...]] = []
    for judged in suggestion.criteria:
        criterion = judged.criterion
        # From references there are no pairs of responses, so there is no agreement with people.
        has_agreement = judged.agreement != UNJUDGED
        rows.append(
            (
                "kept" if judged.kept else "dropped",
                criterion.requirement or "",
                f"{criterion.weight:+g}",
                judged.agreement if has_agreement else "",
                judged.why,
            )
        )
    return format_table(Section(("", "criterion", "weight", "agreement", "why"), rows))
