r"""Parse an answer into a tree: operators by precedence over tokens, in time linear in the text.

From loosest to tightest: `,` and/or · `= < ∈` · `∪ ∩ \` · `+ − ±` · `· / ÷` · side by side · `^ ! %`.
"""

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from math import factorial, isfinite, prod
from typing import Final, Literal, NamedTuple

from flint import fmpq

from assay.math import tree, words
from assay.math.balls import TooLargeError, UndefinedError, ball, is_real
from assay.math.integrals import NoIntegralError, integrate
from assay.math.markup import MAX_DEPTH
from assay.math.size import is_small
from assay.math.units import is_unit, says_what
from assay.math.words import (
    BASIS_POINTS,
    CONNECTIVES,
    DENIALS,
    FUNCTIONS,
    GREEK,
    NO_FACTORS,
    NO_UNITS,
    ORDINALS,
    PARTS,
    PERCENT,
    SCALES,
    SETS,
)


class MathToken(NamedTuple):
    kind: Literal["number", "word", "command", "text", "sign", "end"]
    value: str
    place: int  # where it starts, for error messages
    spaced: bool  # whether a space stands before it


class UnreadableError(ValueError):
    """The text is not in the grammar; `args[0]` says what and where."""


_TOKEN: Final = re.compile(
    r"(?P<space>\s+)"
    r"|(?P<number>(?:[1-9]\d{0,2}(?:,\d{3})+(?![\d])|[1-9]\d{0,2}(?: \d{3})+(?![\d,])|\d+)(?:\.\d+|\.(?=\s*\\(?:overline|bar|dot)(?![a-zA-Z])))?(?:[eE][-+]?\d+)?|\.\d+)"
    r"|\\(?:text|textbf|textit|textrm|textnormal|mbox|hbox|textsf|emph)\s*\{(?P<text>[^{}]*)\}"
    r"|(?P<command>\\(?:[a-zA-Z]+|.))"
    r"|(?P<word>[a-zA-Z]+)"
    r"|(?P<sign>\*\*|<=|>=|!=|==|\.\.\.|[-+*/^_=<>!%(){}\[\]|,;:'&])",
    re.DOTALL | re.ASCII,
)
_SEPARATE_COMMAS: Final = re.compile(
    _TOKEN.pattern.replace(r"[1-9]\d{0,2}(?:,\d{3})+(?![\d])|", "", 1), re.DOTALL | re.ASCII
)
_OPENINGS: Final = frozenset({"(", "[", r"\{", r"\lbrace", r"\langle"})
_CLOSINGS: Final = frozenset({")", "]", r"\}", r"\rbrace", r"\rangle"})
_DROPPED: Final = frozenset({r"\$", r"\mathstrut", r"\relax"})


def tokens_of(text: str, *, grouped: bool = True) -> list[MathToken]:
    """The tokens of a text, with one `end` behind them. `grouped`: `1,234` is one number, but never in brackets."""
    tokens: list[MathToken] = []
    place, spaced, depth = 0, False, 0
    while place < len(text):
        match = (_TOKEN if grouped and depth == 0 else _SEPARATE_COMMAS).match(text, place)
        if match is None:
            raise UnreadableError(f"{text[place]!r} at {place} is no mathematics")
        kind: str = match.lastgroup or "space"
        value = match[kind]
        end = match.end()
        if kind == "number" and " " in value and tokens and tokens[-1].value in ("^", "_"):
            # `\log_2 100`: no digits of the number below, but the next number.
            value = value.partition(" ")[0]
            end = place + len(value)
        if kind == "space" or value in _DROPPED:
            spaced = True
        else:
            depth = max(0, depth + (value in _OPENINGS) - (value in _CLOSINGS))
            tokens.append(MathToken(kind, value, place, spaced))  # pyright: ignore[reportArgumentType]
            spaced = False
        place = end
    tokens.append(MathToken("end", "", place, spaced))
    return tokens


_MOST_DIGITS: Final = 3000
_RECURRING: Final = re.compile(r"(\d*?)(\d+?)\2+\Z")


def literal(text: str) -> tree.Number:
    if len(text) > _MOST_DIGITS:
        raise UnreadableError(f"a number of {len(text)} digits is too long")
    mantissa, _, exponent = text.lower().replace(",", "").replace(" ", "").partition("e")
    whole, point, decimals = mantissa.partition(".")
    power = int(exponent or 0) - len(decimals) if len(exponent) <= 6 else None
    if power is None or abs(power) > _MOST_DIGITS:
        raise UnreadableError(f"the number {text} is too long to write out")
    digits = int((whole + decimals) or "0")
    value = fmpq(digits * 10**power) if power >= 0 else fmpq(digits, 10**-power)
    return tree.Number(value, bool(point) or bool(exponent))


def repeating(whole: str, decimals: str, period: str) -> fmpq:
    """The number whose last digits repeat for ever."""
    if len(decimals) + len(period) > _MOST_DIGITS:
        raise UnreadableError("a recurring decimal is too long")
    shift, cycle = 10 ** len(decimals), 10 ** len(period) - 1
    return fmpq(int((whole or "0") + decimals), shift) + fmpq(int(period), shift * cycle)


def recurring(text: str) -> tree.Number:
    """A decimal with an ellipsis behind it, where its digits have begun to repeat."""
    whole, _, decimals = text.partition(".")
    end = decimals[-60:]
    match = _RECURRING.match(end)
    if match is None or len(end) - len(match[1]) < max(3, 2 * len(match[2])):
        raise UnreadableError(f"{text}… has no digits that repeat")
    head = decimals[: len(decimals) - len(end)] + match[1]
    return tree.Number(repeating(whole, head, match[2]))


