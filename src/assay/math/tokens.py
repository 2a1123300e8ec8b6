"""Tokens: a text of mathematics cut into numbers, words, commands and signs in one pass."""

import re
from typing import Final, Literal, NamedTuple

Kind = Literal["number", "word", "command", "text", "sign", "end"]


class Token(NamedTuple):
    kind: Kind
    value: str
    place: int
    """Where it starts, for error messages."""
    spaced: bool
    """Whether a space stands before it."""


class UnreadableError(ValueError):
    """The text is not in the grammar; `args[0]` says what and where."""


_TOKEN: Final = re.compile(
    r"(?P<space>\s+)"
    r"|(?P<number>(?:[1-9]\d{0,2}(?:,\d{3})+(?![\d])|[1-9]\d{0,2}(?: \d{3})+(?![\d,])|\d+)(?:\.\d+|\.(?=\\overline|\s*\\overline))?(?:[eE][-+]?\d+)?|\.\d+)"
    r"|\\(?:text|textbf|textit|textrm|textnormal|mbox|hbox|textsf|emph)\s*\{(?P<text>[^{}]*)\}"
    r"|(?P<command>\\(?:[a-zA-Z]+|.))"
    r"|(?P<word>[a-zA-Z]+)"
    r"|(?P<sign>\*\*|<=|>=|!=|==|\.\.\.|[-+*/^_=<>!%(){}\[\]|,;:'&])",
    re.DOTALL | re.ASCII,
)
_SEPARATE_COMMAS: Final = re.compile(
    _TOKEN.pattern.replace(r"[1-9]\d{0,2}(?:,\d{3})+(?![\d])|", "", 1), re.DOTALL | re.ASCII
)
_DROPPED: Final = frozenset({r"\$", r"\mathstrut", r"\relax"})


def tokens_of(text: str, *, grouped: bool = True) -> list[Token]:
    """The tokens of a text, with one `end` behind them. `grouped`: `1,234` is one number.

    >>> [token.value for token in tokens_of(r"2\\pi x")]
    ['2', '\\\\pi', 'x', '']
    """
    tokens: list[Token] = []
    place, spaced = 0, False
    match_at = (_TOKEN if grouped else _SEPARATE_COMMAS).match
    while place < len(text):
        match = match_at(text, place)
        if match is None:
            raise UnreadableError(f"{text[place]!r} at {place} is no mathematics")
        kind: str = match.lastgroup or "space"
        value = match[kind]
        if kind == "space" or value in _DROPPED:
            spaced = True
        else:
            tokens.append(Token(kind, value, place, spaced))  # pyright: ignore[reportArgumentType]
            spaced = False
        place = match.end()
    tokens.append(Token("end", "", place, spaced))
    return tokens
