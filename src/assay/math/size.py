"""Estimate from a tree how large its exact value can become, before anything is computed.

A small expression is compared in the calling process. Any other is compared in a worker process, where a deadline
and a memory limit apply.
"""

import math
from typing import Final, NamedTuple

from assay.math import tree

_MOST_NODES: Final = 600
_MOST_BITS: Final = 20_000
_HIGHEST_DEGREE: Final = 5000
_LARGEST_ARGUMENT: Final = 10_000  # of a factorial or a binomial coefficient
_MOST_EXPONENT_BITS: Final = 64


class _Size(NamedTuple):
    """Upper bounds for an expression that is multiplied out."""

    bits: float  # of its longest number
    degree: float  # of its variables


_UNBOUNDED: Final = _Size(math.inf, math.inf)


def is_small(node: tree.Node) -> bool:
    """Return True if comparing this expression takes little time and memory, whatever the other side is."""
    if len(tree.nodes_of(node)) > _MOST_NODES:
        return False
    size = _estimate(node)
    return size.bits <= _MOST_BITS and size.degree <= _HIGHEST_DEGREE


def _estimate(node: tree.Node) -> _Size:
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
            # Each operation adds the sizes of its parts at most: fractions get a common denominator.
            parts = [_estimate(child) for child in tree.children(node)]
            bits = sum(part.bits + 1 for part in parts)
            degree = sum(part.degree for part in parts)
            return _Size(bits, degree)


def _estimate_power(base: tree.Node, exponent: tree.Node) -> _Size:
    base_size = _estimate(base)
    exponent_size = _estimate(exponent)
    if exponent_size.bits > _MOST_EXPONENT_BITS:
        return _UNBOUNDED
    number = tree.rational_of(exponent)
    if number is None:
        return _Size(base_size.bits + exponent_size.bits, base_size.degree + exponent_size.degree)
    factor = max(1, abs(int(number.p)))
    return _Size(base_size.bits * factor, base_size.degree * factor)


def _estimate_factorial(arguments: tuple[tree.Node, ...]) -> _Size:
    sizes = [_estimate(argument) for argument in arguments]
    if any(size.bits > _MOST_EXPONENT_BITS for size in sizes):
        return _UNBOUNDED
    # n! and the binomial coefficients of n are products of at most n factors.
    factor = 1
    for argument in arguments:
        number = tree.rational_of(argument)
        if number is not None:
            factor = max(factor, abs(int(number.p)))
    if factor > _LARGEST_ARGUMENT:
        return _UNBOUNDED
    bits = factor * sum(size.bits for size in sizes)
    degree = factor * sum(size.degree for size in sizes)
    return _Size(bits, degree)
