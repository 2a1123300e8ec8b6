"""Pairs made by a recipe, so that it is known whether they are equal."""

import random
from collections.abc import Iterator
from fractions import Fraction

Pair = tuple[str, str, bool]


def numbers(seed: int, size: int) -> Iterator[Pair]:
    """Two spellings of numbers, equal or near to each other."""
    draw = random.Random(seed)
    for _ in range(size):
        value = Fraction(
            draw.randint(-400, 400), draw.choice([1, 1, 1, 2, 3, 4, 5, 7, 8, 16, 25, 100])
        )
        if draw.random() < 0.2:
            value *= draw.choice([1000, 12345, 10**6])
        other = value
        if draw.random() < 0.5:
            other += Fraction(draw.choice([-1, 1]), draw.choice([1, 2, 10, 100, 1000]))
        yield spelled(value, draw), spelled(other, draw), value == other


def spelled(value: Fraction, draw: random.Random) -> str:
    """One of the ways to write a number exactly."""
    top, bottom = value.numerator, value.denominator
    ways = [
        rf"\frac{{{top}}}{{{bottom}}}",
        f"{top}/{bottom}",
        rf"\dfrac{{{2 * top}}}{{{2 * bottom}}}",
    ]
    if bottom == 1:
        ways += [str(top), f"${top}$", rf"\boxed{{{top}}}", f"{top}.0", f"{top:,}", f" {top} "]
    elif 10**6 % bottom == 0:
        ways += [f"{float(value):.6f}".rstrip("0"), f"{float(value):.6f}"]
    if bottom == 1 and abs(top) < 10000:
        ways.append(rf"{top}\text{{ cm}}")
    sign = "-" if value < 0 else ""
    whole, rest = divmod(abs(top), bottom)
    if rest and whole:
        ways.append(rf"{sign}{whole}\frac{{{rest}}}{{{bottom}}}")
    return draw.choice(ways)


def polynomials(seed: int, size: int) -> Iterator[Pair]:
    """A product of factors and its expansion, which may have one coefficient changed."""
    draw = random.Random(seed)
    for _ in range(size):
        roots = [draw.randint(-6, 6) for _ in range(draw.randint(1, 3))]
        factor = draw.choice([1, 1, 2, 3, -1, 5])
        coefficients = [factor]
        for root in roots:
            shifted = [*coefficients, 0]
            for place, coefficient in enumerate(coefficients):
                shifted[place + 1] -= root * coefficient
            coefficients = shifted
        same = draw.random() < 0.5
        if not same:
            coefficients[draw.randrange(len(coefficients))] += draw.choice([-2, -1, 1, 2])
        product = "".join(f"(x{-root:+d})" if root else "x" for root in roots)
        yield (
            f"{factor if factor != 1 else ''}{product}".replace("-1(", "-("),
            expanded(coefficients),
            same,
        )


def expanded(coefficients: list[int]) -> str:
    """A polynomial written out."""
    degree = len(coefficients) - 1
    terms = []
    for place, coefficient in enumerate(coefficients):
        if coefficient:
            power = degree - place
            letter = "" if power == 0 else "x" if power == 1 else f"x^{{{power}}}"
            number = (
                f"{coefficient:+d}"
                if abs(coefficient) != 1 or not letter
                else f"{coefficient:+d}"[0]
            )
            terms.append(number + letter)
    return "".join(terms).lstrip("+") or "0"


IDENTITIES = [
    (r"\sin(2({0}))", r"2\sin({0})\cos({0})"),
    (r"\cos(2({0}))", r"1-2\sin^2({0})"),
    (r"({0})^2-({1})^2", r"({0}-({1}))({0}+({1}))"),
    (r"\frac{{1}}{{{0}}}+\frac{{1}}{{{1}}}", r"\frac{{({0})+({1})}}{{({0})({1})}}"),
    (r"\sqrt{{{2}}}", r"\frac{{{2}}}{{\sqrt{{{2}}}}}"),
    (r"e^{{{0}+1}}", r"e\cdot e^{{{0}}}"),
    (r"\log_{{{2}}}({3})", r"\frac{{\ln {3}}}{{\ln {2}}}"),
    (r"\binom{{{3}}}{{2}}", r"\frac{{{3}\cdot({3}-1)}}{{2}}"),
    (r"\left({0}\right)^{{3}}", r"({0})({0})({0})"),
    (r"\tan({0})", r"\frac{{\sin({0})}}{{\cos({0})}}"),
]


def identities(seed: int, size: int) -> Iterator[Pair]:
    """Two sides of a known identity, or of one with a number added to one side."""
    draw = random.Random(seed)
    for _ in range(size):
        one, two = draw.choice(IDENTITIES)
        fill = [
            draw.choice(["x", "y+1", "2a", "x^2+1", r"\pi t"]),
            draw.choice(["z", "3b", "n+2"]),
            str(draw.choice([2, 3, 5, 6, 7, 10])),
            str(draw.randint(3, 30)),
        ]
        same = draw.random() < 0.6
        yield (
            one.format(*fill),
            two.format(*fill) + ("" if same else draw.choice(["+1", "-2", "+x"])),
            same,
        )
