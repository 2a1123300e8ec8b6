r"""Parse an answer into a tree: operators by precedence over tokens, in time linear in the text.

From loosest to tightest: `,` and/or · `= < ∈` · `∪ ∩ \` · `+ − ±` · `· / ÷` · side by side · `^ ! %`.
"""

from typing import Final

from flint import fmpq

from assay.math.answer_text import DEEPEST
from assay.math.primaries import MathToken, Primaries, UnreadableError, literal, tokens_of
from assay.math.tree import (
    Apply,
    Listing,
    Node,
    Number,
    Percent,
    PlusMinus,
    Power,
    Product,
    Quantity,
    Quotient,
    Relation,
    SetOperation,
    Sum,
    Symbol,
    Words,
    levels_of,
    negated,
)
from assay.math.units import is_unit
from assay.math.words import CONNECTIVES, NO_FACTORS, NO_UNITS, ORDINALS, PERCENT, SCALES

RELATIONS: Final = {
    "=": "=", "==": "=", "<": "<", ">": ">", "<=": "<=", ">=": ">=", "!=": "!=",
    r"\leq": "<=", r"\le": "<=", r"\geq": ">=", r"\ge": ">=", r"\neq": "!=", r"\ne": "!=",
    r"\lt": "<", r"\gt": ">", r"\leqslant": "<=", r"\geqslant": ">=", r"\in": "in", r"\equiv": "mod",
    r"\approx": "about", r"\simeq": "about", r"\to": "to", r"\rightarrow": "to", r"\notin": "not in",
}  # fmt: skip
TOO_DEEP: Final = "it nests too deep"
DEEPEST_TREE: Final = 2 * DEEPEST
"""Levels of a tree. `5!!!…` and `1/2/2/…` have one for each sign, though no bracket opens."""
SET_OPERATIONS: Final = {
    r"\cup": "union",
    r"\cap": "intersection",
    r"\setminus": "difference",
    r"\backslash": "difference",
}
TIMES: Final = frozenset({"*", r"\cdot", r"\times", r"\ast"})
DIVIDED: Final = frozenset({"/", r"\div"})
SIGNS: Final = frozenset({"+", "-", r"\pm", r"\mp"})
_STARTS: Final = frozenset("({|")
_ORDINALS: Final = tuple(
    node for ending in ORDINALS for node in (Words(ending), Product((Symbol(ending[0]), Symbol(ending[1]))))
)
_BEHIND_UNITS: Final = frozenset({",", ";", ")", "]", "/", "^", r"\}", "}"})
_STOPS: Final = (
    {r"\}", r"\rfloor", r"\rceil", r"\rangle", r"\rvert", r"\mid", r"\\", r"\end", r"\rbrace", r"\%", r"\circ",
     r"\ldots", r"\dots", r"\cdots", r"\prime", r"\degree", r"\pmod", r"\bmod", r"\;"}
    | RELATIONS.keys() | SET_OPERATIONS.keys() | TIMES | DIVIDED | SIGNS | CONNECTIVES.keys()
)  # fmt: skip
"""Commands that end a run of factors."""


