"""`assay correct RUN [LABELS]`: the score of a run with the judge's bias taken out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli.formats import Page, Section, chance, figure, point
from assay.cli.options import LabelOptions, label_options, page_option
from assay.cli.root import BROKEN, FINE, Command
from assay.cli.terminal import counted

if TYPE_CHECKING:
    from assay.trust import Corrected, Correction, Drift


@click.command(
    "correct",
    cls=Command,
    epilog="Exit code: 0; 1 when every correction was refused; 2 when labels cannot be read or do not fit.",
    example="assay correct run labels.csv\nassay correct run labels.csv --drift run-of-last-month",
)
@label_options
@click.option(
    "--drift",
    "earlier",
    metavar="RUN",
    type=click.Path(exists=True, file_okay=False),
    help="An earlier run that judged the same rollouts: says whether the judge has moved since.",
)
@page_option
def command(labelling: LabelOptions, earlier: str | None, layout: str) -> int:
    """Say what a saved RUN would come to if people had judged all of it, from LABELS on some.

    The labelled rollouts have to be drawn at random from the run. At least 30 are needed, and a judge that
    is better than chance.
    """
    from assay.cli.sources import opened
    from assay.trust import correct, drift_between

    run, labels = opened(labelling.run), labelling.labels()
    taken: dict[str, Any] = {"skip_unknown": labelling.skip_unknown, "any_wording": labelling.any_wording}
    found = correct(run, labels, **taken)
    drift = None if earlier is None else drift_between(opened(earlier), run, labels, **taken)
    print(page_of(found, drift, Path(labelling.run).name).text(layout))
    return FINE if any(each.corrected for each in found.figures) else BROKEN


def page_of(found: Correction, drift: Drift | None, run: str) -> Page:
    """The page; with a `drift`, how far the judge has moved."""
    sections = [_corrected(found.figures), _rates(found.figures)]
    notes, data = list(_notes(found)), found.to_dict()
    if drift is not None:
        sections.append(_drift(drift))
        notes += _drift_notes(drift)
        data["drift"] = drift.to_dict()
    kept = [section for section in sections if section.rows]
    return Page(f"{run}: as people would have judged it", kept, notes, data)


def _corrected(figures: Sequence[Corrected]) -> Section:
    columns = ("", "judge", "corrected", "Rogan–Gladen", "labels alone", "labels", "rollouts", "to halve")
    rows = [
        (
            each.name,
            figure(each.judge),
            figure(each.best),
            figure(each.corrected["rogan_gladen"]) if "rogan_gladen" in each.corrected else "",
            figure(each.people),
            f"{each.labels:,}",
            f"{each.rollouts:,}",
            _to_halve(each),
        )
        for each in figures
    ]
    return Section(columns, rows)


def _to_halve(each: Corrected) -> str:
    """How many more labels would halve the interval; or what is left of it when all is labelled."""
    if not each.corrected or each.left_at_most is None:
        return "–"
    if each.more_labels is not None:
        return f"{each.more_labels:,} more labels"
    return f"all labelled leaves {each.left_at_most:.0%}"


def _rates(figures: Sequence[Corrected]) -> Section:
    rows = [
        (each.name, figure(each.sensitivity), figure(each.specificity))
        for each in figures
        if each.sensitivity.value is not None or each.specificity.value is not None
    ]
    return Section(("the judge", "sensitivity", "specificity"), rows)


def _drift(drift: Drift) -> Section:
    rows = [
        (
            moved.name,
            f"{moved.before:.2f}",
            f"{moved.after:.2f}",
            figure(moved.change),
            chance(moved.p),
            " to ".join(map(point, moved.accuracy)) if moved.accuracy else "",
        )
        for moved in drift.criteria
    ]
    return Section(("since the earlier run", "before", "now", "change", "p", "agrees with people"), rows)


def _notes(found: Correction) -> Iterator[str]:
    if found.no_score:
        yield f"score: {found.no_score}"
    for each in found.figures:
        if each.refusal:
            yield f"{each.name}: refused, {each.refusal}"
        if each.warning:
            yield f"{each.name}: {each.warning}"
        if each.unanswered:
            yield f"{each.name}: left out {counted(each.unanswered, 'rollout')} without an answer of the judge"
    for name, count in found.other_wording.items():
        yield f"left out: {counted(count, 'label')} on {name}, made for another wording (--any-wording takes them)"
    for what, count in found.skipped.items():
        yield f"left out: {counted(count, 'label')}, {what}"


def _drift_notes(drift: Drift) -> Iterator[str]:
    moved = ", ".join(drift.moved)
    yield f"the judge has moved on {moved}" if moved else "nothing shows that the judge has moved"
    if drift.changed:
        yield f"{counted(drift.changed, 'rollout')} with another completion say nothing about the judge"
