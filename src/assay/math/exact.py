"""Prove that two expressions are equal: each as a quotient of polynomials over atoms whose equations are known.

An atom is a number: a variable, π, a root, sin u. Some satisfy an equation, such as (√2)² = 2. A difference whose
numerator is the zero polynomial is 0: that proves equality. Nothing else is concluded. Variables count as positive
in roots and logarithms (`assumed_positive` says when that was needed); elsewhere the comparison looks for a point
that tells the two apart.
"""

from collections.abc import Callable
from functools import partial, reduce
from typing import Any, Final, NamedTuple, TypeAlias

from flint import fmpq, fmpz

from assay.math.balls import TooLargeError, UndefinedError, ball, is_real
from assay.math.tree import (
    Apply,
    Constant,
    Node,
    Number,
    Percent,
    Power,
    Product,
    Quantity,
    Quotient,
    Sum,
    Symbol,
    symbols_of,
)

Monomial: TypeAlias = tuple[tuple[int, int], ...]  # pairs of an atom's number and its power, sorted; `()` is 1
Polynomial: TypeAlias = dict[Monomial, fmpq]

MOST_TERMS: Final = 400
MOST_POWERS: Final = 200


class TooComplexError(ValueError):
    """The expression grows beyond what exact arithmetic is worth."""


NO_PROOF: Final = (TooComplexError, TooLargeError, UndefinedError, RecursionError)
"""What ends an attempt to compute exactly."""


class Ratio(NamedTuple):
    """A quotient of polynomials."""

    top: Polynomial
    bottom: Polynomial


ONE: Final[Polynomial] = {(): fmpq(1)}
_MINUS_ONE: Final[Polynomial] = {(): fmpq(-1)}


def constant(value: fmpq | fmpz | int) -> Ratio:
    return Ratio({(): fmpq(value)} if value != 0 else {}, ONE)


def variable(atom: int) -> Ratio:
    return Ratio({((atom, 1),): fmpq(1)}, ONE)


def plus(left: Polynomial, right: Polynomial) -> Polynomial:
    total = dict(left)
    for monomial, coefficient in right.items():
        value = total.get(monomial, 0) + coefficient
        if value == 0:
            del total[monomial]
        else:
            total[monomial] = value
    return total


def times(left: Polynomial, right: Polynomial) -> Polynomial:
    if right is ONE:
        return left
    if left is ONE:
        return right
    if len(left) * len(right) > MOST_TERMS * 10:
        raise TooComplexError(f"a product of {len(left)} by {len(right)} terms")
    product: Polynomial = {}
    for one, first in left.items():
        for two, second in right.items():
            monomial = _joined(one, two)
            value = product.get(monomial, 0) + first * second
            if value == 0:
                del product[monomial]
            else:
                product[monomial] = value
    if len(product) > MOST_TERMS:
        raise TooComplexError(f"a polynomial of {len(product)} terms")
    return product


def _joined(left: Monomial, right: Monomial) -> Monomial:
    if not left or not right:
        return left or right
    powers = dict(left)
    for atom, power in right:
        powers[atom] = powers.get(atom, 0) + power
    return tuple(sorted(powers.items()))


def scaled(polynomial: Polynomial, factor: fmpq) -> Polynomial:
    return {monomial: coefficient * factor for monomial, coefficient in polynomial.items()}


def rational(ratio: Ratio) -> fmpq | None:
    """The number that the ratio is, when no atom is left in it."""
    if not ratio.top:
        return fmpq(0)
    if ratio.top.keys() == {()} and ratio.bottom.keys() == {()}:
        return ratio.top[()] / ratio.bottom[()]
    return None


def content(polynomial: Polynomial) -> fmpq:
    """The positive number that can be taken out so that whole numbers without a common factor stay."""
    values = list(polynomial.values())
    top, bottom = abs(values[0].p), values[0].q
    for value in values[1:]:
        top = top.gcd(value.p)
        bottom = bottom.lcm(value.q)
    return fmpq(top, bottom)


