"""Measure the agreement of two sides from pairs of their answers: accuracy, kappa, alpha and others.

Every coefficient is computed from tables of counts, or from sums, that add up over examples. So
whole examples can be resampled, and a figure is computed for thousands of resamples at once.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from assay.criterion import NOT_APPLICABLE
from assay.trust.estimate import (
    MEAN,
    Array,
    Estimate,
    ExampleSums,
    Record,
    Statistic,
    divide,
    make_share,
    np,
    number_examples,
    sums_by_example,
)
from assay.trust.questions import Answer

# How much worse a verdict two ranks away is than one a rank away: as bad, twice, or four times.
Weights: TypeAlias = Literal["none", "linear", "quadratic"]
# What is known about the distance of two answers: nothing, their ranks, or their difference.
Level: TypeAlias = Literal["nominal", "ordinal", "interval"]

_WITHOUT_PAIRS = "there are no pairs"
_NO_PAIRS = Estimate(reason=_WITHOUT_PAIRS)
_ARE_NUMBERS = Estimate(reason="the answers are numbers, and not choices")
_SAME_ANSWERS = "all answers are the same, so there is no disagreement to expect"
UNRANKED = Estimate(reason="the criteria have different choices, which have no common order")
"""Stands for a figure that needs an order of the choices."""


class AnswerPair(NamedTuple):
    """Two answers to a question about a rollout of an example, and how often they were given."""

    example: str
    people: Answer
    judge: Answer
    times: int = 1


class AnswerUnit(NamedTuple):
    """All answers to a question about a rollout of an example, and how often they were given."""

    example: str
    answers: Sequence[Answer]
    times: int = 1


class Confusion(Record):
    """A table of counts, with a row for each verdict of people, and a column for each of the judge."""

    categories: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]

    def __str__(self) -> str:
        """Return the table as text, with a heading above each column and before each row."""
        rows: list[tuple[str, ...]] = [("", *self.categories)]
        for category, counts in zip(self.categories, self.counts, strict=True):
            rows.append((category, *map(str, counts)))
        width = max(len(cell) for row in rows for cell in row)
        lines: list[str] = []
        for row in rows:
            lines.append("  ".join(cell.rjust(width) for cell in row))
        return "\n".join(lines)

    @property
    def false_positives(self) -> int:
        """How often the judge gave a better choice than people: MET where they say UNMET."""
        return self._count_other_choices(higher=True)

    @property
    def false_negatives(self) -> int:
        """How often the judge gave a worse choice than people: UNMET where they say MET."""
        return self._count_other_choices(higher=False)

    def _count_other_choices(self, *, higher: bool) -> int:
        """Count the verdicts of the judge that are better than people's, or with False, worse.

        The categories are ordered from worst to best, so their indices are ranks. `N/A` has none.
        """
        total = 0
        for people_rank, counts in enumerate(self.counts):
            for judge_rank, count in enumerate(counts):
                verdicts = (self.categories[people_rank], self.categories[judge_rank])
                if judge_rank == people_rank or NOT_APPLICABLE in verdicts:
                    continue
                is_higher = judge_rank > people_rank
                if is_higher is higher:
                    total += count
        return total


class Measures(Record):
    """How far two sides agree. A figure that is undefined has no value, and a reason.

    `precision` and `recall` are those of the best choice (`MET`). `bias` is how much higher the
    values of the judge are than those of people, on average. Numbers have no `confusion`.
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
        """Return the figures by name."""
        figures: dict[str, Estimate] = {}
        for record_field in fields(self):
            value = getattr(self, record_field.name)
            if isinstance(value, Estimate):
                figures[record_field.name] = value
        return figures


