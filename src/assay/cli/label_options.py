"""Define the options of commands that compare a run with people's labels, and describe their use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import click

from assay import runs, trust
from assay.cli.options import map_option, option_group, page_format_option, run_path
from assay.display import format_p_value_equation
from assay.wording import format_count

label_options = option_group(
    click.argument("run", metavar="RUN", type=run_path),
    click.argument("label_files", metavar="[LABELS]...", type=click.Path(), nargs=-1),
    page_format_option,
    map_option("verdict=grade"),
    click.option(
        "--skip-unknown",
        is_flag=True,
        help="Skip labels on examples or criteria that the run does not have.",
    ),
    click.option(
        "--any-wording",
        is_flag=True,
        help="Also use labels that were made for another wording of their criterion.",
    ),
)


@dataclass(frozen=True, kw_only=True)
class LabelOptions:
    """A run, its labels, and the format to print."""

    run: str
    label_files: tuple[str, ...]  # empty uses the labels of the run
    layout: str
    mapping: tuple[tuple[str, str], ...]
    skip_unknown: bool
    any_wording: bool

    def read_labels(self) -> list[trust.Label]:
        """Read the labels of the files, merged; without files, those of the run."""
        if self.label_files:
            return trust.read_labels(*self.label_files, mapping=dict(self.mapping) or None)
        labels = trust.read_run_labels(runs.Run.open(self.run))
        if not labels:
            raise click.UsageError(
                f"{self.run} has no labels: give a file of labels, or label rollouts in the page "
                "of the run"
            )
        return labels


def describe_label_use(result: trust.Agreement | trust.Correction) -> Iterator[str]:
    """Yield which labels were left out, and which may belong to another row."""
    for criterion, label_count in result.other_wording.items():
        yield (
            f"left out: {format_count(label_count, 'label')} on {criterion}, made for another "
            "wording (--any-wording includes them)"
        )
    if result.changed_text:
        label_count = sum(result.changed_text.values())
        yield (
            f"left out: {format_count(label_count, 'label')} whose prompt or completion is not in "
            f"this run: {trust.quote_some(list(result.changed_text))}"
        )
    for reason, label_count in result.skipped.items():
        yield f"left out: {format_count(label_count, 'label')}, {reason}"
    if result.moved:
        yield (
            f"{format_count(result.moved, 'label')} used for the row that has their text: it had "
            "another example or sample when they were made"
        )
    if result.by_row_number:
        yield (
            f"{format_count(result.by_row_number, 'label')} matched by row number: they have no "
            "hash of their text, so they are wrong if rows were added or removed since; give rows "
            "an `id`, or label in the page"
        )


def describe_sample(result: trust.Agreement | trust.Correction) -> Iterator[str]:
    """Yield whether the labelled rollouts look like a random sample, and what can be concluded."""
    # Each selection is a significant difference of the labelled rollouts from the others.
    differs_by_verdict = any(selection.by == "verdict" for selection in result.selection)
    for selection in result.selection:
        # A difference in scores follows from a difference in verdicts.
        if selection.by == "score" and differs_by_verdict:
            continue
        about_criterion = ""
        if selection.criterion:
            about_criterion = f"{selection.criterion}: "
        yield (
            f"{about_criterion}the labelled rollouts are not a random sample by {selection.by} "
            f"({format_p_value_equation(selection.p)}): {selection.observation}"
        )
        yield f"  can be concluded: {selection.valid}"
        yield f"  cannot be concluded: {selection.invalid}"
    if result.selection or result.rollouts is None:  # None if the run is not known
        return
    has_unlabelled = result.rollouts > result.labelled_rollouts
    if has_unlabelled:
        yield (
            "these figures describe the run if the labelled rollouts were drawn at random; "
            "the tests of verdicts, scores and order found no evidence against that"
        )
