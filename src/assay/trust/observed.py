"""Observed: what a judge says of every rollout, beside what people say of some."""

from dataclasses import dataclass
from functools import cached_property

from assay.runs.intervals import Spread
from assay.trust.estimate import Estimate, undefined
from assay.trust.numeric import Array, np
from assay.trust.shares import LEVEL, estimate_of


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
    """The mean, with an interval that takes whole examples for independent."""
    if not len(values):
        return undefined("there are no values")
    mean = float(values.mean())
    together = summed_by_example(values - mean, examples)
    is_share = bool(np.isin(values, (0.0, 1.0)).all())
    squares = float((together**2).sum())
    return estimate_of(Spread(mean, squares, len(values), len(together), is_share), level)


def design_effect(influence: Array, examples: Array) -> float:
    """How much larger the variance is than if all rollouts were independent; at least 1.

    `influence` is what each rollout adds to the estimate.
    """
    alone = float((influence**2).sum())
    if alone <= 0:
        return 1.0
    return max(1.0, float((summed_by_example(influence, examples) ** 2).sum()) / alone)


def summed_by_example(values: Array, examples: Array) -> Array:
    """The values added up, a sum an example."""
    _, places = np.unique(examples, return_inverse=True)
    return np.bincount(places, weights=values).astype(float)