def measure(
    pairs: Sequence[AnswerPair],
    choices: Sequence[str],
    *,
    ranked: bool = True,
    units: Sequence[AnswerUnit] | None = None,
    symmetric: bool = False,
) -> Measures:
    """Return all figures of these pairs. Without `choices` the answers are numbers.

    `ranked` says whether the choices run from worst to best. Alpha is computed from `units` (all
    answers to one question, also more than two) if they are given, else from the pairs. With
    `symmetric`, neither side of a pair is the judge: each pair then counts in both directions for
    precision and recall.
    """
    if not pairs:
        return Measures()
    if not choices:
        return _measure_numbers(pairs, units)
    tables = _PairTables.build(pairs, choices, units)
    # All figures but alpha are computed from how often each verdict of people meets each of the
    # judge.
    verdicts = ExampleSums(tables.counts)
    # Alpha is computed from the pairs of answers to the same question.
    coincidence_sums = ExampleSums(tables.count_coincidences(tables.categories))
    total_counts = tables.counts.sum(axis=0)
    if ranked:
        ranked_figures = _measure_ranked(tables, symmetric=symmetric)
    else:
        ranked_figures = dict.fromkeys(_RANKED_FIGURES, UNRANKED)
    return Measures(
        pairs=sum(pair.times for pair in pairs),
        examples=len(tables.counts),
        confusion=Confusion(tables.categories, tuple(tuple(map(int, row)) for row in total_counts)),
        accuracy=verdicts.estimate(ACCURACY),
        macro_f1=verdicts.estimate(macro_f1),
        kappa=verdicts.estimate(kappa(len(tables.categories))),
        matthews=verdicts.estimate(matthews),
        nominal_alpha=coincidence_sums.estimate(table_alpha("nominal")),
        **ranked_figures,
    )


@dataclass(frozen=True)
class _PairTables:
    """Counts of pairs of verdicts, for each example."""

    choices: Sequence[str]
    categories: tuple[str, ...]  # the choices, and `N/A` last if a rater gave it
    counts: Array  # by example, verdict of people, and verdict of the judge
    units: Sequence[AnswerUnit] | None

    @classmethod
    def build(
        cls,
        pairs: Sequence[AnswerPair],
        choices: Sequence[str],
        units: Sequence[AnswerUnit] | None,
    ) -> "_PairTables":
        """Count, for each example, how often each verdict of people meets each of the judge."""
        categories = tuple(choices)
        if any(NOT_APPLICABLE in (pair.people, pair.judge) for pair in pairs):
            categories = (*categories, NOT_APPLICABLE)
        indices: dict[Answer, int] = {name: index for index, name in enumerate(categories)}
        examples = number_examples([pair.example for pair in pairs])
        people = [indices[pair.people] for pair in pairs]
        judge = [indices[pair.judge] for pair in pairs]
        times = [float(pair.times) for pair in pairs]
        counts = np.zeros((max(examples) + 1, len(categories), len(categories)))
        np.add.at(counts, (examples, people, judge), times)
        return cls(choices, categories, counts, units)

    @property
    def symmetric_counts(self) -> Array:
        """The counts of all pairs, and of all pairs with their two verdicts swapped."""
        return self.counts + self.counts.transpose(0, 2, 1)

    def count_coincidences(self, categories: Sequence[str]) -> Array:
        """Return a table for each example, from which Krippendorff's alpha is computed.

        A table counts the pairs of answers to the same question (Krippendorff's coincidences), in
        both directions, by the categories of the two answers. Answers that are not in `categories`
        are left out.
        """
        size = len(categories)
        if self.units is None:
            # Each question has two answers, whose pairs are counted already.
            return self.symmetric_counts[:, :size, :size]
        indices: dict[Answer, int] = {name: index for index, name in enumerate(categories)}
        tables: list[Array] = []
        for unit in self.units:  # all answers to one question
            answer_indices = [indices[answer] for answer in unit.answers if answer in indices]
            tables.append(unit.times * tabulate_coincidences(answer_indices, size))
        return _sum_examples(self.units, tables)


# Figures that need an order of the choices.
_RANKED_FIGURES = (
    "precision",
    "recall",
    "linear_kappa",
    "quadratic_kappa",
    "ordinal_alpha",
    "interval_alpha",
    "bias",
)