class Grammar(Primaries):
    """One reading of one text. `loose`: `1/2x` is (1/2)x, as people often mean; else 1/(2x)."""

    def __init__(self, tokens: list[MathToken], *, loose: bool = False) -> None:
        super().__init__(tokens)
        self.loose = loose
        self.is_ambiguous = False

    def whole(self) -> Node:
        """The tree of the whole text."""
        node = self.answer()
        if self.token.kind != "end":
            raise self.unexpected()
        return node

    def answer(self) -> Node:
        """One statement, or several between commas, `and`, `or`."""
        items = [self.statement()]
        groups: list[list[Node]] = [items]
        joined = ","
        while (connective := self.connective()) is not None:
            joined = connective if connective not in (",", ";") else joined
            if self.token.kind == "end" or self.token.value in (")", "]", r"\}"):
                break
            if connective == ";":
                groups.append([])
            groups[-1].append(self.statement())
        if len(groups) > 1 and len({len(group) for group in groups}) == 1 and len(items) > 1:
            return Listing("bare", tuple(Listing("round", tuple(group)) for group in groups))
        items = [item for group in groups for item in group]
        return items[0] if len(items) == 1 else Listing("bare", tuple(items), joined)  # pyright: ignore[reportArgumentType]

    def connective(self) -> str | None:
        """The separator that stands here, taken."""
        found: str | None = None
        while True:
            token = self.token
            if token.value in (",", ";") and token.kind == "sign":
                meant = token.value
            elif token.kind in ("word", "text", "command"):
                meant = CONNECTIVES.get(token.value.strip().lower())
            else:
                meant = None
            if meant is None:
                return found
            found = meant if found in (None, ",", ";") else found
            self.advance()

    def statement(self) -> Node:
        """An expression, or a chain of relations."""
        sides = [self.set_expression()]
        operators: list[str] = []
        if isinstance(sides[0], Words) and self.take(":"):
            return Relation((sides[0], self.set_expression()), ("=",))
        while (meant := RELATIONS.get(self.token.value)) is not None:
            self.advance()
            operators.append(meant)
            sides.append(self.set_expression())
        if operators:
            return _exact_part(sides, operators)
        if self.token.value == ":" and self.in_braces == 0:
            while self.take(":"):
                sides.append(self.sum())
            return Listing("ratio", tuple(sides))
        return sides[0]

    def set_expression(self) -> Node:
        left = self.sum()
        while (operator := SET_OPERATIONS.get(self.token.value)) is not None:
            self.advance()
            left = SetOperation(operator, left, self.sum())  # pyright: ignore[reportArgumentType]
        return left

    def sum(self) -> Node:
        terms: list[Node] = []
        while True:
            sign = self.token.value if self.token.value in SIGNS else None
            if terms and sign is None:
                break
            if sign:
                self.advance()
                if self.token.value in SIGNS and self.token.value != "-":
                    raise self.unexpected()
            term = self.product()
            if sign == "-":
                term = negated(term)
            elif sign in (r"\pm", r"\mp"):
                term = PlusMinus(term, sign == r"\pm")
            terms.append(term)
        return terms[0] if len(terms) == 1 else Sum(tuple(terms))

    def product(self) -> Node:
        left = self.side_by_side()
        while True:
            operator = self.token.value
            if operator in TIMES and self.token.kind != "word":
                self.advance()
                left = _times(left, self.signed_run())
            elif operator in DIVIDED:
                self.advance()
                left = Quotient(left, self.divisor())
                if self.loose and self.starts_factor():
                    left = _times(left, self.side_by_side())
            elif self.starts_unit():
                left = self.measured(left)
            else:
                return left

    def signed_run(self) -> Node:
        """A factor that may have a sign: `2 · −3`."""
        if self.take("-"):
            return negated(self.signed_run())
        self.take("+")
        return self.side_by_side()

    def divisor(self) -> Node:
        """What stands under a `/`: everything side by side, or one factor in a loose reading."""
        if self.take("-"):
            return negated(self.divisor())
        first = self.power()
        if not self.starts_factor():
            return first
        self.is_ambiguous = True
        return first if self.loose else self.side_by_side(first)

    def side_by_side(self, first: Node | None = None) -> Node:
        """Factors with no sign between them: `2x(y+1)`; a number before a fraction is a mixed number."""
        start = self.token
        node = self.power() if first is None else first
        if first is None and start.kind == "number":
            mixed = self.mixed_number(node)
            if mixed is not None:
                return mixed
        factors = [node]
        while self.starts_factor():
            if self.token.kind == "number" and self.before.kind == "number":
                raise self.unexpected()
            factors.append(self.power())
        return node if len(factors) == 1 else Product(tuple(factors))

    def starts_factor(self) -> bool:
        """Whether what comes next is multiplied by standing there."""
        token = self.token
        if token.kind in ("number", "word"):
            return token.value not in NO_FACTORS and not self.starts_unit()
        if token.kind == "command":
            return token.value not in _STOPS
        if token.kind != "sign" or token.value not in _STARTS:
            return False
        return token.value != "|" or (self.in_bars == 0 and self.in_braces == 0)

    def power(self) -> Node:
        """A primary with what is written behind and above it."""
        node = self.primary()
        while True:
            token = self.token
            if token.value in ("^", "**"):
                self.advance()
                node = self.raised(node)
            elif token.value == "!" and self.peek(1).value != "=":
                self.advance()
                node = Apply("factorial", (node,))
            elif token.value in ("%", r"\%"):
                self.advance()
                node = Percent(node)
            elif token.value == r"\degree":
                self.advance()
                node = Quantity(node, "degree")
            elif token.kind == "text" and self.starts_percent(token.value):
                self.advance()
                node = Percent(node)
            else:
                return node

    def raised(self, base: Node) -> Node:
        """The base under the exponent that comes next; `^\\circ` makes it degrees."""
        if self.token.value == r"\circ":
            self.advance()
            return Quantity(base, self.degrees())
        if self.token.value == "{" and self.peek(1).value in (r"\circ", r"\degree") and self.peek(2).value == "}":
            self.position += 3
            return Quantity(base, self.degrees())
        if isinstance(base, Symbol) and self.takes_prime():
            return Symbol(f"{base.name}'")
        exponent = self.script()
        if self.token.value in ("^", "**"):
            self.advance()
            exponent = self.raised(exponent)
        if exponent in _ORDINALS:
            return base
        return Power(base, exponent)

    def mixed_number(self, whole: Node) -> Node | None:
        r"""`1\frac12` and `1 1/2`: a whole number and a fraction below one, side by side."""
        if not (isinstance(whole, Number) and whole.value.q == 1 and not whole.decimal):
            return None
        if self.token.value == r"\frac":
            mark = self.position
            fraction = self.power()
            if isinstance(fraction, Quotient) and _is_proper(fraction.top, fraction.bottom):
                return Sum((whole, fraction))
            self.position = mark
            return None
        one, slash, two = self.peek(0), self.peek(1), self.peek(2)
        if one.kind == "number" and one.spaced and slash.value == "/" and two.kind == "number":
            top, bottom = literal(one.value), literal(two.value)
            if _is_proper(top, bottom):
                self.position += 3
                return Sum((whole, Quotient(top, bottom)))
        return None

    def measured(self, node: Node) -> Node:
        """The value with the unit or words behind it: `5 cm`, `5 \\text{ apples}`, `9.8 \\text{m}/\\text{s}^2`."""
        parts = [self.advance().value]
        while True:
            token = self.token
            if self.starts_unit():
                parts.append(self.advance().value)
            elif token.value == "^":
                self.advance()
                exponent = self.script()
                if not isinstance(exponent, Number):
                    raise self.unexpected()
                parts.append(f"^{exponent.value}")
            elif token.value in ("/", r"\cdot") and self.peek(1).kind in ("text", "word"):
                self.advance()
                parts.append("/" if token.value == "/" else "·")
                parts.append(self.advance().value)
            else:
                return _scaled(node, " ".join(" ".join(parts).split()).replace(" ^", "^"))

    def starts_unit(self) -> bool:
        """Whether a unit stands here: any text, or the name of a unit right behind a number."""
        token = self.token
        if token.kind == "text":
            return token.value.strip().lower() not in NO_UNITS
        follows = self.before.kind in ("number", "text") or self.before.value in ("}", ")", "/")
        return token.kind == "word" and follows and self.position > 0 and is_unit_here(token.value, self.peek(1))

    def takes_prime(self) -> bool:
        r"""Whether `^\prime` or `^{\prime}` stands here; it is taken then."""
        if self.take(r"\prime"):
            return True
        if (self.token.value, self.peek(1).value, self.peek(2).value) != ("{", r"\prime", "}"):
            return False
        self.position += 3
        return True

    def degrees(self) -> str:
        """Of an angle, or of a temperature: `20^\\circ C`."""
        scale = {"C": "C", "F": "F", "K": "K"}.get(self.token.value.strip())
        if scale is None or self.peek(1).kind not in ("end", "sign"):
            return "degree"
        self.advance()
        return scale

    @staticmethod
    def starts_percent(text: str) -> bool:
        return text.strip().lower() in PERCENT


