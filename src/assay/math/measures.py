"""Values as they are measured: mixed numbers, units behind a value, degrees, percent."""

from typing import Final

from flint import fmpq

from assay.math.commands import Commands
from assay.math.numerals import literal
from assay.math.tokens import Token
from assay.math.tree import Node, Number, Quantity, Quotient, Sum
from assay.math.units import is_unit

CONNECTIVES: Final = {
    "and": "and", "or": "or", ", and": "and", ", or": "or", ",": ",", "and/or": "or",
    r"\lor": "or", r"\land": "and", r"\vee": "or", r"\wedge": "and",
}  # fmt: skip
NO_FACTORS: Final = frozenset({"and", "or", "if", "for", "where", "mod"})
_NO_UNITS: Final = (
    NO_FACTORS
    | CONNECTIVES.keys()
    | {"percent", "percentage", "pct", "%", "with", "when", "such that"}
)


class Measures(Commands):
    """What may stand behind a number and belongs to it."""

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
                return Quantity(node, " ".join(" ".join(parts).split()).replace(" ^", "^"))

    def starts_unit(self) -> bool:
        """Whether a unit stands here: any text, or the name of a unit right behind a number."""
        token = self.token
        if token.kind == "text":
            return token.value.strip().lower() not in _NO_UNITS
        follows = self.before.kind in ("number", "text") or self.before.value in ("}", ")", "/")
        return (
            token.kind == "word"
            and follows
            and self.position > 0
            and is_unit_here(token.value, self.peek(1))
        )

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
        return text.strip().lower() in ("percent", "percentage", "pct", "%")


def is_unit_here(word: str, following: Token) -> bool:
    """Whether letters behind a number are a unit, as they stand at the end of a value: `5 cm`, `3 min`."""
    if word in ("st", "nd", "rd", "th"):
        return True
    if not is_unit(word) or word in ("mg", "ms", "gm", "mV", "mA", "in", "mi"):
        return False
    return following.kind in ("end", "text", "word") or following.value in (
        ",",
        ";",
        ")",
        "]",
        "/",
        "^",
        r"\}",
        "}",
    )


def _is_proper(top: Node, bottom: Node) -> bool:
    if not (isinstance(top, Number) and isinstance(bottom, Number)):
        return False
    return not top.decimal and not bottom.decimal and fmpq(0) < top.value < bottom.value
