"""Primaries: numbers, letters, brackets, functions and LaTeX commands, one token at a time."""

from abc import abstractmethod

from flint import fmpq

from assay.math.numerals import literal, recurring, repeating
from assay.math.tokens import Token, UnreadableError
from assay.math.tree import (
    Apply,
    Based,
    Constant,
    Grid,
    Listing,
    Node,
    Number,
    Range,
    Symbol,
    Words,
    negated,
)
from assay.math.words import CONSTANTS, FUNCTIONS, GREEK, letter


class Reader:
    """Tokens, read from left to right; the operators between primaries are the grammar's."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.position = 0
        self.in_bars: int = 0
        self.in_braces: int = 0

    @abstractmethod
    def answer(self) -> Node: ...

    @abstractmethod
    def statement(self) -> Node: ...

    @abstractmethod
    def sum(self) -> Node: ...

    @abstractmethod
    def product(self) -> Node: ...

    @abstractmethod
    def power(self) -> Node: ...

    @abstractmethod
    def starts_factor(self) -> bool: ...

    @property
    def token(self) -> Token:
        return self.tokens[self.position]

    @property
    def before(self) -> Token:
        return self.tokens[self.position - 1]

    def peek(self, ahead: int) -> Token:
        return self.tokens[min(self.position + ahead, len(self.tokens) - 1)]

    def advance(self) -> Token:
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

    def expect(self, value: str) -> None:
        if not self.take(value):
            raise UnreadableError(f"{value!r} is missing at {self.token.place}")

    def unexpected(self) -> UnreadableError:
        token = self.token
        if token.kind == "end":
            return UnreadableError("it ends too early")
        return UnreadableError(f"{token.value!r} at {token.place} is not understood")

    def primary(self) -> Node:
        token = self.advance()
        match token.kind:
            case "number":
                return self.numeral(token.value)
            case "word":
                return self.word(token.value)
            case "text":
                return self.words(token.value)
            case "command":
                return self.command(token.value)
            case _:
                return self.sign(token.value)

    def sign(self, value: str) -> Node:
        if value in "([":
            return self.bracket(value)
        if value == "{":
            node = self.answer()
            self.expect("}")
            return node
        if value == "|":
            return self.bars("|")
        if value == "-":
            return negated(self.power())
        self.position -= 1
        raise self.unexpected()

    def bars(self, end: str) -> Node:
        self.in_bars += 1
        node = self.sum()
        self.in_bars -= 1
        self.expect(end)
        return Apply("abs", (node,))

    def bracket(self, opening: str) -> Node:
        """A bracketed expression, a tuple, a list or an interval."""
        bars, braces, self.in_bars, self.in_braces = self.in_bars, self.in_braces, 0, 0
        inside = self.answer()
        self.in_bars, self.in_braces = bars, braces
        closing = self.advance().value
        closing = {r"\rbrack": "]", r"\rparen": ")"}.get(closing, closing)
        if closing not in (")", "]"):
            self.position -= 1
            raise self.unexpected()
        if not (isinstance(inside, Listing) and inside.kind == "bare"):
            if (opening, closing) == ("(", ")"):
                return inside
            if (opening, closing) == ("[", "]"):
                return inside if isinstance(inside, Grid) else Listing("square", (inside,))
            raise UnreadableError(f"the brackets {opening}…{closing} hold no interval")
        if len(inside.items) == 2 and (opening == "[") != (closing == "]"):
            return Range(*inside.items, opening == "(", closing == ")")
        if (opening == "(") != (closing == ")"):
            raise UnreadableError(
                f"the brackets {opening}…{closing} hold {len(inside.items)} parts"
            )
        return Listing("round" if opening == "(" else "square", inside.items)

    def numeral(self, value: str) -> Node:
        """A literal, with an ellipsis, a bar over recurring digits, or a base behind it."""
        if self.token.value in ("...", r"\ldots", r"\dots", r"\cdots") and "." in value:
            self.advance()
            return recurring(value)
        if self.token.value == r"\overline" and self.before.kind == "number":
            return self.overlined(value)
        if self.token.value == "_" and value.isdigit():
            mark = self.position
            self.advance()
            base = self.script()
            if isinstance(base, Number) and base.value.q == 1 and 1 < base.value.p <= 36:
                return Based(value, int(base.value.p))
            self.position = mark
        return literal(value)

    def overlined(self, value: str) -> Node:
        mark = self.position
        self.advance()
        digits = self.peek(1).value
        if not (self.token.value == "{" and digits.isdigit() and self.peek(2).value == "}"):
            self.position = mark
            return literal(value)
        self.position += 3
        whole, _, decimals = value.partition(".")
        return Number(repeating(whole, decimals, digits))

    def digit_or_group(self) -> Node:
        r"""The argument of a command: a group in braces, or the one sign that follows (`\frac12`)."""
        token = self.token
        if token.kind == "number" and len(token.value) > 1 and token.value.isdigit():
            self.tokens[self.position] = Token("number", token.value[1:], token.place + 1, False)
            return Number(fmpq(int(token.value[0])))
        if token.value == "{":
            self.advance()
            bars, braces, self.in_bars, self.in_braces = self.in_bars, self.in_braces, 0, 0
            node = self.answer()
            self.in_bars, self.in_braces = bars, braces
            self.expect("}")
            return node
        if token.kind == "word" and len(token.value) > 1 and token.value not in CONSTANTS:
            self.tokens[self.position] = Token("word", token.value[1:], token.place + 1, False)
            return letter(token.value[0])
        return self.primary()

    def script(self) -> Node:
        """What stands above or below: a group, a number with its sign, or one primary."""
        if self.token.value == "{":
            return self.digit_or_group()
        if self.take("-"):
            return negated(self.script())
        self.take("+")
        if self.token.kind == "word" and self.token.value not in FUNCTIONS:
            return self.digit_or_group()
        return self.primary()

    def word(self, value: str) -> Node:
        """A run of letters: a constant, a function, a Greek letter, or letters side by side."""
        if value in CONSTANTS:
            return CONSTANTS[value]
        if value in ("sqrt", "cbrt"):
            index = Number(fmpq(2 if value == "sqrt" else 3))
            return Apply("root", (self.digit_or_group(), index))
        if value in FUNCTIONS:
            return self.function(FUNCTIONS[value])
        if len(value) == 1:
            return self.subscripted(letter(value))
        if value in GREEK:
            return self.subscripted(Symbol(value))
        if len(value) > 3:
            if self.token.value in ("=", ":"):
                return Words(value.casefold())
            self.position -= 1
            raise UnreadableError(f"the word {value!r} at {self.token.place} is no mathematics")
        # The rest is read again: in `xy^2` only y is squared.
        self.position -= 1
        rest = self.token
        self.tokens[self.position] = Token("word", rest.value[1:], rest.place + 1, False)
        return letter(value[0])

    def words(self, value: str) -> Node:
        """What `\\text{…}` holds: a letter, or words."""
        text = " ".join(value.split())
        if len(text) == 1 and text.isalpha():
            return self.subscripted(letter(text))
        if text in FUNCTIONS:
            return self.function(FUNCTIONS[text])
        return Words(text.casefold())

    def subscripted(self, node: Node) -> Node:
        """A letter with its subscript and primes."""
        if not isinstance(node, Symbol | Constant):
            return node
        name = node.name
        applied = isinstance(node, Symbol)
        while True:
            if self.token.value == "_":
                self.advance()
                name = f"{name}_{self.label()}"
            elif self.token.value in ("'", r"\prime"):
                self.advance()
                name += "'"
            else:
                break
        if name == node.name:
            return self.applied(node) if applied and name in ("f", "g", "h") else node
        return Symbol(name)

    def applied(self, node: Symbol | Constant) -> Node:
        """`f(x)`: a function that nobody defined here."""
        if self.token.value != "(" or self.token.spaced:
            return node
        self.advance()
        inside = self.answer()
        self.expect(")")
        arguments = (
            inside.items if isinstance(inside, Listing) and inside.kind == "bare" else (inside,)
        )
        return Apply(f"{node.name}()", arguments)

    def label(self) -> str:
        """A subscript as written."""
        if not self.take("{"):
            token = self.advance()
            if token.kind == "word" and len(token.value) > 1:
                self.position -= 1
                self.tokens[self.position] = Token("word", token.value[1:], token.place + 1, False)
                return token.value[0]
            return token.value.strip()
        parts: list[str] = []
        while not self.take("}"):
            parts.append(self.advance().value.strip())
        return "".join(parts)

    @abstractmethod
    def function(self, name: str) -> Node: ...

    @abstractmethod
    def command(self, value: str) -> Node: ...
