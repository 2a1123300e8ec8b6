"""`assay suggest`: draft criteria from references, or from pairs of which one is preferred."""

from __future__ import annotations

import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import click

from assay import cli, suggest
from assay.display import Section, escape_control_characters, format_table
from assay.wording import format_count


@cli.declare("suggest")
def command(
    options: cli.JudgingOptions,
    pairs: str | None = cli.value_of(),
    prompt: str | None = cli.value_of(),
    references: str | None = cli.value_of(),
    most: int = cli.value_of(cli.positive, 12),
    limit: int | None = cli.value_of(cli.positive),
    seed: int = cli.value_of(cli.count, 0),
    output: str | None = cli.value_of(),
    as_json: bool = cli.value_of(),
    quiet: bool = cli.value_of(),
) -> int:
    """Draft a rubric with golden examples, from pairs of responses or from a prompt with references.

    The model drafts criteria, and then judges by each of them. Of pairs, it drafts from a third of the
    prompts and is tested on the others: a criterion is kept when it agrees with the preferences there
    clearly more often than chance would. Of references, it is kept when they all pass it and texts about
    something else do not. What is dropped is shown, with why.
    """
    if (pairs is None) is (prompt is None and references is None):
        raise click.UsageError("say what to draft from: --pairs, or --prompt with --references")
    if (prompt is None) is not (references is None):
        raise click.UsageError("--prompt and --references go together: give both")
    path = None if output is None else _new_file(output)  # refused before anything is paid for
    with cli.opened_cache(options) as cache:
        model = cli.judge_of(options, cache, quiet=quiet)
        grader = cli.grader_of(options, model)
        told = None if pairs is None else suggest.read_pairs(pairs)[:limit]
        prompts, good = _texts(prompt), _texts(references)
        if len(prompts) > 1:
            raise click.UsageError(f"--prompt {prompt} holds several prompts: give a text file")

        def work(under: cli.Conditions) -> Coroutine[Any, Any, suggest.Suggestion]:
            how: dict[str, Any] = {"most": most, "on_progress": under.on_progress}
            if told is not None:
                return suggest.suggest_from_pairs(told, model, grader, seed=seed, **how)
            return suggest.suggest_from_references(prompts[0], good, model, grader, **how)

        def show(suggestion: suggest.Suggestion, _: cli.Ledger) -> int:
            if as_json:
                print(cli.json_text(suggestion.to_dict()))
            if suggestion.kept and path is not None:
                with path.open("x", encoding="utf-8") as file:
                    file.write(suggestion.to_yaml(path.stem))
            elif suggestion.kept and not as_json:
                sys.stdout.write(suggestion.to_yaml())
            errors = sum(judged.errors for judged in suggestion.criteria)
            cli.say("\n\n".join(_told(suggestion, path, errors)), quiet=quiet)
            if suggestion.errors or errors:
                return cli.BROKEN
            return cli.FINE if suggestion.kept else cli.MISSED

        return cli.run_work(
            work, show, options, what=lambda _: "it", noun="verdicts", quiet=quiet, can_wait=False
        )


def _new_file(name: str) -> Path:
    path = Path(name)
    if path.suffix.lower() not in (".yaml", ".yml"):
        raise click.UsageError(f"{path} does not end in .yaml: a rubric is written as YAML")
    if path.exists():
        raise click.UsageError(f"{path} would be overwritten: name another file")
    if not path.parent.is_dir():
        raise click.UsageError(f"{path.parent} is no folder: make it first")
    return path


def _texts(name: str | None) -> list[str]:
    if name is None:
        return []
    if name != "-" and not Path(name).is_file():
        raise click.UsageError(f"{name} is no file: name a text, or a table")
    try:
        return [cli.read_to_grade(rollout["completion"])[1] for _, rollout in cli.texts_of([name])]
    except TypeError as error:
        raise click.UsageError(f"{name}: {error}") from None


def _told(suggestion: suggest.Suggestion, output: Path | None, errors: int) -> list[str]:
    kept = f"{len(suggestion.kept):,} of {format_count(len(suggestion.criteria), 'criterion', 'criteria')}"
    parts = [
        f"{kept} kept{f', written to {output}' if output is not None and suggestion.kept else ''}"
    ]
    rows: list[tuple[object, ...]] = []
    for judged in suggestion.criteria:
        requirement, weight = judged.criterion.requirement or "", f"{judged.criterion.weight:+g}"
        agreement = "" if judged.agreement == cli.UNJUDGED else judged.agreement
        rows.append(
            ("kept" if judged.kept else "dropped", requirement, weight, agreement, judged.why)
        )
    if rows:
        parts.append(format_table(Section(("", "criterion", "weight", "agreement", "why"), rows)))
    parts += [
        escape_control_characters(f"a drafter gave no proposal: {error}")
        for error in suggestion.errors
    ]
    parts += [escape_control_characters(str(finding)) for finding in suggestion.findings()]
    if errors:
        parts.append(f"{format_count(errors, 'comparison')} without a verdict, counted neither way")
    return [*parts, cli.shown_spending(suggestion.spent)]
