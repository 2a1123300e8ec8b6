"""calculator: an arithmetic expression, worked out without ever being run as code."""

import ast
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from assay.tools.failures import failure
from assay.tools.operations import CONSTANTS, FUNCTIONS, Number, bounded, power
from assay.wording import did_you_mean, short_repr

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
        raise ValueError(
            f"the expression has {len(expression):,} characters: {LONGEST:,} is the most"
        )
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
            raise ValueError(
                f"there is no {short_repr(name)} here: {did_you_mean(name, [*CONSTANTS, *FUNCTIONS])}"
            )
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