TOO_DEEP: Final = "it nests too deep"
DEEPEST_TREE: Final = (
    2 * MAX_DEPTH
)  # levels: `5!!!…` and `1/2/2/…` have one for each sign, though no bracket opens
SET_OPERATIONS: Final = words.notations("set operation")
TIMES, DIVIDED = frozenset(words.notations("times")), frozenset(words.notations("divided"))
SIGNS: Final = frozenset({"+", "-", r"\pm", r"\mp"})
_LOGIC: Final = words.notations("logic")
_CONNECTIVES: Final = CONNECTIVES | _LOGIC
_ORDINALS: Final = tuple(
    node
    for ending in ORDINALS
    for node in (tree.Words(ending), tree.Product((tree.Symbol(ending[0]), tree.Symbol(ending[1]))))
)
_BEHIND_UNITS: Final = frozenset({",", ";", ")", "]", "/", "^", r"\}", "}"})
_MODULI: Final = frozenset(words.notations("modulus"))
# Commands that end a run of factors.
_STOPS: Final = SIGNS.union(
    words.notations("stop"), _MODULI, words.RELATIONS, SET_OPERATIONS, TIMES, DIVIDED, _CONNECTIVES
)
_FENCES: Final = {
    r"\lfloor": (r"\rfloor", "floor"),
    r"\lceil": (r"\rceil", "ceil"),
    r"\lvert": (r"\rvert", "abs"),
}
_RAISED_CIRCLES: Final = ((r"\circ",), ("{", r"\circ", "}"), ("{", r"\degree", "}"))
_DECORATIONS, _FONTS = frozenset(words.notations("decoration")), frozenset(words.notations("font"))
_VECTORS, _GRIDS = frozenset(words.notations("vector")), frozenset(words.notations("grid"))
_MAX_DECIMALS: Final = 50  # of an approximation
_MOST_WRITTEN: Final = 3000  # nodes of the sums and determinants that are written out
_IS_DIFFERENTIAL: Final = re.compile(r"d[a-zA-Z]").fullmatch
_LARGEST_DETERMINANT: Final = 4
_TWO: Final = tree.Number(fmpq(2))
_DIFFERENTIALS: Final = tuple(
    each
    for d in map(tree.Symbol, ("d", "partial"))
    for each in (d, tree.Power(d, _TWO), tree.Power(d, tree.Number(fmpq(3))))
)
_BY_LENGTH: Final = sorted(
    (f for f in FUNCTIONS if len(f) > 2 and f.islower()), key=len, reverse=True
)
_INVERSES: Final = {"sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh"}
CONSTANTS: Final[dict[str, tree.Node]] = {
    name: tree.NamedSet("empty") if meant == "empty" else tree.Constant(meant)  # pyright: ignore[reportArgumentType]
    for name, meant in words.CONSTANTS.items()
}


def parsed(text: str, *, loose: bool = False, grouped: bool = True) -> tuple[tree.Node, bool]:
    """The tree of a text, and whether a looser reading would differ."""
    grammar = Grammar(tokens_of(text, grouped=grouped), loose=loose)
    try:
        found = grammar.answer()
        if grammar.token.kind != "end":
            raise grammar.unexpected()
    except RecursionError:
        raise UnreadableError(TOO_DEEP) from None
    # What compares trees goes down level by level, so a tree of thousands must not get that far.
    if tree.levels_of(found) > DEEPEST_TREE:
        raise UnreadableError(TOO_DEEP)
    return found, grammar.is_ambiguous


_ASKED: Final = (
    {
        r"\frac",
        r"\sqrt",
        r"\binom",
        r"\operatorname",
        r"\lfloor",
        r"\rfloor",
        r"\lceil",
        r"\rceil",
        r"\lvert",
        r"\rvert",
        r"\infty",
        r"\pi",
        r"\mathrm",
        r"\limits",
        *"+-*/^_(){}[]|!",
    }
    | TIMES
    | DIVIDED
    | {f"\\{name}" for name in FUNCTIONS.keys() | GREEK if name not in ("partial", "nabla")}
)
_BOUND: Final = re.compile(
    r"(\\(?:sum|prod)\s*_\s*\{\s*[a-zA-Z]\s*)=|(\\lim\s*_\s*\{\s*[a-zA-Z]\s*)\\(?:to|rightarrow)(?![a-zA-Z])"
)
_OPERATOR: Final = re.compile(
    r"\\frac\s*\{\s*d\s*\}\s*\{\s*d\s*[a-zA-Z]\s*\}|\\(?:int|sum|prod|lim)(?![a-zA-Z])"
)
_DERIVATIVE: Final = re.compile(r"\bd\s*[a-zA-Z]?\s*(?:/|\}\s*\{)\s*d\s*[a-zA-Z]")


def is_expression(text: str, *, is_read: bool) -> bool:
    """Whether a text is one expression of operators that math-verify is known to read: sums, integrals, limits.

    Of anything else it may read a part alone, and its verdict is on that part: `\\neq 7` is 7 to it.
    """
    if (
        not is_read and _OPERATOR.search(text) is None
    ):  # without one it is something else that cannot be read
        return False
    text = _OPERATOR.sub(" ", _BOUND.sub(lambda match: match[1] or match[2], text))
    if _DERIVATIVE.search(text) or "!!" in text:
        return False
    try:
        tokens = tokens_of(text)[:-1]
    except UnreadableError:
        return False
    for token in tokens:
        # A name without a backslash is left out by math-verify, and `of` are two letters to us.
        if token.kind == "word" and (
            len(token.value) > 3 or token.value in words.NO_LABELS | words.LEADS
        ):
            return False
        if token.kind == "text" or (
            token.kind in ("command", "sign") and token.value not in _ASKED
        ):
            return False
    return bool(tokens)


