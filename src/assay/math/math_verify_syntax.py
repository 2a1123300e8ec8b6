"""Decide which texts math-verify is known to parse correctly: sums, integrals, limits and formulas."""

import re
from typing import Final

from assay.math import words
from assay.math.tokens import MathToken, UnreadableError, tokenize
from assay.math.words import FUNCTIONS, GREEK

_KNOWN_COMMANDS: Final = {
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
    *(f"\\{name}" for name in FUNCTIONS.keys() | GREEK if name not in ("partial", "nabla")),
}
_KNOWN_SIGNS: Final = frozenset("+-*/^_(){}[]|!")
_KNOWN: Final = (
    _KNOWN_COMMANDS | _KNOWN_SIGNS | set(words.notations("times")) | set(words.notations("divided"))
)
# The `=` or `\to` of a bound, such as `\sum_{k=`, behind what stands before it.
_BOUND: Final = re.compile(
    r"(\\(?:sum|prod)\s*_\s*\{\s*[a-zA-Z]\s*)="
    r"|(\\lim\s*_\s*\{\s*[a-zA-Z]\s*)\\(?:to|rightarrow)(?![a-zA-Z])"
)
_OPERATOR: Final = re.compile(
    r"\\frac\s*\{\s*d\s*\}\s*\{\s*d\s*[a-zA-Z]\s*\}|\\(?:int|sum|prod|lim)(?![a-zA-Z])"
)
_DERIVATIVE: Final = re.compile(r"\bd\s*[a-zA-Z]?\s*(?:/|\}\s*\{)\s*d\s*[a-zA-Z]")
_ENGLISH_WORDS: Final = words.NO_LABELS | words.LEADS
_MAX_WORD_LENGTH: Final = 3  # longer words are not products of letters


def is_expression(text: str, *, is_read: bool) -> bool:
    r"""Return True if a text is one expression of operators that math-verify is known to read.

    Of any other text it may read only a part, and then its verdict is about that part: `\neq 7` is
    7 to it. `is_read` says whether our own grammar could read the text. A text that it could not
    read counts only if it has an operator that the grammar does not know, such as a limit.
    """
    if not is_read and _OPERATOR.search(text) is None:
        return False
    text = _BOUND.sub(lambda match: match[1] or match[2], text)
    text = _OPERATOR.sub(" ", text)
    if _DERIVATIVE.search(text) or "!!" in text:
        return False
    try:
        *tokens, _ = tokenize(text)
    except UnreadableError:
        return False
    return bool(tokens) and all(_is_known(token) for token in tokens)


def _is_known(token: MathToken) -> bool:
    """Return True if math-verify is known to read a token as our grammar does."""
    match token.kind:
        case "text":
            return False
        case "command" | "sign":
            return token.value in _KNOWN
        case "word":
            # A long word may be the name of a function without its backslash, which math-verify
            # leaves out. A short one such as `of` is read as a product of letters.
            return len(token.value) <= _MAX_WORD_LENGTH and token.value not in _ENGLISH_WORDS
        case _:
            return True