def common_powers(polynomial: Polynomial) -> Monomial:
    """The largest monomial that divides every term."""
    shared: dict[int, int] | None = None
    for monomial in polynomial:
        powers = dict(monomial)
        if shared is None:
            shared = powers
        else:
            shared = {atom: min(power, powers[atom]) for atom, power in shared.items() if atom in powers}
        if not shared:
            return ()
    return tuple(sorted((shared or {}).items()))


def divided(polynomial: Polynomial, divisor: Monomial) -> Polynomial:
    """Every term with the divisor's powers taken off; they must be there."""
    less = dict(divisor)
    return {
        tuple((atom, power - less.get(atom, 0)) for atom, power in monomial if power > less.get(atom, 0)): value
        for monomial, value in polynomial.items()
    }


MOST_BITS: Final = 4096  # rational numbers beyond so many bits are not computed
_MOST_WORK: Final = 8000  # products of terms that one comparison may take: some milliseconds
_FACTORED: Final = fmpz(10) ** 30  # larger numbers are not factored
_POSITIVE: Final = frozenset({"symbol", "pi", "e", "exp", "root", "power", "factorial", "abs"})
"""Kinds of atoms that are positive, variables by assumption."""
_MOST_TURNS: Final = 12  # sin(ku) is written out up to this k
_INVERSES: Final = {"arcsin": "sin", "arccos": "cos", "arctan": "tan"}
_HYPERBOLIC: Final = frozenset({"sinh", "cosh", "tanh", "coth", "sech", "csch"})
_CIRCULAR: Final = frozenset({"sin", "cos", "tan", "cot", "sec", "csc"})
_LARGEST_POWER: Final = 4096
_LARGEST_FACTORIAL: Final = 500


def proves_equal(one: Node, two: Node) -> tuple[bool, bool]:
    """Whether the two are provably the same, and whether variables had to be taken as positive."""
    form = Form()
    try:
        same = form.equal(form.value(one), form.value(two))
    except NO_PROOF:
        return False, False
    return same, form.assumed_positive


