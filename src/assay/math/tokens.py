"""Split the text of a formula into tokens, and read the numbers in it."""

import re
from typing import Final, Literal, NamedTuple

from flint import fmpq

from assay.math import tree

MAX_DIGITS: Final = 3000


class UnreadableError(ValueError):
    """The text is not in the grammar. The message says what is not, and where."""


class MathToken(NamedTuple):
    kind: Literal["number", "word", "command", "text", "sign", "end"]
    value: str
    start: int  # its position in the text, for error messages
    has_space_before: bool


def _compile_tokens(*, has_comma_groups: bool) -> re.Pattern[str]:
    """Return a pattern that matches one token.

    `has_comma_groups` says whether `1,234` is one number.
    """
    whole_numbers = [r"[1-9]\d{0,2}(?: \d{3})+(?![\d,])", r"\d+"]
    if has_comma_groups:
        whole_numbers.insert(0, r"[1-9]\d{0,2}(?:,\d{3})+(?![\d])")
    # A point may stand before a bar over recurring digits, as in `0.\overline{3}`.
    decimals = r"\.\d+|\.(?=\s*\\(?:overline|bar|dot)(?![a-zA-Z]))"
    exponent = r"[eE][-+]?\d+"
    number = rf"(?:{'|'.join(whole_numbers)})(?:{decimals})?(?:{exponent})?|\.\d+"
    text_command = r"\\(?:text|textbf|textit|textrm|textnormal|mbox|hbox|textsf|emph)"
    # The name of the group that matches is the kind of the token.
    return re.compile(
        r"(?P<space>\s+)"
        rf"|(?P<number>{number})"
        rf"|{text_command}\s*\{{(?P<text>[^{{}}]*)\}}"
        r"|(?P<command>\\(?:[a-zA-Z]+|.))"
        r"|(?P<word>[a-zA-Z]+)"
        r"|(?P<sign>\*\*|<=|>=|!=|==|\.\.\.|[-+*/^_=<>!%(){}\[\]|,;:'&])",
        re.DOTALL | re.ASCII,
    )


_TOKEN: Final = _compile_tokens(has_comma_groups=True)
_TOKEN_IN_BRACKETS: Final = _compile_tokens(has_comma_groups=False)
_OPENING_BRACKETS: Final = frozenset({"(", "[", r"\{", r"\lbrace", r"\langle"})
_CLOSING_BRACKETS: Final = frozenset({")", "]", r"\}", r"\rbrace", r"\rangle"})
_IGNORED_COMMANDS: Final = frozenset({r"\$", r"\mathstrut", r"\relax"})


def tokenize(text: str, *, grouped: bool = True) -> list[MathToken]:
    """Split a text into tokens, with a token of the kind `end` at the end.

    If `grouped`, `1,234` is one number outside of brackets. In brackets it is always two.
    """
    tokens: list[MathToken] = []
    position = 0
    depth = 0  # of brackets
    has_space_before = False
    while position < len(text):
        pattern = _TOKEN if grouped and depth == 0 else _TOKEN_IN_BRACKETS
        match = pattern.match(text, position)
        if match is None:
            raise UnreadableError(f"{text[position]!r} at {position} is not mathematics")
        kind = match.lastgroup or "space"
        value = match[kind]
        end = match.end()
        is_script = bool(tokens) and tokens[-1].value in ("^", "_")
        if kind == "number" and " " in value and is_script:
            # In `\log_2 100` the digits behind the space are the next number.
            value = value.partition(" ")[0]
            end = position + len(value)
        if kind == "space" or value in _IGNORED_COMMANDS:
            has_space_before = True
        else:
            if value in _OPENING_BRACKETS:
                depth += 1
            elif value in _CLOSING_BRACKETS:
                depth = max(0, depth - 1)
            token = MathToken(kind, value, position, has_space_before)  # pyright: ignore[reportArgumentType]
            tokens.append(token)
            has_space_before = False
        position = end
    tokens.append(MathToken("end", "", position, has_space_before))
    return tokens