class Grammar:
    """One reading of one text. `loose`: `1/2x` is (1/2)x, as people often mean; else 1/(2x)."""

    def __init__(self, tokens: list[MathToken], *, loose: bool = False) -> None:
        self.tokens = tokens
        self.position = 0
        self.in_bars = 0
        self.in_braces = False
        self.loose = loose
        self.is_ambiguous = False
        self.written = 0

    @property
    def token(self) -> MathToken:
        return self.tokens[self.position]

    @property
    def before(self) -> MathToken:
        return self.tokens[self.position - 1]

    def peek(self, ahead: int) -> MathToken:
        return self.tokens[min(self.position + ahead, len(self.tokens) - 1)]

    def advance(self) -> MathToken:
        token = self.tokens[self.position]
        if token.kind == "end":
            raise self.unexpected()
        self.position += 1
        return token

    def take(self, value: str) -> bool:
        """Whether this sign stands here; it is taken then."""
        if self.token.value != value or self.token.kind == "text":
            return False
        self.position += 1
        return True

    def expect(self, *values: str) -> None:
        for value in values:
            if not self.take(value):
                raise UnreadableError(f"{value!r} is missing at {self.token.place}")

    def take_run(self, *values: str) -> bool:
        """Whether these tokens stand here one after the other; they are taken then."""
        stands = all(self.peek(ahead).value == value for ahead, value in enumerate(values))
        self.position += len(values) if stands else 0
        return stands

    def closed(self, node: tree.Node, closing: str) -> tree.Node:
        """What was just read, behind which its bracket has to close."""
        self.expect(closing)
        return node

    def unexpected(self, token: MathToken | None = None) -> UnreadableError:
        token = token or self.token
        if token.kind == "end":
            return UnreadableError("it ends too early")
        return UnreadableError(f"{token.value!r} at {token.place} is not understood")

    def answer(self) -> tree.Node:
        """One statement, or several between commas, `and`, `or`."""
        items = [self.statement()]
        groups: list[list[tree.Node]] = [items]
        joined = ","
        is_logic = False
        while (connective := self.connective()) is not None:
            joined = connective if connective not in (",", ";") else joined
            if self.token.kind == "end" or self.token.value in (")", "]", r"\}"):
                if connective in ("and", "or"):
                    raise self.unexpected()
                break
            is_logic = is_logic or self.before.value in _LOGIC
            if connective == ";":
                groups.append([])
            groups[-1].append(self.statement())
        if len(groups) > 1 and len({len(group) for group in groups}) == 1 and len(items) > 1:
            return tree.Listing(
                "bare", tuple(tree.Listing("round", tuple(group)) for group in groups)
            )
        items = [item for group in groups for item in group]
        if is_logic and not all(isinstance(item, tree.Relation) for item in items):
            raise UnreadableError("logic that joins no relations")
        if len(items) == 1 and self.take(r"\over"):
            return _quotient(items[0], self.answer())
        if len(items) == 1 and self.take(r"\choose"):
            return tree.Apply("binomial", (items[0], self.answer()))
        return items[0] if len(items) == 1 else tree.Listing("bare", tuple(items), joined)  # pyright: ignore[reportArgumentType]

    def connective(self) -> str | None:
        found: str | None = None
        while True:
            token = self.token
            meant = token.value if token.kind == "sign" and token.value in (",", ";") else None
            if token.kind in ("word", "text", "command"):
                meant = _CONNECTIVES.get(token.value.strip().lower())
            if meant is None:
                return found
            found = meant if found in (None, ",", ";") else found
            self.advance()

    def statement(self) -> tree.Node:
        """An expression, or a chain of relations."""
        first = self.set_expression()
        if isinstance(first, tree.Words) and self.take(":"):
            return tree.Relation((first, self.set_expression()), ("=",))
        sides = [self.ratio(first)]
        operators: list[str] = []
        while (meant := words.RELATIONS.get(self.token.value)) is not None:
            self.advance()
            operators.append(meant)
            sides.append(self.ratio(self.set_expression()))
        if operators[-1:] == ["mod"] and self.starts_modulus():
            sides[-1] = tree.Apply("mod", (sides[-1], self.modulus()))
        return _exact_part(sides, operators) if operators else sides[0]

    def ratio(self, first: tree.Node) -> tree.Node:
        """The first term with those that follow it after `:` or `to`."""
        terms = [first]
        while (self.token.value == ":" and not self.in_braces) or self.token.value.strip() == "to":
            self.advance()
            terms.append(self.sum())
        return first if len(terms) == 1 else tree.Listing("ratio", tuple(terms))

    def modulus(self) -> tree.Node:
        if self.advance().value != "(":
            return self.script()
        self.advance()
        return self.closed(self.sum(), ")")

    def starts_modulus(self) -> bool:
        """Whether `\\pmod 3`, `\\mod 3` or `(mod 3)` stands here."""
        token = self.token
        return token.value in _MODULI or (
            token.value == "(" and self.peek(1).value.strip() == "mod"
        )

    def set_expression(self) -> tree.Node:
        left = self.sum()
        while (
            operator := "union" if self.joins_sets() else SET_OPERATIONS.get(self.token.value)
        ) is not None:
            if tree.is_value(left) and not tree.symbols_of(
                left
            ):  # `7 \\backslash 8` is not the set of 7
                raise UnreadableError("a number is no set, and has no union or difference")
            self.advance()
            left = tree.SetOperation(operator, left, self.sum())  # pyright: ignore[reportArgumentType]
        return left

    def joins_sets(self) -> bool:
        """Whether a `U` between two intervals stands here: `(-oo,1) U (3,oo)`."""
        if (
            self.token.value != "U"
            or self.before.value not in (")", "]")
            or self.peek(1).value not in ("(", "[")
        ):
            return False
        behind = [token.value for token in self.tokens[self.position + 2 :]]
        closing = next(
            (place for place, value in enumerate(behind) if value in (")", "]", "(", "[")), 0
        )
        return "," in behind[:closing]

    def sum(self) -> tree.Node:
        terms: list[tree.Node] = []
        while not terms or self.token.value in SIGNS:
            sign = self.advance().value if self.token.value in SIGNS else ""
            if self.token.value in SIGNS and self.token.value != "-":
                raise self.unexpected()
            term = self.product()
            if sign == "-":
                term = tree.negated(term)
            elif sign in (r"\pm", r"\mp"):
                term = tree.PlusMinus(term, sign == r"\pm")
            terms.append(term)
        return terms[0] if len(terms) == 1 else tree.Sum(tuple(terms))

    def product(self) -> tree.Node:
        left = self.side_by_side()
        while True:
            operator = self.token.value
            if operator in TIMES and self.token.kind != "word":
                if operator == r"\times" and any(token.value in _VECTORS for token in self.tokens):
                    raise UnreadableError("a cross product")
                self.advance()
                left = _times(left, self.signed_run())
            elif operator in DIVIDED:
                self.advance()
                left = _quotient(left, self.divisor())
                if self.loose and self.starts_factor():
                    left = _times(left, self.side_by_side())
            elif self.starts_unit():
                left = self.measured(left)
            else:
                return left

    def signed_run(self) -> tree.Node:
        """A factor that may have a sign: `2 · −3`."""
        if self.take("-"):
            return tree.negated(self.signed_run())
        self.take("+")
        return self.side_by_side()

    def divisor(self) -> tree.Node:
        """What stands under a `/`: everything side by side, or one factor in a loose reading."""
        if self.take("-"):
            return tree.negated(self.divisor())
        first = self.power()
        if not self.starts_factor():
            return first
        self.is_ambiguous = True
        return first if self.loose else self.side_by_side(first)

    def side_by_side(self, first: tree.Node | None = None) -> tree.Node:
        """Factors with no sign between them: `2x(y+1)`; a number before a fraction is a mixed number."""
        start = self.token
        node = self.power() if first is None else first
        factors = self.mixed_number(node) if first is None and start.kind == "number" else [node]
        while self.starts_factor():
            if self.token.kind == "number" and self.before.kind == "number":
                raise self.unexpected()
            factors.append(self.power())
        return _product(factors)

    def starts_factor(self) -> bool:
        """Whether what comes next is multiplied by standing there."""
        token = self.token
        if token.kind in ("number", "word"):
            return (
                token.value not in NO_FACTORS and not self.starts_unit() and not self.joins_sets()
            )
        if token.kind == "command":
            return token.value not in _STOPS
        if token.kind != "sign" or token.value not in ("(", "{", "|"):
            return False
        if token.value == "(":
            return not self.starts_modulus()
        return token.value != "|" or (self.in_bars == 0 and not self.in_braces)

    def power(self) -> tree.Node:
        """A primary with what is written behind and above it."""
        node = self.primary()
        while True:
            token = self.token
            if token.value in ("^", "**"):
                self.advance()
                node = self.raised(node)
            elif token.value == "!":
                again = self.before.value == "!" and not token.spaced
                self.advance()
                # `5!!` is 5·3·1 and no factorial of a factorial; of more signs nothing is concluded.
                match node:
                    case tree.Apply("factorial", (tree.Number(n),)) if (
                        again and n.q == 1 and 0 <= n.p < _MOST_WRITTEN
                    ):
                        node = tree.Number(fmpq(prod(range(int(n.p), 0, -2))))
                    case _:
                        node = tree.Apply("multifactorial" if again else "factorial", (node,))
            elif token.value in ("%", r"\%") or (
                token.kind == "text" and token.value.strip().lower() in PERCENT
            ):
                self.advance()
                node = tree.Percent(node)
            elif self.take(r"\degree"):
                node = tree.Quantity(node, "degree")
            else:
                return node

    def raised(self, base: tree.Node) -> tree.Node:
        """The base under the exponent that comes next; `^\\circ` makes it degrees."""
        if self.token.value in ("{", r"\circ") and any(
            self.take_run(*signs) for signs in _RAISED_CIRCLES
        ):
            return tree.Quantity(base, self.degrees())
        if isinstance(base, tree.Symbol) and (
            self.take(r"\prime") or self.take_run("{", r"\prime", "}")
        ):
            return tree.Symbol(f"{base.name}'")
        exponent = self.script()
        if self.token.value in ("^", "**"):
            self.advance()
            exponent = self.raised(exponent)
        if exponent in _ORDINALS:
            return base
        if exponent == tree.Symbol("T") and isinstance(base, tree.Grid | tree.Listing):
            rows = base.rows if isinstance(base, tree.Grid) else (base.items,)
            return tree.Grid(tuple(zip(*rows, strict=True)))
        return tree.Power(base, exponent)

    def mixed_number(self, whole: tree.Node) -> list[tree.Node]:
        r"""`1\frac12` and `1 1/2`: a whole number and a fraction below one, side by side.

        A fraction that turns out to be a factor (`2\frac{x}{3}`) is handed on as it was read: reading it again
        would double the work at every level of `2\frac{2\frac{…}{1}}{1}`.
        """
        if not (isinstance(whole, tree.Number) and whole.value.q == 1 and not whole.decimal):
            return [whole]
        if self.token.value == r"\frac":
            fraction = self.power()
            part = (
                fraction.value if isinstance(fraction, tree.Quantity | tree.Percent) else fraction
            )
            if isinstance(part, tree.Quotient) and _is_proper(part.top, part.bottom):
                return [tree.replaced(fraction, part, tree.Sum((whole, part)))]
            return [whole, fraction]
        one, slash, two = self.peek(0), self.peek(1), self.peek(2)
        if one.kind == "number" and one.spaced and slash.value == "/" and two.kind == "number":
            top, bottom = literal(one.value), literal(two.value)
            if _is_proper(top, bottom):
                self.position += 3
                return [tree.Sum((whole, tree.Quotient(top, bottom)))]
        return [whole]

    def measured(self, node: tree.Node) -> tree.Node:
        """The value with the unit or words behind it: `5 cm`, `5 \\text{ apples}`, `9.8 \\text{m}/\\text{s}^2`."""
        parts = [self.advance().value]
        while True:
            token = self.token
            if self.starts_unit():
                parts.append(self.advance().value)
            elif self.take("^"):
                exponent = self.script()
                if not isinstance(exponent, tree.Number):
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
        if token.kind != "word" or not follows or self.position == 0:
            return False
        if token.value in ORDINALS:
            return True
        following = self.peek(1)
        ends_value = following.kind in ("end", "text", "word") or following.value in _BEHIND_UNITS
        return ends_value and is_unit(token.value)

    def degrees(self) -> str:
        """Of an angle, or of a temperature: `20^\\circ C`."""
        scale = self.token.value.strip()
        if scale not in ("C", "F", "K") or self.peek(1).kind not in ("end", "sign"):
            return "degree"
        self.advance()
        return scale

    # Primaries: what stands between operators.

    def primary(self) -> tree.Node:
        token = self.advance()
        value = token.value
        read = _PRIMARIES.get(token.kind)
        if read is not None:
            return read(self, value)
        if value in "([]":
            return self.bracket(value)
        if value == "{":
            return self.closed(self.answer(), "}")
        if value == "|":
            self.in_bars += 1
            node = self.sum()
            self.in_bars -= 1
            self.expect("|")
            return tree.Apply("abs", (node,))
        if value == "-":
            return tree.negated(self.power())
        raise self.unexpected(token)

    def nested(self, *, in_braces: bool = False) -> tree.Node:
        """An answer in brackets, whatever bars and braces stand around them."""
        bars, braces, self.in_bars, self.in_braces = self.in_bars, self.in_braces, 0, in_braces
        node = self.answer()
        self.in_bars, self.in_braces = bars, braces
        return node

    def split(self) -> str:
        """The first character of the token that stands here; the rest is read again."""
        token = self.token
        self.tokens[self.position] = MathToken(token.kind, token.value[1:], token.place + 1, False)
        return token.value[0]

    def bracket(self, opening: str) -> tree.Node:
        """A bracketed expression, a tuple, a list or an interval."""
        if opening == "[" and self.take("]"):
            return tree.NamedSet("empty")
        inside = self.nested()
        token = self.advance()
        closing = {r"\rbrack": "]", r"\rparen": ")"}.get(token.value, token.value)
        if closing not in (")", "]", "["):
            raise self.unexpected(token)
        if opening == "]" or closing == "[":  # `]2,5[`, as intervals are written in French
            if not (isinstance(inside, tree.Listing) and len(inside.items) == 2):
                raise self.unexpected(token)
            return tree.Range(*inside.items, opening in "(]", closing in ")[")
        if not (isinstance(inside, tree.Listing) and inside.kind == "bare"):
            if (opening, closing) == ("(", ")"):
                return inside
            if (opening, closing) == ("[", "]"):
                return (
                    inside if isinstance(inside, tree.Grid) else tree.Listing("square", (inside,))
                )
            raise UnreadableError(f"the brackets {opening}…{closing} hold no interval")
        if len(inside.items) == 2 and (opening == "[") != (closing == "]"):
            return tree.Range(*inside.items, opening == "(", closing == ")")
        if (opening == "(") != (closing == ")"):
            raise UnreadableError(
                f"the brackets {opening}…{closing} hold {len(inside.items)} parts"
            )
        if opening == "[" and all(
            isinstance(item, tree.Listing) and item.kind == "square" for item in inside.items
        ):
            rows = tuple(tree.children(item) for item in inside.items)
            if len({len(row) for row in rows}) == 1:
                return tree.Grid(rows)
        return tree.Listing("round" if opening == "(" else "square", inside.items)

    def numeral(self, value: str) -> tree.Node:
        """A literal, with an ellipsis, a bar over recurring digits, or a base behind it."""
        if self.token.value in ("...", r"\ldots", r"\dots", r"\cdots") and "." in value:
            self.advance()
            return recurring(value)
        has_bar = "." in value and self.token.value in (r"\overline", r"\bar", r"\dot")
        if has_bar and (period := self.period()):
            whole, _, decimals = value.partition(".")
            return tree.Number(repeating(whole, decimals, period))
        if self.token.value == "_" and value.isdigit():
            token, base = self.advance(), self.script()
            if isinstance(base, tree.Number) and base.value.q == 1 and 1 < base.value.p <= 36:
                return tree.Based(value, int(base.value.p))
            # Nothing but a base stands below a number, so there is no other reading to go back for.
            raise self.unexpected(token)
        return literal(value)

    def period(self) -> str:
        r"""The digits under a bar, or from one dot to the next: `\dot{1}4285\dot{7}`."""
        command, digits = self.token.value, self.peek(2).value
        if self.peek(1).value != "{" or not digits.isdigit() or self.peek(3).value != "}":
            return ""
        self.position += 4
        between = (
            self.token.value
            if self.token.kind == "number" and self.peek(1).value == r"\dot"
            else ""
        )
        if command != r"\dot" or not (between.isdigit() or self.token.value == r"\dot"):
            return digits
        self.position += bool(between)
        return digits + between + self.period()

    def digit_or_group(self) -> tree.Node:
        r"""The argument of a command: a group in braces, or the one sign that follows (`\frac12`)."""
        token = self.token
        if token.kind == "number" and len(token.value) > 1 and token.value.isdigit():
            return tree.Number(fmpq(int(self.split())))
        if self.take("{"):
            return self.closed(self.nested(), "}")
        if token.kind == "word" and len(token.value) > 1 and token.value not in CONSTANTS:
            return letter(self.split())
        return self.primary()

    def script(self) -> tree.Node:
        """What stands above or below: a group, a number with its sign, or one primary."""
        if self.token.value == "{":
            return self.digit_or_group()
        if self.take("-"):
            return tree.negated(self.script())
        self.take("+")
        if self.token.kind == "word" and self.token.value not in FUNCTIONS:
            return self.digit_or_group()
        return self.primary()

    def word(self, value: str) -> tree.Node:
        """A run of letters: a constant, a function, a Greek letter, or letters side by side."""
        if value in ("sqrt", "cbrt"):
            index = tree.Number(fmpq(2 if value == "sqrt" else 3))
            return tree.Apply("root", (self.digit_or_group(), index))
        known = self.known(value)
        if known is not None or len(value) == 1:
            return known or self.subscripted(letter(value))
        if len(value) > 3 or value.lower() in DENIALS:
            if self.token.value in ("=", ":"):
                return tree.Words(value.casefold())
            self.position -= 1
            raise UnreadableError(f"the word {value!r} at {self.token.place} is no mathematics")
        # The rest is read again: in `xy^2` only y is squared.
        self.position -= 1
        return letter(self.split())

    def known(self, name: str) -> tree.Node | None:
        """What a name in formulas stands for: a constant, a Greek letter, or a function with its arguments."""
        if name in CONSTANTS:
            return CONSTANTS[name]
        if name in GREEK:
            return self.subscripted(tree.Symbol(name))
        return self.function(FUNCTIONS[name]) if name in FUNCTIONS else None

    def words(self, value: str) -> tree.Node:
        """What `\\text{…}` holds: a letter, or words."""
        text = " ".join(value.split())
        if len(text) == 1 and text.isalpha():
            return self.subscripted(letter(text))
        if text in FUNCTIONS:
            return self.function(FUNCTIONS[text])
        return tree.Words(text.casefold())

    def subscripted(self, node: tree.Node) -> tree.Node:
        """A letter with its subscript and primes."""
        if not isinstance(node, tree.Symbol | tree.Constant):
            return node
        name = node.name
        while self.token.value in ("_", "'", r"\prime"):
            name += f"_{self.label()}" if self.advance().value == "_" else "'"
        named = node if name == node.name else tree.Symbol(name)
        # `f(x)`, `y(0)`: functions that the text does not define. `x(y + 1)` is a product.
        is_called = node.name in ("f", "g", "h") or (
            self.peek(1).kind == "number" and self.peek(2).value == ")"
        )
        if (
            not isinstance(node, tree.Symbol)
            or not is_called
            or self.token.value != "("
            or self.token.spaced
        ):
            return named
        self.advance()
        return tree.Apply(f"{name}()", _parts(self.closed(self.answer(), ")")))

    def label(self) -> str:
        if not self.take("{"):
            token = self.advance()
            if token.kind == "word" and len(token.value) > 1:
                self.position -= 1
                return self.split()
            return token.value.strip()
        parts: list[str] = []
        while not self.take("}"):
            parts.append(self.advance().value.strip())
        return "".join(parts)

    def angle_name(self) -> str:
        r"""The letters of `\angle ABC`, or its group or number."""
        if self.token.kind == "word":
            return self.advance().value
        return self.label()

    def command(self, value: str) -> tree.Node:
        name = value[1:]
        known = self.known(name)
        if known is not None:
            return known
        if value in _FENCES:
            end, function = _FENCES[value]
            return tree.Apply(function, (self.closed(self.sum(), end),))
        if value in _FONTS:
            return self.in_font()
        if value in _DECORATIONS:
            return self.subscripted(tree.Symbol(f"{name}({self.label()})"))
        read = _COMMANDS.get(value)
        return read(self) if read is not None else self.run_together(name)

    def run_together(self, name: str) -> tree.Node:
        r"""A function and its argument with no space between them: `\cotx`."""
        self.position -= 1
        function = next((f for f in _BY_LENGTH if name.startswith(f)), None)
        if function is None:
            raise self.unexpected()
        place = self.token.place + len(function) + 1
        self.tokens[self.position] = MathToken("word", name[len(function) :], place, False)
        return self.function(FUNCTIONS[function])

    def root(self) -> tree.Node:
        index: tree.Node = _TWO
        if self.take("["):
            index = self.closed(self.sum(), "]")
        return tree.Apply("root", (self.digit_or_group(), index))

    def surd(self) -> tree.Node:
        """`√12`, written as a sign: the whole number stands under it."""
        return tree.Apply(
            "root", (self.power() if self.token.kind == "number" else self.primary(), _TWO)
        )

    def braces(self) -> tree.Node:
        """A set by its members, or by a condition behind `|` or `:`."""
        if self.take(r"\}") or self.take(r"\rbrace"):
            return tree.NamedSet("empty")
        inside = self.nested(in_braces=True)
        if any(self.take(bar) for bar in ("|", ":", r"\mid", r"\vert")):
            inside = tree.Builder(inside, self.nested(in_braces=True))
        if not self.take(r"\rbrace"):
            self.expect(r"\}")
        return inside if isinstance(inside, tree.Builder) else tree.Listing("set", _parts(inside))

    def angles(self) -> tree.Node:
        inside = self.closed(self.answer(), r"\rangle")
        parts = _parts(inside)
        return inside if len(parts) == 1 else tree.Listing("round", parts)

    def blackboard(self) -> tree.Node:
        name = self.label()
        if name not in SETS:
            raise UnreadableError(f"the set {name!r} is not known")
        if (
            name == "R"
            and self.token.value == "^"
            and "+" in (self.peek(1).value, self.peek(2).value)
        ):
            self.advance()
            if self.label() == "+":
                return tree.Range(tree.Number(fmpq(0)), CONSTANTS["infinity"], True, True)
        if self.token.value in ("^", "_"):
            raise UnreadableError(f"{name} with a script is not known")
        return tree.NamedSet(name)

    def in_font(self) -> tree.Node:
        r"""`\mathrm{e}` and the like: a letter, a name, or an expression in another font."""
        if self.token.value == "{" and self.peek(1).kind == "word" and self.peek(2).value == "}":
            name = self.peek(1).value
            self.position += 3
            return self.named(name)
        return self.digit_or_group()

    def named(self, name: str) -> tree.Node:
        if len(name) == 1:
            return self.subscripted(letter(name))
        if name in FUNCTIONS:
            return self.function(FUNCTIONS[name])
        if name in CONSTANTS:
            return CONSTANTS[name]
        return (
            self.subscripted(tree.Symbol(name))
            if name.isalpha() and len(name) < 4
            else tree.Words(name.casefold())
        )

    def written_out(self, kind: type[tree.Sum | tree.Product]) -> tree.Node:
        r"""`\sum_{k=1}^{3} k^2` as 1 + 4 + 9, and products alike. Only math-verify knows about those without end."""
        self.expect("_", "{")
        name = self.advance()
        self.expect("=")
        low = tree.rational_of(self.sum())
        self.expect("}", "^")
        high = tree.rational_of(self.script())
        body = self.product()
        if len(name.value) != 1 or any(
            name.value in token.value for token in self.tokens[self.position :]
        ):
            raise UnreadableError("it is not clear where a sum ends")
        if low is None or high is None or low.q != 1 or high.q != 1:
            raise UnreadableError("a sum without numbers for its limits")
        count = int(high.p) - int(low.p) + 1
        if count < 1:
            raise UnreadableError("a sum whose limits are turned round")
        self.spend(count * len(tree.nodes_of(body)))
        steps = range(int(low.p), int(high.p) + 1)
        return kind(
            tuple(
                tree.replaced(body, letter(name.value), tree.Number(fmpq(step))) for step in steps
            )
        )

    def spend(self, nodes: int) -> None:
        """Account for what is written out, so that a short text stays a small tree."""
        self.written += nodes
        if self.written > _MOST_WRITTEN:
            raise UnreadableError("a sum or determinant of too many terms")

    def integral(self) -> tree.Node:
        r"""An integral between two limits, as the difference of its antiderivative."""
        self.expect("_")
        low = self.script()
        self.expect("^")
        high = self.script()
        places = range(self.position + 1, len(self.tokens))
        end = next((place for place in places if _IS_DIFFERENTIAL(self.tokens[place].value)), None)
        if end is None:
            raise UnreadableError("an integral over nothing")
        variable = tree.Symbol(self.tokens[end].value[1])
        inside = Grammar(
            [*self.tokens[self.position : end], MathToken("end", "", self.tokens[end].place, False)]
        )
        body = inside.sum()
        self.position = end + 1
        if inside.token.kind != "end":
            raise UnreadableError("an integral that does not end before its variable")
        try:
            return integrate(body, variable, low, high)
        except NoIntegralError as error:
            raise UnreadableError(str(error)) from None

    def environment(self) -> tree.Node:
        r"""A matrix, its determinant, or a choice of cases between `\begin` and `\end`."""
        name = self.label()
        if name not in _GRIDS:
            raise UnreadableError(f"the environment {name!r} is not known")
        if name == "array" and self.token.value == "{":
            self.label()
        rows: list[tuple[tree.Node, ...]] = []
        while True:
            row = [self.statement()]
            self.take(",")
            while self.take("&"):
                if (
                    name == "cases"
                    and self.token.kind == "text"
                    and self.token.value.strip(" ,") in ("if", "for", "when")
                ):
                    self.advance()
                row.append(self.statement())
            self.take(",")
            rows.append(tuple(row))
            again = self.take(r"\\")
            if self.take(r"\end"):
                self.label()
                break
            if not again:
                raise self.unexpected()
        if len({len(row) for row in rows}) > 1:
            raise UnreadableError("the rows of a matrix differ in length")
        if name == "cases":
            if len(rows[0]) == 1:  # several statements at once
                return tree.Listing("bare", tuple(statement for (statement,) in rows))
            return tree.Listing(
                "set", tuple(tree.Listing("round", row) for row in rows)
            )  # values with conditions
        if name == "vmatrix":
            self.spend(
                factorial(min(len(rows), 9))
                * sum(len(tree.nodes_of(cell)) for row in rows for cell in row)
            )
            return _determinant(rows)
        return tree.Grid(tuple(rows))

    def function(self, name: str) -> tree.Node:
        r"""A function with its base, its power and its argument: `\log_2 8`, `\sin^2 x`."""
        base: tree.Node | None = None
        exponent: tree.Node | None = None
        while self.token.value in ("_", "^", "**"):
            if self.advance().value == "_":
                base = self.script()
            else:
                exponent = self.script()
        arguments = self.arguments()
        if exponent == tree.Number(fmpq(-1)) and name in _INVERSES:
            name, exponent = f"arc{name}", None
        node = _called(name, arguments, base)
        return node if exponent is None else tree.Power(node, exponent)

    def arguments(self) -> tuple[tree.Node, ...]:
        """What a function is applied to: a group, or the factors up to the next sign or function."""
        if self.token.value in ("(", "["):
            inside = self.bracket(self.advance().value)
            if isinstance(inside, tree.Listing) and inside.kind in ("round", "square"):
                return inside.items
            return (inside,)
        if self.token.value == "{":
            inside = self.digit_or_group()
            return inside.items if isinstance(inside, tree.Listing) else (inside,)
        return (self.power() if self.token.value in ("|", r"\lvert") else self.run(),)

    def run(self) -> tree.Node:
        if self.take("-"):
            return tree.Product((tree.Number(fmpq(-1)), self.run()))
        factors: list[tree.Node] = [self.power()]
        while True:
            if self.take("/"):
                factors = [_quotient(_product(factors), self.power())]
            elif (
                self.starts_factor()
                and self.token.value not in "([{|"
                and not self.starts_function()
            ):
                factors.append(self.power())
            else:
                return _product(factors)

    def starts_function(self) -> bool:
        name = self.token.value.lstrip("\\")
        return self.token.kind in ("word", "command") and (
            name in FUNCTIONS or name == "operatorname"
        )


