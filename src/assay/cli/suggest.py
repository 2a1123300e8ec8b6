"""`assay suggest`: criteria drafted from references, or from pairs of which one is preferred."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli.formats import Section, figure, json_text, laid_out
from assay.cli.options import JudgeOptions, count, files, judge_options
from assay.cli.root import BROKEN, FINE, MISSED, Command
from assay.cli.terminal import counted, printable, shown_spending

if TYPE_CHECKING:
    from assay.cache import VerdictCache
    from assay.runs.pipeline import OnProgress
    from assay.suggest.suggestion import Judged, Suggestion


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
    judging: JudgeOptions,
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

    source = Source(pairs, prompt, references, limit)
    return suggest_rubric(source, judging, Wanted(most, seed, output, as_json, quiet))


@dataclass(frozen=True)
class Source:
    """What criteria are drafted from."""

    pairs: str | None
    prompt: str | None
    references: str | None
    limit: int | None


@dataclass(frozen=True)
class Wanted:
    """How many, and where they go."""

    most: int
    seed: int
    output: str | None
    as_json: bool
    quiet: bool


Work = Callable[["OnProgress | None"], Coroutine[Any, Any, "Suggestion"]]


def suggest_rubric(source: Source, judging: JudgeOptions, wanted: Wanted) -> int:
    """Draft, judge, print, and give the exit code."""
    from assay.cache import VerdictCache
    from assay.cli.runner import quiet_log, say_cost, shown_progress
    from assay.concurrency import run_sync
    from assay.models import budget

    _refuse(source, wanted)
    cache = None if judging.no_cache else VerdictCache(judging.cache)
    try:
        with quiet_log():
            work = _work(source, judging, wanted, cache)
            if judging.dry_run:
                return say_cost(work(None), lambda _: "it")
            with budget(dollars=judging.budget), shown_progress("verdicts", quiet=wanted.quiet) as tell:
                suggestion = run_sync(work(tell))
    finally:
        if cache is not None:
            cache.close()
    return _show(suggestion, wanted)


def _refuse(source: Source, wanted: Wanted) -> None:
    from_references = source.prompt is not None or source.references is not None
    if (source.pairs is not None) is from_references:
        raise click.UsageError("say what to draft from: --pairs, or --prompt with --references")
    if from_references and (source.prompt is None or source.references is None):
        raise click.UsageError("--prompt and --references go together: give both")
    if wanted.output is not None:
        _refuse_output(Path(wanted.output))


def _refuse_output(path: Path) -> None:
    """Refuse what cannot be written before anything is paid for."""
    if path.suffix.lower() not in (".yaml", ".yml"):
        raise click.UsageError(f"{path} does not end in .yaml: a rubric is written as YAML")
    if path.exists():
        raise click.UsageError(f"{path} would be overwritten: name another file")
    if not path.parent.is_dir():
        raise click.UsageError(f"{path.parent} is no folder: make it first")


def _work(source: Source, judging: JudgeOptions, wanted: Wanted, cache: VerdictCache | None) -> Work:
    from assay.cli.judges import grader_of, judge_of
    from assay.suggest.drafts import read_pairs
    from assay.suggest.suggestion import suggest_from_pairs, suggest_from_references

    model = judge_of(judging.judge, cache, is_asked=not judging.dry_run, quiet=wanted.quiet)
    grader = grader_of(judging.grader, model, guard=judging.guard)
    if source.pairs is not None:
        pairs = read_pairs(source.pairs)[: source.limit]
        return lambda tell: suggest_from_pairs(
            pairs, model, grader, most=wanted.most, seed=wanted.seed, on_progress=tell
        )
    prompt, *more = _texts(source.prompt or "")
    if more:
        raise click.UsageError(f"--prompt {source.prompt} holds several prompts: give a text file")
    references = _texts(source.references or "")
    return lambda tell: suggest_from_references(prompt, references, model, grader, most=wanted.most, on_progress=tell)


def _texts(name: str) -> list[str]:
    from assay.cli.sources import texts_of
    from assay.graders.judge_input import view_of

    if name != "-" and not Path(name).is_file():
        raise click.UsageError(f"{name} is no file: name a text, or a table")
    try:
        return [view_of(text.rollout["completion"])[1] for text in texts_of([name], "")]
    except TypeError as error:
        raise click.UsageError(f"{name}: {error}") from None


def _show(suggestion: Suggestion, wanted: Wanted) -> int:
    if wanted.as_json:
        print(json_text(suggestion.to_dict()))
    if suggestion.kept and wanted.output is not None:
        with Path(wanted.output).open("x", encoding="utf-8") as file:
            file.write(suggestion.to_yaml(Path(wanted.output).stem))
    elif suggestion.kept and not wanted.as_json:
        sys.stdout.write(suggestion.to_yaml())
    if not wanted.quiet:
        print(_told(suggestion, wanted.output), file=sys.stderr)
    if suggestion.errors or any(judged.errors for judged in suggestion.criteria):
        return BROKEN
    return FINE if suggestion.kept else MISSED


def _told(suggestion: Suggestion, output: str | None) -> str:
    kept = f"{len(suggestion.kept):,} of {counted(len(suggestion.criteria), 'criterion', 'criteria')}"
    where = f", written to {output}" if output is not None and suggestion.kept else ""
    lines = [f"{kept} kept{where}"]
    rows = [_row(judged) for judged in suggestion.criteria]
    if rows:
        lines.append(laid_out(Section(("", "criterion", "weight", "agreement", "why"), rows)))
    notes = [f"a drafter gave no proposal: {error}" for error in suggestion.errors]
    notes += [str(finding) for finding in suggestion.findings()]
    errors = sum(judged.errors for judged in suggestion.criteria)
    if errors:
        notes.append(f"{counted(errors, 'comparison')} without a verdict, counted neither way")
    return "\n\n".join([*lines, *map(printable, notes), shown_spending(suggestion.spent)])


def _row(judged: Judged) -> tuple[str, ...]:
    from assay.suggest.suggestion import UNJUDGED

    mark = "kept" if judged.kept else "dropped"
    agreement = "" if judged.agreement == UNJUDGED else figure(judged.agreement)
    weight = f"{judged.criterion.weight:+g}"
    return mark, judged.criterion.requirement or "", weight, agreement, judged.why
