"""`assay agree RUN [LABELS]`: how far the judge of a run agrees with people."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli.formats import Page, Section, figure, point
from assay.cli.options import LabelOptions, label_options, page_option
from assay.cli.root import FINE, Command
from assay.cli.terminal import counted

if TYPE_CHECKING:
    from assay.trust import Agreement, Estimate, Measures
    from assay.trust.coefficients import Confusion


@click.command(
    "agree",
    cls=Command,
    epilog="Exit code: 0; 2 when labels cannot be read or do not fit the run.",
    example="assay agree run labels.csv\nassay agree run labels.csv --again run-judged-twice",
)
@label_options
@click.option(
    "--against",
    type=click.Choice(("each", "majority")),
    default="each",
    show_default=True,
    help="Hold the judge against each rater in turn, or against what most of them say.",
)
@click.option(
    "--again",
    metavar="RUN",
    type=click.Path(exists=True, file_okay=False),
    help="A second run that judged the same rollouts: shows whether the judge says the same again.",
)
@click.option("--confusion", is_flag=True, help="Show who said what where, for every criterion.")
@page_option
def command(labelling: LabelOptions, against: str, again: str | None, confusion: bool, layout: str) -> int:
    """Say how far the judge of a saved RUN agrees with people, who are shown beside it.

    LABELS is a CSV or JSONL file with example, criterion, verdict, and if there are several, sample
    and rater. Without it, the labels that were given in the page of the run are taken.
    """
    from assay.cli.sources import opened
    from assay.trust import agree

    run = opened(labelling.run)
    found = agree(
        run,
        labelling.labels(),
        again=None if again is None else opened(again),
        reference="majority" if against == "majority" else "each",
        skip_unknown=labelling.skip_unknown,
        any_wording=labelling.any_wording,
    )
    print(page_of(found, Path(labelling.run).name, confusion=confusion).text(layout))
    return FINE


_FIGURES = {
    "accuracy": "same verdict",
    "kappa": "Cohen's kappa",
    "linear_kappa": "kappa, linear weights",
    "quadratic_kappa": "kappa, quadratic weights",
    "nominal_alpha": "Krippendorff's alpha",
    "ordinal_alpha": "alpha, ordinal",
    "interval_alpha": "alpha, interval",
    "matthews": "Matthews correlation",
    "macro_f1": "macro-F1",
    "precision": "precision of {best}",
    "recall": "recall of {best}",
    "bias": "bias (judge – people)",
}
_OF_SCALES = ("linear_kappa", "quadratic_kappa", "ordinal_alpha", "interval_alpha")
"""Figures that say nothing new where there are two choices."""


def page_of(found: Agreement, run: str, *, confusion: bool) -> Page:
    """The page; with `confusion`, a table of who said what for every criterion."""
    sections = list(_sections(found))
    if confusion:
        tables = ((each.name, each.judge.confusion) for each in found.criteria)
        sections += [_confusion(name, table) for name, table in tables if table is not None]
    return Page(f"{run}: {_title(found)}", sections, list(_notes(found)), found.to_dict())


def _title(found: Agreement) -> str:
    people = counted(len(found.raters), "person", "people") if found.raters else "people"
    sides = (side for each in found.criteria for side in (each.judge, each.people))
    examples = max(found.overall.judge.examples, *(side.examples for side in sides))
    return f"the judge against {people}, {counted(examples, 'example')}"


def _sections(found: Agreement) -> Iterator[Section]:
    judge, people = found.overall.judge, found.overall.people
    if found.overall.labelled:
        yield Section(("overall", "judge", "people"), list(_overall(judge, people)))
    yield _criteria(found)
    if len(found.raters) > 1:
        rows = [(r.rater, f"{r.labels:,}", *map(figure, (r.judge.kappa, r.others.kappa))) for r in found.raters]
        yield Section(("rater", "labels", "kappa with the judge", "with the others"), rows)
    if found.members:
        rows = [(n, figure(m.accuracy), figure(m.kappa)) for n, m in found.members.items()]
        yield Section(("judge of the panel", "same verdict", "kappa"), rows)
    yield from _consistency(found)


def _overall(judge: Measures, people: Measures) -> Iterator[tuple[str, ...]]:
    theirs, choices = people.figures(), _choices(judge) or _choices(people)
    best = choices[-1] if choices else "the best choice"
    for name, estimate in _shown(judge, len(choices)):
        beside = figure(theirs[name]) if name != "bias" else ""
        yield _FIGURES[name].format(best=best), figure(estimate), beside
    yield "pairs", f"{judge.pairs:,}", f"{people.pairs:,}"


def _shown(judge: Measures, choices: int) -> Iterator[tuple[str, Estimate]]:
    """The figures that say something about so many choices."""
    from assay.trust.coefficients import UNRANKED

    for name, estimate in judge.figures().items():
        if estimate != UNRANKED and (choices > 2 or name not in _OF_SCALES):
            yield name, estimate


def _criteria(found: Agreement) -> Section:
    columns = ["criterion", "labelled", "no answer", "same", "people", "kappa", "people", "bias"]
    scales = any(c.judge.confusion and len(_choices(c.judge)) > 2 for c in found.criteria)
    numbers = any(c.judge.pairs and not c.judge.confusion for c in found.criteria)
    if scales:
        columns += ["quadratic kappa", "people"]
    if numbers:
        columns += ["alpha, interval", "people"]
    rows: list[tuple[str, ...]] = []
    for each in found.criteria:
        judge, people = each.judge, each.people
        figures = [judge.accuracy, people.accuracy, judge.kappa, people.kappa, judge.bias]
        if scales:
            figures += [judge.quadratic_kappa, people.quadratic_kappa]
        if numbers:
            figures += [judge.interval_alpha, people.interval_alpha]
        rows.append((each.name, f"{each.labelled:,}", f"{each.unanswered:,}", *map(point, figures)))
    return Section(tuple(columns), rows)


def _choices(measures: Measures) -> list[str]:
    """The choices that were on offer; N/A is none."""
    from assay.criterion import NOT_APPLICABLE

    table = measures.confusion
    return [name for name in table.categories if name != NOT_APPLICABLE] if table else []


def _consistency(found: Agreement) -> Iterator[Section]:
    named = {"asked again": found.retest, "in the other order": found.swap}
    kept = {name: each for name, each in named.items() if each is not None}
    if not kept:
        return
    rows = [
        (
            name,
            *(figure(e) for e in (each.overall.accuracy, each.overall.kappa)),
            f"{each.overall.pairs:,}",
            f"{each.unanswered:,}",
        )
        for name, each in kept.items()
    ]
    yield Section(("the judge and itself", "same verdict", "kappa", "pairs", "no answer"), rows)


def _confusion(name: str, table: Confusion) -> Section:
    columns = (f"{name}: people down, judge across", *table.categories)
    rows = [
        (said, *(f"{count:,}" for count in counts)) for said, counts in zip(table.categories, table.counts, strict=True)
    ]
    return Section(columns, rows)


def _notes(found: Agreement) -> Iterator[str]:
    """What the tables do not say: what is missing from them, and why."""
    overall = found.overall
    unanswered = sum(each.unanswered for each in found.criteria)
    if unanswered:
        labelled = sum(each.labelled for each in found.criteria)
        yield f"the judge gave no answer to {unanswered:,} of {labelled:,} labelled criteria, which count neither way:"
        yield from (f"  {count:,} × {error}" for error, count in list(found.errors.items())[:3])
    if not any(each.people.pairs for each in found.criteria):
        yield "nobody labelled what another did too, so there is no ceiling: have some labelled twice"
    if overall.ties:
        yield f"people are split on {overall.ties:,}, which have no majority and are left out"
    for name, count in found.other_wording.items():
        yield f"left out: {counted(count, 'label')} on {name}, made for another wording (--any-wording takes them)"
    for what, count in found.skipped.items():
        yield f"left out: {counted(count, 'label')}, {what}"
    yield from _undefined(overall.judge)


def _undefined(judge: Measures) -> Iterator[str]:
    """Why a figure of the judge has no value; a reason that holds for several is told once."""
    from assay.trust.coefficients import UNRANKED

    reasons: dict[str, str] = {}
    for name, estimate in _shown(judge, len(_choices(judge))) if judge.pairs else ():
        if estimate.value is None:
            reasons.setdefault(estimate.reason, name)
    for reason, name in reasons.items():
        yield f"no {_FIGURES[name].format(best='the best choice')}: {reason}"
    if UNRANKED in judge.figures().values():
        yield f"{UNRANKED.reason}: what needs one is left out overall"
