"""Draw a run with matplotlib: the distribution of scores, the criteria, and the agreement of judges."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from assay.errors import import_extra
from assay.runs.row import Row
from assay.runs.run_errors import RunRefused
from assay.runs.summary import Summary

_SCORE_COLOUR = "#4c78a8"
_CRITERION_COLOUR = "#72b7b2"
_FAULT_COLOUR = "#e45756"
_INTERVAL_COLOUR = "#333333"
_MAX_NAME = 32  # characters of a criterion's name


class Bar(NamedTuple):
    """A horizontal bar, from 0 to a value. Both ends of the interval are None if there is none."""

    value: float | None  # None if there is nothing to draw
    low: float | None = None
    high: float | None = None


def draw_figure(rows: Iterable[Row], summary: Summary, agreement: Any = None) -> Any:
    """Return a figure of matplotlib with scores, criteria and the agreement of judges.

    `agreement` is what `assay.trust.agree` returned for the run: the agreement of its judge with
    people. Without it, the judges of a panel are compared with each other, if there are several.
    """
    pyplot = import_extra("matplotlib.pyplot", "a figure of a run")
    scores: list[float] = []
    disagreements_by_criterion: dict[str, list[float]] = {}
    for row in rows:
        if row.score is not None:
            scores.append(row.score)
        for criterion, disagreement in row.report.disagreements.items():
            disagreements_by_criterion.setdefault(criterion, []).append(disagreement)
    if not scores and not summary.criteria:
        raise RunRefused("the run has no rows, so there is nothing to draw: score something first")
    if agreement is not None:
        agreement_bars = _make_kappa_bars(agreement)
        agreement_label = "kappa with people"
    else:
        agreement_bars = _make_panel_bars(disagreements_by_criterion)
        agreement_label = "1 − disagreement of judges"
    most_bars = max(len(summary.criteria), len(agreement_bars))
    width = 13 if agreement_bars else 9  # in inches, as the height
    height = max(2.6, 0.9 + 0.32 * most_bars)
    figure = pyplot.figure(figsize=(width, height), layout="constrained")
    # A notebook would show an open figure twice: as the result, and as the current figure.
    pyplot.close(figure)
    axes = figure.subplots(1, 3 if agreement_bars else 2)
    _draw_scores(axes[0], scores, summary.unscored)
    has_faults = _draw_criteria(axes[1], summary)
    if has_faults:
        _add_legend(figure)
    if agreement_bars:
        _draw_bars(axes[2], agreement_bars, colours={})
        axes[2].set(title="Agreement", xlabel=agreement_label)
    return figure


def _make_kappa_bars(agreement: Any) -> dict[str, Bar]:
    """Return a bar for each criterion with Cohen's kappa between the judge and people."""
    bars: dict[str, Bar] = {}
    for criterion in agreement.criteria:
        kappa = criterion.judge.kappa
        bars[criterion.name] = Bar(kappa.value, kappa.low, kappa.high)
    return bars


def _make_panel_bars(disagreements_by_criterion: Mapping[str, list[float]]) -> dict[str, Bar]:
    """Return a bar for each criterion with the mean agreement of the judges of a panel."""
    bars: dict[str, Bar] = {}
    for criterion, disagreements in disagreements_by_criterion.items():
        mean_disagreement = sum(disagreements) / len(disagreements)
        bars[criterion] = Bar(1 - mean_disagreement)
    return bars


def _draw_scores(axes: Any, scores: list[float], unscored: int) -> None:
    """Draw a histogram from 0 to 1, or wider if a score lies outside of that."""
    least = min([0.0, *scores])
    most = max([1.0, *scores])
    axes.hist(scores, bins=20, range=(least, most), color=_SCORE_COLOUR)
    title = f"{len(scores):,} scored"
    if unscored:
        title += f", {unscored:,} unscored"
    axes.set(title=title, xlabel="score", ylabel="rollouts")


def _draw_criteria(axes: Any, summary: Summary) -> bool:
    """Draw the mean of each criterion, and return whether some describe faults."""
    bars: dict[str, Bar] = {}
    colours: dict[str, str] = {}
    for name, criterion in summary.criteria.items():
        bars[name] = Bar(criterion.value.mean, criterion.value.low, criterion.value.high)
        # A criterion with a negative weight describes a fault.
        if criterion.weight is not None and criterion.weight < 0:
            colours[name] = _FAULT_COLOUR
    _draw_bars(axes, bars, colours)
    axes.set(title="Criteria", xlabel="mean value with its 95 % interval")
    return bool(colours)


def _add_legend(figure: Any) -> None:
    """Explain the colour of criteria that describe faults."""
    patches = import_extra("matplotlib.patches", "a figure of a run")
    handles = [
        patches.Patch(color=_CRITERION_COLOUR, label="met: more is better"),
        patches.Patch(color=_FAULT_COLOUR, label="happened (negative weight): less is better"),
    ]
    figure.legend(handles=handles, loc="outside lower right", ncols=2, frameon=False)


def _draw_bars(axes: Any, bars: dict[str, Bar], colours: Mapping[str, str]) -> None:
    """Draw horizontal bars with their names and intervals, the first on top.

    A bar without a value is left out. `colours` are those of bars that differ from the others.
    """
    labels: list[str] = []
    for name, bar in reversed(bars.items()):  # matplotlib draws the first at the bottom
        if bar.value is None:
            continue
        position = len(labels)
        axes.barh(position, bar.value, color=colours.get(name, _CRITERION_COLOUR))
        if bar.low is not None and bar.high is not None:
            ends = [bar.low, bar.high]
            axes.plot(ends, [position, position], color=_INTERVAL_COLOUR, linewidth=1.5)
        labels.append(name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 1]}…")
    axes.set_yticks(range(len(labels)), labels)