class TokenReader:
    """Reads tokens one after the other."""

    def __init__(self, tokens: list[MathToken]) -> None:
        self.tokens = tokens
        self.position = 0

    @property
    def token(self) -> MathToken:
        """The next token to read."""
        return self.tokens[self.position]

    @property
    def previous(self) -> MathToken:
        """The last token that was read."""
        return self.tokens[self.position - 1]

    def peek(self, distance: int) -> MathToken:
        """Return the token at this distance behind the next one."""
        return self.tokens[min(self.position + distance, len(self.tokens) - 1)]

    def advance(self) -> MathToken:
        """Read one token. Raises `UnreadableError` at the end."""
        token = self.token
        if token.kind == "end":
            raise self.unexpected_token()
        self.position += 1
        return token

    def take(self, value: str) -> bool:
        """Read one token if it is this sign or command, and return whether it is."""
        if self.token.value != value or self.token.kind == "text":
            return False
        self.position += 1
        return True

    def take_sequence(self, *values: str) -> bool:
        """Read several tokens if they have these values, and return whether they do."""
        for distance, value in enumerate(values):
            if self.peek(distance).value != value:
                return False
        self.position += len(values)
        return True

    def expect(self, *values: str) -> None:
        """Read these signs. Raises `UnreadableError` if one is missing."""
        for value in values:
            if not self.take(value):
                raise UnreadableError(f"{value!r} is missing at {self.token.start}")

    def take_first_character(self) -> str:
        """Read only the first character of the next token."""
        token = self.token
        self.tokens[self.position] = MathToken(
            token.kind, token.value[1:], token.start + 1, has_space_before=False
        )
        return token.value[0]

    def unexpected_token(self, token: MathToken | None = None) -> UnreadableError:
        """Return the error that this token, or the next one, is not understood."""
        if token is None:
            token = self.token
        if token.kind == "end":
            return UnreadableError("it ends too early")
        return UnreadableError(f"{token.value!r} at {token.start} is not understood")


# Numbers.

_REPEATING_END: Final = re.compile(r"(\d*?)(\d+?)\2+\Z")
_MAX_PERIOD_SEARCH: Final = 60  # digits at the end of a decimal that are searched for a period
_MAX_EXPONENT_DIGITS: Final = 6


def parse_number(text: str) -> tree.Number:
    """Parse a decimal, which may have groups of digits and an exponent."""
    if len(text) > MAX_DIGITS:
        raise UnreadableError(f"a number of {len(text)} digits is too long")
    plain_text = text.lower().replace(",", "").replace(" ", "")
    mantissa, _, exponent = plain_text.partition("e")
    whole, point, decimals = mantissa.partition(".")
    too_long = UnreadableError(f"the number {text} is too long to write out")
    if len(exponent) > _MAX_EXPONENT_DIGITS:
        raise too_long
    power = int(exponent or 0) - len(decimals)
    if abs(power) > MAX_DIGITS:
        raise too_long
    digits = int(whole + decimals or "0")
    value = fmpq(digits * 10**power) if power >= 0 else fmpq(digits, 10**-power)
    return tree.Number(value, decimal=bool(point or exponent))


def compute_repeating_decimal(whole: str, decimals: str, period: str) -> fmpq:
    """Return the value of a decimal of which the last digits repeat for ever."""
    if len(decimals) + len(period) > MAX_DIGITS:
        raise UnreadableError("a recurring decimal is too long")
    shift = 10 ** len(decimals)
    nines = 10 ** len(period) - 1
    return fmpq(int((whole or "0") + decimals), shift) + fmpq(int(period), shift * nines)


def parse_decimal_with_ellipsis(text: str) -> tree.Number:
    """Return the value of a decimal before an ellipsis, such as `0.1666`, whose last digits repeat.

    They must have begun to repeat: a period at least twice, and at least three digits. Raises
    `UnreadableError` if they have not.
    """
    whole, _, decimals = text.partition(".")
    end = decimals[-_MAX_PERIOD_SEARCH:]
    match = _REPEATING_END.match(end)  # digits that do not repeat, and then a period
    error = UnreadableError(f"{text}… has no digits that repeat")
    if match is None:
        raise error
    start, period = match.groups()
    repeated_length = len(end) - len(start)
    if repeated_length < max(3, 2 * len(period)):
        raise error
    decimals_before_period = decimals[: len(decimals) - len(end)] + start
    return tree.Number(compute_repeating_decimal(whole, decimals_before_period, period))
