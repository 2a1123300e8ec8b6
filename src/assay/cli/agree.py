"""`assay agree RUN [LABELS]...`: say how far the judge of a run agrees with people."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from assay import cli, trust
from assay.display import Page, Section
from assay.lazy import read_toml
from assay.wording import format_count


@cli.declare("agree")
def command(
    options: cli.LabelOptions,
    against: Literal["each", "majority"] = cli.value_of(("each", "majority"), "each"),
    again: str | None = cli.value_of(cli.run_folder),
    confusion: bool = cli.value_of(),
    layout: str = cli.value_of(cli.PAGES, "table"),
) -> None:
    """Measure how far the judge of a saved RUN agrees with people, and how far people agree with each other.

    LABELS are CSV or JSONL files with example, criterion, verdict, and if there are several, sample
    and rater. Several files are merged. Without any, the files labels*.jsonl in the folder of the
    run are read, which hold the labels that were given in its page.
    """
    found = trust.agree(
        cli.opened(options.run),
        options.labels(),
        again=None if again is None else cli.opened(again),
        reference=against,
        skip_unknown=options.skip_unknown,
        any_wording=options.any_wording,
    )
    sides = [side for each in found.criteria for side in (each.judge, each.people)]
    examples = max(side.examples for side in (found.overall.judge, *sides))
    people = format_count(len(found.raters), "person", "people") if found.raters else "people"
    title = (
        f"{Path(options.run).name}: the judge against {people}, {format_count(examples, 'example')}"
    )
    sections = list(_sections(found, confusion=confusion))
    print(cli.page_text(Page(title, sections, list(_notes(found)), found.to_dict()), layout))


_FIGURES: dict[str, str] = read_toml("assay.cli", "figures.toml")
_OF_SCALES = (
    "linear_kappa",
    "quadratic_kappa",
    "ordinal_alpha",
    "interval_alpha",
)  # nothing new of two choices


def _choices(measures: trust.Measures) -> list[str]:
    table = measures.confusion
    return [name for name in table.categories if name != cli.NOT_APPLICABLE] if table else []


def _shown(judge: trust.Measures, choices: int) -> Iterator[tuple[str, trust.Estimate]]:
    """The figures that say something about so many choices."""
    for name, estimate in judge.figures().items():
        if estimate != cli.UNRANKED and (choices > 2 or name not in _OF_SCALES):
            yield name, estimate


def _sections(found: trust.Agreement, *, confusion: bool) -> Iterator[Section]:
    judge, people = found.overall.judge, found.overall.people
    if found.overall.labelled:
        theirs, choices = people.figures(), _choices(judge) or _choices(people)
        best = choices[-1] if choices else "the best choice"
        rows: list[tuple[object, ...]] = [
            (_FIGURES[name].format(best=best), estimate, "" if name == "bias" else theirs[name])
            for name, estimate in _shown(judge, len(choices))
        ]
        yield Section(("overall", "judge", "people"), [*rows, ("pairs", judge.pairs, people.pairs)])
    yield _criteria(found)
    if len(found.raters) > 1:
        rows = [
            (rater.rater, rater.labels, rater.judge.kappa, rater.others.kappa)
            for rater in found.raters
        ]
        yield Section(("rater", "labels", "kappa with the judge", "with the others"), rows)
    rows = [(name, member.accuracy, member.kappa) for name, member in found.members.items()]
    yield Section(("judge of the panel", "same verdict", "kappa"), rows)
    rows = [
        (name, each.overall.accuracy, each.overall.kappa, each.overall.pairs, each.unanswered)
        for name, each in (("asked again", found.retest), ("in the other order", found.swap))
        if each is not None
    ]
    yield Section(("the judge and itself", "same verdict", "kappa", "pairs", "no answer"), rows)
    for each in found.criteria if confusion else ():
        if table := each.judge.confusion:
            rows = [
                (said, *counts) for said, counts in zip(table.categories, table.counts, strict=True)
            ]
            yield Section((f"{each.name}: people down, judge across", *table.categories), rows)


def _criteria(found: trust.Agreement) -> Section:
    columns = ["criterion", "labelled", "no answer", "same", "people", "kappa", "people", "bias"]
    scales = any(c.judge.confusion and len(_choices(c.judge)) > 2 for c in found.criteria)
    numbers = any(c.judge.pairs and not c.judge.confusion for c in found.criteria)
    columns += ["quadratic kappa", "people"] if scales else []
    columns += ["alpha, interval", "people"] if numbers else []
    rows: list[tuple[object, ...]] = []
    for each in found.criteria:
        judge, people = each.judge, each.people
        figures = [judge.accuracy, people.accuracy, judge.kappa, people.kappa, judge.bias]
        figures += [judge.quadratic_kappa, people.quadratic_kappa] if scales else []
        figures += [judge.interval_alpha, people.interval_alpha] if numbers else []
        rows.append((each.name, each.labelled, each.unanswered, *map(cli.point, figures)))
    return Section(columns, rows)


def _notes(found: trust.Agreement) -> Iterator[str]:
    """What the tables do not say: what is missing from them, and why."""
    judge, unanswered = found.overall.judge, sum(each.unanswered for each in found.criteria)
    if unanswered:
        labelled = sum(each.labelled for each in found.criteria)
        yield f"the judge gave no answer to {unanswered:,} of {labelled:,} labelled criteria, which count neither way:"
        yield from (f"  {count:,} × {error}" for error, count in list(found.errors.items())[:3])
    if not any(each.people.pairs for each in found.criteria):
        yield "no rollout was labelled by two people, so there is no ceiling: have some labelled twice"
    if found.overall.ties:
        yield f"people are split on {found.overall.ties:,}, which have no majority and are left out"
    yield from cli.describe_label_use(found)
    yield from cli.describe_sample(found)
    reasons: dict[str, str] = {}
    for name, estimate in _shown(judge, len(_choices(judge))) if judge.pairs else ():
        if estimate.value is None:
            # A reason that holds for several figures is told once.
            reasons.setdefault(estimate.reason, name)
    for reason, name in reasons.items():
        yield f"no {_FIGURES[name].format(best='the best choice')}: {reason}"
    if cli.UNRANKED in judge.figures().values():
        yield f"{cli.UNRANKED.reason}: what needs one is left out overall"
