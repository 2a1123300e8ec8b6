r"""LaTeX commands and functions: `\frac`, `\sqrt`, `\sin`, brackets of many kinds, matrices."""

from collections.abc import Callable
from typing import Final

from flint import fmpq

from assay.math.reader import Reader
from assay.math.tokens import UnreadableError
from assay.math.tree import (
    Apply,
    Builder,
    Constant,
    Grid,
    Listing,
    NamedSet,
    Node,
    Number,
    Power,
    Product,
    Quotient,
    Symbol,
    Words,
)
from assay.math.words import CONSTANTS, FUNCTIONS, GREEK, SETS, letter

_FENCES: Final = {
    r"\lfloor": (r"\rfloor", "floor"),
    r"\lceil": (r"\rceil", "ceil"),
    r"\lvert": (r"\rvert", "abs"),
}
_DECORATIONS: Final = frozenset(
    {r"\vec", r"\hat", r"\bar", r"\tilde", r"\overrightarrow", r"\widehat", r"\dot", r"\mathcal",
     r"\mathfrak", r"\mathscr", r"\underline", r"\overline", r"\widetilde"}
)  # fmt: skip
_FONTS: Final = frozenset(
    {r"\mathrm", r"\mathbf", r"\mathit", r"\mathsf", r"\boldsymbol", r"\bm", r"\mathnormal"}
)
_GRIDS: Final = frozenset({"pmatrix", "bmatrix", "matrix", "Bmatrix", "smallmatrix", "array"})
_TWO: Final = Number(fmpq(2))
_INVERSES: Final = {"sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh"}


class Commands(Reader):
    """What a backslash introduces."""

    def command(self, value: str) -> Node:
        name = value[1:]
        if name in CONSTANTS:
            return CONSTANTS[name]
        if name in GREEK:
            return self.subscripted(Symbol(name))
        if name in FUNCTIONS:
            return self.function(FUNCTIONS[name])
        if value in _FENCES:
            end, function = _FENCES[value]
            node = self.sum()
            self.expect(end)
            return Apply(function, (node,))
        if value in _FONTS:
            return self.in_font()
        if value in _DECORATIONS:
            return self.subscripted(Symbol(f"{name}({self.label()})"))
        read = _COMMANDS.get(value)
        if read is None:
            self.position -= 1
            raise self.unexpected()
        return read(self)

    def fraction(self) -> Node:
        top = self.digit_or_group()
        return Quotient(top, self.digit_or_group())

    def binomial(self) -> Node:
        upper = self.digit_or_group()
        return Apply("binomial", (upper, self.digit_or_group()))

    def root(self) -> Node:
        index: Node = _TWO
        if self.take("["):
            index = self.sum()
            self.expect("]")
        return Apply("root", (self.digit_or_group(), index))

    def surd(self) -> Node:
        """`√12`, written as a sign: the whole number stands under it."""
        return Apply(
            "root", (self.power() if self.token.kind == "number" else self.primary(), _TWO)
        )

    def braces(self) -> Node:
        """A set by its members, or by a condition behind `|` or `:`."""
        if self.take(r"\}") or self.take(r"\rbrace"):
            return NamedSet("empty")
        bars, self.in_bars = self.in_bars, 0
        self.in_braces += 1
        inside = self.answer()
        if any(self.take(bar) for bar in ("|", ":", r"\mid", r"\vert")):
            inside = Builder(inside, self.answer())
        self.in_braces -= 1
        self.in_bars = bars
        if not self.take(r"\rbrace"):
            self.expect(r"\}")
        if isinstance(inside, Builder):
            return inside
        return Listing("set", _parts(inside))

    def angles(self) -> Node:
        inside = self.answer()
        self.expect(r"\rangle")
        parts = _parts(inside)
        return inside if len(parts) == 1 else Listing("round", parts)

    def blackboard(self) -> Node:
        name = self.label()
        if name not in SETS:
            raise UnreadableError(f"the set {name!r} is not known")
        if self.token.value in ("^", "_"):
            raise UnreadableError(f"{name} with a script is not known")
        return NamedSet(name)

    def in_font(self) -> Node:
        r"""`\mathrm{e}` and the like: a letter, a name, or an expression in another font."""
        if self.token.value == "{" and self.peek(1).kind == "word" and self.peek(2).value == "}":
            name = self.peek(1).value
            self.position += 3
            return self.named(name)
        return self.digit_or_group()

    def operator_name(self) -> Node:
        return self.named(self.label())

    def named(self, name: str) -> Node:
        if len(name) == 1:
            return self.subscripted(letter(name))
        if name in FUNCTIONS:
            return self.function(FUNCTIONS[name])
        if name in CONSTANTS:
            return CONSTANTS[name]
        return (
            self.subscripted(Symbol(name))
            if name.isalpha() and len(name) < 4
            else Words(name.casefold())
        )

    def environment(self) -> Node:
        r"""A matrix between `\begin` and `\end`."""
        name = self.label()
        if name not in _GRIDS:
            raise UnreadableError(f"the environment {name!r} is not known")
        if name == "array" and self.token.value == "{":
            self.label()
        rows: list[tuple[Node, ...]] = []
        while True:
            row = [self.statement()]
            while self.take("&"):
                row.append(self.statement())
            rows.append(tuple(row))
            again = self.take(r"\\")
            if self.take(r"\end"):
                self.label()
                break
            if not again:
                raise self.unexpected()
        if len({len(row) for row in rows}) > 1:
            raise UnreadableError("the rows of a matrix differ in length")
        return Grid(tuple(rows))

    def function(self, name: str) -> Node:
        r"""A function with its base, its power and its argument: `\log_2 8`, `\sin^2 x`."""
        base: Node | None = None
        exponent: Node | None = None
        while self.token.value in ("_", "^", "**"):
            if self.advance().value == "_":
                base = self.script()
            else:
                exponent = self.script()
        arguments = self.arguments()
        if exponent == Number(fmpq(-1)) and name in _INVERSES:
            name, exponent = f"arc{name}", None
        node = _called(name, arguments, base)
        return node if exponent is None else Power(node, exponent)

    def arguments(self) -> tuple[Node, ...]:
        """What a function is applied to: a group, or the factors up to the next sign or function."""
        if self.token.value in ("(", "["):
            opening = self.advance().value
            inside = self.bracket(opening)
            if isinstance(inside, Listing) and inside.kind in ("round", "square"):
                return inside.items
            return (inside,)
        if self.token.value == "{":
            inside = self.digit_or_group()
            return inside.items if isinstance(inside, Listing) else (inside,)
        if self.token.value in ("|", r"\lvert"):
            return (self.power(),)
        return (self.run(),)

    def run(self) -> Node:
        if self.take("-"):
            return Product((Number(fmpq(-1)), self.run()))
        factors: list[Node] = [self.power()]
        while True:
            if self.token.value == "/":
                self.advance()
                top = factors[0] if len(factors) == 1 else Product(tuple(factors))
                factors = [Quotient(top, self.power())]
            elif (
                self.starts_factor()
                and not self.starts_function()
                and self.token.value not in "([{|"
            ):
                factors.append(self.power())
            else:
                return factors[0] if len(factors) == 1 else Product(tuple(factors))

    def starts_function(self) -> bool:
        token = self.token
        name = token.value.lstrip("\\")
        return token.kind in ("word", "command") and (name in FUNCTIONS or name == "operatorname")