def _determinant(rows: Sequence[tuple[tree.Node, ...]]) -> tree.Node:
    """Expanded along the first row."""
    if len(rows) != len(rows[0]) or len(rows) > _LARGEST_DETERMINANT:
        raise UnreadableError(f"a determinant of {len(rows)} by {len(rows[0])}")
    if len(rows) == 1:
        return rows[0][0]
    minors = ([row[:place] + row[place + 1 :] for row in rows[1:]] for place in range(len(rows)))
    terms = [
        tree.Product((cell, _determinant(minor)))
        for cell, minor in zip(rows[0], minors, strict=True)
    ]
    return tree.Sum(
        tuple(tree.negated(term) if place % 2 else term for place, term in enumerate(terms))
    )


def _exact_part(sides: list[tree.Node], operators: list[str]) -> tree.Node:
    """A chain up to its first `≈`: what follows only says it again, less exactly."""
    if "about" in operators:
        place = operators.index("about")
        for exact, rounded in pairwise(sides[place:]):
            if not _is_near(exact, rounded):
                raise UnreadableError("a number is not approximately another one")
        if place == 0 and isinstance(sides[0], tree.Symbol | tree.Words):
            operators = ["=" if operator == "about" else operator for operator in operators]
        else:
            sides, operators = sides[: place + 1], operators[:place]
    return tree.Relation(tuple(sides), tuple(operators)) if operators else sides[0]


