"""The door to numpy and scipy, which only those need who ask for statistics."""

from importlib import import_module
from typing import Any, TypeAlias

from assay.errors import MissingExtraError

try:
    import numpy as np
    from numpy.typing import NDArray

    _special: Any = import_module("scipy.special")
except ModuleNotFoundError as error:
    raise MissingExtraError(
        "statistics about judges", package=str(error.name), extra="trust"
    ) from None

__all__ = [
    "Array",
    "beta_quantile",
    "binomial_below",
    "divided",
    "normal_cdf",
    "normal_quantile",
    "np",
    "t_quantile",
]

Array: TypeAlias = NDArray[np.float64]


def normal_quantile(share: float) -> float:
    """The value below which a standard normal falls with this probability.

    >>> round(normal_quantile(0.975), 4)
    1.96
    """
    return float(_special.ndtri(share))


def normal_cdf(value: float) -> float:
    """The probability that a standard normal falls below a value."""
    return float(_special.ndtr(value))


def t_quantile(share: float, freedom: float) -> float:
    """The same as `normal_quantile` for Student's t, with so many degrees of freedom."""
    return float(_special.stdtrit(freedom, share))


def beta_quantile(share: float, first: float, second: float) -> float:
    """The value below which a beta variable of these two shapes falls with this probability."""
    return float(_special.betaincinv(first, second, share))


def binomial_below(successes: int, trials: int, chance: float) -> float:
    """The probability of at most so many successes.

    >>> binomial_below(1, 2, 0.5)
    0.75
    """
    return float(_special.bdtr(successes, trials, chance))


def divided(above: Array, below: Array) -> Array:
    """The quotients; NaN where there is nothing to divide by."""
    shape = np.broadcast_shapes(np.shape(above), np.shape(below))
    return np.divide(above, below, out=np.full(shape, np.nan), where=np.asarray(below) > 0)
