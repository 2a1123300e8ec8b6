"""Offer the tool `calculator`: work out an arithmetic expression without ever running it as code."""

import ast
import math
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, cast

from assay.tools.failures import failure
from assay.wording import did_you_mean, short_repr

Number: TypeAlias = int | float

MOST_BITS: Final = 10_000
"""The size of the largest whole number: about 3,000 digits, which Python still writes out."""
MOST_FACTORIAL: Final = 1_000
MOST_PLACES: Final = 1_000
"""Decimal places, before or after the point, that can be rounded to."""
_TOO_LARGE = f"the result is too large: whole numbers end at {MOST_BITS:,} bits, others at 1.8e308"
LONGEST: Final = 4_000
"""Characters of the longest expression."""


def calculator(expression: str) -> str:
    """Works out arithmetic: + - * / // % **, parentheses, comparisons, pi, e, and functions such as sqrt.

    Whole numbers are exact. Whatever is too large, too deep or too long is refused at once.

    Args:
        expression: What to work out, for example "3 * (2 + 5) / 7" or "sqrt(2) < 1.5".

    Returns:
        The result as text, or "Error: ..." with the reason.

    >>> calculator("2 ** 64 - 1"), calculator("1 / 3 < 0.34"), calculator("1 / 0")
    ('18446744073709551615', 'True', 'Error: division by zero')
    """
    try:
        return _result(_read(expression))
    except ZeroDivisionError:
        return failure("division by zero")
    except OverflowError:
        return failure("a step on the way is too large: only whole numbers may be above 1.8e308")
    except ValueError as error:
        return failure(error)


_TOKENS = re.compile(
    r"""
    (?: \s++
      | (?: [0-9]++\.?[0-9]*+ | \.[0-9]++ ) (?: [eE][-+]?[0-9]++ )?+ (?![\w.])
      | (?P<name> [A-Za-z_]\w*+ )
      | [-+*/%(),] | [<>]=?+ | [=!]=
    )
    """,
    re.VERBOSE | re.ASCII,
)


def _read(expression: str) -> ast.expr:
    """The expression as a tree. What holds a sign or name we do not know is never parsed."""
    if not isinstance(expression, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"the expression is {short_repr(expression)}: give it as text")
    if len(expression) > LONGEST:
        raise ValueError(f"the expression has {len(expression):,} characters: {LONGEST:,} is the most")
    text = " ".join(expression.split())
    if not text:
        raise ValueError("the expression is empty: give one such as 3 * (2 + 5)")
    _refuse_unknown(text)
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"{short_repr(text)} cannot be read: {error.msg}") from None
    except (RecursionError, MemoryError):
        raise ValueError("the expression is nested too deep") from None


def _refuse_unknown(text: str) -> None:
    position = 0
    while position < len(text):
        token = _TOKENS.match(text, position)
        if token is None:
            hint = ": write ** for a power" if text[position] == "^" else ""
            raise ValueError(f"{short_repr(text[position : position + 20])} cannot be read{hint}")
        name = token["name"]
        if name is not None and name not in FUNCTIONS and name not in CONSTANTS:
            raise ValueError(f"there is no {short_repr(name)} here: {did_you_mean(name, [*CONSTANTS, *FUNCTIONS])}")
        position = token.end()


def _result(tree: ast.expr) -> str:
    if not isinstance(tree, ast.Compare):
        return str(_evaluated(tree))
    values = [_evaluated(side) for side in (tree.left, *tree.comparators)]
    signs = [_COMPARISONS[type(sign)] for sign in tree.ops]
    pairs = zip(signs, values, values[1:], strict=False)
    return str(all(holds(left, right) for holds, left, right in pairs))


def _evaluated(tree: ast.expr) -> Number:
    """The value of a tree, worked out with a stack of our own: it may be deeper than Python's."""
    values: list[Number] = []
    waiting: list[tuple[ast.expr, int]] = [(tree, -1)]
    while waiting:
        node, parts = waiting.pop()
        if parts < 0:
            inner = _parts(node)
            waiting.append((node, len(inner)))
            waiting += [(part, -1) for part in reversed(inner)]
        else:
            taken = values[len(values) - parts :]
            del values[len(values) - parts :]
            values.append(bounded(_applied(node, taken)))
    return values[0]


def _parts(node: ast.expr) -> Sequence[ast.expr]:
    """What must be known before a node can be worked out; refuses whatever is no arithmetic."""
    match node:
        case ast.Constant() | ast.Name():
            return ()
        case ast.UnaryOp(operand=operand):
            return (operand,)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return left, right
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS:
            if refusal := FUNCTIONS[name].refusal(len(args)):
                raise ValueError(f"{name} {refusal}")
            return args
        case _:
            raise ValueError(_refusal(node))