def _is_near(exact: tree.Node, approximation: tree.Node) -> bool:
    """Return True if the second number is the first one, rounded or cut off at its last digit.

    `2/3 ≈ 0.66` and `12345 ≈ 12000` hold, `3 ≈ 4` does not. A fraction must agree to one per cent.
    What has no value as a number is not judged.
    """
    for node in (exact, approximation):
        if tree.symbols_of(node) or not is_small(node):
            return True
    try:
        balls = [ball(_without_unit(node), {}, 64) for node in (exact, approximation)]
    except (UndefinedError, TooLargeError):
        return True
    if not all(map(is_real, balls)):
        return True
    value, rounded = (float(number.str(17, radius=False)) for number in balls)
    difference = abs(value - rounded)
    if not isfinite(difference):
        return True
    last_digit = _last_digit(_without_unit(approximation))
    if last_digit is None:
        return difference <= abs(value) / 100
    is_rounded = difference <= last_digit * 0.501
    is_cut_off = abs(rounded) <= abs(value) and difference < last_digit
    return is_rounded or is_cut_off


def _without_unit(node: tree.Node) -> tree.Node:
    return node.value if isinstance(node, tree.Quantity) else node


def _last_digit(node: tree.Node) -> float | None:
    """Return the value of the last digit that is not 0: 0.01 for 3.14 and 1000 for 12000.

    None for a number without a last digit, such as 22/7.
    """
    number = tree.rational_of(node)
    if number is None or number == 0:
        return None
    unit = fmpq(1)
    for _ in range(_MAX_DECIMALS):
        if (number / unit).q == 1:
            break
        unit /= 10
    else:
        return None
    for _ in range(_MAX_DECIMALS):
        if (number / (unit * 10)).q != 1:
            break
        unit *= 10
    return int(unit.p) / int(unit.q)


