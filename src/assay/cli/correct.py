"""`assay correct RUN [LABELS]...`: estimate the scores of a run without the bias of its judge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click

from assay import trust
from assay.cli.base_command import EXIT_ERROR, EXIT_OK, Command
from assay.cli.formats import format_page, format_value_of
from assay.cli.inputs import open_run
from assay.cli.label_options import (
    LabelOptions,
    describe_label_use,
    describe_sample,
    label_options,
)
from assay.cli.options import run_path
from assay.display import Page, Section, format_p_value
from assay.wording import format_count


@click.command(
    "correct",
    cls=Command,
    epilog="Exit codes: 0 corrected, 1 every correction was refused, 2 labels cannot be read or do "
    "not fit.",
    example="assay correct run labels.csv\nassay correct run labels.csv --drift run-of-last-month",
)
@click.option(
    "--drift",
    "earlier_run",
    metavar="RUN",
    type=run_path,
    help="An earlier run over the same rollouts, to test for drift of the judge.",
)
@label_options
def command(earlier_run: str | None, **values: Any) -> int:
    """Estimate the scores that people would give to a saved RUN, from LABELS on some of its rollouts.

    LABELS are files as for `assay agree`. The labelled rollouts must be drawn at random from the run.
    At least 30 are needed, and the judge must be better than chance.
    """
    options = LabelOptions(**values)
    run = open_run(options.run)
    labels = options.read_labels()
    correction = trust.correct(
        run,
        labels,
        skip_unknown=options.skip_unknown,
        any_wording=options.any_wording,
    )
    sections = [_make_figures_table(correction), _make_rates_table(correction)]
    notes = list(_make_notes(correction))
    data = correction.to_dict()
    if earlier_run is not None:
        drift = trust.drift_between(
            open_run(earlier_run),
            run,
            labels,
            skip_unknown=options.skip_unknown,
            any_wording=options.any_wording,
        )
        sections.append(_make_drift_table(drift))
        notes.extend(_describe_drift(drift))
        data["drift"] = drift.to_dict()
    title = f"{run.path.resolve().name}: as people would have judged it"
    print(format_page(Page(title, sections, notes, data), options.layout))
    if any(figure.corrected for figure in correction.figures):
        return EXIT_OK
    return EXIT_ERROR


def _make_figures_table(correction: trust.Correction) -> Section:
    """Return the table with a row for each figure: as the judge gives it, corrected, and by labels."""
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
    for figure in correction.figures:
        rows.append(
            (
                figure.name,
                figure.judge,
                figure.best,
                figure.corrected.get("rogan_gladen", ""),
                figure.people,
                figure.labels,
                figure.rollouts,
                _describe_labels_to_halve(figure),
            )
        )
    return Section(columns, rows)


def _describe_labels_to_halve(figure: trust.Corrected) -> str:
    """Return how many more labels would halve the interval of a correction.

    If no number of them would, return the share of the interval that remains when every rollout is
    labelled.
    """
    if not figure.corrected:
        return "–"
    if figure.more_labels is not None:
        return f"{figure.more_labels:,} more labels"
    if figure.left_at_most is not None:
        return f"all labelled leaves {figure.left_at_most:.0%}"
    return "–"


def _make_rates_table(correction: trust.Correction) -> Section:
    """Return the sensitivity and specificity of the judge, where one of them is known."""
    rows: list[tuple[object, ...]] = []
    for figure in correction.figures:
        if figure.sensitivity.value is not None or figure.specificity.value is not None:
            rows.append((figure.name, figure.sensitivity, figure.specificity))
    return Section(("the judge", "sensitivity", "specificity"), rows)


def _make_drift_table(drift: trust.Drift) -> Section:
    """Return the table of how the judge's answers to each criterion moved since the earlier run."""
    columns = ("since the earlier run", "before", "now", "change", "p", "agrees with people")
    rows: list[tuple[object, ...]] = []
    for criterion in drift.criteria:
        accuracy = ""
        if criterion.accuracy is not None:  # None if the rollouts have no labels
            accuracy_before, accuracy_now = criterion.accuracy
            accuracy = f"{format_value_of(accuracy_before)} to {format_value_of(accuracy_now)}"
        rows.append(
            (
                criterion.name,
                f"{criterion.before:.2f}",
                f"{criterion.after:.2f}",
                criterion.change,
                format_p_value(criterion.p),
                accuracy,
            )
        )
    return Section(columns, rows)


def _describe_drift(drift: trust.Drift) -> Iterator[str]:
    """Yield on which criteria the judge has changed, and how many rollouts cannot tell."""
    criteria = drift.moved
    if criteria:
        yield f"the judge has changed on {', '.join(criteria)}"
    else:
        yield "there is no evidence that the judge has changed"
    changed_rollouts = drift.changed
    if changed_rollouts:
        yield (
            f"{format_count(changed_rollouts, 'rollout')} with another completion say nothing "
            "about the judge"
        )


def _make_notes(correction: trust.Correction) -> Iterator[str]:
    """Yield what was not corrected or left out, and why, and what the labels allow to conclude."""
    if correction.no_score:  # why there is no corrected score
        yield f"score: {correction.no_score}"
    yield from _describe_refusals(correction.figures)
    for figure in correction.figures:
        if figure.warning:
            yield f"{figure.name}: {figure.warning}"
        if figure.unanswered:
            yield (
                f"{figure.name}: left out {format_count(figure.unanswered, 'rollout')} without an "
                "answer of the judge"
            )
    yield from describe_label_use(correction)
    yield from describe_sample(correction)


def _describe_refusals(figures: Sequence[trust.Corrected]) -> Iterator[str]:
    """Yield why figures were not corrected; a reason that holds for several is given once."""
    names_by_refusal: dict[str, list[str]] = {}
    for figure in figures:
        if figure.refusal:
            names_by_refusal.setdefault(figure.refusal, []).append(figure.name)
    for refusal, names in names_by_refusal.items():
        if len(names) == len(figures):
            yield f"refused: {refusal}"
        else:
            yield f"refused for {', '.join(names)}: {refusal}"
