"""Measures: every figure of agreement between two sides, from pairs of their answers."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, cast

from assay.score import NOT_APPLICABLE
from assay.trust.alpha import coincidences, number_alpha, number_sums, table_alpha
from assay.trust.clusters import MEAN, RESAMPLES, Clustered
from assay.trust.confusion import (
    Confusion,
    accuracy,
    bias,
    kappa,
    macro_f1,
    matthews,
    precision,
    recall,
)
from assay.trust.estimate import Estimate, undefined
from assay.trust.numeric import Array, np
from assay.trust.questions import Answer
from assay.trust.shares import LEVEL

_NO_PAIRS = undefined("there are no pairs")
_NUMBERS = undefined("the answers are numbers, and not choices")
UNRANKED = undefined("the criteria have different choices, which have no common order")
"""Stands for a figure that needs an order of the choices."""
_RANKED = (
    "precision", "recall", "linear_kappa", "quadratic_kappa", "ordinal_alpha", "interval_alpha", "bias",
)  # fmt: skip


class Pair(NamedTuple):
    """Two answers to one question about one rollout of an example."""

    example: str
    people: Answer
    judge: Answer
    times: int = 1
    """How often they were given."""


class Unit(NamedTuple):
    """All answers of people to one question about one rollout of an example."""

    example: str
    answers: Sequence[Answer]
    times: int = 1
    """How often just these were given."""


class Resampling(NamedTuple):
    """How intervals are made."""

    resamples: int = RESAMPLES
    level: float = LEVEL
    seed: int = 0


@dataclass(frozen=True)
class Measures:
    """How far two sides agree. A figure that is not defined has no value, and a reason."""

    pairs: int = 0
    examples: int = 0
    confusion: Confusion | None = None
    """None for numbers."""
    accuracy: Estimate = _NO_PAIRS
    macro_f1: Estimate = _NO_PAIRS
    precision: Estimate = _NO_PAIRS
    """Of the best choice (`MET`): how often people agree when the judge says it."""
    recall: Estimate = _NO_PAIRS
    """Of the best choice (`MET`): how often the judge agrees when people say it."""
    kappa: Estimate = _NO_PAIRS
    linear_kappa: Estimate = _NO_PAIRS
    quadratic_kappa: Estimate = _NO_PAIRS
    matthews: Estimate = _NO_PAIRS
    nominal_alpha: Estimate = _NO_PAIRS
    ordinal_alpha: Estimate = _NO_PAIRS
    interval_alpha: Estimate = _NO_PAIRS
    bias: Estimate = _NO_PAIRS
    """How much higher the judge values than people do, on average."""

    def figures(self) -> dict[str, Estimate]:
        """The figures by name."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in named.items() if isinstance(value, Estimate)}

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        table = None if self.confusion is None else self.confusion.to_dict()
        counts = {"pairs": self.pairs, "examples": self.examples, "confusion": table}
        return counts | {name: figure.to_dict() for name, figure in self.figures().items()}


def measure(
    pairs: Sequence[Pair],
    choices: Sequence[str],
    *,
    ranked: bool = True,
    units: Sequence[Unit] | None = None,
    symmetric: bool = False,
    resampling: Resampling | None = None,
) -> Measures:
    """All figures of these pairs. Without `choices` the answers are numbers.

    `ranked` says whether the choices run from worst to best. Alpha is worked out over `units` where they
    are given, and else over the pairs. With `symmetric`, precision and recall take each pair both ways round.
    """
    if not pairs:
        return Measures()
    if not choices:
        return _number_measures(pairs, units, resampling or Resampling())
    tables = _Tables(pairs, choices, units, resampling or Resampling())
    return tables.measures(_count(pairs), ranked=ranked, symmetric=symmetric)


