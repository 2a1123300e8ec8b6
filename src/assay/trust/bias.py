"""Remove a judge's bias from a mean with labels on some of the rollouts.

Rogan and Gladen (1978) remove the judge's false positives and false negatives from a rate. It is
(p + specificity - 1) / (sensitivity + specificity - 1), where p is the judge's own rate. The
interval is that of Lang and Reiczigel (2014), which adds a few made-up answers so that it holds for
small samples. They assume that the labelled sample is separate. Here it is part of the run, so the
uncertainty that both share is not counted twice.

Prediction-powered inference (Angelopoulos, Duchi and Zrnic 2023, "PPI++") narrows the interval of
the mean of labels by the judge's answers to the other rollouts. The estimate is
mean(people - λ·judge) over the labelled rollouts + λ·mean(judge) over the others. λ says how much
the judge's answers help, and is chosen for the least variance. With a judge that does not help, λ is
0 and the labels stand alone.

Both need labelled rollouts that are drawn at random. If they were selected by the judge's verdict,
`standardise_by_verdict` estimates the rate of each verdict for itself.
"""

from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import NamedTuple

from assay.trust import estimate
from assay.trust.estimate import LEVEL, Array, BoolArray, Estimate, np, sums_by_example

# The level of the two-sided interval of the judge's quality that must lie above chance.
_CHANCE_LEVEL = 0.9
# Answers that are made up for each combination of yes and no. Without them, a judge without an
# observed error would seem perfect.
_MADE_UP_ANSWERS = 0.5


@dataclass(frozen=True)
class Observed:
    """The judge's answer to every rollout, and people's to some of them."""

    judge: Array
    people: Array  # NaN where there is no label
    examples: Array  # the number of the example that each rollout is of

    @cached_property
    def labelled(self) -> BoolArray:
        return np.isfinite(self.people)

    @cached_property
    def labels(self) -> int:
        """The number of labelled rollouts."""
        return int(self.labelled.sum())

    @cached_property
    def example_count(self) -> int:
        return len(np.unique(self.examples))

    @cached_property
    def labelled_examples(self) -> int:
        """The number of examples with a labelled rollout."""
        return len(np.unique(self.examples[self.labelled]))

    @cached_property
    def is_binary(self) -> bool:
        """Whether all answers are met or not met: 1 or 0.

        A label may be between 0 and 1, if several people labelled a rollout and were split.
        """
        people = self.people[self.labelled]
        labels_are_in_range = bool((people >= 0).all() and (people <= 1).all())
        judge_is_binary = bool(np.isin(self.judge, (0.0, 1.0)).all())
        return labels_are_in_range and judge_is_binary


# How good the judge is.


def sensitivity(observed: Observed) -> Estimate:
    """Return what share of the rollouts that people call met the judge calls met too."""
    return _estimate_share(observed, observed.judge, weights=observed.people)


def specificity(observed: Observed) -> Estimate:
    """Return what share of the rollouts that people call unmet the judge calls unmet too."""
    return _estimate_share(observed, 1 - observed.judge, weights=1 - observed.people)


def beats_chance(observed: Observed) -> bool:
    """Whether the judge says met clearly more often where people say met than where they do not."""
    hit_rate = _estimate_share(
        observed, observed.judge, weights=observed.people, level=_CHANCE_LEVEL
    )
    false_alarm_rate = _estimate_share(
        observed, observed.judge, weights=1 - observed.people, level=_CHANCE_LEVEL
    )
    low = estimate.subtract_shares(hit_rate, false_alarm_rate).low
    return low is not None and low > 0


def _estimate_share(
    observed: Observed, is_success: Array, *, weights: Array, level: float = LEVEL
) -> Estimate:
    """Return the weighted share of successes among the labelled rollouts, with an interval.

    `is_success` is 1 for a rollout that is a success, 0 for any other, and in between if people are
    split. A rollout of weight 0 is left out. `level` is that of the interval.
    """
    labelled = observed.labelled
    examples = observed.examples[labelled]
    successes = sums_by_example(is_success[labelled] * weights[labelled], examples)
    trials = sums_by_example(weights[labelled], examples)
    clusters = zip(successes.tolist(), trials.tolist(), strict=True)
    return estimate.clustered_wilson(list(clusters), level)


def correlation(observed: Observed) -> float | None:
    """Return Pearson's correlation of judge and people; None if one of them never varies."""
    moments = _measure_moments(observed)
    product = moments.people_variance * moments.judge_variance
    return moments.covariance / product**0.5 if product > 0 else None


