"""Estimate from a tree how large its exact value can become, before anything is computed.

Small expressions are compared in the calling process. Others are compared in a worker process,
where a deadline and a memory limit apply.
"""

import math
from typing import Final, NamedTuple

from assay.math import tree

_MAX_NODES: Final = 600
_MAX_BITS: Final = 20_000
_MAX_DEGREE: Final = 5000
_MAX_FACTORIAL_ARGUMENT: Final = 10_000  # also of a binomial coefficient
_MAX_EXPONENT_BITS: Final = 64


class _Size(NamedTuple):
    """Upper bounds for an expression once it is multiplied out."""

    bits: float  # of its longest number
    degree: float  # in all its variables


_UNBOUNDED: Final = _Size(math.inf, math.inf)


def is_small(node: tree.Node) -> bool:
    """Return True if this expression can be compared with any other in little time and memory."""
    if len(tree.list_nodes(node)) > _MAX_NODES:
        return False
    size = _estimate(node)
    return size.bits <= _MAX_BITS and size.degree <= _MAX_DEGREE


def _estimate(node: tree.Node) -> _Size:
    """Return upper bounds for an expression once it is multiplied out."""
    match node:
        case tree.Number(value):
            return _Size(value.p.bit_length() + value.q.bit_length(), 0)
        case tree.Symbol() | tree.Constant():
            return _Size(1, 1)
        case tree.Power(base, exponent):
            return _estimate_power(base, exponent)
        case tree.Apply("factorial" | "binomial", arguments):
            return _estimate_factorial(arguments)
        case _:
            # An operation at most adds the sizes of its parts: fractions get a common denominator.
            parts = [_estimate(child) for child in tree.children(node)]
            bits = sum(part.bits + 1 for part in parts)
            degree = sum(part.degree for part in parts)
            return _Size(bits, degree)


def _estimate_power(base: tree.Node, exponent: tree.Node) -> _Size:
    """Return upper bounds for a power, which multiplies its base as often as the exponent says."""
    base_size = _estimate(base)
    exponent_size = _estimate(exponent)
    if exponent_size.bits > _MAX_EXPONENT_BITS:
        return _UNBOUNDED
    exponent_value = tree.evaluate_rational(exponent)
    if exponent_value is None:
        # A power such as x^n is not multiplied out.
        return _Size(base_size.bits + exponent_size.bits, base_size.degree + exponent_size.degree)
    factor_count = max(1, abs(int(exponent_value.p)))
    return _Size(base_size.bits * factor_count, base_size.degree * factor_count)


def _estimate_factorial(arguments: tuple[tree.Node, ...]) -> _Size:
    """Estimate n! or a binomial coefficient of n, which are products of at most n factors."""
    argument_sizes = [_estimate(argument) for argument in arguments]
    if any(size.bits > _MAX_EXPONENT_BITS for size in argument_sizes):
        return _UNBOUNDED
    factor_count = 1
    for argument in arguments:
        value = tree.evaluate_rational(argument)
        if value is not None:
            factor_count = max(factor_count, abs(int(value.p)))
    if factor_count > _MAX_FACTORIAL_ARGUMENT:
        return _UNBOUNDED
    bits = factor_count * sum(size.bits for size in argument_sizes)
    degree = factor_count * sum(size.degree for size in argument_sizes)
    return _Size(bits, degree)
