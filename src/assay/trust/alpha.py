"""Alpha: Krippendorff's measure of agreement, for any number of raters and with gaps.

Krippendorff (2011), "Computing Krippendorff's Alpha-Reliability". Everything is worked out from the
table of coincidences, whose entries are pairs of answers about the same unit; a table is a sum over units,
so examples can be resampled.
"""

from collections.abc import Hashable, Sequence
from typing import Any, Literal, TypeAlias, cast

from assay.trust.clusters import Statistic
from assay.trust.estimate import Estimate, undefined
from assay.trust.numeric import Array, np

Level: TypeAlias = Literal["nominal", "ordinal", "interval"]
"""What two different answers have between them: nothing, ranks, or a distance."""

LEVELS: tuple[Level, ...] = ("nominal", "ordinal", "interval")
_UNDEFINED = "all answers are the same, so there is no disagreement to expect"


def krippendorff_alpha(
    units: Sequence[Sequence[Hashable | None]],
    level: Level = "nominal",
    categories: Sequence[Hashable] | None = None,
) -> Estimate:
    """Krippendorff's alpha, without an interval.

    A unit holds the answers about one thing, in any order; None stands for a gap. `categories` give the
    order for `ordinal`, which is else that of the values; `interval` takes numbers.

    >>> krippendorff_alpha([["a", "a"], ["b", "b"], ["a", "b", None], ["a"]]).value
    0.4444444444444444
    """
    answered = [[answer for answer in unit if answer is not None] for unit in units]
    paired = [unit for unit in answered if len(unit) > 1]
    if not paired:
        return undefined("nothing was answered twice")
    if level == "interval":
        sums = np.sum([number_sums(cast("Any", unit)) for unit in paired], axis=0)
        return number_alpha().alone(sums)
    seen = {answer for unit in paired for answer in unit}
    listed = list(categories) if categories is not None else sorted(seen, key=_order)
    places = {category: place for place, category in enumerate(listed)}
    table = np.zeros((len(listed), len(listed)))
    for unit in paired:
        table += coincidences([places[answer] for answer in unit], len(listed))
    return table_alpha(level).alone(table)


def coincidences(places: Sequence[int], categories: int) -> Array:
    """The pairs of answers of one unit, each way round; every answer counts once in all."""
    counts = np.bincount(np.asarray(places, dtype=np.intp), minlength=categories).astype(np.float64)
    if len(places) < 2:
        return np.zeros((categories, categories))
    return (np.outer(counts, counts) - np.diag(counts)) / (len(places) - 1)


def table_alpha(level: Level, worths: Sequence[float] = ()) -> Statistic:
    """Alpha of tables of coincidences. For `interval`, `worths` are what the categories stand for."""

    def figure(tables: Array) -> Array:
        margins = tables.sum(-1)
        if level == "nominal":
            gaps = 1 - np.eye(tables.shape[-1])
        elif level == "ordinal":
            # The middle rank of a category; two middles are as far apart as the answers between them.
            middles = np.cumsum(margins, axis=-1) - margins / 2
            gaps = (middles[..., :, None] - middles[..., None, :]) ** 2
        else:
            worth = np.asarray(worths, dtype=np.float64)
            gaps = (worth[:, None] - worth[None, :]) ** 2
        chance = margins[..., :, None] * margins[..., None, :]
        found = (tables * gaps).sum((-2, -1))
        return _alpha(found, (chance * gaps).sum((-2, -1)), margins.sum(-1))

    return Statistic(figure, _UNDEFINED)


def number_sums(values: Sequence[float]) -> Array:
    """What `number_alpha` needs of one unit: disagreement, answers, their sum and their squares."""
    array, count = np.asarray(values, dtype=np.float64), len(values)
    if count < 2:
        return np.zeros(4)
    total, squares = array.sum(), (array**2).sum()
    return np.array([2 * (count * squares - total**2) / (count - 1), count, total, squares])


def number_alpha() -> Statistic:
    """Alpha of numbers, by the distance between them, from `number_sums`."""

    def figure(sums: Array) -> Array:
        found, count, total, squares = np.moveaxis(sums, -1, 0)
        return _alpha(found, 2 * (count * squares - total**2), count)

    return Statistic(figure, _UNDEFINED)


def _alpha(found: Array, chance: Array, answers: Array) -> Array:
    # Rounding leaves a trace of disagreement where all answers are the same.
    shape, some = np.shape(chance), np.asarray(chance) > 1e-9
    ratio = np.divide(found, chance, out=np.full(shape, np.nan), where=some)
    return 1 - (answers - 1) * ratio


def _order(answer: Hashable) -> tuple[bool, Any]:
    """Numbers by size, and before texts."""
    return (False, answer) if isinstance(answer, int | float) else (True, str(answer))