class _Tables:
    """The tables of counts of each example, and the figures that follow."""

    def __init__(
        self,
        pairs: Sequence[Pair],
        choices: Sequence[str],
        units: Sequence[Unit] | None,
        resampling: Resampling,
    ) -> None:
        said = {answer for pair in pairs for answer in (pair.people, pair.judge)}
        self.categories = [*choices, *([NOT_APPLICABLE] if NOT_APPLICABLE in said else [])]
        self.choices = list(choices)
        self.resampling = resampling
        self.tables = _tables(pairs, self.categories)
        self.both_ways = self.tables + self.tables.transpose(0, 2, 1)
        self.units = units

    def measures(self, pairs: int, *, ranked: bool, symmetric: bool) -> Measures:
        whole = self._clustered(self.tables)
        ordered = self._ranked(symmetric) if ranked else dict.fromkeys(_RANKED, UNRANKED)
        return Measures(
            pairs=pairs,
            examples=len(self.tables),
            confusion=Confusion(tuple(self.categories), _whole_numbers(whole.total)),
            accuracy=whole.estimate(accuracy()),
            macro_f1=whole.estimate(macro_f1()),
            kappa=whole.estimate(kappa(len(self.categories))),
            matthews=whole.estimate(matthews()),
            nominal_alpha=self._paired(self.categories).estimate(table_alpha("nominal")),
            **ordered,
        )

    def _ranked(self, symmetric: bool) -> dict[str, Estimate]:
        """The figures that need an order; in most of them `N/A` has no place."""
        size = len(self.choices)
        best, name = size - 1, self.choices[-1]
        seats = self._clustered(self.both_ways if symmetric else self.tables)
        worths = [rank / (size - 1) for rank in range(size)]
        tables, paired = self._clustered(self._ordered(self.tables)), self._paired(self.choices)
        return {
            "precision": seats.estimate(precision(best, name)),
            "recall": seats.estimate(recall(best, name)),
            "linear_kappa": tables.estimate(kappa(size, "linear")),
            "quadratic_kappa": tables.estimate(kappa(size, "quadratic")),
            "ordinal_alpha": paired.estimate(table_alpha("ordinal")),
            "interval_alpha": paired.estimate(table_alpha("interval", worths)),
            "bias": tables.estimate(bias(worths)),
        }

    def _ordered(self, tables: Array) -> Array:
        return tables[:, : len(self.choices), : len(self.choices)]

    def _paired(self, categories: Sequence[str]) -> Clustered:
        """Coincidences of answers among these categories."""
        if self.units is not None:
            return self._clustered(_coincidences(self.units, categories))
        is_all = len(categories) == len(self.categories)
        return self._clustered(self.both_ways if is_all else self._ordered(self.both_ways))

    def _clustered(self, tables: Array) -> Clustered:
        return Clustered(tables, *self.resampling)


def _number_measures(
    pairs: Sequence[Pair], units: Sequence[Unit] | None, resampling: Resampling
) -> Measures:
    taken = units or [Unit(pair.example, (pair.people, pair.judge), pair.times) for pair in pairs]
    sums = [unit.times * number_sums(cast("Sequence[float]", unit.answers)) for unit in taken]
    gaps = [pair.times * np.array([float(pair.judge) - float(pair.people), 1.0]) for pair in pairs]
    alpha = Clustered(summed([unit.example for unit in taken], sums), *resampling)
    differences = Clustered(summed([pair.example for pair in pairs], gaps), *resampling)
    named: dict[str, Any] = dict.fromkeys(Measures().figures(), _NUMBERS)
    named["interval_alpha"] = alpha.estimate(number_alpha())
    named["bias"] = differences.estimate(MEAN)
    return Measures(pairs=_count(pairs), examples=len(differences.sums), **named)


def _tables(pairs: Sequence[Pair], categories: Sequence[str]) -> Array:
    places: dict[Answer, int] = {category: place for place, category in enumerate(categories)}
    rows, count = _places([pair.example for pair in pairs])
    tables = np.zeros((count, len(categories), len(categories)))
    people = [places[pair.people] for pair in pairs]
    judge = [places[pair.judge] for pair in pairs]
    np.add.at(tables, (rows, people, judge), [float(pair.times) for pair in pairs])
    return tables


def _coincidences(units: Sequence[Unit], categories: Sequence[str]) -> Array:
    places: dict[Answer, int] = {category: place for place, category in enumerate(categories)}
    found = [
        unit.times * coincidences([places[a] for a in unit.answers if a in places], len(categories))
        for unit in units
    ]
    return summed([unit.example for unit in units], found)


def summed(examples: Sequence[str], parts: Sequence[Array]) -> Array:
    """The parts added up by example: a row for each."""
    rows, count = _places(examples)
    sums = np.zeros((count, *parts[0].shape))
    np.add.at(sums, rows, np.stack(parts))
    return sums


def _places(examples: Sequence[str]) -> tuple[list[int], int]:
    """The number of each example's row, and how many there are."""
    numbers = {example: number for number, example in enumerate(dict.fromkeys(examples))}
    return [numbers[example] for example in examples], len(numbers)


def _count(pairs: Sequence[Pair]) -> int:
    return sum(pair.times for pair in pairs)


def _whole_numbers(table: Array) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(int(count) for count in row) for row in table)
