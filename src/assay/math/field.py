"""A field of atoms: exact arithmetic with variables, roots and powers, by their equations."""

from collections.abc import Callable
from typing import Any, Final

from flint import fmpq, fmpz

from assay.math.balls import UndefinedError
from assay.math.polynomials import (
    MOST_POWERS,
    ONE,
    Polynomial,
    Ratio,
    TooComplexError,
    common_powers,
    constant,
    content,
    divided,
    plus,
    rational,
    scaled,
    times,
    variable,
)

MOST_BITS: Final = 4096
"""Rational numbers beyond so many bits are not computed."""
_MOST_WORK: Final = 8000
"""Products of terms that one comparison may take: some milliseconds."""
_FACTORED: Final = fmpz(10) ** 30
"""Larger numbers are not factored."""
_POSITIVE: Final = frozenset({"symbol", "pi", "e", "exp", "root", "power", "factorial", "abs"})
"""Kinds of atoms that are positive, variables by assumption."""


class Field:
    """The atoms met so far, and arithmetic with them."""

    def __init__(self) -> None:
        self.keys: list[tuple[Any, ...]] = []
        self.equations: dict[int, tuple[int, Polynomial]] = {}
        """By atom: the power from which it can be replaced, and what by."""
        self.assumed_positive = False
        self.work = 0

    def atom(self, *key: Any, equation: tuple[int, Polynomial] | None = None) -> Ratio:
        """The atom with this key; ratios in keys count as equal when their difference is 0."""
        for number, known in enumerate(self.keys):
            if len(known) == len(key) and all(map(self._same, known, key)):
                return variable(number)
        self.keys.append(key)
        number = len(self.keys) - 1
        if equation is not None:
            self.equations[number] = equation
        return variable(number)

    def _same(self, one: Any, two: Any) -> bool:
        if isinstance(one, Ratio) and isinstance(two, Ratio):
            return self.equal(one, two)
        return type(one) is type(two) and one == two

    def equal(self, one: Ratio, two: Ratio) -> bool:
        return not self.difference(one, two)

    def difference(self, one: Ratio, two: Ratio) -> Polynomial:
        """The numerator of the difference, reduced."""
        if one.bottom == two.bottom:
            return self.reduced(plus(one.top, scaled(two.top, fmpq(-1))))
        left, right = times(one.top, two.bottom), times(two.top, one.bottom)
        return self.reduced(plus(left, scaled(right, fmpq(-1))))

    def reduced(self, polynomial: Polynomial) -> Polynomial:
        """The polynomial with every atom's power below that of its equation."""
        for _ in range(50):
            found = self._reducible(polynomial)
            if found is None:
                return polynomial
            monomial, atom, power = found
            degree, replacement = self.equations[atom]
            coefficient = polynomial[monomial]
            rest = tuple(pair for pair in monomial if pair[0] != atom)
            left = power - degree
            if left:
                rest = tuple(sorted((*rest, (atom, left))))
            others = {key: value for key, value in polynomial.items() if key != monomial}
            polynomial = plus(others, times({rest: coefficient}, replacement))
        raise TooComplexError("too many powers to reduce")

    def _reducible(self, polynomial: Polynomial) -> tuple[Any, int, int] | None:
        if self.equations:
            for monomial in polynomial:
                for atom, power in monomial:
                    equation = self.equations.get(atom)
                    if equation is not None and power >= equation[0]:
                        return monomial, atom, power
        return None

    def add(self, one: Ratio, two: Ratio) -> Ratio:
        if one.bottom == two.bottom:
            return Ratio(plus(one.top, two.top), one.bottom)
        top = plus(times(one.top, two.bottom), times(two.top, one.bottom))
        return Ratio(self.reduced(top), times(one.bottom, two.bottom))

    def multiply(self, one: Ratio, two: Ratio) -> Ratio:
        self.work += len(one.top) * len(two.top) + len(one.bottom) * len(two.bottom)
        if self.work > _MOST_WORK:
            raise TooComplexError("too many terms")
        top, bottom = times(one.top, two.top), times(one.bottom, two.bottom)
        return (
            Ratio(self.reduced(top), self.reduced(bottom)) if self.equations else Ratio(top, bottom)
        )

    def divide(self, one: Ratio, two: Ratio) -> Ratio:
        top = self.reduced(two.top)
        if not top:
            raise UndefinedError("a division by 0")
        return self.multiply(one, Ratio(two.bottom, top))

    def raised(self, ratio: Ratio, power: int) -> Ratio:
        if power < 0:
            return self.divide(constant(fmpq(1)), self.raised(ratio, -power))
        number = rational(ratio)
        if number is not None:
            size = max(number.p.bit_length(), number.q.bit_length())
            if size * power > MOST_BITS:
                raise TooComplexError("a power with too many digits")
            return constant(number**power)
        if power > MOST_POWERS:
            raise TooComplexError(f"the power {power}")
        result, square = constant(fmpq(1)), ratio
        while power:
            if power & 1:
                result = self.multiply(result, square)
            power >>= 1
            if power:
                square = self.multiply(square, square)
        return result

    def exponential(self, exponent: Ratio) -> Ratio:
        """e to a sum of terms, as a product of atoms with whole powers."""
        return self._power_of_terms(lambda term: self.atom("exp", term), exponent, self.atom("e"))

    def general_power(self, base: Ratio, exponent: Ratio) -> Ratio:
        number = rational(base)
        if number is not None and number > 0:
            result = constant(fmpq(1))
            for prime, times_in in _primes(number):
                factor = constant(fmpq(prime))
                piece = self._power_of_terms(
                    lambda term, prime=prime: self.atom("power", int(prime), term), exponent, factor
                )
                result = self.multiply(result, self.raised(piece, times_in))
            return result
        return self._power_of_terms(lambda term: self.atom("power", base, term), exponent, base)

    def _power_of_terms(
        self, of_term: Callable[[Ratio], Ratio], exponent: Ratio, base: Ratio
    ) -> Ratio:
        """base^(2 + 3u/2) as base²·(base^(u/2))³: one atom a term, whatever its whole factor."""
        result = constant(fmpq(1))
        bottom = content(exponent.bottom)
        for monomial, coefficient in exponent.top.items():
            share = coefficient / bottom
            if not monomial and exponent.bottom.keys() == {()}:
                whole = self.root(base, int(share.q)) if share.q != 1 else base
                result = self.multiply(result, self.raised(whole, int(share.p)))
                continue
            unit = Ratio({monomial: fmpq(1, int(share.q))}, scaled(exponent.bottom, 1 / bottom))
            result = self.multiply(result, self.raised(of_term(unit), int(share.p)))
        return result

    def root(self, ratio: Ratio, index: int) -> Ratio:
        """The index-th root, split into roots of primes, of variables and of what is left."""
        if not 0 < index <= 64:
            raise TooComplexError(f"a root of index {index}")
        if index == 1:
            return ratio
        if not ratio.top:
            return ratio
        if ratio.bottom.keys() == {()}:
            return self._root(scaled(ratio.top, 1 / ratio.bottom[()]), index)
        return self.divide(self._root(ratio.top, index), self._root(ratio.bottom, index))

    def _root(self, polynomial: Polynomial, index: int) -> Ratio:
        number = content(polynomial)
        powers = common_powers(polynomial)
        rest = divided(scaled(polynomial, 1 / number), powers)
        result = self._root_of_number(number, index)
        self._known_positive({powers: fmpq(1)})
        for atom, power in powers:
            whole, left = divmod(power, index)
            result = self.multiply(result, self.raised(variable(atom), whole))
            if left:
                piece = self.atom(
                    "root", variable(atom), index, equation=(index, {((atom, 1),): fmpq(1)})
                )
                result = self.multiply(result, self.raised(piece, left))
        if rest == ONE:
            return result
        if rest == {(): fmpq(-1)}:
            return self._root_of_minus_one(result, index)
        self.assumed_positive = True
        return self.multiply(
            result, self.atom("root", Ratio(rest, ONE), index, equation=(index, rest))
        )

    def _root_of_minus_one(self, result: Ratio, index: int) -> Ratio:
        if index % 2:
            return self.multiply(result, constant(fmpq(-1)))
        if index != 2:
            raise TooComplexError("an even root of a negative number")
        return self.multiply(result, self.imaginary_unit())

    def imaginary_unit(self) -> Ratio:
        return self.atom("i", equation=(2, {(): fmpq(-1)}))

    def positive_monomial(self, ratio: Ratio) -> Ratio:
        """|cxⁿ| for variables taken as positive."""
        self._known_positive(ratio.top)
        self._known_positive(ratio.bottom)
        (top,), (bottom,) = ratio.top.values(), ratio.bottom.values()
        return ratio if top / bottom > 0 else self.multiply(ratio, constant(fmpq(-1)))

    def _known_positive(self, polynomial: Polynomial) -> None:
        for monomial in polynomial:
            for atom, _ in monomial:
                kind = self.keys[atom][0]
                if kind not in _POSITIVE:
                    raise TooComplexError(f"the sign of {kind} is not known")
                self.assumed_positive |= kind == "symbol"

    def natural_log(self, ratio: Ratio) -> Ratio:
        """ln of a product as a sum of logarithms of primes, variables and what is left."""
        if not ratio.top:
            raise UndefinedError("the logarithm of 0")
        above, below = self._log(ratio.top), self._log(ratio.bottom)
        return self.add(above, self.multiply(below, constant(fmpq(-1))))

    def _log(self, polynomial: Polynomial) -> Ratio:
        if polynomial == ONE:
            return constant(fmpq(0))
        number, powers = content(polynomial), common_powers(polynomial)
        rest = divided(scaled(polynomial, 1 / number), powers)
        self._known_positive({powers: fmpq(1)})
        total = constant(fmpq(0))
        for prime, count in _primes(number):
            piece = self.atom("ln", int(prime))
            total = self.add(total, self.multiply(piece, constant(fmpq(count))))
        for atom, count in powers:
            total = self.add(total, self.multiply(self._log_of_atom(atom), constant(fmpq(count))))
        if rest == ONE:
            return total
        if rest == {(): fmpq(-1)}:
            raise UndefinedError("the logarithm of a negative number")
        return self.add(total, self.atom("ln", Ratio(rest, ONE)))

    def _log_of_atom(self, atom: int) -> Ratio:
        match self.keys[atom]:
            case ("e",):
                return constant(fmpq(1))
            case ("exp", Ratio() as exponent):
                return exponent
            case ("root", int(prime), int(index)):
                return self.multiply(self.atom("ln", prime), constant(fmpq(1, index)))
            case ("power", int(prime), Ratio() as exponent):
                return self.multiply(self.atom("ln", prime), exponent)
            case _:
                return self.atom("ln", variable(atom))

    def _root_of_number(self, number: fmpq, index: int) -> Ratio:
        result = constant(fmpq(1))
        for prime, times_in in _primes(number):
            whole, left = divmod(times_in, index)
            result = self.multiply(result, self.raised(constant(fmpq(prime)), whole))
            if left:
                piece = self.atom("root", int(prime), index, equation=(index, {(): fmpq(prime)}))
                result = self.multiply(result, self.raised(piece, left))
        return result


def _primes(number: fmpq) -> list[tuple[fmpz, int]]:
    """A positive rational number as prime powers; those of the denominator are negative."""
    if number.p > _FACTORED or number.q > _FACTORED:
        raise TooComplexError("a number too large to factor")
    above = [(prime, int(power)) for prime, power in number.p.factor()]
    return above + [(prime, -int(power)) for prime, power in number.q.factor()]
