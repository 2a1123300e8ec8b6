"""Prove that two expressions are equal, by writing each as a ratio of polynomials over atoms.

Two expressions are equal if the numerator of their difference is the zero polynomial. Nothing else
is concluded. In roots and logarithms, variables are taken as positive, and `assumed_positive` says
if that was needed. The comparison then looks for a point that tells the two expressions apart.
"""

from collections.abc import Callable
from functools import partial, reduce
from math import lcm
from typing import Final, NamedTuple

from flint import fmpq, fmpz

from assay.math import tree
from assay.math.atoms import (
    ATOMS,
    MAX_BITS,
    MAX_GCD_DEGREE,
    ONE,
    Atoms,
    Polynomial,
    Ratio,
    TooComplexError,
    constant,
    constant_term,
    constant_value,
    find_powers,
    split_terms,
    to_rational,
)
from assay.math.balls import TooLargeError, UndefinedError, compute_ball, is_real

# What ends an exact computation without a proof.
NO_PROOF: Final = (TooComplexError, TooLargeError, UndefinedError, RecursionError)

_HALF: Final = constant(fmpq(1, 2))
_MAX_POWER: Final = 4096
_MAX_ROOT_INDEX: Final = 64
_MAX_FACTORIAL: Final = 500
_MAX_FACTORIAL_SHIFT: Final = 20  # up to which (n + k)! is written as a multiple of n!
_MAX_FACTORED: Final = fmpz(10) ** 30  # larger numbers are not factored
_MAX_SQUAREFREE_TERMS: Final = 40  # larger polynomials are not searched for squares under a root
_MAX_ANGLE_TERMS: Final = 4  # sums of more angles are not expanded
_MAX_ANGLE_MULTIPLE: Final = 12  # sin(ku) is expanded up to this k
_MAX_INVERSE_MULTIPLE: Final = 64  # of an inverse function in a sum of them
_NUMBER_PRECISION: Final = 256  # at which functions of whole numbers are computed
# Kinds of atoms that are positive; variables are so by assumption.
_POSITIVE: Final = frozenset({"symbol", "pi", "e", "exp", "root", "power", "factorial", "abs"})
# Kinds of atoms that are real if their arguments are numbers, and i.
_REAL: Final = frozenset({"symbol", "pi", "e", "root", "ln", "i"})
_CIRCULAR: Final = frozenset({"sin", "cos", "tan", "cot", "sec", "csc"})
_HYPERBOLIC: Final = frozenset({"sinh", "cosh", "tanh", "coth", "sech", "csch"})
_INVERSES: Final = {"arcsin": "sin", "arctan": "tan"}
_COMPLEMENTS: Final = {"arccos": "arcsin", "arccot": "arctan"}  # π/2 minus the other function
_RECIPROCALS: Final = {"arcsec": "arccos", "arccsc": "arcsin"}  # the other function of 1/u
_FUNCTIONS_OF_NUMBERS: Final = frozenset({"max", "min", "floor", "ceil", "gcd", "lcm", "sign"})


def prove_equal(first: tree.Node, second: tree.Node) -> tuple[bool, bool]:
    """Return whether two expressions are provably equal, and whether variables must be positive."""
    form = Form()
    try:
        first_ratio = form.evaluate(first)
        second_ratio = form.evaluate(second)
        is_equal = form.are_equal(first_ratio, second_ratio)
        has_variables = any(kind == "symbol" for kind, *_ in form.keys)
        if not is_equal and not has_variables:
            # Logarithms and angles are equal up to a multiple of πi or π. If the difference times a
            # whole number is such a multiple, and is less than 3 in absolute value, it is 0.
            scale = form.find_scale_to_multiple_of_pi(form.subtract(first_ratio, second_ratio))
            difference = tree.Sum((first, tree.negate(second)))
            if scale is not None and abs(compute_ball(difference, {}, 64)) * scale < 3:
                is_equal = True
    except NO_PROOF:
        return False, False
    return is_equal, form.assumed_positive


class _Direction(NamedTuple):
    """The direction of an angle: its cosine and sine, or both times the same positive number."""

    cosine: Ratio
    sine: Ratio


_ZERO_ANGLE: Final = _Direction(constant(1), constant(0))
_STRAIGHT_ANGLE: Final = _Direction(constant(-1), constant(0))


