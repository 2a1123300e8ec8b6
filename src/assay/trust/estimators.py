"""Estimate what people would say of every rollout, from a judge's answers and some labels.

Rogan and Gladen (1978) take the judge's false alarms and misses out of a rate: it is (p + specificity - 1) /
(sensitivity + specificity - 1), where p is the judge's own. The interval is that of Lang and Reiczigel (2014), which
adds a few made-up answers so that it holds for small samples. They take the labelled sample for a separate one. Here it
is part of the run, so what is uncertain about both is not counted twice.

Prediction-powered inference (Angelopoulos, Duchi and Zrnic 2023, "PPI++") makes a mean over labels sharper by the judge's
answers to the rest: mean(people - λ·judge) over the labelled rollouts + λ·mean(judge) over the others. λ says how much the
judge is worth, and is chosen for the least variance. A judge that is worth nothing gets λ = 0, and the labels stand alone.
"""

from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import NamedTuple

from assay.trust.clusters import design_effect, sums_by_example
from assay.trust.estimate import (
    LEVEL,
    Array,
    Estimate,
    clustered_wilson,
    difference_of,
    normal_quantile,
    np,
    t_quantile,
)

DOUBT = 0.9
"""The level of the two-sided interval of the judge's quality that must lie above chance."""
_MADE_UP = 0.5
"""Answers added to each cell of yes and no. Else a judge that was never seen to err would seem perfect."""


@dataclass(frozen=True)
class Observed:
    """What the judge says of every rollout, and people of some of them."""

    judge: Array
    people: Array
    """NaN where there is no label."""
    examples: Array
    """The number of the example that each rollout is of."""

    @cached_property
    def labelled(self) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
        return np.isfinite(self.people)

    @cached_property
    def labels(self) -> int:
        """Rollouts with a label."""
        return int(self.labelled.sum())

    @cached_property
    def labelled_examples(self) -> int:
        return len(np.unique(self.examples[self.labelled]))

    @cached_property
    def is_binary(self) -> bool:
        """Whether the judge says 0 or 1 throughout. People who are split are somewhere between."""
        people = self.people[self.labelled]
        between = (people >= 0).all() and (people <= 1).all()
        return bool(between and np.isin(self.judge, (0.0, 1.0)).all())


@dataclass(frozen=True)
class ErrorRates:
    """How often the judge says yes, and how often where people say yes or no.

    Where people are split, a label counts in part as yes and in part as no.
    """

    positives: float
    rollouts: float
    hits: float
    """Where judge and people say yes."""
    people_yes: float
    false_alarms: float
    """Where the judge alone says yes."""
    people_no: float
    apart: bool = False
    """Whether the labelled answers are none of the `rollouts`."""

    @classmethod
    def of(cls, observed: Observed) -> "ErrorRates":
        """The counts of a judge that says 0 or 1."""
        judge, people = observed.judge[observed.labelled], observed.people[observed.labelled]
        return cls(
            positives=float(observed.judge.sum()),
            rollouts=len(observed.judge),
            hits=float((judge * people).sum()),
            people_yes=float(people.sum()),
            false_alarms=float((judge * (1 - people)).sum()),
            people_no=float((1 - people).sum()),
        )


def sensitivity(observed: Observed, level: float = LEVEL) -> Estimate:
    """Of what people call met, the share that the judge calls met."""
    return _yes_share(observed, observed.people, level)


def specificity(observed: Observed, level: float = LEVEL) -> Estimate:
    """Of what people call unmet, the share that the judge calls unmet."""
    alarms = _yes_share(observed, 1 - observed.people, level)
    ends = (None if end is None else 1 - end for end in (alarms.value, alarms.high, alarms.low))
    return Estimate(*ends, reason=alarms.reason)


def beats_chance(observed: Observed) -> bool:
    """Whether sensitivity + specificity - 1 lies clearly above 0."""
    hits, alarms = (_yes_share(observed, weights, DOUBT) for weights in (observed.people, 1 - observed.people))
    low = difference_of(hits, alarms).low
    return low is not None and low > 0


def _yes_share(observed: Observed, weights: Array, level: float) -> Estimate:
    """The share of labelled rollouts that the judge says yes to, each with its weight."""
    labelled = observed.labelled
    examples, weight = observed.examples[labelled], weights[labelled]
    yes = sums_by_example(observed.judge[labelled] * weight, examples)
    clusters = zip(yes.tolist(), sums_by_example(weight, examples).tolist(), strict=True)
    return clustered_wilson(list(clusters), level)


