"""Turn a run into a data frame of pandas, polars or Arrow, and into a figure."""

from collections.abc import Iterable, Mapping
from typing import Any

from assay.errors import import_extra
from assay.runs.folder import RunRefused
from assay.runs.jsonable import as_text
from assay.runs.row import Row
from assay.runs.summary import Summary

_MAKERS = {"pandas": "DataFrame", "polars": "DataFrame", "pyarrow": "table"}


def columns_of(rows: Iterable[Row]) -> dict[str, list[Any]]:
    """One list a column, a value a rollout; None where a rollout has none.

    The columns of a criterion are `criterion.NAME`, its value, and `verdict.NAME` where a judge gave one. An
    unscored rollout has the score None and says why in `error`. A field that is no plain value is JSON text.

    >>> from assay.runs import Row
    >>> columns_of([Row("7", fields={"completion": "Paris"})])["completion"]
    ['Paris']
    """
    records: list[dict[str, Any]] = []
    for row in rows:
        record: dict[str, Any] = {"example": row.example, "sample": row.sample, "score": row.score}
        record |= {"reward": row.reward, "error": "; ".join(f"{n}: {e}" for n, e in row.errors.items()) or None}
        record |= {f"criterion.{name}": value for name, value in row.report.metrics.items()}
        record |= {f"verdict.{line.name}": line.verdict for line in row.report.lines if line.verdict is not None}
        for name, value in row.fields.items():
            plain = value is None or isinstance(value, str | int | float | bool)
            record.setdefault(name, value if plain else as_text(value))
        records.append(record)
    names = dict.fromkeys(name for record in records for name in record)
    return {name: [record.get(name) for record in records] for name in names}


def frame(rows: Iterable[Row], package: str) -> Any:
    """The rows as a frame of that package, which the caller has installed."""
    made = import_extra(package, "a run as a frame", extra="tables" if package == "pyarrow" else "")
    columns = columns_of(rows)
    # A column of a data set may hold numbers in one row and text in the next, which a typed frame refuses.
    for name, values in columns.items():
        kinds: set[type] = {type(value) for value in values if value is not None}
        if len(kinds) > 1 and not kinds <= {int, float}:
            columns[name] = [value if value is None or isinstance(value, str) else as_text(value) for value in values]
    return getattr(made, _MAKERS[package])(columns)


def figure(rows: Iterable[Row], summary: Summary, agreement: Any = None) -> Any:
    """A figure of matplotlib: how scores are spread, how each criterion came out, and how far judges agree.

    `agreement` is what `assay.trust.agree` gave for the run; without it, the agreement between the judges of a
    panel is shown where several were asked.
    """
    pyplot = import_extra("matplotlib.pyplot", "a figure of a run", extra="plot")
    scores: list[float] = []
    apart: dict[str, list[float]] = {}
    for row in rows:
        if row.score is not None:
            scores.append(row.score)
        for name, distance in row.report.disagreements.items():
            apart.setdefault(name, []).append(distance)
    if not scores and not summary.criteria:
        raise RunRefused("the run has no rows, so there is nothing to draw: score something first")
    agreed: dict[str, tuple[float | None, ...]] = {n: (1 - sum(d) / len(d),) for n, d in apart.items()}
    if agreement is not None:
        kappas = {each.name: each.judge.kappa for each in agreement.criteria}
        agreed = {name: (kappa.value, kappa.low, kappa.high) for name, kappa in kappas.items()}
    bars = {name: (c.value.mean, c.value.low, c.value.high) for name, c in summary.criteria.items()}
    height = max(2.6, 0.9 + 0.32 * max(len(bars), len(agreed)))
    made = pyplot.figure(figsize=(13 if agreed else 9, height), layout="constrained")
    pyplot.close(made)  # or a notebook would show it twice: as the result, and as the figure under way
    axes = made.subplots(1, 3 if agreed else 2)
    axes[0].hist(scores, bins=20, range=(min(0.0, *scores, 0.0), max(1.0, *scores, 1.0)), color="#4c78a8")
    unscored = f", {summary.unscored:,} unscored" if summary.unscored else ""
    axes[0].set(title=f"{len(scores):,} scored{unscored}", xlabel="score", ylabel="rollouts")
    _bars(axes[1], bars, "Criteria", "mean value with its 95 % interval")
    if agreed:
        measure = "1 − disagreement of judges" if agreement is None else "kappa with people"
        _bars(axes[2], agreed, "Agreement", measure)
    return made


def _bars(axes: Any, bars: Mapping[str, tuple[float | None, ...]], title: str, measure: str) -> None:
    """Horizontal bars with their intervals, the first on top. What has no value has no bar."""
    known = {name: bars[name] for name in reversed(list(bars)) if bars[name][0] is not None}
    names = [name if len(name) <= 32 else f"{name[:31]}…" for name in known]
    for place, ends in enumerate(known.values()):
        axes.barh(place, ends[0], color="#72b7b2")
        if len(ends) == 3 and None not in ends:
            axes.plot(ends[1:], [place, place], color="#333333", linewidth=1.5)
    axes.set_yticks(range(len(names)), names)
    axes.set(title=title, xlabel=measure)
