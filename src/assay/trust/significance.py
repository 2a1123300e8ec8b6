"""Test whether a difference may be due to chance, and compute the detectable difference."""

from collections.abc import Sequence
from itertools import product

from assay.trust.estimate import MAX_KINDS, Array, np, special, split_draws, t_quantile

_PERMUTATIONS = 10_000
# Up to this many differences, their signs are flipped in every possible way. For more of them, a
# random sample of the ways is taken.
_MAX_ENUMERATED = 14


def mcnemar(better: int, worse: int) -> float:
    """Return the exact two-sided p-value of McNemar's test.

    `better` and `worse` are the numbers of examples that changed in either direction. If the runs
    do not differ, both directions are equally likely, which is a binomial test.

    >>> round(mcnemar(9, 1), 4)
    0.0215
    """
    return min(1.0, 2 * float(special.bdtr(min(better, worse), better + worse, 0.5)))


def sign_flip(differences: Sequence[float] | Array, *, seed: int = 0) -> float:
    """Return the two-sided p-value of the paired permutation test on the mean of differences.

    If two runs do not differ, each difference could as well have the opposite sign. The p-value is
    the share of all choices of signs that give at least as large a sum. `seed` is for the random
    signs that are drawn if there are too many choices.

    >>> sign_flip([0.2, 0.3, 0.1, 0.4])
    0.125
    """
    values = np.asarray(differences, dtype=np.float64)
    values = values[values != 0]
    if not len(values):
        return 1.0
    observed = abs(float(values.sum()))
    # Sums of the same numbers in a different order may differ in the last digit.
    threshold = observed - 1e-9 * max(1.0, observed)
    if len(values) <= _MAX_ENUMERATED:
        signs = np.array(list(product((-1.0, 1.0), repeat=len(values))))
        return float((np.abs(signs @ values) >= threshold).mean())
    sums = _draw_flipped_sums(values, seed)
    as_large = int((np.abs(sums) >= threshold).sum())
    return (as_large + 1) / (_PERMUTATIONS + 1)


def _draw_flipped_sums(values: Array, seed: int) -> Array:
    """Return the sums of the values with random signs, one sum for each of `_PERMUTATIONS`."""
    generator = np.random.default_rng(seed)
    magnitudes, counts = np.unique(np.abs(values), return_counts=True)
    if len(magnitudes) <= MAX_KINDS:
        # Many values have the same magnitude. How many of them get a positive sign is binomial,
        # which is faster to draw than every sign.
        positive_counts = generator.binomial(counts, 0.5, size=(_PERMUTATIONS, len(magnitudes)))
        negative_counts = counts - positive_counts
        net_counts = (positive_counts - negative_counts).astype(np.float64)
        return np.asarray(net_counts @ magnitudes, dtype=np.float64)
    sums: list[Array] = []
    for draws in split_draws(_PERMUTATIONS, len(values)):
        signs = 2.0 * generator.integers(2, size=(draws, len(values))) - 1
        sums.append(signs @ values)
    return np.concatenate(sums)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for how many there are (Holm 1979), in the same order.

    The smallest of n is multiplied by n, the next by n - 1, and so on, but none becomes smaller than
    the one before.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted = [0.0] * len(p_values)
    indices_by_size = sorted(range(len(p_values)), key=p_values.__getitem__)
    largest = 0.0
    for rank, index in enumerate(indices_by_size):
        factor = len(p_values) - rank
        largest = max(largest, min(1.0, factor * p_values[index]))
        adjusted[index] = largest
    return adjusted


def minimum_detectable_effect(
    differences: Sequence[float] | Array, *, tests: int = 1, power: float = 0.8, level: float = 0.95
) -> float | None:
    """Return the smallest mean difference that data like these show with this power.

    `tests` is the number of differences that are tested together. None if all differences are the
    same, or too few for any difference to be significant: five examples that all rise have a
    p-value of 0.06.
    """
    values = np.asarray(differences, dtype=np.float64)
    if len(values) < 2:
        return None
    alpha = (1 - level) / tests
    degrees_of_freedom = len(values) - 1
    deviation = float(values.std(ddof=1))
    smallest_p = 2.0**-degrees_of_freedom  # of a sign-flip test whose differences all agree
    if smallest_p > alpha or deviation == 0:
        return None
    standard_error = deviation / len(values) ** 0.5
    for_significance = t_quantile(1 - alpha / 2, degrees_of_freedom)
    for_power = t_quantile(power, degrees_of_freedom)
    return (for_significance + for_power) * standard_error
