"""Measure how far two sides agree: accuracy, kappa, alpha and the rest, from pairs of their answers.

Every coefficient is worked out from a table of counts, or from sums, that add up over examples. So whole examples
can be resampled, and one figure be had for thousands of resamples at once.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import fields
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from assay.criterion import NOT_APPLICABLE
from assay.trust import estimate
from assay.trust.estimate import (
    MEAN,
    Array,
    Clustered,
    Estimate,
    Record,
    Statistic,
    np,
    ratio,
    share,
)
from assay.trust.questions import Answer

# How much worse a verdict two ranks away is than the next one: no worse, twice, four times.
Weights: TypeAlias = Literal["none", "linear", "quadratic"]
Level: TypeAlias = Literal[
    "nominal", "ordinal", "interval"
]  # what is between answers: nothing, ranks, or a distance
_NONE = "there are no pairs"
_NO_PAIRS = Estimate(reason=_NONE)
_NUMBERS = Estimate(reason="the answers are numbers, and not choices")
UNRANKED = Estimate(reason="the criteria have different choices, which have no common order")
"""Stands for a figure that needs an order of the choices."""
_OF_RANKS = (
    "precision",
    "recall",
    "linear_kappa",
    "quadratic_kappa",
    "ordinal_alpha",
    "interval_alpha",
    "bias",
)
_SAME_ANSWERS = "all answers are the same, so there is no disagreement to expect"


class AnswerPair(NamedTuple):
    """Two answers to one question about one rollout of an example, and how often they were given."""

    example: str
    people: Answer
    judge: Answer
    times: int = 1


class AnswerUnit(NamedTuple):
    """All answers of people to one question about one rollout of an example, and how often just these came."""

    example: str
    answers: Sequence[Answer]
    times: int = 1


class Confusion(Record):
    """A table of counts: a row a verdict of people, a column a verdict of the judge."""

    categories: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]

    def __str__(self) -> str:
        lines = [("", *self.categories)]
        lines += [(c, *map(str, row)) for c, row in zip(self.categories, self.counts, strict=True)]
        width = max(len(cell) for line in lines for cell in line)
        return "\n".join("  ".join(cell.rjust(width) for cell in line) for line in lines)


class Measures(Record):
    """How far two sides agree. A figure that is not defined has no value, and a reason.

    `precision` and `recall` are those of the best choice (`MET`); `bias` is how much higher the judge values
    than people do, on average. There is no `confusion` of numbers.
    """

    pairs: int = 0
    examples: int = 0
    confusion: Confusion | None = None
    accuracy: Estimate = _NO_PAIRS
    macro_f1: Estimate = _NO_PAIRS
    precision: Estimate = _NO_PAIRS
    recall: Estimate = _NO_PAIRS
    kappa: Estimate = _NO_PAIRS
    linear_kappa: Estimate = _NO_PAIRS
    quadratic_kappa: Estimate = _NO_PAIRS
    matthews: Estimate = _NO_PAIRS
    nominal_alpha: Estimate = _NO_PAIRS
    ordinal_alpha: Estimate = _NO_PAIRS
    interval_alpha: Estimate = _NO_PAIRS
    bias: Estimate = _NO_PAIRS

    def figures(self) -> dict[str, Estimate]:
        """The figures by name."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in named.items() if isinstance(value, Estimate)}


