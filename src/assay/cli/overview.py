"""Overview: a summary as sections of cells, for whatever lays them out. Errors come first."""

from collections.abc import Iterator
from typing import NamedTuple

from assay.cli.showing import counted, shown_spending
from assay.runs import Summary
from assay.runs.stats import MeanEstimate
from assay.runs.summary import CriterionSummary


class Section(NamedTuple):
    """Rows of cells under the names of their columns; the first column names the row."""

    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]


def headline(summary: Summary) -> str:
    """How many rollouts there are, and how many of them have no score.

    >>> headline(Summary(rollouts=4, examples=2, scored=3, unscored=1, complete=False))
    '4 rollouts of 2 examples, 1 unscored, not all that were wanted'
    """
    parts = counted(summary.rollouts, "rollout")
    if summary.examples != summary.rollouts:
        parts += f" of {counted(summary.examples, 'example')}"
    if summary.unscored:
        parts += f", {summary.unscored:,} unscored"
    return parts if summary.complete else f"{parts}, not all that were wanted"


def spending_line(summary: Summary) -> str:
    """What was asked of models; empty when nothing was."""
    spent = summary.spent
    return shown_spending(spent) if spent.calls or spent.hits else ""


def sections(summary: Summary) -> Iterator[Section]:
    """What there is to tell, most pressing first."""
    if summary.errors_by_criterion:
        yield _errors(summary)
    results = [("score", *_cells(summary.score)), ("reward", *_cells(summary.reward))]
    results += [(f"tag {name}", *_cells(found)) for name, found in summary.tags.items()]
    if len(summary.tasks) > 1:
        tasks = summary.tasks.items()
        results += [(f"task {name}", *_cells(found.score)) for name, found in tasks]
    yield Section(("", "mean", "95 %", "rollouts"), results)
    if summary.criteria:
        yield _criteria(summary)
    if max(summary.passes, default=1) > 1:
        yield _passes(summary)


def _errors(summary: Summary) -> Section:
    rows = [
        (where, kind, f"{count:,}")
        for where, kinds in summary.errors_by_criterion.items()
        for kind, count in kinds.items()
    ]
    return Section(("errors", "kind", "rollouts"), rows)


def _criteria(summary: Summary) -> Section:
    columns = ("criterion", "weight", "mean", "met", "unmet", "n/a", "errors", "verdicts")
    rows = [
        (
            name,
            "varies" if found.weight is None else f"{found.weight:+g}",
            number(found.value.mean),
            # Of a scale, what counts as met is somewhere in the middle of it.
            *("–" if found.is_scale else f"{count:,}" for count in (found.met, found.unmet)),
            f"{found.not_applicable:,}",
            f"{found.errors:,}",
            _verdicts(found) if found.is_scale else "",
        )
        for name, found in summary.criteria.items()
    ]
    # A column in which nothing ever happened tells nothing.
    kept = [i for i in range(8) if i < 5 or any(row[i] not in ("0", "") for row in rows)]
    return Section(tuple(columns[i] for i in kept), [tuple(row[i] for i in kept) for row in rows])


def _verdicts(found: CriterionSummary) -> str:
    return ", ".join(f"{verdict} {count:,}" for verdict, count in found.verdicts.items())


def _passes(summary: Summary) -> Section:
    rows = [
        (f"{k}", number(rates.any), number(rates.all), f"{rates.examples:,}")
        for k, rates in summary.passes.items()
    ]
    return Section(("k", "pass@k", "pass^k", "examples"), rows)


def _cells(estimate: MeanEstimate) -> tuple[str, str, str]:
    bounds = ""
    if estimate.low is not None and estimate.high is not None:
        bounds = f"{number(estimate.low)} to {number(estimate.high)}"
    return number(estimate.mean), bounds, f"{estimate.count:,}"


def number(value: float | None) -> str:
    """A number to three places; a dash when there is none.

    >>> number(2 / 3), number(None)
    ('0.667', '–')
    """
    return "–" if value is None else f"{value:.3g}"
