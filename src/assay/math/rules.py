"""When two numbers count as the same: exactly, to so many places, or within a tolerance asked for."""

from assay.math.options import MathOptions

SMALLEST_SHOWN = 10
"""Below 1/10 places are counted from the first digit, so that tiny numbers stay apart."""


def agree(
    one: tuple[int, int], two: tuple[int, int], *, is_decimal: bool, options: MathOptions
) -> bool:
    """Whether two fractions (top, bottom) are the same number.

    Exact numbers must be equal. Where one is written as a decimal and neither is whole, they must
    agree when rounded to `options.rounding` places: `0.333333` is 1/3, `0.333` is not.
    """
    (a, b), (c, d) = one, two
    if a * d == c * b:
        return True
    if options.tolerance > 0 and abs(a * d - c * b) <= options.tolerance * max(
        abs(a * d), abs(c * b)
    ):
        return True
    if not is_decimal:
        return False
    places = options.rounding + _zeros_behind_the_point(one, two)
    return rounded(one, places) == rounded(two, places)


def rounded(number: tuple[int, int], places: int) -> int:
    """The number times 10**places, to the nearest whole number."""
    top, bottom = number
    return (2 * top * 10**places + bottom) // (2 * bottom)


def _zeros_behind_the_point(one: tuple[int, int], two: tuple[int, int]) -> int:
    """How many zeros the larger of the two has between its point and its first digit."""
    top, bottom = max((abs(one[0]), one[1]), (abs(two[0]), two[1]), key=lambda n: n[0] / n[1])
    if top == 0:
        return 0
    zeros = 0
    while top * SMALLEST_SHOWN < bottom:
        top *= 10
        zeros += 1
    return zeros