def measure(
    pairs: Sequence[AnswerPair],
    choices: Sequence[str],
    *,
    ranked: bool = True,
    units: Sequence[AnswerUnit] | None = None,
    symmetric: bool = False,
) -> Measures:
    """All figures of these pairs. Without `choices` the answers are numbers.

    `ranked` says whether the choices run from worst to best. Alpha is worked out over `units` where they
    are given, and else over the pairs. With `symmetric`, precision and recall take each pair both ways round.
    """
    if not pairs:
        return Measures()
    if not choices:
        return _number_measures(pairs, units)
    said = {answer for pair in pairs for answer in (pair.people, pair.judge)}
    categories = [*choices, *([NOT_APPLICABLE] if NOT_APPLICABLE in said else [])]
    places: dict[Answer, int] = {category: place for place, category in enumerate(categories)}
    rows = estimate.example_numbers([pair.example for pair in pairs])
    tables = np.zeros((max(rows) + 1, len(categories), len(categories)))
    people, judge = [places[pair.people] for pair in pairs], [places[pair.judge] for pair in pairs]
    np.add.at(tables, (rows, people, judge), [float(pair.times) for pair in pairs])
    both_ways = tables + tables.transpose(0, 2, 1)

    def coincident(size: int) -> Clustered:
        if units is None:
            return Clustered(both_ways[:, :size, :size])
        listed = [[places.get(answer, size) for answer in unit.answers] for unit in units]
        known = [[place for place in unit if place < size] for unit in listed]
        found = [
            unit.times * coincidences(each, size) for unit, each in zip(units, known, strict=True)
        ]
        return Clustered(_summed(units, found))

    whole, size = Clustered(tables), len(choices)
    by_rank = dict.fromkeys(_OF_RANKS, UNRANKED)
    if ranked:
        # In figures that need an order `N/A` has no place, but for the shares of the best choice.
        seats = Clustered(both_ways if symmetric else tables)
        ordered, paired = Clustered(tables[:, :size, :size]), coincident(size)
        worths = [rank / (size - 1) for rank in range(size)]
        by_rank |= {
            "precision": seats.estimate(precision(size - 1, choices[-1])),
            "recall": seats.estimate(recall(size - 1, choices[-1])),
            "linear_kappa": ordered.estimate(kappa(size, "linear")),
            "quadratic_kappa": ordered.estimate(kappa(size, "quadratic")),
            "ordinal_alpha": paired.estimate(table_alpha("ordinal")),
            "interval_alpha": paired.estimate(table_alpha("interval", worths)),
            "bias": ordered.estimate(bias(worths)),
        }
    return Measures(
        pairs=sum(pair.times for pair in pairs),
        examples=len(tables),
        confusion=Confusion(tuple(categories), tuple(tuple(map(int, row)) for row in whole.total)),
        accuracy=whole.estimate(ACCURACY),
        macro_f1=whole.estimate(macro_f1),
        kappa=whole.estimate(kappa(len(categories))),
        matthews=whole.estimate(matthews),
        nominal_alpha=coincident(len(categories)).estimate(table_alpha("nominal")),
        **by_rank,
    )


def _summed(given: Sequence[AnswerPair] | Sequence[AnswerUnit], parts: Sequence[Array]) -> Array:
    return estimate.sums_by_example(
        np.stack(parts), estimate.example_numbers([each.example for each in given])
    )


def _number_measures(pairs: Sequence[AnswerPair], units: Sequence[AnswerUnit] | None) -> Measures:
    taken = units or [AnswerUnit(p.example, (p.people, p.judge), p.times) for p in pairs]
    sums = [unit.times * number_sums(cast("Sequence[float]", unit.answers)) for unit in taken]
    gaps = [pair.times * np.array([float(pair.judge) - float(pair.people), 1.0]) for pair in pairs]
    differences = Clustered(_summed(pairs, gaps))
    named: dict[str, Any] = dict.fromkeys(Measures().figures(), _NUMBERS)
    named["interval_alpha"] = Clustered(_summed(taken, sums)).estimate(number_alpha)
    named["bias"] = differences.estimate(MEAN)
    return Measures(
        pairs=sum(pair.times for pair in pairs), examples=len(differences.sums), **named
    )


# Figures of a table of counts.


def _size(tables: Array) -> Array:
    return tables.sum((-2, -1))


ACCURACY = share(
    lambda t: (np.trace(t, axis1=-2, axis2=-1), _size(t)), _NONE
)  # the share of pairs that agree


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


@partial(Statistic, undefined=_NONE)
def macro_f1(tables: Array) -> Array:
    """The mean, over the verdicts that occur, of the harmonic mean of precision and recall."""
    used = tables.sum(-1) + tables.sum(-2)
    single = ratio(2 * np.diagonal(tables, axis1=-2, axis2=-1), used)
    return ratio(np.nansum(single, axis=-1), (used > 0).sum(-1).astype(np.float64))


def kappa(categories: int, weights: Weights = "none") -> Statistic:
    """Agreement beyond chance: 1 is perfect, 0 is what chance gives (Cohen 1960 and 1968)."""
    ranks = np.arange(categories, dtype=np.float64)
    gaps = np.abs(ranks[:, None] - ranks[None, :])
    distances = {"none": (gaps > 0).astype(np.float64), "linear": gaps, "quadratic": gaps**2}[
        weights
    ]

    def figure(tables: Array) -> Array:
        expected = tables.sum(-1)[..., :, None] * tables.sum(-2)[..., None, :]
        chance = ratio(_size(expected * distances), _size(tables))
        return 1 - ratio(_size(tables * distances), chance)

    return Statistic(figure, "all verdicts are the same, and chance alone would agree as well")


