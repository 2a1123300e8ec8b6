"""`assay compare RUN_A RUN_B`: whether the second run is better, example by example."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli.formats import Page, Section, chance, figure
from assay.cli.options import count, page_option
from assay.cli.root import BROKEN, FINE, MISSED, Command
from assay.cli.terminal import counted, shortened

if TYPE_CHECKING:
    from assay.trust import Comparison
    from assay.trust.comparison import Difference, Flip


_folder = click.Path(exists=True, file_okay=False)


@click.command(
    "compare",
    cls=Command,
    epilog="Exit code: 0; 1 when no example has a score in both runs; 100 with --fail-if-worse when the score "
    "has fallen beyond chance; 2 when the runs cannot be compared.",
    example="assay compare run-before run-after --flips 20",
)
@click.argument("run_a", type=_folder)
@click.argument("run_b", type=_folder)
@click.option(
    "--flips",
    type=count(),
    default=10,
    show_default=True,
    metavar="N",
    help="How many of the rollouts that changed to show.",
)
@click.option("--fail-if-worse", is_flag=True, help="Exit with 100 when the score has fallen beyond chance.")
@page_option
def command(run_a: str, run_b: str, flips: int, fail_if_worse: bool, layout: str) -> int:
    """Hold RUN_B against RUN_A, paired by example, and say whether the difference could be chance.

    Repeated rollouts of an example count as one. P-values of criteria are adjusted for their number.
    """
    from assay.cli.sources import opened
    from assay.trust import compare

    found = compare(opened(run_a), opened(run_b))
    names = Path(run_a).name, Path(run_b).name
    print(page_of(found, names, flips).text(layout))
    if not found.score.examples:
        return BROKEN
    return MISSED if fail_if_worse and found.score.fell else FINE


_REASON = 70
"""Characters of a reason that a table has room for; JSON has all of it."""


def page_of(found: Comparison, names: tuple[str, str], flips: int) -> Page:
    """The page, with so many of the rollouts that changed."""
    sections = [_differences(found, names)]
    if flips and found.flips:
        sections.append(_flips(found.flips[:flips]))
    title = f"{names[1]} against {names[0]}: {counted(found.examples, 'example')} in both"
    return Page(title, sections, list(_notes(found, flips)), found.to_dict())


def _differences(found: Comparison, names: tuple[str, str]) -> Section:
    columns = ("", *names, "difference", "p", "better", "worse", "minimum detectable effect")
    return Section(columns, [_cells(each) for each in (found.score, *found.criteria)])


def _cells(each: Difference) -> tuple[str, ...]:
    least = "–" if each.minimum_detectable_effect is None else f"{each.minimum_detectable_effect:.3f}"
    means = ("–" if mean is None else f"{mean:.3f}" for mean in (each.first, each.second))
    turned = f"{each.better:,}", f"{each.worse:,}"
    return (each.name, *means, figure(each.difference, 3), chance(each.p), *turned, least)


def _flips(flips: Sequence[Flip]) -> Section:
    rows: list[tuple[str, ...]] = []
    for flip in flips:
        name = f"{flip.example} #{flip.sample}" if flip.sample else flip.example
        scores = " → ".join("–" if s is None else f"{s:.3g}" for s in (flip.before, flip.after))
        if not flip.changes:
            rows.append((name, scores, "", "", ""))
        for place, change in enumerate(flip.changes):
            turn = f"{change.before} → {change.after}"
            head = (name, scores) if place == 0 else ("", "")
            rows.append((*head, change.criterion, turn, shortened(change.reason_after, _REASON)))
    return Section(("flipped", "score", "criterion", "verdict", "why now"), rows)


def _notes(found: Comparison, flips: int) -> Iterator[str]:
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
