"""`assay compare RUN_A RUN_B`: say whether the second run is better, example by example."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from assay import trust
from assay.cli.formats import Page, Section, chance, shortened
from assay.cli.options import count, opened, option, page_option, run_folder
from assay.cli.root import BROKEN, FINE, MISSED, Command
from assay.wording import counted

_REASON = 70  # characters of a reason that a table has room for; JSON has all of it


@click.command(
    "compare", cls=Command, example="assay compare run-before run-after --flips 20",
    epilog="Exit code: 0; 1 when no example has a score in both runs; 100 with --fail-if-worse when the score "
    "has fallen beyond chance; 2 when the runs cannot be compared.",
)  # fmt: skip
@click.argument("run_a", type=run_folder)
@click.argument("run_b", type=run_folder)
@option("--flips N", "How many of the rollouts that changed to show.", count, 10)
@option("--fail-if-worse", "Exit with 100 when the score has fallen beyond chance.")
@page_option
def command(run_a: str, run_b: str, flips: int, fail_if_worse: bool, layout: str) -> int:
    """Hold RUN_B against RUN_A, paired by example, and say whether the difference could be chance.

    Repeated rollouts of an example count as one. P-values of criteria are adjusted for their number.
    """
    found = trust.compare(opened(run_a), opened(run_b))
    names = Path(run_a).name, Path(run_b).name
    title = f"{names[1]} against {names[0]}: {counted(found.examples, 'example')} in both"
    sections = [_differences(found, names), _flips(found, flips)]
    print(Page(title, sections, list(_notes(found, flips)), found.to_dict()).text(layout))
    if not found.score.examples:
        return BROKEN
    return MISSED if fail_if_worse and found.score.fell else FINE


def _differences(found: trust.Comparison, names: tuple[str, str]) -> Section:
    def three(value: float | None) -> str | None:
        return None if value is None else f"{value:.3f}"

    columns = ("", *names, "difference", "p", "better", "worse", "minimum detectable effect")
    rows = [
        (
            each.name,
            three(each.first),
            three(each.second),
            each.difference.to_digits(3),
            chance(each.p),
            each.better,
            each.worse,
            three(each.minimum_detectable_effect),
        )
        for each in (found.score, *found.criteria)
    ]
    return Section(columns, rows)


def _flips(found: trust.Comparison, most: int) -> Section:
    rows: list[tuple[str, ...]] = []
    for flip in found.flips[:most]:
        name = f"{flip.example} #{flip.sample}" if flip.sample else flip.example
        scores = " → ".join("–" if score is None else f"{score:.3g}" for score in (flip.before, flip.after))
        turns = [
            (change.criterion, f"{change.before} → {change.after}", shortened(change.reason_after, _REASON))
            for change in flip.changes
        ]
        first, *rest = turns or [("", "", "")]
        rows += [(name, scores, *first), *(("", "", *turn) for turn in rest)]
    return Section(("flipped", "score", "criterion", "verdict", "why now"), rows)


def _notes(found: trust.Comparison, flips: int) -> Iterator[str]:
    for side, number in (("first", found.only_first), ("second", found.only_second)):
        if number:
            yield f"{counted(number, 'example')} only in the {side} run"
    if found.other_prompt:
        yield f"{counted(found.other_prompt, 'example')} with the same name and another prompt: not compared"
    if found.other_rubric:
        yield "the rubrics differ, so the scores are not by the same rule"
    for name in found.other_wording:
        yield f"{name} is worded otherwise in the second run: not compared"
    for side, names in found.missing.items():
        if names:
            yield f"only in the {side} run: {', '.join(names)}"
    first, second = found.score.unanswered
    if first or second:
        yield f"unscored and left out: {first:,} rollouts of the first run, {second:,} of the second"
    if len(found.flips) > flips:
        yield f"{counted(len(found.flips), 'rollout')} came out otherwise; --flips {len(found.flips)} shows all"