def _measure_ranked(tables: _PairTables, *, symmetric: bool) -> dict[str, Estimate]:
    """Return the figures that need an order of the choices, by name.

    `N/A` has no rank, so it only counts for precision and recall. With `symmetric`, these two count
    each pair in both directions.
    """
    size = len(tables.choices)
    best = size - 1  # the index of the best choice
    best_name = tables.choices[best]
    counts = tables.symmetric_counts if symmetric else tables.counts
    all_verdicts = ExampleSums(counts)
    ranked_verdicts = ExampleSums(tables.counts[:, :size, :size])  # `N/A` is the last category
    ranked_units = ExampleSums(tables.count_coincidences(tables.choices))
    values = [rank / (size - 1) for rank in range(size)]  # of the choices, from 0 to 1
    return {
        "precision": all_verdicts.estimate(precision(best, best_name)),
        "recall": all_verdicts.estimate(recall(best, best_name)),
        "linear_kappa": ranked_verdicts.estimate(kappa(size, "linear")),
        "quadratic_kappa": ranked_verdicts.estimate(kappa(size, "quadratic")),
        "ordinal_alpha": ranked_units.estimate(table_alpha("ordinal")),
        "interval_alpha": ranked_units.estimate(table_alpha("interval", values)),
        "bias": ranked_verdicts.estimate(bias(values)),
    }


def _measure_numbers(pairs: Sequence[AnswerPair], units: Sequence[AnswerUnit] | None) -> Measures:
    """Return the figures of answers that are numbers: only interval alpha and bias are defined.

    A unit holds all answers to one question. Without units, each pair is one.
    """
    if not units:
        units = [AnswerUnit(pair.example, (pair.people, pair.judge), pair.times) for pair in pairs]
    alpha_sums: list[Array] = []  # what alpha needs of each unit
    for unit in units:
        numbers = cast("Sequence[float]", unit.answers)
        alpha_sums.append(unit.times * number_sums(numbers))
    bias_sums: list[Array] = []  # the sum of differences, and their number, of each pair
    for pair in pairs:
        difference = float(pair.judge) - float(pair.people)
        bias_sums.append(pair.times * np.array([difference, 1.0]))
    alpha_sums_by_example = _sum_examples(units, alpha_sums)
    bias_sums_by_example = _sum_examples(pairs, bias_sums)

    figures: dict[str, Any] = dict.fromkeys(Measures().figures(), _ARE_NUMBERS)
    figures["interval_alpha"] = ExampleSums(alpha_sums_by_example).estimate(number_alpha)
    figures["bias"] = ExampleSums(bias_sums_by_example).estimate(MEAN)
    return Measures(
        pairs=sum(pair.times for pair in pairs), examples=len(bias_sums_by_example), **figures
    )


def _sum_examples(
    items: Sequence[AnswerPair] | Sequence[AnswerUnit], arrays: Sequence[Array]
) -> Array:
    """Add up the arrays of the items of each example. `arrays[i]` belongs to `items[i]`."""
    examples = number_examples([item.example for item in items])
    return sums_by_example(np.stack(arrays), examples)


# Figures of tables of counts: the last two dimensions are verdicts of people and of the judge.


def _total(tables: Array) -> Array:
    return tables.sum((-2, -1))


def _count_agreeing(tables: Array) -> tuple[Array, Array]:
    return np.trace(tables, axis1=-2, axis2=-1), _total(tables)


# The share of pairs that agree.
ACCURACY = make_share(_count_agreeing, _WITHOUT_PAIRS)


def precision(index: int, name: str) -> Statistic:
    """Return the statistic: how often people agree when the judge gives the verdict `name`.

    `index` is that of the verdict in the tables.
    """

    def count(tables: Array) -> tuple[Array, Array]:
        return tables[..., index, index], tables[..., :, index].sum(-1)

    return make_share(count, f"the judge never says {name}")


def recall(index: int, name: str) -> Statistic:
    """Return the statistic: how often the judge agrees when people give the verdict `name`.

    `index` is that of the verdict in the tables.
    """

    def count(tables: Array) -> tuple[Array, Array]:
        return tables[..., index, index], tables[..., index, :].sum(-1)

    return make_share(count, f"people never say {name}")


@partial(Statistic, undefined=_WITHOUT_PAIRS)
def macro_f1(tables: Array) -> Array:
    """Return the mean F1 (harmonic mean of precision and recall) of the verdicts that occur."""
    times_given = tables.sum(-1) + tables.sum(-2)  # each verdict, by people and by the judge
    f1 = divide(2 * np.diagonal(tables, axis1=-2, axis2=-1), times_given)
    verdict_count = (times_given > 0).sum(-1).astype(np.float64)
    return divide(np.nansum(f1, axis=-1), verdict_count)


