"""Prove that two expressions are equal: each as a quotient of polynomials over atoms whose equations are known.

An atom is a number: a variable, π, a root, sin u. Some satisfy an equation, such as (√2)² = 2. A difference whose
numerator is the zero polynomial is 0: that proves equality. Nothing else is concluded. Variables count as positive
in roots and logarithms (`assumed_positive` says when that was needed); elsewhere the comparison looks for a point
that tells the two apart.
"""

from collections.abc import Callable, Iterator
from functools import partial, reduce
from math import lcm
from typing import Any, Final, NamedTuple, TypeAlias

from flint import fmpq, fmpq_mpoly, fmpq_mpoly_ctx, fmpz

from assay.math import tree
from assay.math.balls import TooLargeError, UndefinedError, ball, is_real

Polynomial: TypeAlias = fmpq_mpoly

MOST_ATOMS: Final = 40
MOST_TERMS: Final = 2000
_RING: Final = fmpq_mpoly_ctx.get(("x", MOST_ATOMS), "lex")
# The atoms in the order in which they are met. A later one leads an earlier one, as its equation asks for.
ATOMS: Final = _RING.gens()[::-1]
ONE: Final = _RING.constant(1)


class TooComplexError(ValueError):
    """The expression grows beyond what exact arithmetic is worth."""


NO_PROOF: Final = (
    TooComplexError,
    TooLargeError,
    UndefinedError,
    RecursionError,
)  # what ends an exact computation


class Ratio(NamedTuple):
    top: Polynomial
    bottom: Polynomial


def constant(value: fmpq | fmpz | int) -> Ratio:
    return Ratio(_RING.constant(value), ONE)


def rational(ratio: Ratio) -> fmpq | None:
    """The number that the ratio is, when no atom is left in it."""
    if not (ratio.top.is_constant() and ratio.bottom.is_constant()):
        return None
    return _number(ratio.top) / _number(ratio.bottom)


def _number(polynomial: Polynomial) -> fmpq:
    return polynomial.leading_coefficient() if polynomial else fmpq(0)


def terms_of(polynomial: Polynomial) -> Iterator[tuple[Polynomial, fmpq]]:
    for powers, coefficient in zip(polynomial.monoms(), polynomial.coeffs(), strict=True):
        yield _RING.term(1, powers), coefficient


def powers_in(polynomial: Polynomial) -> dict[int, int]:
    """The highest power of each atom."""
    return {atom: power for atom, power in enumerate(reversed(polynomial.degrees())) if power > 0}


def slope_in(atom: int, polynomial: Polynomial) -> Polynomial:
    """The derivative; for a straight line in the atom what the atom is multiplied by."""
    return polynomial.derivative(MOST_ATOMS - 1 - atom)


MOST_BITS: Final = 4096  # rational numbers beyond so many bits are not computed
_MOST_WORK: Final = 200_000  # products of terms that one comparison may take: some milliseconds
_MOST_SHARED: Final = (
    900  # products of terms of two polynomials up to which their common factor is looked for
)
# The degree up to which it is looked for: that of x²⁰⁰⁰ - y²⁰⁰⁰ and x¹⁹⁹⁹ - y¹⁹⁹⁹ takes twelve seconds.
_HIGHEST_SHARED: Final = 200
_FACTORED: Final = fmpz(10) ** 30  # larger numbers are not factored
# Kinds of atoms that are positive, variables by assumption.
_POSITIVE: Final = frozenset({"symbol", "pi", "e", "exp", "root", "power", "factorial", "abs"})
# Kinds of atoms that are real when they are of a number, and i.
_REAL: Final = frozenset({"symbol", "pi", "e", "root", "ln", "i"})
_MAYBE_COMPLEX: Final = frozenset({"i", "arcsin", "arccosh", "arctanh"})
_MOST_FACTORED: Final = (
    40  # terms of a polynomial up to which its squares are looked for under a root
)
_MOST_ANGLES: Final = 64  # how often one inverse function may count in a sum of them
_MOST_TURNS: Final = 12  # sin(ku) is written out up to this k
_INVERSES: Final = {"arcsin": "sin", "arctan": "tan"}
_COMPLEMENTS: Final = {"arccos": "arcsin", "arccot": "arctan"}  # π/2 less the other function
_RECIPROCALS: Final = {"arcsec": "arccos", "arccsc": "arcsin"}  # the other function of 1/u
_HYPERBOLIC: Final = frozenset({"sinh", "cosh", "tanh", "coth", "sech", "csch"})
_CIRCULAR: Final = frozenset({"sin", "cos", "tan", "cot", "sec", "csc"})
_LARGEST_POWER: Final = 4096
_HIGHEST_DEGREE: Final = 10_000
_LARGEST_FACTORIAL: Final = 500


