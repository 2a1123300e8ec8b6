"""Rogan–Gladen: a rate with the judge's false alarms and misses taken out.

The rate is (p + specificity - 1) / (sensitivity + specificity - 1), where p is the judge's own (Rogan and Gladen
1978). The interval is that of Lang and Reiczigel (2014), which adds a few made-up answers so that it holds
for small samples. They take the labelled sample for a separate one. Here it is part of the run, so what is
uncertain about both is not counted twice.
"""

from dataclasses import dataclass

from assay.trust.estimate import Estimate
from assay.trust.numeric import Array, normal_quantile, np
from assay.trust.observed import Observed, design_effect, summed_by_example
from assay.trust.shares import LEVEL, clustered_wilson, difference_of

DOUBT = 0.9
"""The level of the two-sided interval of the judge's quality that must lie above chance."""


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
    return _said_yes(observed, observed.people, level)


def specificity(observed: Observed, level: float = LEVEL) -> Estimate:
    """Of what people call unmet, the share that the judge calls unmet."""
    alarms = _said_yes(observed, 1 - observed.people, level)
    ends = (None if end is None else 1 - end for end in (alarms.value, alarms.high, alarms.low))
    return Estimate(*ends, reason=alarms.reason)


def beats_chance(observed: Observed) -> bool:
    """Whether sensitivity + specificity - 1 lies clearly above 0."""
    hits, alarms = (
        _said_yes(observed, weights, DOUBT) for weights in (observed.people, 1 - observed.people)
    )
    low = difference_of(hits, alarms).low
    return low is not None and low > 0


def _said_yes(observed: Observed, weights: Array, level: float) -> Estimate:
    """The share of labelled rollouts that the judge says yes to, each with its weight."""
    labelled = observed.labelled
    examples, weight = observed.examples[labelled], weights[labelled]
    yes = summed_by_example(observed.judge[labelled] * weight, examples)
    clusters = zip(yes.tolist(), summed_by_example(weight, examples).tolist(), strict=True)
    return clustered_wilson(list(clusters), level)


def rogan_gladen(rates: ErrorRates, *, effect: float = 1.0, level: float = LEVEL) -> Estimate:
    """The rate that people would give. `effect` is what clusters do to its variance.

    >>> print(rogan_gladen(ErrorRates(600, 1000, 45, 50, 10, 50)))
    0.57 [0.47, 0.68]
    """
    share = rates.positives / rates.rollouts
    hits, alarms = rates.hits / rates.people_yes, rates.false_alarms / rates.people_no
    value = min(max((share - alarms) / (hits - alarms), 0.0), 1.0)
    z = normal_quantile((1 + level) / 2)
    adjusted = _adjusted(rates, z)
    centre = adjusted.rate + 2 * z * z * adjusted.shift
    half = z * (adjusted.variance() * effect) ** 0.5
    low, high = (min(max(end, 0.0), 1.0) for end in (centre - half, centre + half))
    return Estimate(value, min(low, value), max(high, value))


def influence(observed: Observed, rates: ErrorRates, rate: float) -> Array:
    """What each rollout adds to the estimate, for the effect of clusters."""
    share = rates.positives / rates.rollouts
    hits, alarms = rates.hits / rates.people_yes, rates.false_alarms / rates.people_no
    yes = np.where(observed.labelled, observed.people, 0.0)
    no = np.where(observed.labelled, 1 - observed.people, 0.0)
    return (
        (observed.judge - share) / rates.rollouts
        - rate * yes * (observed.judge - hits) / rates.people_yes
        - (1 - rate) * no * (observed.judge - alarms) / rates.people_no
    )


def clustered_rogan_gladen(observed: Observed, level: float = LEVEL) -> Estimate:
    """The rate that people would give, with rollouts of one example kept together."""
    rates = ErrorRates.of(observed)
    plain = rogan_gladen(rates, level=level)
    weights = influence(observed, rates, plain.value or 0.0)
    return rogan_gladen(rates, effect=design_effect(weights, observed.examples), level=level)


@dataclass(frozen=True)
class _Adjusted:
    """The rate after the made-up answers, and the parts of its variance."""

    rate: float
    gap: float
    """Sensitivity + specificity - 1."""
    shift: float
    from_rollouts: float
    from_hits: float
    from_alarms: float

    def variance(self) -> float:
        parts = self.from_rollouts + self.from_hits + self.from_alarms
        return max(parts, 0.0) / self.gap**2


def _adjusted(rates: ErrorRates, z: float) -> _Adjusted:
    rollouts, yes, no = rates.rollouts + z * z, rates.people_yes + 2, rates.people_no + 2
    share = (rates.positives + z * z / 2) / rollouts
    hits, alarms = (rates.hits + 1) / yes, (rates.false_alarms + 1) / no
    gap = hits - alarms
    rate = (share - alarms) / gap
    within = min(max(rate, 0.0), 1.0)
    hit_spread, alarm_spread = hits * (1 - hits), alarms * (1 - alarms)
    shared = within * hit_spread + (1 - within) * alarm_spread
    overlap = 0.0 if rates.apart else 2 * shared / rollouts
    return _Adjusted(
        rate=rate,
        gap=gap,
        shift=within * hit_spread / yes - (1 - within) * alarm_spread / no,
        from_rollouts=share * (1 - share) / rollouts - overlap,
        from_hits=within**2 * hit_spread / yes,
        from_alarms=(1 - within) ** 2 * alarm_spread / no,
    )