def _quotient(top: tree.Node, bottom: tree.Node) -> tree.Node:
    """A fraction; `dy/dx` is none but one name, whatever its letters are."""
    match top, bottom:
        case (
            tree.Product((tree.Symbol("d" | "partial" as sign), tree.Symbol(of))),
            tree.Product((tree.Symbol(same), tree.Symbol(by))),
        ) if sign == same:
            return tree.Symbol(f"{sign}{of}/{sign}{by}")
        case (
            tree.Product(
                (
                    tree.Power(tree.Symbol("d" | "partial" as sign), tree.Number(order)),
                    tree.Symbol(of),
                )
            ),
            tree.Product((tree.Symbol(same), tree.Power(tree.Symbol(by), tree.Number(times)))),
        ) if sign == same and order == times:
            return tree.Symbol(f"{sign}{order}{of}/{sign}{by}{order}")
        case _:
            starts = [
                side.factors[0] if isinstance(side, tree.Product) else side
                for side in (top, bottom)
            ]
    if all(start in _DIFFERENTIALS for start in starts):
        raise UnreadableError("a derivative")
    return tree.Quotient(top, bottom)


def _product(factors: Sequence[tree.Node]) -> tree.Node:
    return factors[0] if len(factors) == 1 else tree.Product(tuple(factors))