def proves_equal(one: tree.Node, two: tree.Node) -> tuple[bool, bool]:
    """Whether the two are provably the same, and whether variables had to be taken as positive."""
    form = Form()
    try:
        left, right = form.value(one), form.value(two)
        same = form.equal(left, right)
        if not same and not any(key[0] == "symbol" for key in form.keys):
            # Sums of inverse functions, or of logarithms, of numbers: their difference times a whole number is a
            # multiple of πi or of π when the numbers say so, and one below 3 is 0.
            scale = form.scale_to_multiple_of_pi(form.add(left, form.negative(right)))
            difference = tree.Sum((one, tree.negated(two)))
            same = scale is not None and bool(abs(ball(difference, {}, 64)) * scale < 3)
    except NO_PROOF:
        return False, False
    return same, form.assumed_positive


class Form:
    """The exact form of expressions: the atoms met so far, arithmetic with them, and functions of them."""

    def __init__(self) -> None:
        self.keys: list[tuple[Any, ...]] = []
        self._numbers: dict[tuple[Any, ...], int] = {}
        self.equations: dict[int, tuple[int, Polynomial]] = {}
        """By atom: the power from which it can be replaced, and the polynomial in it that is 0."""
        self._complex: set[int] = set()  # atoms that need not be real, whatever the variables are
        self.assumed_positive = False
        self.work = 0

    def atom(self, *key: Any, equation: tuple[int, Polynomial] | None = None) -> Ratio:
        """The atom with this key. `equation`: one power of it, and what that is in atoms met before."""
        key = tuple(self._canonical(part) if isinstance(part, Ratio) else part for part in key)
        name = tuple(
            (str(part.top), str(part.bottom)) if isinstance(part, Ratio) else part for part in key
        )
        number = self._numbers.get(name)
        if number is None:
            number = len(self.keys)
            if number == MOST_ATOMS:
                raise TooComplexError(f"more than {MOST_ATOMS} different parts")
            self._numbers[name] = number
            self.keys.append(key)
            number_below = (
                rational(key[1]) if key[0] == "power" and isinstance(key[1], Ratio) else None
            )
            is_complex = key[0] in _MAYBE_COMPLEX or (number_below is not None and number_below < 0)
            if is_complex or any(
                self._may_be_complex(*part) for part in key if isinstance(part, Ratio)
            ):
                self._complex.add(number)
            if equation is not None:
                self.equations[number] = (equation[0], ATOMS[number] ** equation[0] - equation[1])
        return Ratio(ATOMS[number], ONE)

    def _may_be_complex(self, *polynomials: Polynomial) -> bool:
        return bool(self._complex) and any(
            not self._complex.isdisjoint(powers_in(each)) for each in polynomials
        )

    def equal(self, one: Ratio, two: Ratio) -> bool:
        if one.bottom == two.bottom:
            return not self.reduced(one.top - two.top)
        return not self.reduced(self.times(one.top, two.bottom) - self.times(two.top, one.bottom))

    def times(self, left: Polynomial, right: Polynomial) -> Polynomial:
        self.work += len(left) * len(right)
        if self.work > _MOST_WORK:
            raise TooComplexError("too many terms")
        product = left * right
        if len(product) > MOST_TERMS:
            raise TooComplexError(f"a polynomial of {len(product)} terms")
        return product

    def reduced(self, polynomial: Polynomial) -> Polynomial:
        """The polynomial with every atom's power below that of its equation."""
        if not self.equations or polynomial.is_constant():
            return polynomial
        powers = polynomial.degrees()
        # From the last atom on: an equation brings in atoms that were met before it, and no others.
        for atom, (degree, zero) in reversed(self.equations.items()):
            power = powers[-1 - atom]
            if power >= degree:
                self.work += len(polynomial) * len(zero) * (power - degree + 1)
                if self.work > _MOST_WORK:
                    raise TooComplexError("too many terms")
                polynomial %= zero
                powers = polynomial.degrees()
        return polynomial

    def _cancelled(self, top: Polynomial, bottom: Polynomial) -> Ratio:
        """The quotient without the factors that both sides share, where they are quickly found."""
        if bottom.is_constant():
            return Ratio(top, bottom)
        shared = _shared_factor(top, bottom)
        if shared.is_constant():
            return Ratio(top, bottom)
        return Ratio(top / shared, bottom / shared)

    def _canonical(self, ratio: Ratio) -> Ratio:
        """The quotient in lowest terms, with roots above the line where that can be had, and 1 leading below it."""
        top, bottom = self._cancelled(
            *self._rationalized(self.reduced(ratio.top), self.reduced(ratio.bottom))
        )
        leading = bottom.leading_coefficient()
        return Ratio(top / leading, bottom / leading)

    def _rationalized(self, top: Polynomial, bottom: Polynomial) -> Ratio:
        """The quotient with a denominator without square roots; as it is when some atom stays there."""
        above, below = top, bottom
        for atom, (degree, zero) in reversed(self.equations.items()):
            power = powers_in(below).get(atom, 0)
            if power == 0:
                continue
            if len(below) == 1:
                factor = ATOMS[atom] ** (degree - power)
            elif (
                degree == 2 and power == 1 and powers_in(zero - ATOMS[atom] ** 2).get(atom) is None
            ):
                factor = below - 2 * self.times(slope_in(atom, below), ATOMS[atom])
            else:
                return Ratio(top, bottom)
            above, below = (
                self.reduced(self.times(above, factor)),
                self.reduced(self.times(below, factor)),
            )
        # The factors are no 0, since their product with what stood below is none.
        is_sure = below and all(self.keys[atom][0] == "symbol" for atom in powers_in(below))
        return Ratio(above, below) if is_sure else Ratio(top, bottom)

    def add(self, one: Ratio, two: Ratio) -> Ratio:
        if one.bottom == two.bottom:
            return Ratio(one.top + two.top, one.bottom)
        shared = _shared_factor(one.bottom, two.bottom)
        left, right = two.bottom / shared, one.bottom / shared
        top = self.times(one.top, left) + self.times(two.top, right)
        return Ratio(self.reduced(top), self.times(one.bottom, left))

    def multiply(self, one: Ratio, two: Ratio) -> Ratio:
        top, bottom = (
            self.reduced(self.times(one.top, two.top)),
            self.reduced(self.times(one.bottom, two.bottom)),
        )
        if not bottom:
            raise UndefinedError("a division by 0")
        return self._cancelled(top, bottom)

    def negative(self, ratio: Ratio) -> Ratio:
        return Ratio(-ratio.top, ratio.bottom)

    def divide(self, one: Ratio, two: Ratio) -> Ratio:
        top = self.reduced(two.top)
        if not top:
            raise UndefinedError("a division by 0")
        return self.multiply(one, Ratio(two.bottom, top))

    def raised(self, ratio: Ratio, power: int) -> Ratio:
        if power < 0:
            return self.divide(constant(1), self.raised(ratio, -power))
        number = rational(ratio)
        if number == 0 and power == 0:
            raise UndefinedError("0 to the power 0")
        if number is not None:
            size = max(number.p.bit_length(), number.q.bit_length())
            if size * power > MOST_BITS:
                raise TooComplexError("a power with too many digits")
            return constant(number**power)
        for polynomial in ratio:
            self._require_low_power(polynomial, power)
        result, square = constant(1), ratio
        while power:
            if power & 1:
                result = self.multiply(result, square)
            power >>= 1
            if power:
                square = self.multiply(square, square)
        return result

    def _require_low_power(self, polynomial: Polynomial, power: int) -> None:
        """Raise `TooComplexError` if the power has too high a degree, or too long coefficients."""
        degree = max(polynomial.degrees())
        bits = max(value.p.bit_length() + value.q.bit_length() for value in polynomial.coeffs())
        if degree * power > _HIGHEST_DEGREE or bits * power > 4 * MOST_BITS:
            raise TooComplexError("a power too high to write out")

    def exponential(self, exponent: Ratio) -> Ratio:
        """e to a sum of terms, as a product of atoms with whole powers; e to a logarithm is what it is of."""
        return self._power_of_terms(self._exponential_of_term, exponent, self.atom("e"))

    def _exponential_of_term(self, term: Ratio) -> Ratio:
        for atom, power in powers_in(term.top).items():
            base = self._inside(ATOMS[atom], "ln")
            if base is not None and power == 1:
                return self.general_power(base, Ratio(term.top / ATOMS[atom], term.bottom))
        return self.atom("exp", term)

    def general_power(self, base: Ratio, exponent: Ratio) -> Ratio:
        number = rational(base)
        if number is None and len(base.top) == len(base.bottom) == 1 and base.top not in ATOMS:
            product = self._power_of_product(base, exponent)
            if product is not None:
                return product
        if number is None or number <= 0:
            return self._power_of_terms(lambda term: self.atom("power", base, term), exponent, base)
        if not exponent.bottom.is_constant():
            # 2 to the logarithm of 3 to base 2 is e to the logarithm of 3.
            natural = self.multiply(exponent, self.natural_log(base))
            if natural.bottom.is_constant():
                return self.exponential(natural)
        result = constant(1)
        for prime, times_in in _primes(number):
            power_of = partial(self.atom, "power", int(prime))
            piece = self._power_of_terms(power_of, exponent, constant(prime))
            result = self.multiply(result, self.raised(piece, times_in))
        return result

    def _power_of_product(self, base: Ratio, exponent: Ratio) -> Ratio | None:
        """(2xy)^n as 2^n·x^n·y^n, for variables taken as positive; None for factors whose sign is not known."""
        factor = base.top.leading_coefficient() / base.bottom.leading_coefficient()
        powers = [
            *powers_in(base.top).items(),
            *((atom, -power) for atom, power in powers_in(base.bottom).items()),
        ]
        kinds = {self.keys[atom][0] for atom, _ in powers}
        if factor < 0 or not _POSITIVE.issuperset(kinds) or self._may_be_complex(*base):
            return None
        self.assumed_positive |= "symbol" in kinds
        result = constant(1) if factor == 1 else self.general_power(constant(factor), exponent)
        for atom, power in powers:
            piece = self.general_power(
                Ratio(ATOMS[atom], ONE), self.multiply(exponent, constant(power))
            )
            result = self.multiply(result, piece)
        return result

    def _power_of_terms(
        self, of_term: Callable[[Ratio], Ratio], exponent: Ratio, base: Ratio
    ) -> Ratio:
        """base^(2 + 3u/2) as base²·(base^(u/2))³: one atom a term, whatever its whole factor."""
        result = constant(1)
        bottom = exponent.bottom.leading_coefficient()
        for monomial, coefficient in terms_of(exponent.top):
            share = coefficient / bottom
            if monomial.is_constant() and exponent.bottom.is_constant():
                number = rational(base)
                if share.q != 1 and number is not None and number < 0:
                    raise TooComplexError("a negative number to a broken power")
                whole = self.root(base, int(share.q)) if share.q != 1 else base
                result = self.multiply(result, self.raised(whole, int(share.p)))
                continue
            unit = Ratio(monomial / fmpq(share.q), exponent.bottom / bottom)
            result = self.multiply(result, self.raised(of_term(unit), int(share.p)))
        return result

    def root(self, ratio: Ratio, index: int) -> Ratio:
        """The index-th root, split into roots of primes, of variables and of what is left."""
        if not 0 < index <= 64:
            raise TooComplexError(f"a root of index {index}")
        if index == 1 or not ratio.top:
            return ratio
        if ratio.bottom.is_constant():
            return self._root(ratio.top / _number(ratio.bottom), index)
        return self.divide(self._root(ratio.top, index), self._root(ratio.bottom, index))

    def _root(self, polynomial: Polynomial, index: int) -> Ratio:
        number, powers, rest = self._factors(polynomial)
        pieces = [(constant(prime), int(prime), power) for prime, power in _primes(number)]
        pieces += [
            (piece := Ratio(ATOMS[atom], ONE), piece, power) for atom, power in powers.items()
        ]
        result = constant(1)
        for base, key, power in pieces:
            whole, left = divmod(power, index)
            result = self.multiply(result, self.raised(base, whole))
            if left:
                root = self.atom("root", key, index, equation=(index, base.top))
                result = self.multiply(result, self.raised(root, left))
        if len(rest) < _MOST_FACTORED and max(rest.degrees()) <= _HIGHEST_SHARED:
            for factor, power in rest.factor_squarefree()[1] if len(rest) > 1 else ():
                if power >= index:
                    # √(x² + 2x + 1) is |x + 1| for what is real.
                    self.assumed_positive = True
                    if self._may_be_complex(factor):
                        raise TooComplexError("a square that may be complex")
                    base = Ratio(factor, ONE) if index % 2 else self.absolute(Ratio(factor, ONE))
                    result = self.multiply(result, self.raised(base, power // index))
                    rest /= factor ** (power - power % index)
        if rest == 1:
            return result
        if rest == -1 and index % 2:
            return self.negative(result)
        if rest == -1 and index == 2:
            return self.multiply(result, self.imaginary_unit())
        if rest == -1:
            raise TooComplexError("an even root of a negative number")
        self.assumed_positive = True
        return self.multiply(
            result, self.atom("root", Ratio(rest, ONE), index, equation=(index, rest))
        )

    def _factors(self, polynomial: Polynomial) -> tuple[fmpq, dict[int, int], Polynomial]:
        """A positive number, powers of positive atoms, and what is left: whole coefficients without a common factor."""
        values, shared = polynomial.coeffs(), polynomial.term_content()
        top, bottom = (
            reduce(fmpz.gcd, (value.p for value in values)),
            reduce(fmpz.lcm, (value.q for value in values)),
        )
        number = fmpq(abs(top), bottom)
        self._known_positive(shared)
        return number, powers_in(shared), polynomial / shared / number

    def imaginary_unit(self) -> Ratio:
        return self.atom("i", equation=(2, -ONE))

    def _known_positive(self, polynomial: Polynomial) -> None:
        for atom in powers_in(polynomial):
            kind = self.keys[atom][0]
            if kind not in _POSITIVE or atom in self._complex:
                raise TooComplexError(f"the sign of {kind} is not known")
            self.assumed_positive |= kind == "symbol"

    def natural_log(self, ratio: Ratio) -> Ratio:
        """ln of a product as a sum of logarithms of primes, variables and what is left."""
        if not ratio.top:
            raise UndefinedError("the logarithm of 0")
        return self.add(self._log(ratio.top), self.negative(self._log(ratio.bottom)))

    def _log(self, polynomial: Polynomial) -> Ratio:
        if polynomial == 1:
            return constant(0)
        number, powers, rest = self._factors(polynomial)
        logs = [(self.atom("ln", int(prime)), count) for prime, count in _primes(number)]
        logs += [(self._log_of_atom(atom), count) for atom, count in powers.items()]
        total = constant(0)
        for log, count in logs:
            total = self.add(total, self.multiply(log, constant(count)))
        if rest == 1:
            return total
        if rest == -1:
            raise UndefinedError("the logarithm of a negative number")
        return self.add(total, self.atom("ln", Ratio(rest, ONE)))

    def _log_of_atom(self, atom: int) -> Ratio:
        match self.keys[atom]:
            case ("e",):
                return constant(1)
            case ("exp", Ratio() as exponent):
                return exponent
            case ("root", int(prime), int(index)):
                return self.multiply(self.atom("ln", prime), constant(fmpq(1, index)))
            case ("power", int(prime), Ratio() as exponent):
                return self.multiply(self.atom("ln", prime), exponent)
            case _:
                return self.atom("ln", Ratio(ATOMS[atom], ONE))

    # Circular and hyperbolic functions.

    def _angle_function(self, function: str, argument: Ratio) -> Ratio | None:
        """The function's value, or None for a function of another kind."""
        if function in _CIRCULAR:
            return self._chosen(function, *self.turned(argument))
        if function in _HYPERBOLIC:
            growth, half = self.exponential(argument), constant(fmpq(1, 2))
            decay = self.divide(constant(1), growth)
            cosh = self.multiply(self.add(growth, decay), half)
            sinh = self.multiply(self.add(growth, self.negative(decay)), half)
            return self._chosen(function, cosh, sinh)
        if function in _RECIPROCALS:
            return self._angle_function(_RECIPROCALS[function], self.divide(constant(1), argument))
        if function in _COMPLEMENTS:
            other = self._inverse(_COMPLEMENTS[function], argument)
            return self.add(
                self.multiply(self.atom("pi"), constant(fmpq(1, 2))), self.negative(other)
            )
        return self._inverse(function, argument) if function in _INVERSES else None

    def _chosen(self, function: str, cosine: Ratio, sine: Ratio) -> Ratio:
        """A function by its first three letters, which `sinh` and `sin` share."""
        name, one = function[:3], constant(1)
        if name in ("sin", "cos"):
            return sine if name == "sin" else cosine
        sides = {
            "tan": (sine, cosine),
            "cot": (cosine, sine),
            "sec": (one, cosine),
            "csc": (one, sine),
        }
        return self.divide(*sides[name])

    def turned(self, argument: Ratio) -> tuple[Ratio, Ratio]:
        """Cosine and sine of a sum of angles, one term after the other."""
        cosine, sine = constant(1), constant(0)
        argument = self._canonical(argument)
        if not argument.bottom.is_constant() or len(argument.top) > 4:
            return self._pair(argument)
        for monomial, coefficient in terms_of(argument.top):
            other = self._term(monomial, coefficient / _number(argument.bottom))
            cosine, sine = self._sum((cosine, sine), other)
        return cosine, sine

    def _term(self, monomial: Polynomial, coefficient: fmpq) -> tuple[Ratio, Ratio]:
        if monomial == self.atom("pi").top:
            return self._known(coefficient)
        if abs(coefficient.p) > _MOST_TURNS:
            raise TooComplexError("too large a multiple of an angle")
        known = self._direction(monomial) if coefficient.q == 1 else None
        if known is None:
            unit = self._pair(Ratio(monomial / fmpq(coefficient.q), ONE))
        else:
            length = self.root(self.add(*(self.multiply(side, side) for side in known)), 2)
            unit = (self.divide(known[0], length), self.divide(known[1], length))
        return self._repeated(unit, int(coefficient.p))

    def _repeated(self, unit: tuple[Ratio, Ratio], count: int) -> tuple[Ratio, Ratio]:
        """The direction that an angle has when it is taken so many times."""
        turned = constant(1), constant(0)
        for _ in range(abs(count)):
            turned = self._sum(turned, unit)
        return turned if count >= 0 else (turned[0], self.negative(turned[1]))

    def _direction(self, monomial: Polynomial) -> tuple[Ratio, Ratio] | None:
        """What cosine and sine of an inverse function are in proportion to, when the monomial is one."""
        if monomial == self.atom("pi").top:
            return constant(-1), constant(0)
        tangent, sine = self._inside(monomial, "arctan"), self._inside(monomial, "arcsin")
        if sine is not None:
            return self.root(
                self.add(constant(1), self.negative(self.multiply(sine, sine))), 2
            ), sine
        return None if tangent is None else (constant(1), tangent)

    def scale_to_multiple_of_pi(self, whole: Ratio) -> int | None:
        """The factor that makes a sum of logarithms, or of inverse functions, a multiple of πi, or of π; None if unknown.

        The product of what the logarithms are of is 1 then, or the directions of the angles add up to a straight line.
        """
        if not whole.bottom.is_constant():
            return None
        shares = [(part, share / _number(whole.bottom)) for part, share in terms_of(whole.top)]
        scale = lcm(*(int(share.q) for _, share in shares))
        product, direction = constant(1), (constant(1), constant(0))
        for part, share in shares:
            count, unit = int((share * scale).p), self._direction(part)
            if abs(count) > _MOST_ANGLES:
                return None
            if unit is not None:
                direction = self._sum(direction, self._repeated(unit, count))
            elif (inside := self._inside(part, "ln")) is not None:
                product = self.multiply(product, self.raised(inside, count))
            else:
                return None
        is_multiple = self.equal(product, constant(1)) and not self.reduced(direction[1].top)
        return scale if is_multiple else None

    def _inside(self, monomial: Polynomial, function: str) -> Ratio | None:
        """What the function is of, when the monomial is that function and nothing else."""
        powers = powers_in(monomial)
        if list(powers.values()) != [1]:
            return None
        kind, *arguments = self.keys[next(iter(powers))]
        if kind != function:
            return None
        return arguments[0] if isinstance(arguments[0], Ratio) else constant(arguments[0])

    def _sum(self, one: tuple[Ratio, Ratio], two: tuple[Ratio, Ratio]) -> tuple[Ratio, Ratio]:
        cosine = self.add(
            self.multiply(one[0], two[0]), self.negative(self.multiply(one[1], two[1]))
        )
        sine = self.add(self.multiply(one[1], two[0]), self.multiply(one[0], two[1]))
        return cosine, sine

    def _pair(self, angle: Ratio) -> tuple[Ratio, Ratio]:
        """Cosine and sine as two atoms, whose squares add up to 1."""
        sine = self.atom("sin", angle)
        rest = self.add(constant(1), self.negative(self.multiply(sine, sine)))
        return self.atom("cos", angle, equation=(2, rest.top)), sine

    def _known(self, turn: fmpq) -> tuple[Ratio, Ratio]:
        """Cosine and sine of turn·π, written with roots where that is simple."""
        turn -= 2 * (turn / 2).floor()
        if turn >= 1:
            cosine, sine = self._known(turn - 1)
            return self.negative(cosine), self.negative(sine)
        if turn > fmpq(1, 2):
            cosine, sine = self._known(1 - turn)
            return self.negative(cosine), sine
        if turn > fmpq(1, 4):
            cosine, sine = self._known(fmpq(1, 2) - turn)
            return sine, cosine
        half = constant(fmpq(1, 2))
        if turn == 0:
            return constant(1), constant(0)
        if turn == fmpq(1, 4):
            side = self.multiply(self.root(constant(2), 2), half)
            return side, side
        if turn == fmpq(1, 6):
            return self.multiply(self.root(constant(3), 2), half), half
        if turn == fmpq(1, 12):
            quarter, (cosine, sine) = self._known(fmpq(1, 4)), self._known(fmpq(1, 6))
            return self._sum(quarter, (cosine, self.negative(sine)))
        return self._pair(self.multiply(self.atom("pi"), constant(turn)))

    def _inverse(self, function: str, argument: Ratio) -> Ratio:
        """arcsin or arctan; an angle where the argument is what a known angle has."""
        pi = self.atom("pi")
        atoms = powers_in(argument.top) | powers_in(argument.bottom)
        if all(self.keys[atom][0] in ("root", "i") for atom in atoms):
            for step in range(-6, 7) if function == "arcsin" else range(-5, 6):
                angle = self.multiply(pi, constant(fmpq(step, 12)))
                if self.equal(self._chosen(_INVERSES[function], *self.turned(angle)), argument):
                    return angle
        if argument.top.leading_coefficient() * argument.bottom.leading_coefficient() < 0:
            return self.negative(self.atom(function, self.negative(argument)))
        return self.atom(function, argument)

    # Trees.

    def value(self, node: tree.Node) -> Ratio:
        match node:
            case tree.Number(number):
                return constant(number)
            case tree.Symbol(name):
                return self.atom("symbol", name)
            case tree.Sum(terms):
                return reduce(self.add, map(self.value, terms))
            case tree.Product(factors):
                return reduce(self.multiply, map(self.value, factors))
            case tree.Quotient(top, bottom):
                return self.divide(self.value(top), self.value(bottom))
            case tree.Power(base, exponent):
                return self.power(base, self.value(exponent))
            case tree.Percent(value):
                return self.divide(self.value(value), constant(100))
            case tree.Quantity(value, "degree"):
                turn = self.multiply(self.atom("pi"), constant(fmpq(1, 180)))
                return self.multiply(self.value(value), turn)
            case tree.Quantity(value):
                return self.value(value)
            case tree.Constant("i"):
                return self.imaginary_unit()
            case tree.Constant("pi" | "e" as name):
                return self.atom(name)
            case tree.Apply(function, arguments):
                return self.applied(function, arguments)
            case _:
                raise UndefinedError(f"{type(node).__name__} is no number")

    def power(self, base: tree.Node, exponent: Ratio) -> Ratio:
        number = rational(exponent)
        if base == tree.Constant("e") and (number is None or number.q != 1):
            return self._turning_exponential(exponent)
        if number is None:
            below = self.value(base)
            if rational(below) is None and not tree.symbols_of(base) and _sign(base) < 0:
                raise TooComplexError("a negative number to a power")
            return self.general_power(below, exponent)
        if abs(number.p) > _LARGEST_POWER:
            raise TooComplexError("a power too high to write out")
        below = self.value(base)
        root = self._root_of(base, below, int(number.q)) if number.q != 1 else below
        return self.raised(root, int(number.p))

    def _root_of(self, node: tree.Node, value: Ratio, index: int) -> Ratio:
        """The root of an expression; of a number its sign is known, and not assumed."""
        if rational(value) is not None or tree.symbols_of(node):
            return self.root(value, index)
        assumed, sign = self.assumed_positive, _sign(node)
        root = self.root(value if sign > 0 else self.negative(value), index)
        self.assumed_positive = assumed
        if sign < 0 and index % 2 == 0:
            if index != 2:
                raise TooComplexError("an even root of a negative number")
            return self.multiply(root, self.imaginary_unit())
        return root if sign > 0 else self.negative(root)

    def _turning_exponential(self, exponent: Ratio) -> Ratio:
        """e to a power; an imaginary part turns, by Euler's formula."""
        unit = self.imaginary_unit()
        turning = slope_in(self._numbers["i",], self.reduced(exponent.top))
        if not turning:
            return self.exponential(exponent)
        cosine, sine = self.turned(Ratio(turning, exponent.bottom))
        circle = self.add(cosine, self.multiply(unit, sine))
        growing = Ratio(exponent.top - turning * unit.top, exponent.bottom)
        return self.multiply(self.exponential(growing), circle)

    def applied(self, function: str, arguments: tuple[tree.Node, ...]) -> Ratio:
        values = tuple(self.value(argument) for argument in arguments)
        if function == "root":
            degree = rational(values[1])
            if degree is None or degree.q != 1:
                raise TooComplexError("a root whose index is no number")
            return self._root_of(arguments[0], values[0], int(degree.p))
        if function == "log":
            for argument, value in zip(arguments, values, strict=True):
                # The logarithm of a product is the sum of logarithms for positive factors alone.
                if (
                    rational(value) is None
                    and not tree.symbols_of(argument)
                    and _sign(argument) < 0
                ):
                    raise TooComplexError("the logarithm of a negative number")
            return self.divide(*map(self.natural_log, values))
        known = _FUNCTIONS.get(function)
        if known is not None:
            return known(self, *values)
        angle = self._angle_function(function, values[0])
        if angle is not None:
            return angle
        if function not in _OF_NUMBERS or any(map(tree.symbols_of, arguments)):
            return self.atom(function, *values)
        found = ball(tree.Apply(function, arguments), {}, 256)
        if function in ("max", "min"):
            pairs = zip(arguments, values, strict=True)
            return next(
                value for argument, value in pairs if ball(argument, {}, 256).overlaps(found)
            )
        number = found.real.unique_fmpz() if is_real(found) and found.real.is_exact() else None
        if number is None:
            raise UndefinedError("no certain whole number")
        return constant(number)

    def absolute(self, argument: Ratio) -> Ratio:
        number = rational(argument)
        if number is not None:
            return constant(abs(number))
        if any(self.keys[atom] == ("i",) for side in argument for atom in powers_in(side)):
            return self.root(self.multiply(argument, self._conjugate(argument)), 2)
        if len(argument.top) == 1 and len(argument.bottom) == 1:
            # |cxⁿ| for variables taken as positive.
            self._known_positive(argument.top)
            self._known_positive(argument.bottom)
            top, bottom = argument.top.leading_coefficient(), argument.bottom.leading_coefficient()
            return argument if top / bottom > 0 else self.negative(argument)
        if self._may_be_complex(*argument):
            raise TooComplexError("the size of a number that may be complex")
        argument = self._canonical(argument)
        kinds = {self.keys[atom][0] for side in argument for atom in powers_in(side)}
        if (
            kinds <= _POSITIVE - {"symbol"}
            and min(argument.top.coeffs() + argument.bottom.coeffs()) > 0
        ):
            return argument
        if argument.top.leading_coefficient() < 0:
            argument = self.negative(argument)
        if argument.bottom != 1:
            return self.atom("abs", argument)
        return self.atom("abs", argument, equation=(2, self.multiply(argument, argument).top))

    def _conjugate(self, ratio: Ratio) -> Ratio:
        """The ratio with -i for i, where nothing else in it can be complex."""
        if any(
            key[0] not in _REAL or any(isinstance(part, Ratio) for part in key) for key in self.keys
        ):
            raise TooComplexError("the size of a number that may be complex")
        unit = self._numbers["i",]
        above, below = (
            side - 2 * slope_in(unit, side) * ATOMS[unit] for side in map(self.reduced, ratio)
        )
        return Ratio(above, below)

    def factorial(self, argument: Ratio) -> Ratio:
        """n!, with (n + 2)! as (n + 2)(n + 1)·n!."""
        number = rational(argument)
        if number is not None:
            if number.q != 1 or not 0 <= number.p <= _LARGEST_FACTORIAL:
                raise TooComplexError("a factorial too large to write out")
            return constant(fmpq(fmpz.fac_ui(int(number.p))))
        shift = argument.top[(0,) * MOST_ATOMS] if argument.bottom == 1 else fmpq(0)
        if shift.q != 1 or abs(shift.p) > 20:
            return self.atom("factorial", argument)
        base = self.add(argument, constant(-shift))
        result = self.atom("factorial", base)
        for step in range(1, int(shift.p) + 1):
            result = self.multiply(result, self.add(base, constant(step)))
        for step in range(int(shift.p) + 1, 1):
            result = self.divide(result, self.add(base, constant(step)))
        return result

    def binomial(self, upper: Ratio, lower: Ratio) -> Ratio:
        number = rational(lower)
        if number is None:
            rest = self.add(upper, self.negative(lower))
            below = self.multiply(self.factorial(lower), self.factorial(rest))
            return self.divide(self.factorial(upper), below)
        if number.q != 1 or not 0 <= number.p <= _LARGEST_FACTORIAL:
            raise TooComplexError("a binomial coefficient too large to write out")
        above = rational(upper)
        if above is not None and above.p.bit_length() * int(number.p) > 4 * MOST_BITS:
            raise TooComplexError("a binomial coefficient with too many digits")
        result = constant(1)
        for step in range(int(number.p)):
            result = self.multiply(result, self.add(upper, constant(-step)))
            result = self.multiply(result, constant(fmpq(1, step + 1)))
        return result


def _shared_factor(one: Polynomial, two: Polynomial) -> Polynomial:
    """Return the greatest common divisor of two polynomials, or 1 where finding it may take long."""
    degree = max(*one.degrees(), *two.degrees())
    if len(one) * len(two) > _MOST_SHARED or degree > _HIGHEST_SHARED:
        return ONE
    return one.gcd(two)


def _primes(number: fmpq) -> list[tuple[fmpz, int]]:
    """A positive rational number as prime powers; those of the denominator are negative."""
    if number.p > _FACTORED or number.q > _FACTORED:
        raise TooComplexError("a number too large to factor")
    above = [(prime, int(power)) for prime, power in number.p.factor()]
    return above + [(prime, -int(power)) for prime, power in number.q.factor()]


def _modular(form: Form, value: Ratio, modulus: Ratio) -> Ratio:
    """What is congruent by the modulus, as one atom."""
    number, divisor = rational(value), rational(modulus)
    if number is not None and divisor is not None and number.q == divisor.q == 1 and divisor != 0:
        value = constant(number.p % divisor.p)
    return form.atom("mod", value, modulus)


def _sign(node: tree.Node) -> int:
    """Whether a number is surely positive (1) or negative (-1)."""
    value = ball(node, {}, 128)
    if not is_real(value) or not (value.real > 0 or value.real < 0):
        raise TooComplexError("a number whose sign is not certain")
    return 1 if value.real > 0 else -1


_OF_NUMBERS: Final = frozenset({"max", "min", "floor", "ceil", "gcd", "lcm", "sign"})
_FUNCTIONS: Final[dict[str, Callable[..., Ratio]]] = {
    "abs": Form.absolute,
    "factorial": Form.factorial,
    "binomial": Form.binomial,
    "mod": _modular,
}
