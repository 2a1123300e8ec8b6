"""Test whether a difference between two runs could be chance, and which would show."""

from collections.abc import Sequence
from itertools import product

from assay.trust.estimate import FEW, Array, np, pieces, special, t_quantile

PERMUTATIONS = 10_000
_ENUMERABLE = 14  # differences whose signs are flipped in every possible way; of more, a sample is taken


def mcnemar(better: int, worse: int) -> float:
    """The exact two-sided p-value of McNemar's test, from the examples that changed.

    >>> round(mcnemar(9, 1), 4)
    0.0215
    """
    return min(1.0, 2 * float(special.bdtr(min(better, worse), better + worse, 0.5)))


def sign_flip(differences: Sequence[float] | Array, *, seed: int = 0) -> float:
    """The two-sided p-value of the paired permutation test on the mean of these differences.

    If the two runs were the same, each difference could as well have the other sign.

    >>> sign_flip([0.2, 0.3, 0.1, 0.4])
    0.125
    """
    given = np.asarray(differences, dtype=np.float64)
    given = given[given != 0]
    found = abs(float(given.sum()))
    # Sums of the same numbers in another order may differ in the last digit.
    edge = found - 1e-9 * max(1.0, found)
    if not len(given):
        return 1.0
    if len(given) <= _ENUMERABLE:
        signs = np.array(list(product((-1.0, 1.0), repeat=len(given))))
        return float((np.abs(signs @ given) >= edge).mean())
    generator = np.random.default_rng(seed)
    sizes, counts = np.unique(np.abs(given), return_counts=True)
    if len(sizes) <= FEW:
        # Of so many differences of one size, how many keep their sign is binomial.
        kept = generator.binomial(counts, 0.5, size=(PERMUTATIONS, len(sizes)))
        sums = (2.0 * kept - counts) @ sizes
    else:
        shapes = ((size, len(given)) for size in pieces(PERMUTATIONS, len(given)))
        sums = np.concatenate([(2.0 * generator.integers(2, size=shape) - 1) @ given for shape in shapes])
    return (int((np.abs(sums) >= edge).sum()) + 1) / (PERMUTATIONS + 1)


def holm(values: Sequence[float]) -> list[float]:
    """P-values adjusted for how many there are (Holm 1979), in the same order.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted = [0.0] * len(values)
    highest = 0.0
    for rank, place in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        highest = max(highest, min(1.0, (len(values) - rank) * values[place]))
        adjusted[place] = highest
    return adjusted


def minimum_detectable_effect(
    differences: Sequence[float] | Array, *, tests: int = 1, power: float = 0.8, level: float = 0.95
) -> float | None:
    """The smallest mean difference that data like these would show, in `power` of the cases.

    `tests` is how many differences are tested together. None when all are the same, or when they are too
    few for any difference to be beyond chance: five examples that all rise have a p-value of 0.06.
    """
    given = np.asarray(differences, dtype=np.float64)
    chance, free = (1 - level) / tests, len(given) - 1
    if len(given) < 2 or 2.0**-free > chance or float(given.std(ddof=1)) == 0:
        return None
    error = float(given.std(ddof=1)) / len(given) ** 0.5
    return (t_quantile(1 - chance / 2, free) + t_quantile(power, free)) * error