def rogan_gladen(rates: ErrorRates, *, effect: float = 1.0, level: float = LEVEL) -> Estimate:
    """The rate that people would give. `effect` is what clusters do to its variance.

    >>> print(rogan_gladen(ErrorRates(600, 1000, 45, 50, 10, 50)))
    0.57 [0.47, 0.68]
    """
    share = rates.positives / rates.rollouts
    hits, alarms = rates.hits / rates.people_yes, rates.false_alarms / rates.people_no
    value = min(max((share - alarms) / (hits - alarms), 0.0), 1.0)
    # From here on as if a few more answers had been given.
    z = normal_quantile((1 + level) / 2)
    rollouts, yes, no = rates.rollouts + z * z, rates.people_yes + 2, rates.people_no + 2
    share = (rates.positives + z * z / 2) / rollouts
    hits, alarms = (rates.hits + 1) / yes, (rates.false_alarms + 1) / no
    gap = hits - alarms
    rate = (share - alarms) / gap
    within = min(max(rate, 0.0), 1.0)
    hit_spread, alarm_spread = hits * (1 - hits), alarms * (1 - alarms)
    shared = within * hit_spread + (1 - within) * alarm_spread
    overlap = 0.0 if rates.apart else 2 * shared / rollouts
    from_rollouts = share * (1 - share) / rollouts - overlap
    from_labels = within**2 * hit_spread / yes + (1 - within) ** 2 * alarm_spread / no
    variance = max(from_rollouts + from_labels, 0.0) / gap**2
    shift = within * hit_spread / yes - (1 - within) * alarm_spread / no
    centre = rate + 2 * z * z * shift
    half = z * (variance * effect) ** 0.5
    low, high = (min(max(end, 0.0), 1.0) for end in (centre - half, centre + half))
    return Estimate(value, min(low, value), max(high, value))


def clustered_rogan_gladen(observed: Observed, level: float = LEVEL) -> Estimate:
    """The rate that people would give, with rollouts of one example kept together."""
    rates = ErrorRates.of(observed)
    rate = rogan_gladen(rates, level=level).value or 0.0
    share = rates.positives / rates.rollouts
    hits, alarms = rates.hits / rates.people_yes, rates.false_alarms / rates.people_no
    yes = np.where(observed.labelled, observed.people, 0.0)
    no = np.where(observed.labelled, 1 - observed.people, 0.0)
    # What each rollout adds to the estimate.
    influence = (
        (observed.judge - share) / rates.rollouts
        - rate * yes * (observed.judge - hits) / rates.people_yes
        - (1 - rate) * no * (observed.judge - alarms) / rates.people_no
    )
    return rogan_gladen(rates, effect=design_effect(influence, observed.examples), level=level)


class LabelBudget(NamedTuple):
    """How the variance of an estimate falls with the number of labels: `falling` / labels + `fixed`."""

    falling: float
    fixed: float
    """What is left when labels cost nothing: the rollouts are too few."""

    def variance(self, labels: float) -> float:
        return self.falling / labels + self.fixed

    def to_halve(self, labels: int, rollouts: int) -> int | None:
        """How many more labels halve the interval; None when labelling every rollout would not.

        >>> LabelBudget(falling=1.0, fixed=0.0).to_halve(100, 1000)
        300
        """
        room = self.variance(labels) / 4 - self.fixed
        if room <= 0 or self.falling / room > rollouts:
            return None
        return max(1, ceil(self.falling / room - 1e-9) - labels)

    def left_at_most(self, labels: int, rollouts: int) -> float:
        """The share of the interval that is left when every rollout is labelled."""
        now = self.variance(labels)
        return (self.variance(rollouts) / now) ** 0.5 if now > 0 else 1.0


@dataclass(frozen=True)
class _Moments:
    """How people and judge vary on the labelled rollouts, and together."""

    size: float
    people: float
    judge: float
    people_spread: float
    judge_spread: float
    joint: float

    def residual(self, tuning: float) -> float:
        """The variance of people - λ·judge."""
        spread = self.people_spread - 2 * tuning * self.joint + tuning**2 * self.judge_spread
        return max(spread, 0.0)