def _times(left: tree.Node, right: tree.Node) -> tree.Node:
    return (
        tree.Product((*left.factors, right))
        if isinstance(left, tree.Product)
        else tree.Product((left, right))
    )


def _scaled(node: tree.Node, unit: str) -> tree.Node:
    """The value with its unit; `5 million dollars` is 5,000,000 of them, `5 twelfths` are 5/12."""
    first, _, rest = unit.partition(" ")
    scale = SCALES.get(first.lower())
    part = 10_000 if unit.lower() in BASIS_POINTS else PARTS.get(unit.lower())
    is_singular = part is not None and not unit.endswith("s") and node != tree.ONE
    if part is not None and not is_singular:
        return _multiplied(node, fmpq(1, part))
    words = unit if scale is None else rest
    if words and words not in ORDINALS and not says_what(words):
        raise UnreadableError(f"the words {words!r} may make another number of it")
    value = node if scale is None else _multiplied(node, fmpq(scale))
    return tree.Quantity(value, words) if words else value


def _multiplied(node: tree.Node, factor: fmpq) -> tree.Node:
    """The product with a number, written out where the node is a number."""
    if isinstance(node, tree.Number):
        value = node.value * factor
        return tree.Number(value, node.decimal and value.q != 1)
    return tree.Product((node, tree.Number(factor)))


