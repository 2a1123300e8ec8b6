"""Draw a run with matplotlib: the distribution of scores, the criteria, and the agreement of judges."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from assay.errors import import_extra
from assay.runs.row import Row
from assay.runs.run_errors import RunRefused
from assay.runs.summary import Summary

_SCORE_COLOUR = "#4c78a8"
_CRITERION_COLOUR = "#72b7b2"
_FAULT_COLOUR = "#e45756"
_INTERVAL_COLOUR = "#333333"
_MAX_NAME = 32  # characters of a criterion's name

# A value without an interval, or a value with both ends of its interval.
Bar: TypeAlias = tuple[float | None] | tuple[float | None, float | None, float | None]


def draw_figure(rows: Iterable[Row], summary: Summary, agreement: Any = None) -> Any:
    """Return a figure of matplotlib with scores, criteria and the agreement of judges.

    `agreement` is the result of `assay.trust.agree` for the run. Without it, the agreement between
    the judges of a panel is shown, if several were asked.
    """
    pyplot = import_extra("matplotlib.pyplot", "a figure of a run")
    scores: list[float] = []
    disagreements: dict[str, list[float]] = {}
    for row in rows:
        if row.score is not None:
            scores.append(row.score)
        for name, distance in row.report.disagreements.items():
            disagreements.setdefault(name, []).append(distance)
    if not scores and not summary.criteria:
        raise RunRefused("the run has no rows, so there is nothing to draw: score something first")
    agreement_bars = _make_agreement_bars(disagreements, agreement)
    height = max(2.6, 0.9 + 0.32 * max(len(summary.criteria), len(agreement_bars)))
    width = 13 if agreement_bars else 9
    figure = pyplot.figure(figsize=(width, height), layout="constrained")
    # A notebook would show an open figure twice: as the result, and as the current figure.
    pyplot.close(figure)
    axes = figure.subplots(1, 3 if agreement_bars else 2)
    _draw_scores(axes[0], scores, summary.unscored)
    has_faults = _draw_criteria(axes[1], summary)
    if has_faults:
        _add_legend(figure)
    if agreement_bars:
        measure = "1 − disagreement of judges" if agreement is None else "kappa with people"
        _draw_bars(axes[2], agreement_bars, {})
        axes[2].set(title="Agreement", xlabel=measure)
    return figure


def _make_agreement_bars(
    disagreements: Mapping[str, list[float]], agreement: Any
) -> dict[str, Bar]:
    """Return the kappa of each criterion with people, or else the agreement of a panel."""
    if agreement is not None:
        kappas = {criterion.name: criterion.judge.kappa for criterion in agreement.criteria}
        return {name: (kappa.value, kappa.low, kappa.high) for name, kappa in kappas.items()}
    return {
        name: (1 - sum(distances) / len(distances),) for name, distances in disagreements.items()
    }


def _draw_scores(axes: Any, scores: list[float], unscored: int) -> None:
    least = min(0.0, *scores, 0.0)
    most = max(1.0, *scores, 1.0)
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
        bars[name] = (criterion.value.mean, criterion.value.low, criterion.value.high)
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


def _draw_bars(axes: Any, bars: Mapping[str, Bar], colours: Mapping[str, str]) -> None:
    """Draw horizontal bars with their intervals, the first on top; no bar for a missing value."""
    names = [name for name in reversed(list(bars)) if bars[name][0] is not None]
    for position, name in enumerate(names):
        bar = bars[name]
        axes.barh(position, bar[0], color=colours.get(name, _CRITERION_COLOUR))
        if len(bar) == 3 and None not in bar:
            axes.plot(bar[1:], [position, position], color=_INTERVAL_COLOUR, linewidth=1.5)
    labels = [name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 1]}…" for name in names]
    axes.set_yticks(range(len(names)), labels)
