"""Compute with quotients of polynomials over atoms, some of which satisfy known equations.

An atom is a number that is not taken apart: a variable, π, a root, sin u. Some atoms satisfy an
equation, such as (√2)² = 2, which keeps their powers low.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple, TypeAlias

from flint import fmpq, fmpq_mpoly, fmpq_mpoly_ctx, fmpz

from assay.math.balls import UndefinedError

Polynomial: TypeAlias = fmpq_mpoly

MAX_ATOMS: Final = 40
MAX_BITS: Final = 4096  # longer rational numbers are not computed
_MAX_TERMS: Final = 2000
_MAX_WORK: Final = 200_000  # products of terms in one comparison, which take some milliseconds
_MAX_POWER_DEGREE: Final = 10_000
# Polynomials are searched for a common factor up to so many products of their terms, and up to this
# degree. That of x²⁰⁰⁰ - y²⁰⁰⁰ and x¹⁹⁹⁹ - y¹⁹⁹⁹ would take twelve seconds.
_MAX_GCD_WORK: Final = 900
MAX_GCD_DEGREE: Final = 200
# Atoms of these kinds may be complex where their arguments are real.
_MAYBE_COMPLEX: Final = frozenset({"i", "arcsin", "arccosh", "arctanh"})

_RING: Final = fmpq_mpoly_ctx.get(("x", MAX_ATOMS), "lex")
# The atoms in the order in which they are met. A later atom leads an earlier one, because equations
# replace powers of an atom by earlier atoms.
ATOMS: Final = _RING.gens()[::-1]
ONE: Final = _RING.constant(1)


class TooComplexError(ValueError):
    """The expression grows too large for exact arithmetic."""


class Ratio(NamedTuple):
    """A quotient of two polynomials in the atoms."""

    top: Polynomial
    bottom: Polynomial


def constant(value: fmpq | fmpz | int) -> Ratio:
    """Return a number as a ratio without atoms."""
    return Ratio(_RING.constant(value), ONE)


def to_rational(ratio: Ratio) -> fmpq | None:
    """Return the value of a ratio without atoms, or None for any other."""
    if not ratio.top.is_constant() or not ratio.bottom.is_constant():
        return None
    return constant_value(ratio.top) / constant_value(ratio.bottom)


def constant_value(polynomial: Polynomial) -> fmpq:
    """Return the value of a constant polynomial."""
    if not polynomial:
        return fmpq(0)
    return polynomial.leading_coefficient()


def split_terms(polynomial: Polynomial) -> Iterator[tuple[Polynomial, fmpq]]:
    """Yield the monomials of a polynomial with their coefficients."""
    for powers, coefficient in zip(polynomial.monoms(), polynomial.coeffs(), strict=True):
        yield _RING.term(1, powers), coefficient


def constant_term(polynomial: Polynomial) -> fmpq:
    """Return the coefficient of the term without atoms."""
    return polynomial[(0,) * MAX_ATOMS]


def find_powers(polynomial: Polynomial) -> dict[int, int]:
    """Return the highest power of each atom in a polynomial, by the number of the atom.

    An atom is a number that is not taken apart, such as x, π or √2.
    """
    degrees = reversed(polynomial.degrees())  # the ring lists the last atom first
    return {atom: power for atom, power in enumerate(degrees) if power > 0}


def differentiate(atom: int, polynomial: Polynomial) -> Polynomial:
    """Return the derivative by an atom, which for a linear polynomial is the atom's coefficient."""
    return polynomial.derivative(MAX_ATOMS - 1 - atom)  # the ring lists the last atom first