def prediction_powered(observed: Observed, level: float = LEVEL) -> Estimate:
    """The mean that people would give to all rollouts, labelled or not.

    >>> judge = np.array([1, 1, 0, 0] * 100, dtype=float)
    >>> people = np.where(np.arange(400) < 40, judge, np.nan)
    >>> print(prediction_powered(Observed(judge, people, np.arange(400.0))))
    0.50 [0.43, 0.57]
    """
    labelled = observed.labelled
    others = observed.judge[~labelled]
    plain, moments = _moments(observed, 0.0), _moments(observed, _smoothing(observed))
    tuning = power_tuning(observed)
    value = plain.people - tuning * plain.judge + tuning * _mean(others)
    centre = moments.people - tuning * moments.judge + tuning * _mean(others)
    variance = moments.residual(tuning) / moments.size
    if tuning:
        variance += tuning**2 * _spread(observed) / len(others)
    variance *= design_effect(_influence(observed, tuning), observed.examples)
    half = t_quantile((1 + level) / 2, max(1, observed.labelled_examples - 2)) * variance**0.5
    low, high = centre - half, centre + half
    found = Estimate(value, min(low, value), max(high, value))
    return found.within(0.0, 1.0) if observed.is_binary else found


def power_tuning(observed: Observed) -> float:
    """How much the judge's answers are worth, from 0 (nothing) to 1 (as much as labels)."""
    others = len(observed.judge) - observed.labels
    spread = _spread(observed)
    if not others or spread <= 0:
        return 0.0
    moments = _moments(observed, _smoothing(observed))
    slope = moments.joint / max(moments.judge_spread, 1e-12)
    return float(min(max(slope / (1 + observed.labels / others), 0.0), 1.0))


def label_budget(observed: Observed) -> LabelBudget:
    """How the interval would shrink with more labels like these."""
    moments = _moments(observed, _smoothing(observed))
    both = moments.people_spread * moments.judge_spread
    told = moments.joint**2 / both if both > 0 and moments.joint > 0 else 0.0
    told = min(told, 1.0)
    spread = moments.people_spread
    return LabelBudget(spread * (1 - told), spread * told / len(observed.judge))


def correlation(observed: Observed) -> float | None:
    """Pearson's correlation of judge and people; None when one of them never varies."""
    moments = _moments(observed, 0.0)
    both = moments.people_spread * moments.judge_spread
    return moments.joint / both**0.5 if both > 0 else None


def _smoothing(observed: Observed) -> float:
    """Answers to make up in each corner, where the ones that are there could hide every error."""
    gaps = observed.people[observed.labelled] - observed.judge[observed.labelled]
    if not observed.is_binary and float(np.ptp(gaps)) > 0:
        return 0.0
    # More where labels of one example say less than as many others: without, clusters of 8 at a rate of 5 % held
    # the truth 86 times in 100, and by whole examples too many of them made other rates as bad.
    return _MADE_UP * (observed.labels / observed.labelled_examples) ** 0.5


def _moments(observed: Observed, made_up: float) -> _Moments:
    people, judge = observed.people[observed.labelled], observed.judge[observed.labelled]
    corners_people, corners_judge = _corners(observed, made_up)
    weights = np.concatenate([np.ones(len(people)), np.full(len(corners_people), made_up)])
    people = np.concatenate([people, corners_people])
    judge = np.concatenate([judge, corners_judge])
    size = float(weights.sum())
    # Made-up answers stand in for the degree of freedom that the mean takes.
    freedom = size if made_up else max(size - 1, 1.0)
    people_mean, judge_mean = (float((weights * v).sum()) / size for v in (people, judge))
    people_gaps, judge_gaps = people - people_mean, judge - judge_mean
    return _Moments(
        size,
        people_mean,
        judge_mean,
        float((weights * people_gaps**2).sum()) / freedom,
        float((weights * judge_gaps**2).sum()) / freedom,
        float((weights * people_gaps * judge_gaps).sum()) / freedom,
    )


def _corners(observed: Observed, made_up: float) -> tuple[Array, Array]:
    """The four ways in which people and judge could be at the ends of the scale."""
    if not made_up:
        return np.zeros(0), np.zeros(0)
    everything = np.concatenate([observed.judge, observed.people[observed.labelled]])
    low, high = min(0.0, float(everything.min())), max(1.0, float(everything.max()))
    return np.array([low, low, high, high]), np.array([low, high, low, high])


def _influence(observed: Observed, tuning: float) -> Array:
    labelled = observed.labelled
    residuals = np.where(labelled, observed.people - tuning * observed.judge, 0.0)
    residuals = np.where(labelled, residuals - residuals[labelled].mean(), 0.0) / observed.labels
    others = observed.judge - _mean(observed.judge[~labelled])
    count = max(1, len(observed.judge) - observed.labels)
    return np.where(labelled, residuals, tuning * others / count)


def _mean(values: Array) -> float:
    return float(values.mean()) if len(values) else 0.0


def _spread(observed: Observed) -> float:
    """The variance of the judge's answers over all rollouts."""
    return float(observed.judge.var(ddof=1)) if len(observed.judge) > 1 else 0.0