def is_positive_correlation(correlation: float, examples: int) -> bool:
    """Whether a correlation over so many examples is clearly above 0.

    The test is one-sided, as in `beats_chance`. By Fisher, the inverse hyperbolic tangent of a
    correlation is normally distributed with the variance 1 / (examples - 3).
    """
    z = np.arctanh(min(correlation, 1 - 1e-12))  # that of 1 would be infinite
    deviation = 1 / (examples - 3) ** 0.5
    return bool(z > estimate.normal_quantile((1 + _CHANCE_LEVEL) / 2) * deviation)


# Rogan and Gladen.


class ErrorRates(NamedTuple):
    """Counts of the judge's yes, and of its right and wrong yes on labelled rollouts.

    A label of people who are split counts in part.
    """

    positives: float  # where the judge says yes, of all rollouts
    rollouts: float
    hits: float  # where judge and people say yes
    people_yes: float
    false_alarms: float  # where only the judge says yes
    people_no: float
    # Whether the labelled rollouts are a sample of their own, and not part of `rollouts`.
    is_separate_sample: bool = False

    @classmethod
    def of(cls, observed: Observed) -> "ErrorRates":
        """Count the judge's yes, and with the labels its right and wrong ones."""
        judge = observed.judge[observed.labelled]
        people = observed.people[observed.labelled]
        return cls(
            positives=float(observed.judge.sum()),
            rollouts=float(len(observed.judge)),
            hits=float((judge * people).sum()),
            people_yes=float(people.sum()),
            false_alarms=float((judge * (1 - people)).sum()),
            people_no=float((1 - people).sum()),
        )


def rogan_gladen(rates: ErrorRates, *, design_effect: float = 1.0) -> Estimate:
    """Return the rate that people would give, with the interval of Lang and Reiczigel.

    `design_effect` is how many times clusters increase the variance.
    """
    share = rates.positives / rates.rollouts
    hit_rate = rates.hits / rates.people_yes
    false_alarm_rate = rates.false_alarms / rates.people_no
    value = _clamp((share - false_alarm_rate) / (hit_rate - false_alarm_rate))
    low, high = _find_lang_reiczigel_bounds(rates, design_effect)
    return Estimate(value, low=min(low, value), high=max(high, value))


def _find_lang_reiczigel_bounds(rates: ErrorRates, design_effect: float) -> tuple[float, float]:
    """Return both ends of the interval of Lang and Reiczigel (2014).

    They are computed from the same counts with a few more answers: z² rollouts, half of which the
    judge calls met, and two labels each for yes and no, of which the judge gets one right.
    """
    z = estimate.normal_quantile((1 + LEVEL) / 2)
    rollouts = rates.rollouts + z * z
    people_yes = rates.people_yes + 2
    people_no = rates.people_no + 2
    share = (rates.positives + z * z / 2) / rollouts
    hit_rate = (rates.hits + 1) / people_yes
    false_alarm_rate = (rates.false_alarms + 1) / people_no

    quality = hit_rate - false_alarm_rate  # Youden's J: 1 for a perfect judge, 0 for chance
    rate = (share - false_alarm_rate) / quality
    valid_rate = _clamp(rate)
    hit_variance = hit_rate * (1 - hit_rate)
    false_alarm_variance = false_alarm_rate * (1 - false_alarm_rate)
    variance_of_share = share * (1 - share) / rollouts
    if not rates.is_separate_sample:
        # The labelled rollouts are part of the run, so they are in both variances.
        shared_variance = valid_rate * hit_variance + (1 - valid_rate) * false_alarm_variance
        variance_of_share -= 2 * shared_variance / rollouts
    variance_of_labels = (
        valid_rate**2 * hit_variance / people_yes
        + (1 - valid_rate) ** 2 * false_alarm_variance / people_no
    )
    variance = max(variance_of_share + variance_of_labels, 0.0) / quality**2

    shift = (
        valid_rate * hit_variance / people_yes - (1 - valid_rate) * false_alarm_variance / people_no
    )
    centre = rate + 2 * z * z * shift
    half_width = z * (variance * design_effect) ** 0.5
    return _clamp(centre - half_width), _clamp(centre + half_width)


def _clamp(rate: float) -> float:
    return min(max(rate, 0.0), 1.0)


def clustered_rogan_gladen(observed: Observed) -> Estimate:
    """Return the rate that people would give, by the method of Rogan and Gladen.

    Rollouts of one example may depend on each other, which makes the interval longer.
    """
    rates = ErrorRates.of(observed)
    rate = rogan_gladen(rates).value or 0.0
    share = rates.positives / rates.rollouts
    hit_rate = rates.hits / rates.people_yes
    false_alarm_rate = rates.false_alarms / rates.people_no
    people_yes = np.where(observed.labelled, observed.people, 0.0)
    people_no = np.where(observed.labelled, 1 - observed.people, 0.0)
    # How much each rollout moves the estimate: by the judge's answer, which is part of the judge's
    # rate, and by its label, which is part of the hit rate or of the false alarm rate.
    influence_on_share = (observed.judge - share) / rates.rollouts
    influence_on_hits = people_yes * (observed.judge - hit_rate) / rates.people_yes
    influence_on_false_alarms = people_no * (observed.judge - false_alarm_rate) / rates.people_no
    influence = (
        influence_on_share - rate * influence_on_hits - (1 - rate) * influence_on_false_alarms
    )
    design_effect = estimate.measure_design_effect(influence, observed.examples)
    return rogan_gladen(rates, design_effect=design_effect)


