"""Sines and cosines in exact form: known angles, sums of angles, whole multiples."""

from typing import Final

from flint import fmpq

from assay.math.field import Field
from assay.math.polynomials import ONE, Monomial, Ratio, TooComplexError, constant, rational

_MOST_TURNS: Final = 12
"""sin(ku) is written out up to this k."""
_INVERSES: Final = {"arcsin": "sin", "arccos": "cos", "arctan": "tan"}
_HYPERBOLIC: Final = frozenset({"sinh", "cosh", "tanh", "coth", "sech", "csch"})
_CIRCULAR: Final = frozenset({"sin", "cos", "tan", "cot", "sec", "csc"})


class Angles:
    """The circular and hyperbolic functions over the atoms of a field."""

    def __init__(self, field: Field) -> None:
        self.field = field

    def applied(self, function: str, argument: Ratio) -> Ratio | None:
        """The function's value, or None for a function of another kind."""
        if function in _CIRCULAR:
            return self._circular(function, argument)
        if function in _HYPERBOLIC:
            return self._hyperbolic(function, argument)
        if function in _INVERSES and not self._variables(argument):
            return self._inverse(function, argument)
        return None

    def _circular(self, function: str, argument: Ratio) -> Ratio:
        cosine, sine = self.turned(argument)
        return self._chosen(function, cosine, sine)

    def _chosen(self, function: str, cosine: Ratio, sine: Ratio) -> Ratio:
        one = constant(fmpq(1))
        match function[:3]:
            case "sin":
                return sine
            case "cos":
                return cosine
            case "tan":
                return self.field.divide(sine, cosine)
            case "cot":
                return self.field.divide(cosine, sine)
            case "sec":
                return self.field.divide(one, cosine)
            case _:
                return self.field.divide(one, sine)

    def _hyperbolic(self, function: str, argument: Ratio) -> Ratio:
        field = self.field
        growth = field.exponential(argument)
        decay = field.divide(constant(fmpq(1)), growth)
        half = constant(fmpq(1, 2))
        cosh = field.multiply(field.add(growth, decay), half)
        sinh = field.multiply(field.add(growth, field.multiply(decay, constant(fmpq(-1)))), half)
        names = {
            "sinh": "sin",
            "cosh": "cos",
            "tanh": "tan",
            "coth": "cot",
            "sech": "sec",
            "csch": "csc",
        }
        return self._chosen(names[function], cosh, sinh)

    def turned(self, argument: Ratio) -> tuple[Ratio, Ratio]:
        """Cosine and sine of a sum of angles, one term after the other."""
        cosine, sine = constant(fmpq(1)), constant(fmpq(0))
        if argument.bottom.keys() != {()}:
            return self._pair(argument)
        if len(argument.top) > 4:
            return self._pair(argument)
        for monomial, coefficient in argument.top.items():
            other = self._term(monomial, coefficient / argument.bottom[()])
            cosine, sine = self._sum((cosine, sine), other)
        return cosine, sine

    def _term(self, monomial: Monomial, coefficient: fmpq) -> tuple[Ratio, Ratio]:
        if monomial == next(iter(self.field.atom("pi").top)):
            return self._known(coefficient)
        if abs(coefficient.p) > _MOST_TURNS:
            raise TooComplexError("too large a multiple of an angle")
        unit = self._pair(Ratio({monomial: fmpq(1, int(coefficient.q))}, ONE))
        turned = unit
        for _ in range(abs(int(coefficient.p)) - 1):
            turned = self._sum(turned, unit)
        if coefficient < 0:
            return turned[0], self.field.multiply(turned[1], constant(fmpq(-1)))
        return turned

    def _sum(self, one: tuple[Ratio, Ratio], two: tuple[Ratio, Ratio]) -> tuple[Ratio, Ratio]:
        field = self.field
        minus = field.multiply(field.multiply(one[1], two[1]), constant(fmpq(-1)))
        cosine = field.add(field.multiply(one[0], two[0]), minus)
        sine = field.add(field.multiply(one[1], two[0]), field.multiply(one[0], two[1]))
        return cosine, sine

    def _pair(self, angle: Ratio) -> tuple[Ratio, Ratio]:
        """Cosine and sine as two atoms, whose squares add up to 1."""
        sine = self.field.atom("sin", angle)
        square = self.field.multiply(sine, sine)
        rest = self.field.add(constant(fmpq(1)), self.field.multiply(square, constant(fmpq(-1))))
        return self.field.atom("cos", angle, equation=(2, rest.top)), sine

    def _known(self, turn: fmpq) -> tuple[Ratio, Ratio]:
        """Cosine and sine of turn·π, written with roots where that is simple."""
        turn -= 2 * (turn / 2).floor()
        if turn >= 1:
            cosine, sine = self._known(turn - 1)
            minus = constant(fmpq(-1))
            return self.field.multiply(cosine, minus), self.field.multiply(sine, minus)
        if turn > fmpq(1, 2):
            cosine, sine = self._known(1 - turn)
            return self.field.multiply(cosine, constant(fmpq(-1))), sine
        if turn > fmpq(1, 4):
            cosine, sine = self._known(fmpq(1, 2) - turn)
            return sine, cosine
        half = constant(fmpq(1, 2))
        if turn == 0:
            return constant(fmpq(1)), constant(fmpq(0))
        if turn == fmpq(1, 4):
            side = self.field.multiply(self.field.root(constant(fmpq(2)), 2), half)
            return side, side
        if turn == fmpq(1, 6):
            return self.field.multiply(self.field.root(constant(fmpq(3)), 2), half), half
        if turn == fmpq(1, 12):
            return self._sum(self._known(fmpq(1, 4)), self._opposite(self._known(fmpq(1, 6))))
        angle = self.field.multiply(self.field.atom("pi"), constant(turn))
        return self._pair(angle)

    def _opposite(self, pair: tuple[Ratio, Ratio]) -> tuple[Ratio, Ratio]:
        return pair[0], self.field.multiply(pair[1], constant(fmpq(-1)))

    def _variables(self, ratio: Ratio) -> bool:
        atoms = {atom for side in ratio for monomial in side for atom, _ in monomial}
        return any(self.field.keys[atom][0] not in ("root", "i") for atom in atoms)

    def _inverse(self, function: str, argument: Ratio) -> Ratio | None:
        """arcsin, arccos and arctan of the values that known angles have."""
        low, high = (0, 12) if function == "arccos" else (-6, 6)
        pi = self.field.atom("pi")
        for step in range(low, high + 1):
            if function == "arctan" and abs(step) == 6:
                continue
            angle = self.field.multiply(pi, constant(fmpq(step, 12)))
            if self.field.equal(self._circular(_INVERSES[function], angle), argument):
                return angle
        number = rational(argument)
        if number is not None and number < 0 and function != "arccos":
            positive = self.field.atom(function, constant(-number))
            return self.field.multiply(positive, constant(fmpq(-1)))
        return None