def _is_proper(top: tree.Node, bottom: tree.Node) -> bool:
    if not (isinstance(top, tree.Number) and isinstance(bottom, tree.Number)):
        return False
    return not top.decimal and not bottom.decimal and fmpq(0) < top.value < bottom.value


def letter(name: str) -> tree.Node:
    return tree.Constant(name) if name in ("e", "i") else tree.Symbol(name)


def _parts(node: tree.Node) -> tuple[tree.Node, ...]:
    return node.items if isinstance(node, tree.Listing) and node.kind == "bare" else (node,)


def _called(name: str, arguments: tuple[tree.Node, ...], base: tree.Node | None) -> tree.Node:
    is_logarithm = name in ("ln", "log", "lg")
    if base is not None and not is_logarithm:
        raise UnreadableError(f"{name} takes no subscript")
    if name in ("max", "min", "gcd", "lcm") or (
        name == "log" and base is None and len(arguments) == 2
    ):
        return tree.Apply(name, arguments)
    if len(arguments) != 1:
        raise UnreadableError(f"{name} takes one argument, not {len(arguments)}")
    if is_logarithm:
        default = tree.Constant("e") if name == "ln" else tree.Number(fmpq(10))
        return tree.Apply("log", (arguments[0], base or default))
    return (
        tree.Power(tree.Constant("e"), arguments[0])
        if name == "exp"
        else tree.Apply(name, arguments)
    )


_PRIMARIES: Final[dict[str, Callable[[Grammar, str], tree.Node]]] = {
    "number": Grammar.numeral,
    "word": Grammar.word,
    "text": Grammar.words,
    "command": Grammar.command,
}
_COMMANDS: Final[dict[str, Callable[[Grammar], tree.Node]]] = {
    r"\frac": lambda grammar: _quotient(grammar.digit_or_group(), grammar.digit_or_group()),
    **dict.fromkeys(
        (r"\binom", r"\dbinom", r"\tbinom"),
        lambda grammar: tree.Apply(
            "binomial", (grammar.digit_or_group(), grammar.digit_or_group())
        ),
    ),
    r"\sqrt": Grammar.root,
    r"\surd": Grammar.surd,
    r"\angle": lambda grammar: tree.Symbol(f"angle {grammar.angle_name()}"),
    r"\{": Grammar.braces,
    r"\lbrace": Grammar.braces,
    r"\langle": Grammar.angles,
    r"\mathbb": Grammar.blackboard,
    r"\operatorname": lambda grammar: grammar.named(grammar.label()),
    r"\begin": Grammar.environment,
    r"\sum": lambda grammar: grammar.written_out(tree.Sum),
    r"\prod": lambda grammar: grammar.written_out(tree.Product),
    r"\int": Grammar.integral,
}