# Labelled rollouts that were selected by verdict.


def standardise_by_verdict(observed: Observed) -> Estimate:
    """Return the rate that people would give, from their rate for each verdict of the judge.

    It holds if the labelled rollouts of each verdict were drawn at random, however many they are.
    """
    judge_rate = estimate.estimate_mean(observed.judge, observed.examples)
    people_if_yes = _estimate_share(observed, observed.people, weights=observed.judge)
    people_if_no = _estimate_share(observed, observed.people, weights=1 - observed.judge)
    share = judge_rate.value or 0.0
    # A verdict that the judge never gave has no rate, and the weight 0.
    rate_if_yes = people_if_yes.value or 0.0
    rate_if_no = people_if_no.value or 0.0
    rate = share * rate_if_yes + (1 - share) * rate_if_no
    # The interval combines those of the three estimates (MOVER, Zou and Donner 2008). The weight of
    # each is how fast the rate changes with it.
    weighted_estimates = (
        (share, people_if_yes),
        (1 - share, people_if_no),
        (rate_if_yes - rate_if_no, judge_rate),
    )
    squares_below = 0.0
    squares_above = 0.0
    for weight, part in weighted_estimates:
        if part.value is None or part.low is None or part.high is None:
            continue
        below = weight * (part.value - part.low)
        above = weight * (part.high - part.value)
        if weight < 0:  # a higher part makes the rate lower
            below, above = above, below
        squares_below += below**2
        squares_above += above**2
    return Estimate(
        rate, low=_clamp(rate - squares_below**0.5), high=_clamp(rate + squares_above**0.5)
    )


# Prediction-powered inference.


def prediction_powered(observed: Observed) -> Estimate:
    """Return the mean that people would give to all rollouts, by prediction-powered inference.

    The estimate is mean(people - λ·judge) over the labelled rollouts + λ·mean(judge) over the
    others.
    """
    tuning = power_tuning(observed)  # λ
    judge_on_others = observed.judge[~observed.labelled]
    mean_of_others = float(judge_on_others.mean()) if len(judge_on_others) else 0.0
    moments = _measure_moments(observed)
    value = moments.people_mean - tuning * moments.judge_mean + tuning * mean_of_others

    # The interval is computed with a few made-up answers, because errors of the judge may have gone
    # unobserved. They move its centre.
    smooth = _measure_moments(observed, smooth=True)
    centre = smooth.people_mean - tuning * smooth.judge_mean + tuning * mean_of_others
    # The variance of people - λ·judge over the labelled, and that of λ·judge over the others.
    residual_variance = (
        smooth.people_variance - 2 * tuning * smooth.covariance + tuning**2 * smooth.judge_variance
    )
    variance = max(residual_variance, 0.0) / smooth.size
    if tuning:
        variance += tuning**2 * float(observed.judge.var(ddof=1)) / len(judge_on_others)
    influence = _measure_influence(observed, tuning, mean_of_others)
    variance *= estimate.measure_design_effect(influence, observed.examples)
    degrees_of_freedom = max(1, observed.labelled_examples - 2)
    half_width = estimate.t_quantile((1 + LEVEL) / 2, degrees_of_freedom) * variance**0.5
    corrected = Estimate(
        value, low=min(centre - half_width, value), high=max(centre + half_width, value)
    )
    return corrected.clamp(0.0, 1.0) if observed.is_binary else corrected


def _measure_influence(observed: Observed, tuning: float, mean_of_others: float) -> Array:
    """Return how much each rollout moves the estimate of prediction-powered inference.

    A labelled rollout moves the mean of people - λ·judge, and any other the mean of λ·judge.
    `tuning` is λ, and `mean_of_others` the judge's mean over the rollouts without a label.
    """
    labelled = observed.labelled
    residuals = np.where(labelled, observed.people - tuning * observed.judge, 0.0)
    residuals -= residuals[labelled].mean()
    other_count = max(1, len(observed.judge) - observed.labels)
    influence_of_others = tuning * (observed.judge - mean_of_others) / other_count
    return np.where(labelled, residuals / observed.labels, influence_of_others)


