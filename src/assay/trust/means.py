"""Means over rollouts, where rollouts of one example do not count as independent."""

from dataclasses import dataclass
from functools import cached_property

from assay.trust.estimate import Estimate, undefined
from assay.trust.numeric import Array, np, t_quantile
from assay.trust.shares import LEVEL, wilson


@dataclass(frozen=True)
class Observed:
    """What the judge says of every rollout, and people of some of them."""

    judge: Array
    people: Array
    """NaN where nobody labelled."""
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


def mean_of(values: Array, examples: Array, level: float = LEVEL) -> Estimate:
    """The mean, with an interval that takes whole examples for independent.

    Shares of yes and no have Wilson's interval, for as many answers as the examples are worth.
    """
    if not len(values):
        return undefined("there are no values")
    value, count = float(values.mean()), len(np.unique(examples))
    effect = design_effect(values - value, examples)
    if np.isin(values, (0.0, 1.0)).all():
        answers = len(values) / effect
        return wilson(value * answers, answers, level)
    if count < 2:
        return Estimate(value, reason="one example alone has no spread, so there is no interval")
    error = (float(values.var(ddof=1)) / len(values) * effect) ** 0.5
    half = t_quantile((1 + level) / 2, count - 1) * error
    return Estimate(value, value - half, value + half)


def design_effect(influence: Array, examples: Array) -> float:
    """How much larger the variance is than if all rollouts were independent; at least 1.

    `influence` is what each rollout adds to the estimate.
    """
    alone = float((influence**2).sum())
    if alone <= 0:
        return 1.0
    _, places = np.unique(examples, return_inverse=True)
    together = np.bincount(places, weights=influence)
    return max(1.0, float((together**2).sum()) / alone)
