"""`assay suggest`: draft criteria from references, or from pairs of which one is preferred."""

from __future__ import annotations

import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import click

from assay import cli, suggest
from assay.display import Section, laid_out, printable
from assay.wording import counted


class SuggestOptions(cli.JudgingOptions):
    """What criteria are drafted from, how many, and where they go."""

    pairs: str | None = cli.value_of()
    prompt: str | None = cli.value_of()
    references: str | None = cli.value_of()
    most: int = cli.value_of(cli.positive, 12)
    limit: int | None = cli.value_of(cli.positive)
    seed: int = cli.value_of(cli.count, 0)
    output: str | None = cli.value_of()
    as_json: bool = cli.value_of()
    quiet: bool = cli.value_of()

    def __post_init__(self) -> None:
        super().__post_init__()
        from_references = self.prompt is not None or self.references is not None
        if (self.pairs is not None) is from_references:
            raise click.UsageError("say what to draft from: --pairs, or --prompt with --references")
        if from_references and (self.prompt is None or self.references is None):
            raise click.UsageError("--prompt and --references go together: give both")
        if self.output is None:
            return
        # Refused before anything is paid for.
        path = Path(self.output)
        if path.suffix.lower() not in (".yaml", ".yml"):
            raise click.UsageError(f"{path} does not end in .yaml: a rubric is written as YAML")
        if path.exists():
            raise click.UsageError(f"{path} would be overwritten: name another file")
        if not path.parent.is_dir():
            raise click.UsageError(f"{path.parent} is no folder: make it first")


@cli.declare("suggest")
def command(options: SuggestOptions) -> int:
    """Draft a rubric with golden examples, from pairs of responses or from a prompt with references.

    The model drafts criteria, and then judges by each of them. Of pairs, it drafts from a third of the
    prompts and is tested on the others: a criterion is kept when it agrees with the preferences there
    clearly more often than chance would. Of references, it is kept when they all pass it and texts about
    something else do not. What is dropped is shown, with why.
    """
    with cli.opened_cache(options) as cache:
        model = cli.judge_of(options, cache, quiet=options.quiet)
        grader = cli.grader_of(options, model)
        pairs = None if options.pairs is None else suggest.read_pairs(options.pairs)[: options.limit]
        prompts = _texts(options.prompt)
        if len(prompts) > 1:
            raise click.UsageError(f"--prompt {options.prompt} holds several prompts: give a text file")
        references = _texts(options.references)

        def work(under: cli.Conditions) -> Coroutine[Any, Any, suggest.Suggestion]:
            how: dict[str, Any] = {"most": options.most, "on_progress": under.on_progress}
            if pairs is not None:
                return suggest.suggest_from_pairs(pairs, model, grader, seed=options.seed, **how)
            return suggest.suggest_from_references(prompts[0], references, model, grader, **how)

        return cli.run_work(
            work, lambda suggestion, _: _show(suggestion, options), options, what=lambda _: "it", noun="verdicts",
            quiet=options.quiet, can_wait=False,
        )  # fmt: skip


def _texts(name: str | None) -> list[str]:
    from assay.graders.judge_input import view_of

    if name is None:
        return []
    if name != "-" and not Path(name).is_file():
        raise click.UsageError(f"{name} is no file: name a text, or a table")
    try:
        return [view_of(rollout["completion"])[1] for _, rollout in cli.texts_of([name])]
    except TypeError as error:
        raise click.UsageError(f"{name}: {error}") from None


def _show(suggestion: suggest.Suggestion, options: SuggestOptions) -> int:
    if options.as_json:
        print(cli.json_text(suggestion.to_dict()))
    if suggestion.kept and options.output is not None:
        with Path(options.output).open("x", encoding="utf-8") as file:
            file.write(suggestion.to_yaml(Path(options.output).stem))
    elif suggestion.kept and not options.as_json:
        sys.stdout.write(suggestion.to_yaml())
    errors = sum(judged.errors for judged in suggestion.criteria)
    if not options.quiet:
        print("\n\n".join(_told(suggestion, options.output, errors)), file=sys.stderr)
    if suggestion.errors or errors:
        return cli.BROKEN
    return cli.FINE if suggestion.kept else cli.MISSED


def _told(suggestion: suggest.Suggestion, output: str | None, errors: int) -> list[str]:
    from assay.suggest.suggestion import UNJUDGED

    kept = f"{len(suggestion.kept):,} of {counted(len(suggestion.criteria), 'criterion', 'criteria')}"
    parts = [f"{kept} kept{f', written to {output}' if output is not None and suggestion.kept else ''}"]
    rows: list[tuple[object, ...]] = []
    for judged in suggestion.criteria:
        requirement, weight = judged.criterion.requirement or "", f"{judged.criterion.weight:+g}"
        agreement = "" if judged.agreement == UNJUDGED else judged.agreement
        rows.append(("kept" if judged.kept else "dropped", requirement, weight, agreement, judged.why))
    if rows:
        parts.append(laid_out(Section(("", "criterion", "weight", "agreement", "why"), rows)))
    parts += [printable(f"a drafter gave no proposal: {error}") for error in suggestion.errors]
    parts += [printable(str(finding)) for finding in suggestion.findings()]
    if errors:
        parts.append(f"{counted(errors, 'comparison')} without a verdict, counted neither way")
    return [*parts, cli.shown_spending(suggestion.spent)]
