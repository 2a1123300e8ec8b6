"""Confusion: who gave which verdict where others gave which, and all that follows from it."""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from assay.trust.clusters import Statistic, share
from assay.trust.estimate import Estimate, undefined
from assay.trust.numeric import Array, divided, np

Weights: TypeAlias = Literal["none", "linear", "quadratic"]
"""How much worse a verdict two ranks away is than the next one: no worse, twice, four times."""


@dataclass(frozen=True)
class Confusion:
    """A table of counts: a row a verdict of people, a column a verdict of the judge."""

    categories: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]

    def __str__(self) -> str:
        width = max(len(text) for text in (*self.categories, *map(str, self._cells())))
        lines = [("", *self.categories)]
        lines += [(c, *map(str, row)) for c, row in zip(self.categories, self.counts, strict=True)]
        return "\n".join("  ".join(cell.rjust(width) for cell in line) for line in lines)

    def _cells(self) -> list[int]:
        return [count for row in self.counts for count in row]

    def to_dict(self) -> dict[str, Any]:
        """Plain data: the categories, and a row of counts for each verdict of people."""
        return {"categories": list(self.categories), "counts": [list(row) for row in self.counts]}


def confusion_of(
    people: Iterable[Hashable], judge: Iterable[Hashable], categories: Sequence[Any] | None = None
) -> Confusion:
    """The table of two sequences of verdicts about the same things.

    >>> print(confusion_of(["MET", "MET", "UNMET"], ["MET", "UNMET", "UNMET"]))
             MET  UNMET
      MET      1      1
    UNMET      0      1
    """
    pairs = Counter(zip(people, judge, strict=True))
    seen = {verdict for pair in pairs for verdict in pair}
    listed = list(categories) if categories is not None else sorted(seen, key=str)
    strays = seen.difference(listed)
    if strays:
        raise ValueError(f"{sorted(strays, key=str)} are not among the categories {listed}")
    rows = tuple(tuple(pairs[row, column] for column in listed) for row in listed)
    return Confusion(tuple(map(str, listed)), rows)


def accuracy() -> Statistic:
    """The share of pairs that agree."""
    return share(lambda t: (_trace(t), _size(t)), "there are no pairs")


def precision(place: int, name: str) -> Statistic:
    """Of what the judge called so, the share that people call so."""
    return share(
        lambda t: (t[..., place, place], t[..., :, place].sum(-1)), f"the judge never says {name}"
    )


def recall(place: int, name: str) -> Statistic:
    """Of what people call so, the share that the judge calls so."""
    return share(
        lambda t: (t[..., place, place], t[..., place, :].sum(-1)), f"people never say {name}"
    )


def macro_f1() -> Statistic:
    """The mean, over the verdicts that occur, of the harmonic mean of precision and recall."""

    def figure(tables: Array) -> Array:
        used = tables.sum(-1) + tables.sum(-2)
        single = divided(2 * np.diagonal(tables, axis1=-2, axis2=-1), used)
        return divided(np.nansum(single, axis=-1), (used > 0).sum(-1).astype(np.float64))

    return Statistic(figure, "there are no pairs")


def kappa(categories: int, weights: Weights = "none") -> Statistic:
    """Agreement beyond chance: 1 is perfect, 0 is what chance gives (Cohen 1960 and 1968)."""
    distances = _distances(categories, weights)

    def figure(tables: Array) -> Array:
        found = (tables * distances).sum((-2, -1))
        expected = tables.sum(-1)[..., :, None] * tables.sum(-2)[..., None, :]
        chance = divided((expected * distances).sum((-2, -1)), _size(tables))
        return 1 - divided(found, chance)

    return Statistic(figure, "all verdicts are the same, and chance alone would agree as well")


def matthews() -> Statistic:
    """The correlation of two sequences of verdicts (Matthews 1975; Gorodkin 2004 for several)."""

    def figure(tables: Array) -> Array:
        size, rows, columns = _size(tables), tables.sum(-1), tables.sum(-2)
        joint = _trace(tables) * size - (rows * columns).sum(-1)
        spreads = (size**2 - (rows**2).sum(-1)) * (size**2 - (columns**2).sum(-1))
        return divided(joint, np.sqrt(spreads))

    return Statistic(figure, "one side gives one verdict throughout, so nothing correlates")


def bias(worths: Sequence[float]) -> Statistic:
    """How much higher the judge values on average than people do; below 0, how much lower."""
    worth = np.asarray(worths, dtype=np.float64)
    return Statistic(
        lambda t: divided(((t.sum(-2) - t.sum(-1)) * worth).sum(-1), _size(t)),
        "there are no pairs",
    )


def cohen_kappa(
    first: Iterable[Hashable],
    second: Iterable[Hashable],
    weights: Weights = "none",
    categories: Sequence[Any] | None = None,
) -> Estimate:
    """Cohen's kappa of two raters, without an interval. `categories` give the order for weights.

    >>> cohen_kappa([1, 1, 0, 0], [1, 0, 0, 0]).value
    0.5
    >>> cohen_kappa([1, 1], [1, 1]).reason
    'all verdicts are the same, and chance alone would agree as well'
    """
    table = confusion_of(first, second, categories)
    return _alone(kappa(len(table.categories), weights), table)


def matthews_correlation(first: Iterable[Hashable], second: Iterable[Hashable]) -> Estimate:
    """Matthews' correlation of two raters, without an interval.

    >>> round(matthews_correlation([1, 1, 0, 0], [1, 0, 0, 0]).value, 3)
    0.577
    """
    return _alone(matthews(), confusion_of(first, second))


def _alone(statistic: Statistic, table: Confusion) -> Estimate:
    if not table.categories:
        return undefined("there are no pairs")
    return statistic.alone(np.asarray(table.counts, dtype=np.float64))


def _distances(categories: int, weights: Weights) -> Array:
    ranks = np.arange(categories, dtype=np.float64)
    gaps = np.abs(ranks[:, None] - ranks[None, :])
    if weights == "none":
        return (gaps > 0).astype(np.float64)
    return gaps if weights == "linear" else gaps**2


def _trace(tables: Array) -> Array:
    return np.trace(tables, axis1=-2, axis2=-1)


def _size(tables: Array) -> Array:
    return tables.sum((-2, -1))