def _parts(node: Node) -> tuple[Node, ...]:
    """What stands between commas."""
    return node.items if isinstance(node, Listing) and node.kind == "bare" else (node,)


def _called(name: str, arguments: tuple[Node, ...], base: Node | None) -> Node:
    if name in ("ln", "log", "lg"):
        if len(arguments) == 2 and base is None and name == "log":
            return Apply("log", arguments)
        default = Constant("e") if name == "ln" else Number(fmpq(10))
        return Apply("log", (_only(name, arguments), base or default))
    if base is not None:
        raise UnreadableError(f"{name} takes no subscript")
    if name == "exp":
        return Power(Constant("e"), _only(name, arguments))
    if name in ("max", "min", "gcd", "lcm"):
        return Apply(name, arguments)
    return Apply(name, (_only(name, arguments),))


def _only(name: str, arguments: tuple[Node, ...]) -> Node:
    if len(arguments) != 1:
        raise UnreadableError(f"{name} takes one argument, not {len(arguments)}")
    return arguments[0]


_COMMANDS: Final[dict[str, Callable[[Commands], Node]]] = {
    r"\frac": Commands.fraction,
    r"\binom": Commands.binomial,
    r"\dbinom": Commands.binomial,
    r"\tbinom": Commands.binomial,
    r"\sqrt": Commands.root,
    r"\surd": Commands.surd,
    r"\{": Commands.braces,
    r"\lbrace": Commands.braces,
    r"\langle": Commands.angles,
    r"\mathbb": Commands.blackboard,
    r"\operatorname": Commands.operator_name,
    r"\begin": Commands.environment,
}