class Atoms:
    """The atoms of one comparison, and arithmetic with ratios of polynomials in them."""

    def __init__(self) -> None:
        self.keys: list[tuple[Any, ...]] = []  # the kind and the arguments of each atom
        # By atom: the lowest power that can be replaced, and a polynomial that is 0 and begins with
        # this power.
        self.equations: dict[int, tuple[int, Polynomial]] = {}
        self.assumed_positive = False  # whether a variable had to be taken as positive
        self.work = 0
        self._numbers: dict[tuple[Any, ...], int] = {}  # of atoms, by their hashable keys
        # Atoms that may be complex even where all variables are real.
        self._complex_atoms: set[int] = set()

    # Atoms.

    def atom(self, *key: Any, equation: tuple[int, Polynomial] | None = None) -> Ratio:
        """Return the atom of this kind and these arguments; it is added if there is none yet.

        `key` is the kind and the arguments: "root", 2, 3 for the cube root of 2. `equation` holds a
        power of the atom, and the polynomial in earlier atoms that it equals: here 3 and 2.
        """
        key = tuple(self.normalize(part) if isinstance(part, Ratio) else part for part in key)
        hashable_key = _make_hashable(key)
        number = self._numbers.get(hashable_key)
        if number is None:
            number = self._add_atom(key, equation)
            self._numbers[hashable_key] = number
        return Ratio(ATOMS[number], ONE)

    def _add_atom(self, key: tuple[Any, ...], equation: tuple[int, Polynomial] | None) -> int:
        """Add an atom, and return its number."""
        number = len(self.keys)
        if number == MAX_ATOMS:
            raise TooComplexError(f"more than {MAX_ATOMS} different parts")
        self.keys.append(key)
        if self._is_complex_key(*key):
            self._complex_atoms.add(number)
        if equation is not None:
            power, value = equation
            self.equations[number] = (power, ATOMS[number] ** power - value)
        return number

    def _is_complex_key(self, kind: str, *arguments: Any) -> bool:
        """Return True if an atom may be complex, even where all variables are real.

        It is given by its kind and its arguments: "root" and -2, 4 for the fourth root of -2.
        """
        if kind in _MAYBE_COMPLEX:
            return True
        if kind == "power" and isinstance(arguments[0], Ratio):
            base = to_rational(arguments[0])
            if base is not None and base < 0:
                return True
        ratios = [argument for argument in arguments if isinstance(argument, Ratio)]
        return any(self.may_be_complex(*ratio) for ratio in ratios)

    def imaginary_unit(self) -> Ratio:
        """Return i, whose square is -1."""
        return self.atom("i", equation=(2, -ONE))

    def imaginary_part(self, polynomial: Polynomial) -> Polynomial:
        """Return the coefficient of i in a polynomial. It must be an atom already."""
        return differentiate(self._numbers["i",], self.reduce(polynomial))

    def kinds_in(self, *polynomials: Polynomial) -> set[str]:
        """Return the kinds of all atoms in some polynomials, such as "symbol", "pi" and "root"."""
        return {
            self.keys[atom][0] for polynomial in polynomials for atom in find_powers(polynomial)
        }

    def may_be_complex(self, *polynomials: Polynomial) -> bool:
        """Return True if one of the polynomials may be complex where all variables are real."""
        if not self._complex_atoms:
            return False
        for polynomial in polynomials:
            if not self._complex_atoms.isdisjoint(find_powers(polynomial)):
                return True
        return False

    # Polynomials.

    def multiply_polynomials(self, left: Polynomial, right: Polynomial) -> Polynomial:
        """Multiply two polynomials. Raises `TooComplexError` if that takes too long."""
        self._add_work(len(left) * len(right))
        product = left * right
        if len(product) > _MAX_TERMS:
            raise TooComplexError(f"a polynomial of {len(product)} terms")
        return product

    def reduce(self, polynomial: Polynomial) -> Polynomial:
        """Return the polynomial with the powers of atoms replaced by their equations: (√2)³ by 2√2.

        Two polynomials that are equal by these equations then look the same.
        """
        if not self.equations or polynomial.is_constant():
            return polynomial
        powers = polynomial.degrees()  # of the last atom first
        # Begin with the last atom, because its equation brings in earlier atoms and no others.
        for atom, (degree, zero) in reversed(self.equations.items()):
            power = powers[-1 - atom]
            if power >= degree:
                self._add_work(len(polynomial) * len(zero) * (power - degree + 1))
                polynomial %= zero  # `zero` is 0, so this does not change the value
                powers = polynomial.degrees()
        return polynomial

    def _add_work(self, term_products: int) -> None:
        """Count work. Raises `TooComplexError` if the comparison has taken too much."""
        self.work += term_products
        if self.work > _MAX_WORK:
            raise TooComplexError("too many terms")

    # Ratios.

    def are_equal(self, first: Ratio, second: Ratio) -> bool:
        """Return True if two ratios are equal, which is so if their difference reduces to 0."""
        if first.bottom == second.bottom:
            difference = first.top - second.top
        else:
            difference = self.multiply_polynomials(
                first.top, second.bottom
            ) - self.multiply_polynomials(second.top, first.bottom)
        return not self.reduce(difference)

    def add(self, first: Ratio, second: Ratio) -> Ratio:
        """Add two ratios over a common denominator."""
        if first.bottom == second.bottom:
            return Ratio(first.top + second.top, first.bottom)
        # Each ratio is extended by the part of the other's denominator that its own does not have.
        shared_factor = _find_shared_factor(first.bottom, second.bottom)
        first_factor = second.bottom / shared_factor
        second_factor = first.bottom / shared_factor
        top = self.multiply_polynomials(first.top, first_factor) + self.multiply_polynomials(
            second.top, second_factor
        )
        return Ratio(self.reduce(top), self.multiply_polynomials(first.bottom, first_factor))

    def subtract(self, first: Ratio, second: Ratio) -> Ratio:
        return self.add(first, self.negate(second))

    def negate(self, ratio: Ratio) -> Ratio:
        return Ratio(-ratio.top, ratio.bottom)

    def multiply(self, first: Ratio, second: Ratio) -> Ratio:
        """Multiply two ratios. Raises `UndefinedError` if the denominator turns out to be 0."""
        top = self.reduce(self.multiply_polynomials(first.top, second.top))
        bottom = self.reduce(self.multiply_polynomials(first.bottom, second.bottom))
        if not bottom:
            raise UndefinedError("a division by 0")
        return _cancel(top, bottom)

    def divide(self, first: Ratio, second: Ratio) -> Ratio:
        """Divide the first ratio by the second. Raises `UndefinedError` if the second is 0."""
        divisor = self.reduce(second.top)
        if not divisor:
            raise UndefinedError("a division by 0")
        return self.multiply(first, Ratio(second.bottom, divisor))

    def raise_to(self, ratio: Ratio, power: int) -> Ratio:
        """Raise a ratio to a whole power, which may be negative.

        Raises `TooComplexError` before a power is written out that would be too long.
        """
        if power < 0:
            return self.divide(constant(1), self.raise_to(ratio, -power))
        number = to_rational(ratio)
        if number == 0 and power == 0:
            raise UndefinedError("0 to the power 0")
        if number is not None:
            bits = max(number.p.bit_length(), number.q.bit_length())
            if bits * power > MAX_BITS:
                raise TooComplexError("a power with too many digits")
            return constant(number**power)
        _require_small_power(ratio.top, power)
        _require_small_power(ratio.bottom, power)
        # Square and multiply, from the lowest bit of the power to the highest.
        result = constant(1)
        square = ratio
        while power:
            if power & 1:
                result = self.multiply(result, square)
            power >>= 1
            if power:
                square = self.multiply(square, square)
        return result

    def normalize(self, ratio: Ratio) -> Ratio:
        """Return a ratio in lowest terms, so that equal ratios look the same as often as possible.

        The denominator begins with the coefficient 1, and has no roots if they can be moved to the
        numerator.
        """
        rationalized = self._rationalize(self.reduce(ratio.top), self.reduce(ratio.bottom))
        top, bottom = _cancel(rationalized.top, rationalized.bottom)
        leading_coefficient = bottom.leading_coefficient()
        return Ratio(top / leading_coefficient, bottom / leading_coefficient)

    def _rationalize(self, top: Polynomial, bottom: Polynomial) -> Ratio:
        """Return the ratio with only variables in its denominator: 1/√2 as √2/2.

        It is returned unchanged if other atoms, such as roots, would remain in the denominator.
        """
        new_top = top
        new_bottom = bottom
        # `zero` is a polynomial that is 0, and replaces the atom's power of this degree.
        for atom, (degree, zero) in reversed(self.equations.items()):
            power = find_powers(new_bottom).get(atom, 0)
            if power == 0:
                continue
            is_square_root = degree == 2 and atom not in find_powers(zero - ATOMS[atom] ** 2)
            if len(new_bottom) == 1:
                # Extend a monomial so that the power of the atom can be replaced.
                factor = ATOMS[atom] ** (degree - power)
            elif is_square_root and power == 1:
                # Extend a + b√c by its conjugate a − b√c.
                coefficient = differentiate(atom, new_bottom)
                factor = new_bottom - 2 * self.multiply_polynomials(coefficient, ATOMS[atom])
            else:
                return Ratio(top, bottom)
            new_top = self.reduce(self.multiply_polynomials(new_top, factor))
            new_bottom = self.reduce(self.multiply_polynomials(new_bottom, factor))
        if not new_bottom:
            return Ratio(top, bottom)  # a factor was 0, which proves nothing
        if not self.kinds_in(new_bottom) <= {"symbol"}:
            return Ratio(top, bottom)
        return Ratio(new_top, new_bottom)


