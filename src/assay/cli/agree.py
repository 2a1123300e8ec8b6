"""`assay agree RUN [LABELS]...`: measure how well the judge of a run agrees with people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import click

from assay import trust
from assay.cli.base_command import Command
from assay.cli.formats import format_page, format_value_of
from assay.cli.inputs import open_run
from assay.cli.label_options import (
    LabelOptions,
    describe_label_use,
    describe_sample,
    label_options,
)
from assay.cli.options import run_path
from assay.display import Page, Section
from assay.wording import describe_verdict, format_count

# What people read as the name of each figure.
_FIGURE_NAMES = {
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

# With two choices, these equal other figures.
_FIGURES_OF_SCALES = ("linear_kappa", "quadratic_kappa", "ordinal_alpha", "interval_alpha")


@click.command(
    "agree",
    cls=Command,
    epilog="Exit codes: 0 measured, 2 labels cannot be read or do not fit the run.",
    example="assay agree run labels.csv\nassay agree run ann.csv bob.csv\n"
    "assay agree run labels.csv --again run-judged-twice",
)
@click.option(
    "--against",
    type=click.Choice(("each", "majority")),
    default="each",
    show_default=True,
    help="Compare the judge with each rater, or with their majority.",
)
@click.option(
    "--again",
    metavar="RUN",
    type=run_path,
    help="A second run of the judge over the same rollouts.",
)
@click.option("--confusion", is_flag=True, help="Show the confusion matrix of every criterion.")
@label_options
def command(
    against: Literal["each", "majority"],
    again: str | None,
    confusion: bool,
    **values: Any,
) -> None:
    """Measure how well the judge of a saved RUN agrees with people, and people with each other.

    LABELS are CSV or JSONL files with the columns example, criterion and verdict, and also sample
    and rater if there are several of them; or other runs over the same texts, whose labels are used
    for the rollouts with these texts. Several LABELS are merged. Without any, the labels of the run
    are read: those that were given in its page, and those in files labels*.jsonl in its folder.
    """
    options = LabelOptions(**values)
    run = open_run(options.run)
    agreement = trust.agree(
        run,
        options.read_labels(),
        again=None if again is None else open_run(again),
        reference=against,
        skip_unknown=options.skip_unknown,
        any_wording=options.any_wording,
    )
    weights = {criterion.name: criterion.weight for criterion in run.about.criteria}
    page = Page(
        title=_make_title(agreement, run.path.resolve().name),
        sections=list(_make_sections(agreement, weights, confusion=confusion)),
        notes=list(_make_notes(agreement, weights)),
        data=agreement.to_dict(),
    )
    print(format_page(page, options.layout))


def _make_title(agreement: trust.Agreement, run_name: str) -> str:
    """Return the title: the run, the number of people, and the number of labelled examples."""
    people = "people"
    if agreement.raters:
        people = format_count(len(agreement.raters), "person", "people")
    # Each comparison counts only the examples that it can use, so take the largest number.
    example_counts = [agreement.overall.judge.examples]
    for criterion in agreement.criteria:
        example_counts += [criterion.judge.examples, criterion.people.examples]
    examples = format_count(max(example_counts), "example")
    return f"{run_name}: the judge against {people}, {examples}"


def _make_sections(
    agreement: trust.Agreement, weights: Mapping[str, float], *, confusion: bool
) -> Iterator[Section]:
    """Yield the tables; a table without rows is not printed."""
    if agreement.overall.labelled:
        yield _make_overall_table(agreement)
    yield _make_criteria_table(agreement)
    if len(agreement.raters) > 1:
        yield _make_raters_table(agreement)
    # Each judge of a panel alone, if the judge is one.
    yield Section(
        ("judge of the panel", "same verdict", "kappa"),
        [(name, judge.accuracy, judge.kappa) for name, judge in agreement.members.items()],
    )
    yield _make_consistency_table(agreement)
    if confusion:
        yield from _make_confusion_tables(agreement, weights)


def _make_overall_table(agreement: trust.Agreement) -> Section:
    """Return the table of figures over all criteria: judge against people, people among themselves."""
    judge = agreement.overall.judge
    people = agreement.overall.people
    people_figures = people.figures()
    # If the judge answered nothing, only the people have choices to count.
    choices = _list_choices(judge) or _list_choices(people)
    best_choice = choices[-1] if choices else "the best choice"
    rows: list[tuple[object, ...]] = []
    for name, estimate in _select_figures(judge, len(choices)):
        label = _FIGURE_NAMES[name].format(best=best_choice)
        # The bias is the judge's compared with people, so people have none.
        people_value = "" if name == "bias" else people_figures[name]
        rows.append((label, estimate, people_value))
    rows.append(("pairs", judge.pairs, people.pairs))
    return Section(("overall", "judge", "people"), rows)


def _list_choices(measures: trust.Measures) -> list[str]:
    """Return the choices of the confusion matrix; empty if there is none."""
    from assay.criterion import NOT_APPLICABLE

    if not measures.confusion:
        return []
    return [choice for choice in measures.confusion.categories if choice != NOT_APPLICABLE]


def _select_figures(
    measures: trust.Measures, choice_count: int
) -> Iterator[tuple[str, trust.Estimate]]:
    """Yield the name and the value of each figure that is worth printing for so many choices."""
    from assay.trust.coefficients import UNRANKED

    for name, estimate in measures.figures().items():
        if estimate == UNRANKED:  # it needs choices with a common order, and these have none
            continue
        if choice_count <= 2 and name in _FIGURES_OF_SCALES:  # equal to another figure then
            continue
        yield name, estimate


def _make_criteria_table(agreement: trust.Agreement) -> Section:
    """Return the table with a row per criterion; columns that no criterion needs are left out.

    A column "people" holds the figure before it for people among themselves.
    """
    judges = [criterion.judge for criterion in agreement.criteria]
    # Criteria answered by a number, not a verdict, have no confusion matrix.
    has_verdicts = any(judge.confusion for judge in judges)
    has_numbers = any(judge.pairs and not judge.confusion for judge in judges)
    has_scales = any(len(_list_choices(judge)) > 2 for judge in judges)
    columns = ["criterion", "labelled", "no answer", "same", "people", "kappa", "people", "bias"]
    if has_verdicts:
        columns += ["false positives", "false negatives"]
    if has_scales:
        columns += ["quadratic kappa", "people"]
    if has_numbers:
        columns += ["alpha, interval", "people"]
    rows: list[Sequence[object]] = []
    for criterion in agreement.criteria:
        judge = criterion.judge
        people = criterion.people
        row: list[object] = [criterion.name, criterion.labelled, criterion.unanswered]
        row += _format_values(
            judge.accuracy, people.accuracy, judge.kappa, people.kappa, judge.bias
        )
        if has_verdicts:
            matrix = judge.confusion
            row += [matrix.false_positives, matrix.false_negatives] if matrix else [None, None]
        if has_scales:
            row += _format_values(judge.quadratic_kappa, people.quadratic_kappa)
        if has_numbers:
            row += _format_values(judge.interval_alpha, people.interval_alpha)
        rows.append(row)
    return Section(columns, rows)


def _format_values(*estimates: trust.Estimate) -> list[str]:
    return [format_value_of(estimate) for estimate in estimates]


def _make_raters_table(agreement: trust.Agreement) -> Section:
    rows: list[tuple[object, ...]] = []
    for rater in agreement.raters:
        rows.append((rater.rater, rater.labels, rater.judge.kappa, rater.others.kappa))
    return Section(("rater", "labels", "kappa with the judge", "with the others"), rows)


def _make_consistency_table(agreement: trust.Agreement) -> Section:
    """Return the table of how far the judge agrees with itself when it is asked twice."""
    # Each is None if the run was not repeated in this way.
    repeats = {"asked again": agreement.retest, "in the other order": agreement.swap}
    rows: list[tuple[object, ...]] = []
    for name, consistency in repeats.items():
        if consistency is not None:
            overall = consistency.overall
            rows.append(
                (name, overall.accuracy, overall.kappa, overall.pairs, consistency.unanswered)
            )
    return Section(("the judge and itself", "same verdict", "kappa", "pairs", "no answer"), rows)


def _make_confusion_tables(
    agreement: trust.Agreement, weights: Mapping[str, float]
) -> Iterator[Section]:
    """Yield the confusion matrix of each criterion: rows by people's verdict, columns by the judge's."""
    for criterion in agreement.criteria:
        matrix = criterion.judge.confusion
        if not matrix:  # the criterion is answered by a number
            continue
        # The weight decides the words: MET reads as "happened" if the criterion is negative.
        weight = weights.get(criterion.name)
        verdicts = [describe_verdict(category, weight) for category in matrix.categories]
        rows: list[tuple[object, ...]] = []
        for verdict, counts in zip(verdicts, matrix.counts, strict=True):
            rows.append((verdict, *counts))
        title = f"{criterion.name}: people down, judge across"
        yield Section((title, *verdicts), rows)


def _make_notes(agreement: trust.Agreement, weights: Mapping[str, float]) -> Iterator[str]:
    """Yield what the tables mean, what is missing from them, and why."""
    names = [criterion.name for criterion in agreement.criteria]
    negative_names = [name for name in names if weights.get(name, 1.0) < 0]
    if negative_names:
        yield (
            f"negative: {', '.join(negative_names)}; happened (MET) is bad, avoided (UNMET) is good, and "
            "a false positive is a fault that only the judge sees"
        )
    yield from _describe_missing_answers(agreement)
    if not any(criterion.people.pairs for criterion in agreement.criteria):
        yield (
            "no rollout was labelled by two people, so agreement between people is unknown: "
            "have some labelled twice"
        )
    if agreement.overall.ties:
        yield (
            f"people are split on {agreement.overall.ties:,}, which have no majority and are left "
            "out"
        )
    yield from describe_label_use(agreement)
    yield from describe_sample(agreement)
    yield from _describe_missing_figures(agreement.overall.judge)


def _describe_missing_answers(agreement: trust.Agreement) -> Iterator[str]:
    """Yield how often the judge gave no answer, and its three most frequent errors."""
    unanswered = sum(criterion.unanswered for criterion in agreement.criteria)
    if not unanswered:
        return
    labelled = sum(criterion.labelled for criterion in agreement.criteria)
    yield (
        f"the judge gave no answer to {unanswered:,} of {labelled:,} labelled criteria, which are "
        "left out:"
    )
    most_frequent = list(agreement.errors.items())[:3]
    for error, error_count in most_frequent:
        yield f"  {error_count:,} × {error}"


def _describe_missing_figures(judge: trust.Measures) -> Iterator[str]:
    """Yield why figures have no value; a reason that several share is given for the first only."""
    from assay.trust.coefficients import UNRANKED

    figure_by_reason: dict[str, str] = {}
    if judge.pairs:  # without any pair of verdicts, no figure has a value
        for name, estimate in _select_figures(judge, len(_list_choices(judge))):
            if estimate.value is None:
                figure_by_reason.setdefault(estimate.reason, name)
    for reason, name in figure_by_reason.items():
        yield f"no {_FIGURE_NAMES[name].format(best='the best choice')}: {reason}"
    # `_select_figures` leaves these out, so they have a line of their own.
    if UNRANKED in judge.figures().values():
        yield f"{UNRANKED.reason}: figures that need one are left out overall"