def kappa(categories: int, weights: Weights = "none") -> Statistic:
    """Return the statistic of agreement beyond chance: 1 is perfect, 0 is chance (Cohen 1960, 1968).

    `categories` is their number. `weights` says how much worse a verdict is that is further off.
    """
    ranks = np.arange(categories, dtype=np.float64)
    rank_differences = np.abs(ranks[:, None] - ranks[None, :])
    distances = {
        "none": (rank_differences > 0).astype(np.float64),
        "linear": rank_differences,
        "quadratic": rank_differences**2,
    }[weights]

    def compute(tables: Array) -> Array:
        products = tables.sum(-1)[..., :, None] * tables.sum(-2)[..., None, :]
        observed = _total(tables * distances)
        expected = divide(_total(products * distances), _total(tables))
        return 1 - divide(observed, expected)

    return Statistic(compute, "all verdicts are the same, and chance alone would agree as well")


@partial(Statistic, undefined="one side gives one verdict throughout, so nothing correlates")
def matthews(tables: Array) -> Array:
    """Return the correlation of verdicts (Matthews 1975; Gorodkin 2004 for more than two)."""
    total = _total(tables)
    people_counts = tables.sum(-1)  # of each verdict
    judge_counts = tables.sum(-2)
    agreeing = np.trace(tables, axis1=-2, axis2=-1)
    covariance = agreeing * total - (people_counts * judge_counts).sum(-1)
    people_variance = total**2 - (people_counts**2).sum(-1)
    judge_variance = total**2 - (judge_counts**2).sum(-1)
    return divide(covariance, np.sqrt(people_variance * judge_variance))


def bias(values: Sequence[float]) -> Statistic:
    """Return the statistic: how much higher the judge's values are than people's, on average.

    `values` are the values of the choices.
    """
    choice_values = np.asarray(values, dtype=np.float64)

    def compute(tables: Array) -> Array:
        judge_counts = tables.sum(-2)  # how often the judge gave each choice
        people_counts = tables.sum(-1)
        excess = ((judge_counts - people_counts) * choice_values).sum(-1)
        return divide(excess, _total(tables))

    return Statistic(compute, _WITHOUT_PAIRS)


def cohen_kappa(
    first: Iterable[Hashable],
    second: Iterable[Hashable],
    weights: Weights = "none",
    categories: Sequence[Any] = (),
) -> Estimate:
    """Return Cohen's kappa of two raters, without an interval.

    `first` and `second` are their verdicts on the same things. `categories` are all verdicts from
    lowest to highest, for `weights`; by default they are sorted.

    >>> cohen_kappa([1, 1, 0, 0], [1, 0, 0, 0]).value
    0.5
    >>> cohen_kappa([1, 1], [1, 1]).reason
    'all verdicts are the same, and chance alone would agree as well'
    """
    pairs = list(zip(first, second, strict=True))
    if not pairs:
        return _NO_PAIRS
    verdicts = {verdict for pair in pairs for verdict in pair}
    categories = categories or sorted(verdicts, key=_sort_key)
    indices = {category: index for index, category in enumerate(categories)}
    unknown = sorted(verdicts.difference(indices), key=str)
    if unknown:
        raise ValueError(f"{unknown} are not among the categories {list(indices)}")
    table = np.zeros((len(indices), len(indices)))
    for verdict, other_verdict in pairs:
        table[indices[verdict], indices[other_verdict]] += 1.0
    return kappa(len(indices), weights).estimate(table)


# Krippendorff's alpha, for any number of raters and with gaps: Krippendorff (2011), "Computing
# Krippendorff's Alpha-Reliability". It is computed from the table of coincidences: the pairs of
# answers about the same unit.