class Form:
    """The exact form of expressions: the atoms met so far, arithmetic with them, and functions of them."""

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
        if one.bottom == two.bottom:
            return self.reduced(plus(one.top, scaled(two.top, fmpq(-1))))
        left, right = times(one.top, two.bottom), times(two.top, one.bottom)
        return self.reduced(plus(left, scaled(right, fmpq(-1))))

    def reduced(self, polynomial: Polynomial) -> Polynomial:
        """The polynomial with every atom's power below that of its equation."""
        equations = self.equations
        if not equations:
            return polynomial
        for _ in range(50):
            powers = ((monomial, *pair) for monomial in polynomial for pair in monomial if pair[0] in equations)
            found = next((each for each in powers if each[2] >= equations[each[1]][0]), None)
            if found is None:
                return polynomial
            monomial, atom, power = found
            degree, replacement = equations[atom]
            rest = tuple(pair for pair in monomial if pair[0] != atom)
            if power > degree:
                rest = tuple(sorted((*rest, (atom, power - degree))))
            others = {key: value for key, value in polynomial.items() if key != monomial}
            polynomial = plus(others, times({rest: polynomial[monomial]}, replacement))
        raise TooComplexError("too many powers to reduce")

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
        return Ratio(self.reduced(top), self.reduced(bottom)) if self.equations else Ratio(top, bottom)

    def negative(self, ratio: Ratio) -> Ratio:
        return self.multiply(ratio, constant(-1))

    def divide(self, one: Ratio, two: Ratio) -> Ratio:
        top = self.reduced(two.top)
        if not top:
            raise UndefinedError("a division by 0")
        return self.multiply(one, Ratio(two.bottom, top))

    def raised(self, ratio: Ratio, power: int) -> Ratio:
        if power < 0:
            return self.divide(constant(1), self.raised(ratio, -power))
        number = rational(ratio)
        if number is not None:
            size = max(number.p.bit_length(), number.q.bit_length())
            if size * power > MOST_BITS:
                raise TooComplexError("a power with too many digits")
            return constant(number**power)
        if power > MOST_POWERS:
            raise TooComplexError(f"the power {power}")
        result, square = constant(1), ratio
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
        if number is None or number <= 0:
            return self._power_of_terms(lambda term: self.atom("power", base, term), exponent, base)
        result = constant(1)
        for prime, times_in in _primes(number):
            power_of = partial(self.atom, "power", int(prime))
            piece = self._power_of_terms(power_of, exponent, constant(prime))
            result = self.multiply(result, self.raised(piece, times_in))
        return result

    def _power_of_terms(self, of_term: Callable[[Ratio], Ratio], exponent: Ratio, base: Ratio) -> Ratio:
        """base^(2 + 3u/2) as base²·(base^(u/2))³: one atom a term, whatever its whole factor."""
        result = constant(1)
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
        if index == 1 or not ratio.top:
            return ratio
        if ratio.bottom.keys() == {()}:
            return self._root(scaled(ratio.top, 1 / ratio.bottom[()]), index)
        return self.divide(self._root(ratio.top, index), self._root(ratio.bottom, index))

    def _root(self, polynomial: Polynomial, index: int) -> Ratio:
        number, powers, rest = self._factors(polynomial)
        pieces = [(constant(prime), int(prime), {(): fmpq(prime)}, power) for prime, power in _primes(number)]
        pieces += [(variable(atom), variable(atom), {((atom, 1),): fmpq(1)}, power) for atom, power in powers]
        result = constant(1)
        for base, key, equation, power in pieces:
            whole, left = divmod(power, index)
            result = self.multiply(result, self.raised(base, whole))
            if left:
                piece = self.atom("root", key, index, equation=(index, equation))
                result = self.multiply(result, self.raised(piece, left))
        if rest == ONE:
            return result
        if rest == _MINUS_ONE and index % 2:
            return self.negative(result)
        if rest == _MINUS_ONE and index == 2:
            return self.multiply(result, self.imaginary_unit())
        if rest == _MINUS_ONE:
            raise TooComplexError("an even root of a negative number")
        self.assumed_positive = True
        return self.multiply(result, self.atom("root", Ratio(rest, ONE), index, equation=(index, rest)))

    def _factors(self, polynomial: Polynomial) -> tuple[fmpq, Monomial, Polynomial]:
        """A number, powers of atoms that are positive, and what is left when both are taken out."""
        number, powers = content(polynomial), common_powers(polynomial)
        self._known_positive({powers: fmpq(1)})
        return number, powers, divided(scaled(polynomial, 1 / number), powers)

    def imaginary_unit(self) -> Ratio:
        return self.atom("i", equation=(2, _MINUS_ONE))

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
        return self.add(above, self.negative(below))

    def _log(self, polynomial: Polynomial) -> Ratio:
        if polynomial == ONE:
            return constant(0)
        number, powers, rest = self._factors(polynomial)
        logs = [(self.atom("ln", int(prime)), count) for prime, count in _primes(number)]
        logs += [(self._log_of_atom(atom), count) for atom, count in powers]
        total = constant(0)
        for log, count in logs:
            total = self.add(total, self.multiply(log, constant(count)))
        if rest == ONE:
            return total
        if rest == _MINUS_ONE:
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
                return self.atom("ln", variable(atom))

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
        if function in _INVERSES:
            atoms = {atom for side in argument for monomial in side for atom, _ in monomial}
            if all(self.keys[atom][0] in ("root", "i") for atom in atoms):
                return self._inverse(function, argument)
        return None

    def _chosen(self, function: str, cosine: Ratio, sine: Ratio) -> Ratio:
        """A function by its first three letters, which `sinh` and `sin` share."""
        name, one = function[:3], constant(1)
        if name in ("sin", "cos"):
            return sine if name == "sin" else cosine
        sides = {"tan": (sine, cosine), "cot": (cosine, sine), "sec": (one, cosine), "csc": (one, sine)}
        return self.divide(*sides[name])

    def turned(self, argument: Ratio) -> tuple[Ratio, Ratio]:
        """Cosine and sine of a sum of angles, one term after the other."""
        cosine, sine = constant(1), constant(0)
        if argument.bottom.keys() != {()} or len(argument.top) > 4:
            return self._pair(argument)
        for monomial, coefficient in argument.top.items():
            other = self._term(monomial, coefficient / argument.bottom[()])
            cosine, sine = self._sum((cosine, sine), other)
        return cosine, sine

    def _term(self, monomial: Monomial, coefficient: fmpq) -> tuple[Ratio, Ratio]:
        if monomial == next(iter(self.atom("pi").top)):
            return self._known(coefficient)
        if abs(coefficient.p) > _MOST_TURNS:
            raise TooComplexError("too large a multiple of an angle")
        unit = self._pair(Ratio({monomial: fmpq(1, int(coefficient.q))}, ONE))
        turned = unit
        for _ in range(abs(int(coefficient.p)) - 1):
            turned = self._sum(turned, unit)
        if coefficient < 0:
            return turned[0], self.negative(turned[1])
        return turned

    def _sum(self, one: tuple[Ratio, Ratio], two: tuple[Ratio, Ratio]) -> tuple[Ratio, Ratio]:
        minus = self.negative(self.multiply(one[1], two[1]))
        cosine = self.add(self.multiply(one[0], two[0]), minus)
        sine = self.add(self.multiply(one[1], two[0]), self.multiply(one[0], two[1]))
        return cosine, sine

    def _pair(self, angle: Ratio) -> tuple[Ratio, Ratio]:
        """Cosine and sine as two atoms, whose squares add up to 1."""
        sine = self.atom("sin", angle)
        square = self.multiply(sine, sine)
        rest = self.add(constant(1), self.negative(square))
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

    def _inverse(self, function: str, argument: Ratio) -> Ratio | None:
        """arcsin, arccos and arctan of the values that known angles have."""
        low, high = (0, 12) if function == "arccos" else (-6, 6)
        pi = self.atom("pi")
        for step in range(low, high + 1):
            if function == "arctan" and abs(step) == 6:
                continue
            angle = self.multiply(pi, constant(fmpq(step, 12)))
            if self.equal(self._chosen(_INVERSES[function], *self.turned(angle)), argument):
                return angle
        number = rational(argument)
        if number is not None and number < 0 and function != "arccos":
            return self.negative(self.atom(function, constant(-number)))
        return None

    # Trees.

    def value(self, node: Node) -> Ratio:
        match node:
            case Number(number):
                return constant(number)
            case Symbol(name):
                return self.atom("symbol", name)
            case Sum(terms):
                return reduce(self.add, map(self.value, terms))
            case Product(factors):
                return reduce(self.multiply, map(self.value, factors))
            case Quotient(top, bottom):
                return self.divide(self.value(top), self.value(bottom))
            case Power(base, exponent):
                return self.power(base, self.value(exponent))
            case Percent(value):
                return self.divide(self.value(value), constant(100))
            case Quantity(value, "degree"):
                turn = self.multiply(self.atom("pi"), constant(fmpq(1, 180)))
                return self.multiply(self.value(value), turn)
            case Quantity(value):
                return self.value(value)
            case Constant("i"):
                return self.imaginary_unit()
            case Constant("pi" | "e" as name):
                return self.atom(name)
            case Apply(function, arguments):
                return self.applied(function, arguments)
            case _:
                raise UndefinedError(f"{type(node).__name__} is no number")

    def power(self, base: Node, exponent: Ratio) -> Ratio:
        number = rational(exponent)
        if base == Constant("e") and (number is None or number.q != 1):
            return self._turning_exponential(exponent)
        if number is None:
            return self.general_power(self.value(base), exponent)
        if abs(number.p) > _LARGEST_POWER:
            raise TooComplexError("a power too high to write out")
        return self.raised(self.root(self.value(base), int(number.q)), int(number.p))

    def _turning_exponential(self, exponent: Ratio) -> Ratio:
        """e to a power; an imaginary part turns, by Euler's formula."""
        unit = self.imaginary_unit()
        ((atom, _),) = next(iter(unit.top))
        turning = {m: c for m, c in exponent.top.items() if (atom, 1) in m}
        if not turning:
            return self.exponential(exponent)
        growing = {m: c for m, c in exponent.top.items() if m not in turning}
        angle = Ratio(divided(turning, ((atom, 1),)), exponent.bottom)
        cosine, sine = self.turned(angle)
        circle = self.add(cosine, self.multiply(unit, sine))
        return self.multiply(self.exponential(Ratio(growing, exponent.bottom)), circle)

    def applied(self, function: str, arguments: tuple[Node, ...]) -> Ratio:
        values = tuple(self.value(argument) for argument in arguments)
        known = _FUNCTIONS.get(function)
        if known is not None:
            return known(self, *values)
        angle = self._angle_function(function, values[0])
        if angle is not None:
            return angle
        if function in _WHOLE and not any(symbols_of(argument) for argument in arguments):
            return _whole(Apply(function, arguments))
        return self.atom(function, *values)

    def root_function(self, radicand: Ratio, index: Ratio) -> Ratio:
        degree = rational(index)
        if degree is None or degree.q != 1:
            raise TooComplexError("a root whose index is no number")
        return self.root(radicand, int(degree.p))

    def logarithm(self, argument: Ratio, base: Ratio) -> Ratio:
        return self.divide(self.natural_log(argument), self.natural_log(base))

    def absolute(self, argument: Ratio) -> Ratio:
        number = rational(argument)
        if number is not None:
            return constant(abs(number))
        if len(argument.top) == 1 and len(argument.bottom) == 1:
            # |cxⁿ| for variables taken as positive.
            self._known_positive(argument.top)
            self._known_positive(argument.bottom)
            (top,), (bottom,) = argument.top.values(), argument.bottom.values()
            return argument if top / bottom > 0 else self.negative(argument)
        if argument.top[min(argument.top)] < 0:
            argument = self.negative(argument)
        if argument.bottom != ONE:
            return self.atom("abs", argument)
        square = self.multiply(argument, argument)
        return self.atom("abs", argument, equation=(2, square.top))

    def factorial(self, argument: Ratio) -> Ratio:
        """n!, with (n + 2)! as (n + 2)(n + 1)·n!."""
        number = rational(argument)
        if number is not None:
            if number.q != 1 or not 0 <= number.p <= _LARGEST_FACTORIAL:
                raise TooComplexError("a factorial too large to write out")
            return constant(fmpq(fmpz.fac_ui(int(number.p))))
        shift = argument.top.get((), fmpq(0)) if argument.bottom == ONE else fmpq(0)
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


def _primes(number: fmpq) -> list[tuple[fmpz, int]]:
    """A positive rational number as prime powers; those of the denominator are negative."""
    if number.p > _FACTORED or number.q > _FACTORED:
        raise TooComplexError("a number too large to factor")
    above = [(prime, int(power)) for prime, power in number.p.factor()]
    return above + [(prime, -int(power)) for prime, power in number.q.factor()]


def _whole(node: Node) -> Ratio:
    """The whole number that a constant `floor`, `gcd`, … surely is."""
    value = ball(node, {}, 256)
    number = value.real.unique_fmpz() if is_real(value) and value.real.is_exact() else None
    if number is None:
        raise UndefinedError("no certain whole number")
    return constant(number)


_WHOLE: Final = frozenset({"floor", "ceil", "gcd", "lcm", "sign"})
_FUNCTIONS: Final[dict[str, Callable[..., Ratio]]] = {
    "root": Form.root_function,
    "log": Form.logarithm,
    "abs": Form.absolute,
    "factorial": Form.factorial,
    "binomial": Form.binomial,
}