def _exact_part(sides: list[Node], operators: list[str]) -> Node:
    """A chain up to its first `≈`: what follows only says it again, less exactly."""
    if "about" in operators:
        place = operators.index("about")
        if place == 0 and isinstance(sides[0], Symbol | Words):
            operators = ["=" if operator == "about" else operator for operator in operators]
        else:
            sides, operators = sides[: place + 1], operators[:place]
    return Relation(tuple(sides), tuple(operators)) if operators else sides[0]


def _times(left: Node, right: Node) -> Node:
    return Product((*left.factors, right)) if isinstance(left, Product) else Product((left, right))


def parsed(text: str, *, loose: bool = False, grouped: bool = True) -> tuple[Node, bool]:
    """The tree of a text, and whether a looser reading would differ.

    >>> parsed("2x+1")[0]
    Sum(terms=(Product(factors=(Number(value=2, decimal=False), Symbol(name='x'))), Number(value=1, decimal=False)))
    """
    grammar = Grammar(tokens_of(text, grouped=grouped), loose=loose)
    try:
        tree = grammar.whole()
    except RecursionError:
        raise UnreadableError(TOO_DEEP) from None
    # What compares trees goes down level by level, so a tree of thousands must not get that far.
    if levels_of(tree) > DEEPEST_TREE:
        raise UnreadableError(TOO_DEEP)
    return tree, grammar.is_ambiguous


def _scaled(node: Node, unit: str) -> Node:
    """The value with its unit; `5 million dollars` is 5,000,000 of them."""
    first, _, rest = unit.partition(" ")
    scale = SCALES.get(first.lower())
    if scale is None:
        return Quantity(node, unit)
    value = Product((node, Number(fmpq(scale))))
    return Quantity(value, rest) if rest else value


def is_unit_here(word: str, following: MathToken) -> bool:
    """Whether letters behind a number are a unit, as they stand at the end of a value: `5 cm`, `3 min`."""
    if word in ORDINALS:
        return True
    if not is_unit(word) or word in ("mg", "ms", "gm", "mV", "mA", "in", "mi"):
        return False
    return following.kind in ("end", "text", "word") or following.value in _BEHIND_UNITS


def _is_proper(top: Node, bottom: Node) -> bool:
    if not (isinstance(top, Number) and isinstance(bottom, Number)):
        return False
    return not top.decimal and not bottom.decimal and fmpq(0) < top.value < bottom.value