def power_tuning(observed: Observed) -> float:
    """Return λ: how much the judge's answers help, from 0 (not at all) to 1 (as much as labels)."""
    unlabelled = len(observed.judge) - observed.labels
    if unlabelled == 0 or len(observed.judge) < 2 or float(observed.judge.var(ddof=1)) <= 0:
        return 0.0
    moments = _measure_moments(observed, smooth=True)
    # This λ gives the estimate the least variance.
    slope = moments.covariance / max(moments.judge_variance, 1e-12)
    return float(_clamp(slope / (1 + observed.labels / unlabelled)))


def label_budget(observed: Observed) -> tuple[int | None, float]:
    """Return how many more labels halve the interval, and how much of it more labels cannot remove.

    The first number is None if labelling every rollout would not halve the interval. The second is
    the width of the interval if every rollout is labelled, as a share of the present width.

    The variance of the estimate is unexplained / labels + fixed. Unexplained is the variance of
    people's answers that the judge's answers do not explain. The part that they explain is fixed
    however many labels there are: it only falls with more rollouts.
    """
    moments = _measure_moments(observed, smooth=True)
    rollouts = len(observed.judge)
    explained_share = 0.0  # of the variance of people's answers, by the judge's answers
    product = moments.people_variance * moments.judge_variance
    if product > 0 and moments.covariance > 0:
        explained_share = min(moments.covariance**2 / product, 1.0)
    unexplained = moments.people_variance * (1 - explained_share)
    fixed = moments.people_variance * explained_share / rollouts
    variance_now = unexplained / observed.labels + fixed
    variance_if_all_labelled = unexplained / rollouts + fixed
    left_at_most = 1.0
    if variance_now > 0:
        left_at_most = (variance_if_all_labelled / variance_now) ** 0.5
    # Half the width is a quarter of the variance: unexplained / labels + fixed = variance_now / 4.
    wanted_variance = variance_now / 4
    if wanted_variance <= fixed or unexplained / (wanted_variance - fixed) > rollouts:
        return None, left_at_most
    wanted_labels = ceil(unexplained / (wanted_variance - fixed) - 1e-9)  # less a rounding error
    return max(1, wanted_labels - observed.labels), left_at_most


class _Moments(NamedTuple):
    """Means, variances and covariance of people and judge on the labelled rollouts."""

    size: float  # the number of rollouts, with the weights of made-up answers
    people_mean: float
    judge_mean: float
    people_variance: float
    judge_variance: float
    covariance: float


def _measure_moments(observed: Observed, *, smooth: bool = False) -> _Moments:
    """Return the means, variances and covariance of people and judge on the labelled rollouts.

    With `smooth`, a few answers are made up and added if errors of the judge may have gone
    unobserved: if its answers are yes or no, or it made no errors at all.
    """
    people = observed.people[observed.labelled]
    judge = observed.judge[observed.labelled]
    weights = np.ones(len(people))
    degrees_of_freedom = max(len(people) - 1.0, 1.0)
    judge_never_errs = float(np.ptp(people - judge)) <= 0  # apart from a constant difference
    if smooth and (observed.is_binary or judge_never_errs):
        # All four combinations of people and judge at the ends of the scale.
        values = np.concatenate([observed.judge, people])
        low = min(0.0, float(values.min()))
        high = max(1.0, float(values.max()))
        people = np.append(people, [low, low, high, high])
        judge = np.append(judge, [low, high, low, high])
        weights = np.append(weights, [_weigh_made_up_answer(observed)] * 4)
        # Made-up answers compensate for the degree of freedom that the mean takes.
        degrees_of_freedom = float(weights.sum())
    size = float(weights.sum())
    people_mean = float((weights * people).sum()) / size
    judge_mean = float((weights * judge).sum()) / size
    people_deviations = people - people_mean
    judge_deviations = judge - judge_mean
    products = people_deviations * judge_deviations
    return _Moments(
        size=size,
        people_mean=people_mean,
        judge_mean=judge_mean,
        people_variance=float((weights * people_deviations**2).sum()) / degrees_of_freedom,
        judge_variance=float((weights * judge_deviations**2).sum()) / degrees_of_freedom,
        covariance=float((weights * products).sum()) / degrees_of_freedom,
    )


def _weigh_made_up_answer(observed: Observed) -> float:
    """Return the weight of an answer that is made up so that intervals are not too short.

    It grows with the number of labels per example, since several labels of one example say less
    than as many labels of different examples. The square root is a compromise, found by simulation.
    With the same weight for all, 95 % intervals for examples of 8 rollouts at a rate of 5 %
    contained the truth in only 86 % of cases. With a weight in proportion to the labels per
    example, they contained other rates less often.
    """
    labels_per_example = observed.labels / observed.labelled_examples
    return _MADE_UP_ANSWERS * labels_per_example**0.5