def _make_hashable(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the key of an atom with polynomials written as text, since these have no hash."""
    parts: list[Any] = []
    for part in key:
        if isinstance(part, Ratio):
            part = (str(part.top), str(part.bottom))
        parts.append(part)
    return tuple(parts)


def _cancel(top: Polynomial, bottom: Polynomial) -> Ratio:
    """Return a ratio without the common factors of both polynomials that are quick to find."""
    if bottom.is_constant():
        return Ratio(top, bottom)
    shared_factor = _find_shared_factor(top, bottom)
    if shared_factor.is_constant():
        return Ratio(top, bottom)
    return Ratio(top / shared_factor, bottom / shared_factor)


def _find_shared_factor(first: Polynomial, second: Polynomial) -> Polynomial:
    """Return the greatest common divisor of two polynomials, or 1 if finding it may take long."""
    degree = max(*first.degrees(), *second.degrees())
    if len(first) * len(second) > _MAX_GCD_WORK or degree > MAX_GCD_DEGREE:
        return ONE
    return first.gcd(second)


def _require_small_power(polynomial: Polynomial, power: int) -> None:
    """Raise `TooComplexError` if a power has too high a degree, or too long coefficients."""
    degree = max(polynomial.degrees())
    bits = max(value.p.bit_length() + value.q.bit_length() for value in polynomial.coeffs())
    if degree * power > _MAX_POWER_DEGREE or bits * power > 4 * MAX_BITS:
        raise TooComplexError("a power too high to write out")