def krippendorff_alpha(
    units: Sequence[Sequence[Hashable | None]],
    level: Level = "nominal",
    categories: Sequence[Hashable] | None = None,
) -> Estimate:
    """Return Krippendorff's alpha, without an interval.

    A unit holds the answers about one thing, in any order; None is a missing answer. `categories` is
    the order for `ordinal`, by default that of the values. `interval` takes numbers.

    >>> krippendorff_alpha([["a", "a"], ["b", "b"], ["a", "b", None], ["a"]]).value
    0.4444444444444444
    """
    answered = [[answer for answer in unit if answer is not None] for unit in units]
    repeated = [unit for unit in answered if len(unit) > 1]
    if not repeated:
        return Estimate(reason="nothing was answered twice")
    if level == "interval":
        sums = np.sum([number_sums(cast("Any", unit)) for unit in repeated], axis=0)
        return number_alpha.estimate(sums)
    if categories is None:
        answers = {answer for unit in repeated for answer in unit}
        categories = sorted(answers, key=_sort_key)
    indices = {category: index for index, category in enumerate(categories)}
    tables = [
        tabulate_coincidences([indices[answer] for answer in unit], len(indices))
        for unit in repeated
    ]
    return table_alpha(level).estimate(np.sum(tables, axis=0))


def _sort_key(answer: Hashable) -> tuple[bool, Any]:
    """Return the key by which answers are sorted: numbers by size, and then texts."""
    if isinstance(answer, int | float):
        return False, answer
    return True, str(answer)


def tabulate_coincidences(indices: Sequence[int], categories: int) -> Array:
    """Return the table of all pairs of answers to one question, by the categories of both answers.

    `indices` has the index of each answer's category, and `categories` is the number of categories.
    Each pair counts in both directions, with a weight such that every answer counts once in total.
    """
    if len(indices) < 2:
        return np.zeros((categories, categories))
    counts = np.bincount(np.asarray(indices, dtype=np.intp), minlength=categories)
    counts = counts.astype(np.float64)
    pair_counts = np.outer(counts, counts) - np.diag(counts)  # no answer is paired with itself
    return pair_counts / (len(indices) - 1)


def table_alpha(level: Level, values: Sequence[float] = ()) -> Statistic:
    """Return the statistic alpha of tables of coincidences.

    For the level `interval`, `values` are the values of the categories.
    """

    def compute(tables: Array) -> Array:
        totals = tables.sum(-1)  # how often each category was given
        distances = _measure_distances(level, totals, values)
        products = totals[..., :, None] * totals[..., None, :]
        observed = _total(tables * distances)
        expected = _total(products * distances)
        return _compute_alpha(observed, expected, totals.sum(-1))

    return Statistic(compute, _SAME_ANSWERS)


def _measure_distances(level: Level, totals: Array, values: Sequence[float]) -> Array:
    """Return a table of how far each category is from each other one, as Krippendorff defines it.

    `totals` is how often each category was given, and `values` the value of each.
    """
    if level == "nominal":
        return 1 - np.eye(totals.shape[-1])
    if level == "ordinal":
        # The middle rank of the answers in each category.
        positions = np.cumsum(totals, axis=-1) - totals / 2
    else:
        positions = np.asarray(values, dtype=np.float64)
    return (positions[..., :, None] - positions[..., None, :]) ** 2


def number_sums(values: Sequence[float]) -> Array:
    """Return what `number_alpha` needs of the answers to one question.

    It is four numbers: the disagreement between the answers, their count, their sum, and the sum of
    their squares. A single answer has no pair, so it counts for nothing.
    """
    count = len(values)
    if count < 2:
        return np.zeros(4)
    array = np.asarray(values, dtype=np.float64)
    total = array.sum()
    squares = (array**2).sum()
    # The squared differences of all ordered pairs add up to 2(n·Σx² - (Σx)²).
    disagreement = 2 * (count * squares - total**2) / (count - 1)
    return np.array([disagreement, count, total, squares])


@partial(Statistic, undefined=_SAME_ANSWERS)
def number_alpha(sums: Array) -> Array:
    """Return interval alpha of numbers, from their `number_sums`."""
    disagreement, count, total, squares = np.moveaxis(sums, -1, 0)
    expected = 2 * (count * squares - total**2)  # if all answers are paired with each other
    return _compute_alpha(disagreement, expected, count)


def _compute_alpha(observed: Array, expected: Array, answer_counts: Array) -> Array:
    """Return alpha from sums of observed and of expected disagreement; NaN if none is expected.

    The expected sum is over the pairs of all answers, of which each answer is in `answer_counts` - 1.
    """
    # Rounding leaves a little disagreement if all answers are the same, hence `above`.
    return 1 - (answer_counts - 1) * divide(observed, expected, above=1e-9)