@partial(Statistic, undefined="one side gives one verdict throughout, so nothing correlates")
def matthews(tables: Array) -> Array:
    """The correlation of two sequences of verdicts (Matthews 1975; Gorodkin 2004 for several)."""
    size, rows, columns = _size(tables), tables.sum(-1), tables.sum(-2)
    joint = np.trace(tables, axis1=-2, axis2=-1) * size - (rows * columns).sum(-1)
    spreads = (size**2 - (rows**2).sum(-1)) * (size**2 - (columns**2).sum(-1))
    return ratio(joint, np.sqrt(spreads))


def bias(worths: Sequence[float]) -> Statistic:
    """How much higher the judge values on average than people do; below 0, how much lower."""
    worth = np.asarray(worths, dtype=np.float64)
    return Statistic(lambda t: ratio(((t.sum(-2) - t.sum(-1)) * worth).sum(-1), _size(t)), _NONE)


def cohen_kappa(
    first: Iterable[Hashable],
    second: Iterable[Hashable],
    weights: Weights = "none",
    categories: Sequence[Any] = (),
) -> Estimate:
    """Cohen's kappa of two raters, without an interval. `categories` give the order for weights.

    >>> cohen_kappa([1, 1, 0, 0], [1, 0, 0, 0]).value
    0.5
    >>> cohen_kappa([1, 1], [1, 1]).reason
    'all verdicts are the same, and chance alone would agree as well'
    """
    pairs = list(zip(first, second, strict=True))
    if not pairs:
        return _NO_PAIRS
    seen = {verdict for pair in pairs for verdict in pair}
    places = {
        verdict: place for place, verdict in enumerate(categories or sorted(seen, key=_order))
    }
    strays = sorted(seen.difference(places), key=str)
    if strays:
        raise ValueError(f"{strays} are not among the categories {list(places)}")
    table = np.zeros((len(places), len(places)))
    np.add.at(
        table, ([places[one] for one, _ in pairs], [places[other] for _, other in pairs]), 1.0
    )
    return kappa(len(places), weights).alone(table)


# Krippendorff's alpha, for any number of raters and with gaps: Krippendorff (2011), "Computing Krippendorff's
# Alpha-Reliability". It comes from the table of coincidences: pairs of answers about the same unit.


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
    answered = ([answer for answer in unit if answer is not None] for unit in units)
    paired = [unit for unit in answered if len(unit) > 1]
    if not paired:
        return Estimate(reason="nothing was answered twice")
    if level == "interval":
        return number_alpha.alone(
            np.sum([number_sums(cast("Any", unit)) for unit in paired], axis=0)
        )
    seen = {answer for unit in paired for answer in unit}
    listed = list(categories) if categories is not None else sorted(seen, key=_order)
    places = {category: place for place, category in enumerate(listed)}
    found = [coincidences([places[answer] for answer in unit], len(listed)) for unit in paired]
    return table_alpha(level).alone(np.sum(found, axis=0))


def _order(answer: Hashable) -> tuple[bool, Any]:
    """Numbers by size, and before texts."""
    return (False, answer) if isinstance(answer, int | float) else (True, str(answer))


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
        else:
            # The middle rank of a category; two middles are as far apart as the answers between them.
            middles = np.cumsum(margins, axis=-1) - margins / 2
            worth = middles if level == "ordinal" else np.asarray(worths, dtype=np.float64)
            gaps = (worth[..., :, None] - worth[..., None, :]) ** 2
        chance = margins[..., :, None] * margins[..., None, :]
        return _alpha(_size(tables * gaps), _size(chance * gaps), margins.sum(-1))

    return Statistic(figure, _SAME_ANSWERS)


def number_sums(values: Sequence[float]) -> Array:
    """What `number_alpha` needs of one unit: disagreement, answers, their sum and their squares."""
    array, count = np.asarray(values, dtype=np.float64), len(values)
    if count < 2:
        return np.zeros(4)
    total, squares = array.sum(), (array**2).sum()
    return np.array([2 * (count * squares - total**2) / (count - 1), count, total, squares])


@partial(Statistic, undefined=_SAME_ANSWERS)
def number_alpha(sums: Array) -> Array:
    """Alpha of numbers, by the distance between them, from `number_sums`."""
    found, count, total, squares = np.moveaxis(sums, -1, 0)
    return _alpha(found, 2 * (count * squares - total**2), count)


def _alpha(found: Array, chance: Array, answers: Array) -> Array:
    # Rounding leaves a trace of disagreement where all answers are the same.
    return 1 - (answers - 1) * ratio(found, chance, least=1e-9)
