"""The tool `calculator`: evaluate an arithmetic expression without running it as code."""

import ast
import math
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from assay.tools import failure
from assay.wording import format_value, suggest_word

Number: TypeAlias = int | float

MAX_BITS: Final = 10_000  # size of the largest integer, about 3,000 digits, which Python can still convert to text
MAX_FACTORIAL: Final = 1_000
MAX_PLACES: Final = (
    1_000  # maximum number of decimal places for rounding, before or after the point
)
LONGEST: Final = 4_000  # maximum length of an expression in characters
_TOO_LARGE = f"the result is too large: whole numbers end at {MAX_BITS:,} bits, others at 1.8e308"


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
        tree = _read(expression)
        if not isinstance(tree, ast.Compare):
            return str(_evaluated(tree))
        values = [_evaluated(side) for side in (tree.left, *tree.comparators)]
        pairs = zip(tree.ops, values, values[1:], strict=False)
        return str(all(_SIGNS[type(sign)](left, right) for sign, left, right in pairs))
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
      | (?P<other> .{1,20} )
    )
    """,
    re.VERBOSE | re.ASCII,
)


def _read(expression: str) -> ast.expr:
    """Parse an expression into a tree. Expressions with unknown signs or names are refused before parsing."""
    if not isinstance(expression, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"the expression is {format_value(expression)}: give it as text")
    if len(expression) > LONGEST:
        raise ValueError(
            f"the expression has {len(expression):,} characters: {LONGEST:,} is the most"
        )
    text = " ".join(expression.split())
    if not text:
        raise ValueError("the expression is empty: give one such as 3 * (2 + 5)")
    for token in _TOKENS.finditer(text):
        name, other = token["name"], token["other"]
        if other is not None:
            hint = ": write ** for a power" if other[0] == "^" else ""
            raise ValueError(f"{format_value(other)} cannot be read{hint}")
        if name is not None and name not in _FUNCTIONS and name not in _CONSTANTS:
            known = suggest_word(name, [*_CONSTANTS, *sorted(_FUNCTIONS)])
            raise ValueError(f"there is no {format_value(name)} here: {known}")
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"{format_value(text)} cannot be read: {error.msg}") from None
    except (RecursionError, MemoryError):
        raise ValueError("the expression is nested too deep") from None


def _evaluated(tree: ast.expr) -> Number:
    """Evaluate a tree from its leaves, without recursion, because it may be deeper than Python's stack."""
    nodes, values = [tree], dict[ast.expr, Number]()
    for node in nodes:
        nodes += _parts(node)
    for node in reversed(nodes):
        value = _applied(node, [values[part] for part in _parts(node)])
        if isinstance(value, complex):
            raise ValueError("the result is not a real number")
        if value.bit_length() > MAX_BITS if isinstance(value, int) else not math.isfinite(value):
            raise ValueError(_TOO_LARGE)
        values[node] = value
    return values[tree]


def _parts(node: ast.expr) -> Sequence[ast.expr]:
    """Return the operands of a node; refuse nodes that are not arithmetic."""
    match node:
        case ast.Constant() | ast.Name():
            return ()
        case ast.UnaryOp(operand=operand):
            return (operand,)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _SIGNS:
            return left, right
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            _, fewest, most = _FUNCTIONS[name]
            if fewest <= len(args) <= most:
                return args
            wanted = (
                f"{fewest} number{'s' * (fewest > 1)}"
                if most == fewest
                else f"{fewest} or {most} numbers"
            )
            wanted = "1 number or more" if most == _ANY else wanted
            why = f"{name} takes {wanted}, and was given {len(args)}"
        case ast.BinOp():
            why = "there are no shifts here: multiply by a power of 2"
        case ast.Compare():
            why = "a comparison is not a number: compare two values, with nothing around them"
        case ast.Tuple():
            why = "a comma only stands between the numbers of a function: write 1000, not 1,000"
        case ast.Call(func=ast.Name(id=name)):
            why = f"{name}(...) cannot be read: only functions take numbers, as in max(1, 2)"
        case ast.Call():
            why = "a number before a parenthesis needs a sign between them: write 2 * (3)"
        case _:
            why = "functions take plain numbers, as in max(1, 2)"
    raise ValueError(why)


def _applied(node: ast.expr, values: Sequence[Number]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            if name not in _CONSTANTS:
                raise ValueError(f"{name} is a function: write {name}(...)")
            return _CONSTANTS[name]
        case ast.UnaryOp(op=ast.USub()):
            return -values[0]
        case ast.BinOp(op=op):
            return _SIGNS[type(op)](*values)
        case ast.Call(func=ast.Name(id=name)):
            try:
                return _FUNCTIONS[name][0](*values)
            except ValueError as error:
                own = str(error).startswith((name, "the result"))
                why = (
                    str(error)
                    if own
                    else f"{name} has no value at {', '.join(map(format_value, values))}"
                )
                raise ValueError(why) from None
        case _:
            return values[0]


# Estimate the size of results that could grow without bound before computing them.


def _power(base: Number, exponent: Number) -> Any:
    whole = isinstance(base, int) and isinstance(exponent, int) and exponent > 0
    # A number with n bits is at least 2 to the power n - 1.
    if whole and (abs(int(base)).bit_length() - 1) * exponent > MAX_BITS:
        raise ValueError(_TOO_LARGE)
    return base**exponent


def _factorial(number: Number) -> int:
    if not isinstance(number, int) or not 0 <= number <= MAX_FACTORIAL:
        raise ValueError(f"factorial takes a whole number from 0 to {MAX_FACTORIAL:,}")
    return math.factorial(number)


def _rounded(number: Number, places: Number | None = None) -> Number:
    if places is None:
        return round(number)
    if not isinstance(places, int) or abs(places) > MAX_PLACES:
        raise ValueError(f"round takes a whole number of places, {MAX_PLACES:,} at most")
    return round(number, places)


_CONSTANTS: Final = {"e": math.e, "pi": math.pi}

_ANY: Final = (
    LONGEST  # for functions with any number of arguments: an expression cannot contain more
)

# Each with its minimum and maximum number of arguments.
_FUNCTIONS: Final[dict[str, tuple[Callable[..., Any], int, int]]] = {
    "abs": (abs, 1, 1),
    "factorial": (_factorial, 1, 1),
    "log": (math.log, 1, 2),
    "pow": (_power, 2, 2),
    "round": (_rounded, 1, 2),
    # With one argument, Python's function expects a list.
    "max": (lambda *numbers: max(numbers), 1, _ANY),
    "min": (lambda *numbers: min(numbers), 1, _ANY),
    **{
        name: (getattr(math, name), 1, 1)
        for name in (
            "acos",
            "asin",
            "atan",
            "ceil",
            "cos",
            "degrees",
            "exp",
            "floor",
            "log10",
            "log2",
            "radians",
            "sin",
            "sqrt",
            "tan",
        )
    },
}

_SIGNS: dict[type[ast.operator] | type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Mod: operator.mod,
    ast.Pow: _power,
    ast.Div: lambda left, right: left / right,
    ast.FloorDiv: lambda left, right: left // right,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
