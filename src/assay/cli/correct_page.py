"""The page of `assay correct`: what the judge says, and what people would have said."""

from collections.abc import Iterator, Sequence

from assay.cli.formats import Page, Section, chance, figure, point
from assay.cli.terminal import counted
from assay.trust import Corrected, Correction, Drift


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
    columns = (
        "",
        "judge",
        "corrected",
        "Rogan–Gladen",
        "labels alone",
        "labels",
        "rollouts",
        "to halve",
    )
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
    return Section(
        ("since the earlier run", "before", "now", "change", "p", "agrees with people"), rows
    )


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
