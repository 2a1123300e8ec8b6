"""`assay correct RUN [LABELS]...`: say what a run scores with the judge's bias taken out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from assay import cli, trust
from assay.display import Page, Section, format_p_value
from assay.wording import format_count


@cli.declare("correct")
def command(
    options: cli.LabelOptions,
    earlier: str | None = cli.value_of(cli.run_folder),
    layout: str = cli.value_of(cli.PAGES, "table"),
) -> int:
    """Estimate the scores of a saved RUN if people had judged all of it, from LABELS on some of it.

    LABELS are files as for `assay agree`. The labelled rollouts have to be drawn at random from the
    run. At least 30 are needed, and a judge that is better than chance.
    """
    run, labels = cli.opened(options.run), options.labels()
    taken: dict[str, Any] = {
        "skip_unknown": options.skip_unknown,
        "any_wording": options.any_wording,
    }
    found = trust.correct(run, labels, **taken)
    sections, notes, data = _sections(found), list(_notes(found)), found.to_dict()
    if earlier is not None:
        drift = trust.drift_between(cli.opened(earlier), run, labels, **taken)
        sections.append(_drift(drift))
        moved = ", ".join(drift.moved)
        notes.append(
            f"the judge has moved on {moved}" if moved else "nothing shows that the judge has moved"
        )
        if drift.changed:
            told = format_count(drift.changed, "rollout")
            notes.append(f"{told} with another completion say nothing about the judge")
        data["drift"] = drift.to_dict()
    title = f"{Path(options.run).name}: as people would have judged it"
    print(cli.page_text(Page(title, sections, notes, data), layout))
    return cli.FINE if any(each.corrected for each in found.figures) else cli.BROKEN


def _sections(found: trust.Correction) -> list[Section]:
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
    rows: list[tuple[object, ...]] = []
    for each in found.figures:
        estimates = each.judge, each.best, each.corrected.get("rogan_gladen", ""), each.people
        left = "–" if each.left_at_most is None else f"all labelled leaves {each.left_at_most:.0%}"
        more = left if each.more_labels is None else f"{each.more_labels:,} more labels"
        rows.append(
            (each.name, *estimates, each.labels, each.rollouts, more if each.corrected else "–")
        )
    rates = [
        (each.name, each.sensitivity, each.specificity)
        for each in found.figures
        if each.sensitivity.value is not None or each.specificity.value is not None
    ]
    return [Section(columns, rows), Section(("the judge", "sensitivity", "specificity"), rates)]


def _drift(drift: trust.Drift) -> Section:
    rows: list[tuple[object, ...]] = []
    for moved in drift.criteria:
        accuracy = " to ".join(map(cli.point, moved.accuracy)) if moved.accuracy else ""
        means = f"{moved.before:.2f}", f"{moved.after:.2f}"
        rows.append((moved.name, *means, moved.change, format_p_value(moved.p), accuracy))
    return Section(
        ("since the earlier run", "before", "now", "change", "p", "agrees with people"), rows
    )


def _notes(found: trust.Correction) -> Iterator[str]:
    if found.no_score:
        yield f"score: {found.no_score}"
    for each in found.figures:
        if each.refusal:
            yield f"{each.name}: refused, {each.refusal}"
        if each.warning:
            yield f"{each.name}: {each.warning}"
        if each.unanswered:
            yield f"{each.name}: left out {format_count(each.unanswered, 'rollout')} without an answer of the judge"
    yield from cli.describe_label_use(found)
    yield from cli.describe_sample(found)