def _refusal(node: ast.expr) -> str:
    match node:
        case ast.BinOp():
            return "there are no shifts here: multiply by a power of 2"
        case ast.Compare():
            return "a comparison is no number: compare two values, with nothing around them"
        case ast.Tuple():
            return "a comma only stands between the numbers of a function: write 1000, not 1,000"
        case ast.Call(func=ast.Name(id=name)):
            return f"{name}(...) cannot be read: only functions take numbers, as in max(1, 2)"
        case ast.Call():
            return "a number before a parenthesis needs a sign between them: write 2 * (3)"
        case _:
            return "functions take plain numbers, as in max(1, 2)"


def _applied(node: ast.expr, values: Sequence[Number]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            if name not in CONSTANTS:
                raise ValueError(f"{name} is a function: write {name}(...)")
            return CONSTANTS[name]
        case ast.UnaryOp(op=ast.USub()):
            return -values[0]
        case ast.BinOp(op=op):
            return _OPERATORS[type(op)](*values)
        case ast.Call(func=ast.Name(id=name)):
            return _called(name, values)
        case _:
            return values[0]


def _called(name: str, values: Sequence[Number]) -> Any:
    try:
        return FUNCTIONS[name].call(*values)
    except ValueError as error:
        own = str(error).startswith((name, "the result"))
        why = str(error) if own else f"{name} has no value at {', '.join(map(short_repr, values))}"
        raise ValueError(why) from None


# What the calculator can do with numbers. What could grow without bound is measured before it is worked out.


class Function(NamedTuple):
    """A function with the fewest and the most numbers it takes."""

    call: Callable[..., Any]
    fewest: int = 1
    most: int | None = 1
    """None when it takes any number of them."""

    def refusal(self, given: int) -> str:
        """What is wrong with so many numbers; empty when nothing is."""
        if given >= self.fewest and (self.most is None or given <= self.most):
            return ""
        if self.most is None:
            wanted = f"{self.fewest} number or more"
        elif self.most == self.fewest:
            wanted = "1 number" if self.most == 1 else f"{self.most} numbers"
        else:
            wanted = f"{self.fewest} or {self.most} numbers"
        return f"takes {wanted}, and was given {given}"


def bounded(value: Any) -> Number:
    """A result, if it is a real number of a size that can be shown."""
    if isinstance(value, complex):
        raise ValueError("the result is not a real number")
    if isinstance(value, int):
        if value.bit_length() > MOST_BITS:
            raise ValueError(_TOO_LARGE)
        return value
    if not math.isfinite(value):
        raise ValueError(_TOO_LARGE)
    return cast("float", value)


def power(base: Number, exponent: Number) -> Any:
    """`base ** exponent`, refused before it is worked out when it would be too large."""
    if isinstance(base, int) and isinstance(exponent, int) and exponent > 0:
        # A number of so many bits is at least 2 to the power of one less.
        least = (abs(base).bit_length() - 1) * exponent
        if least > MOST_BITS:
            raise ValueError(_TOO_LARGE)
    return base**exponent


def _factorial(number: Number) -> int:
    if not isinstance(number, int) or not 0 <= number <= MOST_FACTORIAL:
        raise ValueError(f"factorial takes a whole number from 0 to {MOST_FACTORIAL:,}")
    return math.factorial(number)


def _rounded(number: Number, places: Number | None = None) -> Number:
    if places is None:
        return round(number)
    if not isinstance(places, int) or abs(places) > MOST_PLACES:
        raise ValueError(f"round takes a whole number of places, {MOST_PLACES:,} at most")
    return round(number, places)


def _least(*numbers: Number) -> Number:
    return min(numbers)


def _greatest(*numbers: Number) -> Number:
    return max(numbers)


CONSTANTS: Final = {"e": math.e, "pi": math.pi}

FUNCTIONS: Final = {
    "abs": Function(abs),
    "acos": Function(math.acos),
    "asin": Function(math.asin),
    "atan": Function(math.atan),
    "ceil": Function(math.ceil),
    "cos": Function(math.cos),
    "degrees": Function(math.degrees),
    "exp": Function(math.exp),
    "factorial": Function(_factorial),
    "floor": Function(math.floor),
    "log": Function(math.log, 1, 2),
    "log10": Function(math.log10),
    "log2": Function(math.log2),
    "max": Function(_greatest, 1, None),
    "min": Function(_least, 1, None),
    "pow": Function(power, 2, 2),
    "radians": Function(math.radians),
    "round": Function(_rounded, 1, 2),
    "sin": Function(math.sin),
    "sqrt": Function(math.sqrt),
    "tan": Function(math.tan),
}

_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda left, right: left / right,
    ast.FloorDiv: lambda left, right: left // right,
    ast.Mod: operator.mod,
    ast.Pow: power,
}

_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