class Form(Atoms):
    """The exact forms of the expressions in one comparison, as ratios over shared atoms."""

    # Expressions.

    def evaluate(self, node: tree.Node) -> Ratio:
        """Return the exact form of an expression. Raises one of `NO_PROOF` if it has none."""
        match node:
            case tree.Number(number):
                return constant(number)
            case tree.Symbol(name):
                return self.atom("symbol", name)
            case tree.Sum(terms):
                return reduce(self.add, [self.evaluate(term) for term in terms])
            case tree.Product(factors):
                return reduce(self.multiply, [self.evaluate(factor) for factor in factors])
            case tree.Quotient(top, bottom):
                return self.divide(self.evaluate(top), self.evaluate(bottom))
            case tree.Power(base, exponent):
                return self._power(base, self.evaluate(exponent))
            case tree.Percent(value):
                return self.divide(self.evaluate(value), constant(100))
            case tree.Quantity(value, "degree"):
                degree = self.multiply(self.atom("pi"), constant(fmpq(1, 180)))
                return self.multiply(self.evaluate(value), degree)
            case tree.Quantity(value):
                return self.evaluate(value)
            case tree.Constant("i"):
                return self.imaginary_unit()
            case tree.Constant("pi" | "e" as name):
                return self.atom(name)
            case tree.Apply(function, arguments):
                return self._apply(function, arguments)
            case _:
                raise UndefinedError(f"{type(node).__name__} is not a number")

    def _power(self, base: tree.Node, exponent: Ratio) -> Ratio:
        """Return a power, given as the tree of its base and the exact form of its exponent."""
        power = to_rational(exponent)  # None if the exponent has atoms
        if base == tree.Constant("e") and (power is None or power.q != 1):
            return self._complex_exponential(exponent)
        if power is None:
            base_ratio = self.evaluate(base)
            is_irrational_number = to_rational(base_ratio) is None and not tree.find_symbols(base)
            if is_irrational_number and _find_sign(base) < 0:
                raise TooComplexError("a negative number to a power")
            return self._general_power(base_ratio, exponent)
        if abs(power.p) > _MAX_POWER:
            raise TooComplexError("a power too high to write out")
        base_ratio = self.evaluate(base)
        if power.q != 1:
            base_ratio = self._root_of(base, base_ratio, int(power.q))
        return self.raise_to(base_ratio, int(power.p))

    def _root_of(self, node: tree.Node, ratio: Ratio, index: int) -> Ratio:
        """Return a root of an expression, given as a tree and as a ratio.

        Variables are taken as positive, but the sign of a number such as 1 − √2 is computed.
        """
        if to_rational(ratio) is not None or tree.find_symbols(node):
            return self._root(ratio, index)
        if _find_sign(node) > 0:
            return self._root_of_positive_number(ratio, index)
        root = self._root_of_positive_number(self.negate(ratio), index)
        if index % 2 == 1:
            return self.negate(root)
        if index == 2:
            return self.multiply(root, self.imaginary_unit())
        raise TooComplexError("an even root of a negative number")

    def _root_of_positive_number(self, number: Ratio, index: int) -> Ratio:
        """Return a root of a number without variables, so that none has to be taken as positive."""
        assumed_positive_before = self.assumed_positive
        root = self._root(number, index)
        self.assumed_positive = assumed_positive_before
        return root

    def _apply(self, function: str, arguments: tuple[tree.Node, ...]) -> Ratio:
        """Return the exact form of a function of some arguments."""
        values = tuple(self.evaluate(argument) for argument in arguments)
        match function:
            case "root":
                index = to_rational(values[1])
                if index is None or index.q != 1:
                    raise TooComplexError("a root whose index is not a number")
                return self._root_of(arguments[0], values[0], int(index.p))
            case "log":
                return self._logarithm(arguments, values)
            case "abs":
                return self._absolute(*values)
            case "factorial":
                return self._factorial(*values)
            case "binomial":
                return self._binomial(*values)
            case "mod":
                return self._modulo(*values)
            case _:
                pass
        angle_value = self._apply_angle_function(function, values[0])
        if angle_value is not None:
            return angle_value
        has_variables = any(tree.find_symbols(argument) for argument in arguments)
        if function in _FUNCTIONS_OF_NUMBERS and not has_variables:
            return self._apply_to_numbers(function, arguments, values)
        return self.atom(function, *values)

    def _logarithm(self, arguments: tuple[tree.Node, ...], values: tuple[Ratio, ...]) -> Ratio:
        """Return the logarithm of the first argument to the base of the second.

        `values` are the exact forms of both arguments.
        """
        for argument, value in zip(arguments, values, strict=True):
            # A logarithm is split into those of factors, which holds only for positive numbers. The
            # sign of a number such as 1 - √2 has to be computed for that.
            is_irrational_number = to_rational(value) is None and not tree.find_symbols(argument)
            if is_irrational_number and _find_sign(argument) < 0:
                raise TooComplexError("the logarithm of a negative number")
        argument_log, base_log = [self._natural_log(value) for value in values]
        return self.divide(argument_log, base_log)

    def _apply_to_numbers(
        self, function: str, arguments: tuple[tree.Node, ...], values: tuple[Ratio, ...]
    ) -> Ratio:
        """Return the maximum, the floor or the like of numbers, found with certified values.

        `values` are the exact forms of the arguments.
        """
        result = compute_ball(tree.Apply(function, arguments), {}, _NUMBER_PRECISION)
        if function in ("max", "min"):
            for argument, value in zip(arguments, values, strict=True):
                if compute_ball(argument, {}, _NUMBER_PRECISION).overlaps(result):
                    return value
        if not is_real(result) or not result.real.is_exact():
            raise UndefinedError("no certain whole number")
        whole_number = result.real.unique_fmpz()
        if whole_number is None:
            raise UndefinedError("no certain whole number")
        return constant(whole_number)

    # Powers.

    def _complex_exponential(self, exponent: Ratio) -> Ratio:
        """Return e to a complex power: e^(a + bi) is e^a·(cos b + i·sin b), by Euler's formula."""
        imaginary_unit = self.imaginary_unit()
        imaginary_part = self.imaginary_part(exponent.top)
        if not imaginary_part:
            return self._exponential(exponent)
        direction = self._find_direction(Ratio(imaginary_part, exponent.bottom))
        rotation = self.add(direction.cosine, self.multiply(imaginary_unit, direction.sine))
        real_part = Ratio(exponent.top - imaginary_part * imaginary_unit.top, exponent.bottom)
        return self.multiply(self._exponential(real_part), rotation)

    def _exponential(self, exponent: Ratio) -> Ratio:
        """Return e to a sum of terms, as a product of atoms with whole powers."""
        return self._multiply_term_powers(self._exponential_of_term, exponent, self.atom("e"))

    def _exponential_of_term(self, term: Ratio) -> Ratio:
        """Return e to the power of one term. If the term is u·ln v, the result is v^u."""
        for atom, power in find_powers(term.top).items():
            base = self._read_argument(ATOMS[atom], "ln")
            if base is not None and power == 1:
                return self._general_power(base, Ratio(term.top / ATOMS[atom], term.bottom))
        return self.atom("exp", term)

    def _general_power(self, base: Ratio, exponent: Ratio) -> Ratio:
        """Return a power with any exponent, split into powers of primes and variables."""
        number = to_rational(base)
        if number is not None and number > 0:
            return self._power_of_number(number, exponent)
        # A single atom, such as x, cannot be split further.
        is_product = len(base.top) == len(base.bottom) == 1 and base.top not in ATOMS
        if number is None and is_product:
            product = self._power_of_product(base, exponent)
            if product is not None:
                return product
        power_of_base = partial(self.atom, "power", base)
        return self._multiply_term_powers(power_of_base, exponent, base)

    def _power_of_number(self, number: fmpq, exponent: Ratio) -> Ratio:
        """Return a positive number to a power with any exponent, split into powers of primes."""
        if not exponent.bottom.is_constant():
            # 2 to the logarithm of 3 to base 2 is e to the logarithm of 3.
            natural_exponent = self.multiply(exponent, self._natural_log(constant(number)))
            if natural_exponent.bottom.is_constant():
                return self._exponential(natural_exponent)
        result = constant(1)
        for prime, count in _factor_primes(number):
            power_of_prime = partial(self.atom, "power", int(prime))
            prime_power = self._multiply_term_powers(power_of_prime, exponent, constant(prime))
            result = self.multiply(result, self.raise_to(prime_power, count))
        return result

    def _power_of_product(self, base: Ratio, exponent: Ratio) -> Ratio | None:
        """Return (2xy)^n as 2^n·x^n·y^n, which takes x and y as positive.

        None if the sign of a factor is not known.
        """
        number = base.top.leading_coefficient() / base.bottom.leading_coefficient()
        powers = list(find_powers(base.top).items())
        for atom, power in find_powers(base.bottom).items():
            powers.append((atom, -power))
        kinds = {self.keys[atom][0] for atom, _ in powers}
        if number < 0 or not kinds <= _POSITIVE or self.may_be_complex(*base):
            return None
        if "symbol" in kinds:
            self.assumed_positive = True
        result = constant(1)
        if number != 1:
            result = self._general_power(constant(number), exponent)
        for atom, power in powers:
            atom_exponent = self.multiply(exponent, constant(power))
            factor = self._general_power(Ratio(ATOMS[atom], ONE), atom_exponent)
            result = self.multiply(result, factor)
        return result

    def _multiply_term_powers(
        self, power_of: Callable[[Ratio], Ratio], exponent: Ratio, base: Ratio
    ) -> Ratio:
        """Return a base to the power of a sum, as the product of its powers with each term.

        base^(2 + 3u/2) is base²·(base^(u/2))³. `power_of` returns the base to the power of a term
        without its whole factor, such as u/2.
        """
        result = constant(1)
        divisor = exponent.bottom.leading_coefficient()
        bottom = exponent.bottom / divisor
        for monomial, coefficient in split_terms(exponent.top):
            factor = coefficient / divisor
            if monomial.is_constant() and bottom.is_constant():
                power = self._rational_power(base, factor)
            else:
                # 3u/2 and 5u/2 are multiples of u/2, so their powers share one atom.
                unit_term = Ratio(monomial / fmpq(factor.q), bottom)
                power = self.raise_to(power_of(unit_term), int(factor.p))
            result = self.multiply(result, power)
        return result

    def _rational_power(self, base: Ratio, exponent: fmpq) -> Ratio:
        """Return a power with a rational exponent p/q: the q-th root to the power p."""
        if exponent.q != 1:
            number = to_rational(base)
            if number is not None and number < 0:
                raise TooComplexError("a negative number to a broken power")
            base = self._root(base, int(exponent.q))
        return self.raise_to(base, int(exponent.p))

    # Roots and logarithms.

    def _root(self, ratio: Ratio, index: int) -> Ratio:
        """Return the root of a ratio, split into roots of primes, of variables and of the rest."""
        if not 0 < index <= _MAX_ROOT_INDEX:
            raise TooComplexError(f"a root of index {index}")
        if index == 1 or not ratio.top:
            return ratio
        if ratio.bottom.is_constant():
            return self._root_of_polynomial(ratio.top / constant_value(ratio.bottom), index)
        top_root = self._root_of_polynomial(ratio.top, index)
        bottom_root = self._root_of_polynomial(ratio.bottom, index)
        return self.divide(top_root, bottom_root)

    def _root_of_polynomial(self, polynomial: Polynomial, index: int) -> Ratio:
        """Return the root of a polynomial, as a product of simpler roots.

        The polynomial is a number times powers of atoms (parts such as x and π) times a rest. Each
        of these has a root of its own. The rest is taken as positive, unless it is 1 or -1.
        """
        number, atom_powers, rest = self._split_factors(polynomial)
        result = constant(1)
        for prime, power in _factor_primes(number):
            result = self._multiply_by_root(result, constant(prime), int(prime), power, index)
        for atom, power in atom_powers.items():
            base = Ratio(ATOMS[atom], ONE)
            result = self._multiply_by_root(result, base, base, power, index)
        result, rest = self._take_out_powers(result, rest, index)
        if rest == 1:
            return result
        if rest == -1:
            if index % 2 == 1:
                return self.negate(result)
            if index == 2:
                return self.multiply(result, self.imaginary_unit())
            raise TooComplexError("an even root of a negative number")
        self.assumed_positive = True
        root = self.atom("root", Ratio(rest, ONE), index, equation=(index, rest))
        return self.multiply(result, root)

    def _multiply_by_root(
        self, product: Ratio, base: Ratio, key: Ratio | int, power: int, index: int
    ) -> Ratio:
        """Return a product times the root of a power of a base: for √(x⁵), times x²·√x.

        `key` is the same base as it is written in the atom √x, where a prime is a plain number.
        """
        whole_power, remaining_power = divmod(power, index)
        product = self.multiply(product, self.raise_to(base, whole_power))
        if remaining_power == 0:
            return product
        root = self.atom("root", key, index, equation=(index, base.top))
        return self.multiply(product, self.raise_to(root, remaining_power))

    def _take_out_powers(
        self, outside: Ratio, inside: Polynomial, index: int
    ) -> tuple[Ratio, Polynomial]:
        """Take powers of polynomials out of a root: √(x² + 2x + 1) is |x + 1| for real x.

        `outside` is the factor before the root, and `inside` is under the root. Returns both after
        that.
        """
        term_count = len(inside)
        if not 1 < term_count < _MAX_SQUAREFREE_TERMS or max(inside.degrees()) > MAX_GCD_DEGREE:
            return outside, inside
        _, factors = inside.factor_squarefree()
        for factor, power in factors:
            power_outside = power // index  # √(u⁵) is u²·√u
            if power_outside == 0:
                continue
            self.assumed_positive = True
            if self.may_be_complex(factor):
                raise TooComplexError("a square that may be complex")
            base = Ratio(factor, ONE)
            if index % 2 == 0:
                base = self._absolute(base)
            outside = self.multiply(outside, self.raise_to(base, power_outside))
            inside /= factor ** (power_outside * index)
        return outside, inside

    def _split_factors(self, polynomial: Polynomial) -> tuple[fmpq, dict[int, int], Polynomial]:
        """Split a polynomial into a positive number, powers of positive atoms, and the rest.

        6x²y + 4x² is 2 · x² · (3y + 2). The powers are by the number of the atom. The rest has
        whole coefficients without a common factor. Raises `TooComplexError` if an atom is a factor
        and not known to be positive.
        """
        # The common factor of fractions such as 4/3 and 6/5 is gcd(4, 6)/lcm(3, 5).
        coefficients = polynomial.coeffs()
        numerator = reduce(fmpz.gcd, [coefficient.p for coefficient in coefficients])
        denominator = reduce(fmpz.lcm, [coefficient.q for coefficient in coefficients])
        number = fmpq(abs(numerator), denominator)
        common_monomial = polynomial.term_content()
        self._assume_positive(common_monomial)
        rest = polynomial / common_monomial / number
        return number, find_powers(common_monomial), rest

    def _assume_positive(self, polynomial: Polynomial) -> None:
        """Take the variables of a polynomial as positive, and remember that.

        Raises `TooComplexError` if other parts of it, such as a sine, are not known to be positive.
        """
        for atom in find_powers(polynomial):
            kind = self.keys[atom][0]
            if kind not in _POSITIVE or self.may_be_complex(ATOMS[atom]):
                raise TooComplexError(f"the sign of {kind} is not known")
            if kind == "symbol":
                self.assumed_positive = True

    def _natural_log(self, ratio: Ratio) -> Ratio:
        """Return ln of a product as a sum of logarithms of primes, of variables and of the rest."""
        if not ratio.top:
            raise UndefinedError("the logarithm of 0")
        return self.subtract(
            self._log_of_polynomial(ratio.top), self._log_of_polynomial(ratio.bottom)
        )

    def _log_of_polynomial(self, polynomial: Polynomial) -> Ratio:
        """Return ln of a polynomial as a sum of simpler logarithms.

        The polynomial is a number times powers of atoms (parts such as x and π) times a rest. Each
        of these has a logarithm of its own.
        """
        if polynomial == 1:
            return constant(0)
        number, atom_powers, rest = self._split_factors(polynomial)
        logs: list[tuple[Ratio, int]] = []  # of the factors, with their powers
        for prime, power in _factor_primes(number):
            logs.append((self.atom("ln", int(prime)), power))
        for atom, power in atom_powers.items():
            logs.append((self._log_of_atom(atom), power))
        total = constant(0)
        for log, power in logs:
            total = self.add(total, self.multiply(log, constant(power)))
        if rest == 1:
            return total
        if rest == -1:
            raise UndefinedError("the logarithm of a negative number")
        return self.add(total, self.atom("ln", Ratio(rest, ONE)))

    def _log_of_atom(self, atom: int) -> Ratio:
        """Return ln of an atom, a part that is not taken apart; `atom` is its number.

        It is 1 for e, u for e^u, (ln p)/n for the n-th root of p, u·ln p for p^u, and a new atom
        for any other.
        """
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

    def _read_argument(self, monomial: Polynomial, function: str) -> Ratio | None:
        """Return u if the monomial is this function of u, such as ln u, and None if it is not."""
        powers = find_powers(monomial)
        if list(powers.values()) != [1]:
            return None
        (atom,) = powers
        kind, *arguments = self.keys[atom]
        if kind != function:
            return None
        argument = arguments[0]
        return argument if isinstance(argument, Ratio) else constant(argument)

    # Circular and hyperbolic functions, and their inverses.

    def _apply_angle_function(self, function: str, argument: Ratio) -> Ratio | None:
        """Return the sine, the arcsine or the like of an argument, or None for other functions."""
        if function in _CIRCULAR:
            direction = self._find_direction(argument)
            return self._choose_function(function, direction.cosine, direction.sine)
        if function in _HYPERBOLIC:
            growth = self._exponential(argument)
            decay = self.divide(constant(1), growth)
            hyperbolic_cosine = self.multiply(self.add(growth, decay), _HALF)
            hyperbolic_sine = self.multiply(self.subtract(growth, decay), _HALF)
            # The names differ from those of circular functions in their last letter only.
            return self._choose_function(function[:3], hyperbolic_cosine, hyperbolic_sine)
        if function in _RECIPROCALS:
            return self._apply_angle_function(
                _RECIPROCALS[function], self.divide(constant(1), argument)
            )
        if function in _COMPLEMENTS:
            complement = self._inverse_function(_COMPLEMENTS[function], argument)
            right_angle = self.multiply(self.atom("pi"), _HALF)
            return self.subtract(right_angle, complement)
        if function in _INVERSES:
            return self._inverse_function(function, argument)
        return None

    def _choose_function(self, function: str, cosine: Ratio, sine: Ratio) -> Ratio:
        """Return a function of an angle, such as the tangent, from the angle's cosine and sine."""
        match function:
            case "sin":
                return sine
            case "cos":
                return cosine
            case "tan":
                return self.divide(sine, cosine)
            case "cot":
                return self.divide(cosine, sine)
            case "sec":
                return self.divide(constant(1), cosine)
            case _:  # csc
                return self.divide(constant(1), sine)

    def _inverse_function(self, function: str, argument: Ratio) -> Ratio:
        """Return the arcsin or arctan of an argument.

        It is a multiple of π/12 if the sine or tangent of that is the argument, and else an atom.
        """
        pi = self.atom("pi")
        if self.kinds_in(*argument) <= {"root", "i"}:
            steps = range(-6, 7) if function == "arcsin" else range(-5, 6)
            for step in steps:
                angle = self.multiply(pi, constant(fmpq(step, 12)))
                direction = self._find_direction(angle)
                value = self._choose_function(_INVERSES[function], direction.cosine, direction.sine)
                if self.are_equal(value, argument):
                    return angle
        if _has_negative_lead(argument):
            # Both functions are odd, so only one sign of the argument gets an atom.
            return self.negate(self.atom(function, self.negate(argument)))
        return self.atom(function, argument)

    def _find_direction(self, angle: Ratio) -> _Direction:
        """Return the cosine and the sine of an angle, as a sum of the angles of its terms."""
        angle = self.normalize(angle)
        if not angle.bottom.is_constant() or len(angle.top) > _MAX_ANGLE_TERMS:
            return self._make_direction(angle)
        direction = _ZERO_ANGLE
        divisor = constant_value(angle.bottom)
        for monomial, coefficient in split_terms(angle.top):
            term = self._find_direction_of_term(monomial, coefficient / divisor)
            direction = self._add_angles(direction, term)
        return direction

    def _find_direction_of_term(self, monomial: Polynomial, coefficient: fmpq) -> _Direction:
        """Return cosine and sine of an angle that is a number times a monomial, such as 3u/2."""
        if monomial == self.atom("pi").top:
            return self._find_direction_of_turn(coefficient)
        if abs(coefficient.p) > _MAX_ANGLE_MULTIPLE:
            raise TooComplexError("too large a multiple of an angle")
        inverse = None
        if coefficient.q == 1:
            inverse = self._find_direction_of_inverse(monomial)
        if inverse is None:
            # 3u/2 is three times the angle u/2.
            direction = self._make_direction(Ratio(monomial / fmpq(coefficient.q), ONE))
        else:
            direction = self._scale_to_length_1(inverse)
        return self._multiply_angle(direction, int(coefficient.p))

    def _scale_to_length_1(self, direction: _Direction) -> _Direction:
        """Return the direction with sides whose squares add up to 1: the cosine and the sine."""
        squared_cosine = self.multiply(direction.cosine, direction.cosine)
        squared_sine = self.multiply(direction.sine, direction.sine)
        length = self._root(self.add(squared_cosine, squared_sine), 2)
        return _Direction(
            self.divide(direction.cosine, length), self.divide(direction.sine, length)
        )

    def _find_direction_of_turn(self, turn: fmpq) -> _Direction:
        """Return the cosine and the sine of turn·π, written with roots where that is simple."""
        turn -= 2 * (turn / 2).floor()  # now from 0 to 2: a whole turn changes nothing
        if turn >= 1:
            opposite = self._find_direction_of_turn(turn - 1)
            return _Direction(self.negate(opposite.cosine), self.negate(opposite.sine))
        if turn > fmpq(1, 2):
            mirrored = self._find_direction_of_turn(1 - turn)
            return _Direction(self.negate(mirrored.cosine), mirrored.sine)
        if turn > fmpq(1, 4):
            complement = self._find_direction_of_turn(fmpq(1, 2) - turn)
            return _Direction(cosine=complement.sine, sine=complement.cosine)
        # Only angles up to π/4 are left.
        if turn == 0:
            return _ZERO_ANGLE
        if turn == fmpq(1, 4):
            half_root_of_2 = self.multiply(self._root(constant(2), 2), _HALF)
            return _Direction(half_root_of_2, half_root_of_2)
        if turn == fmpq(1, 6):
            half_root_of_3 = self.multiply(self._root(constant(3), 2), _HALF)
            return _Direction(half_root_of_3, _HALF)
        if turn == fmpq(1, 12):
            # π/12 is π/4 minus π/6.
            quarter = self._find_direction_of_turn(fmpq(1, 4))
            sixth = self._find_direction_of_turn(fmpq(1, 6))
            return self._add_angles(quarter, self._negate_angle(sixth))
        return self._make_direction(self.multiply(self.atom("pi"), constant(turn)))

    def _find_direction_of_inverse(self, monomial: Polynomial) -> _Direction | None:
        """Return the direction of an angle that is one atom: π, arctan u or arcsin u.

        The direction of arctan u is (1, u), which is not scaled to the length 1. None for other
        monomials.
        """
        if monomial == self.atom("pi").top:
            return _STRAIGHT_ANGLE
        tangent = self._read_argument(monomial, "arctan")
        if tangent is not None:
            return _Direction(cosine=constant(1), sine=tangent)
        sine = self._read_argument(monomial, "arcsin")
        if sine is not None:
            squared_cosine = self.subtract(constant(1), self.multiply(sine, sine))
            return _Direction(cosine=self._root(squared_cosine, 2), sine=sine)
        return None

    def _make_direction(self, angle: Ratio) -> _Direction:
        """Return cosine and sine of an angle as two unknown numbers, whose squares add up to 1."""
        sine = self.atom("sin", angle)
        squared_cosine = self.subtract(constant(1), self.multiply(sine, sine))
        cosine = self.atom("cos", angle, equation=(2, squared_cosine.top))
        return _Direction(cosine, sine)

    def _add_angles(self, first: _Direction, second: _Direction) -> _Direction:
        """Return the direction of a sum of two angles, by the addition theorems."""
        cosine = self.subtract(
            self.multiply(first.cosine, second.cosine), self.multiply(first.sine, second.sine)
        )
        sine = self.add(
            self.multiply(first.sine, second.cosine), self.multiply(first.cosine, second.sine)
        )
        return _Direction(cosine, sine)

    def _negate_angle(self, direction: _Direction) -> _Direction:
        """Return the direction of the opposite angle."""
        return _Direction(direction.cosine, self.negate(direction.sine))

    def _multiply_angle(self, direction: _Direction, count: int) -> _Direction:
        """Return the direction of an angle times a whole number."""
        total = _ZERO_ANGLE
        for _ in range(abs(count)):
            total = self._add_angles(total, direction)
        return self._negate_angle(total) if count < 0 else total

    def find_scale_to_multiple_of_pi(self, ratio: Ratio) -> int | None:
        """Return a whole number that makes a sum of logarithms and angles a multiple of πi or π.

        With this factor, the product of the arguments of all logarithms is 1, and all angles add up
        to a multiple of a straight angle. None if no such number is known.
        """
        if not ratio.bottom.is_constant():
            return None
        divisor = constant_value(ratio.bottom)
        terms = [(monomial, number / divisor) for monomial, number in split_terms(ratio.top)]
        scale = lcm(*(int(coefficient.q) for _, coefficient in terms))
        product = constant(1)
        direction = _ZERO_ANGLE
        for monomial, coefficient in terms:
            count = int((coefficient * scale).p)
            angle = self._find_direction_of_inverse(monomial)
            if abs(count) > _MAX_INVERSE_MULTIPLE:
                return None
            if angle is not None:
                direction = self._add_angles(direction, self._multiply_angle(angle, count))
                continue
            log_argument = self._read_argument(monomial, "ln")
            if log_argument is None:
                return None
            product = self.multiply(product, self.raise_to(log_argument, count))
        if not self.are_equal(product, constant(1)):
            return None
        is_straight = not self.reduce(direction.sine.top)
        return scale if is_straight else None

    # Other functions.

    def _absolute(self, argument: Ratio) -> Ratio:
        """Return the absolute value of a ratio."""
        number = to_rational(argument)
        if number is not None:
            return constant(abs(number))
        if "i" in self.kinds_in(*argument):
            # |z|² is z times its conjugate.
            return self._root(self.multiply(argument, self._conjugate(argument)), 2)
        is_monomial = len(argument.top) == 1 and len(argument.bottom) == 1
        if is_monomial:
            # |cxⁿ| is |c|xⁿ for positive variables.
            self._assume_positive(argument.top)
            self._assume_positive(argument.bottom)
            return self.negate(argument) if _has_negative_lead(argument) else argument
        if self.may_be_complex(*argument):
            raise TooComplexError("the size of a number that may be complex")
        return self._absolute_of_sum(self.normalize(argument))

    def _absolute_of_sum(self, argument: Ratio) -> Ratio:
        """Return |u|: u itself if that is certainly positive, else an atom whose square is u²."""
        if self._is_sum_of_positive_terms(argument):
            return argument
        if argument.top.leading_coefficient() < 0:
            argument = self.negate(argument)  # so that |1 - x| and |x - 1| are one atom
        if argument.bottom != 1:
            return self.atom("abs", argument)
        square = self.multiply(argument, argument)
        return self.atom("abs", argument, equation=(2, square.top))

    def _is_sum_of_positive_terms(self, ratio: Ratio) -> bool:
        """Return True if all coefficients and all atoms are positive, without any assumption."""
        if not self.kinds_in(*ratio) <= _POSITIVE - {"symbol"}:
            return False
        return min(ratio.top.coeffs() + ratio.bottom.coeffs()) > 0

    def _conjugate(self, ratio: Ratio) -> Ratio:
        """Return the ratio with -i for i. Raises `TooComplexError` if other atoms may be complex."""
        for kind, *arguments in self.keys:
            is_function = any(isinstance(argument, Ratio) for argument in arguments)
            if kind not in _REAL or is_function:
                raise TooComplexError("the size of a number that may be complex")
        return Ratio(
            self._conjugate_polynomial(ratio.top), self._conjugate_polynomial(ratio.bottom)
        )

    def _conjugate_polynomial(self, polynomial: Polynomial) -> Polynomial:
        """Return the polynomial with -i for i: a - bi for a + bi."""
        polynomial = self.reduce(polynomial)
        imaginary_unit = self.imaginary_unit().top
        return polynomial - 2 * self.imaginary_part(polynomial) * imaginary_unit

    def _factorial(self, argument: Ratio) -> Ratio:
        """Return n!, where (n + 2)! is written as (n + 2)(n + 1)·n!."""
        number = to_rational(argument)
        if number is not None:
            if number.q != 1 or not 0 <= number.p <= _MAX_FACTORIAL:
                raise TooComplexError("a factorial too large to write out")
            return constant(fmpq(fmpz.fac_ui(int(number.p))))
        if argument.bottom != 1:
            return self.atom("factorial", argument)
        shift = constant_term(argument.top)  # the 2 of n + 2
        if shift.q != 1 or abs(shift.p) > _MAX_FACTORIAL_SHIFT:
            return self.atom("factorial", argument)
        n = self.add(argument, constant(-shift))
        result = self.atom("factorial", n)
        for step in range(1, int(shift.p) + 1):
            result = self.multiply(result, self.add(n, constant(step)))
        for step in range(int(shift.p) + 1, 1):  # (n - 2)! is n!/(n(n - 1))
            result = self.divide(result, self.add(n, constant(step)))
        return result

    def _binomial(self, upper: Ratio, lower: Ratio) -> Ratio:
        """Return a binomial coefficient, `upper` choose `lower`.

        It is written with factorials if `lower` is not a number, and else as a product.
        """
        lower_number = to_rational(lower)
        if lower_number is None:
            difference = self.subtract(upper, lower)
            denominator = self.multiply(self._factorial(lower), self._factorial(difference))
            return self.divide(self._factorial(upper), denominator)
        if lower_number.q != 1 or not 0 <= lower_number.p <= _MAX_FACTORIAL:
            raise TooComplexError("a binomial coefficient too large to write out")
        step_count = int(lower_number.p)
        upper_number = to_rational(upper)
        if upper_number is not None and upper_number.p.bit_length() * step_count > 4 * MAX_BITS:
            raise TooComplexError("a binomial coefficient with too many digits")
        result = constant(1)
        for step in range(step_count):
            result = self.multiply(result, self.add(upper, constant(-step)))
            result = self.multiply(result, constant(fmpq(1, step + 1)))
        return result

    def _modulo(self, value: Ratio, modulus: Ratio) -> Ratio:
        """Return `value mod modulus` as one atom, in which a whole number is its remainder.

        So 7 mod 5 and 2 mod 5 are the same atom.
        """
        dividend = to_rational(value)
        divisor = to_rational(modulus)
        if dividend is not None and divisor is not None and divisor != 0:
            are_whole_numbers = dividend.q == divisor.q == 1
            if are_whole_numbers:
                value = constant(dividend.p % divisor.p)
        return self.atom("mod", value, modulus)


def _factor_primes(number: fmpq) -> list[tuple[fmpz, int]]:
    """Return the primes of a positive rational number with their powers.

    The powers of primes in the denominator are negative. Raises `TooComplexError` if the number is
    too large.
    """
    if number.p > _MAX_FACTORED or number.q > _MAX_FACTORED:
        raise TooComplexError("a number too large to factor")
    powers = [(prime, int(power)) for prime, power in number.p.factor()]
    for prime, power in number.q.factor():
        powers.append((prime, -int(power)))
    return powers


def _has_negative_lead(ratio: Ratio) -> bool:
    """Return True if the first coefficients above and below the line differ in sign."""
    return ratio.top.leading_coefficient() * ratio.bottom.leading_coefficient() < 0


def _find_sign(node: tree.Node) -> int:
    """Return 1 for a number that is certainly positive, -1 for one that is certainly negative.

    Raises `TooComplexError` for any other number.
    """
    value = compute_ball(node, {}, 128)
    if is_real(value) and value.real > 0:
        return 1
    if is_real(value) and value.real < 0:
        return -1
    raise TooComplexError("a number whose sign is not certain")
