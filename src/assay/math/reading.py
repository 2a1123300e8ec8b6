"""Reading: an answer's text as a tree, with the other readings it allows."""

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

from flint import fmpq

from assay.math.grammar import parsed
from assay.math.text import DEEPEST, LONGEST, depth_of, unwrapped, without_markup
from assay.math.tokens import UnreadableError
from assay.math.tree import Node, Number, Quantity, Words
from assay.math.units import AMBIGUOUS
from assay.math.words import FUNCTIONS, GREEK, PHRASES, SPELLED

_LEADING: Final = re.compile(
    r"(?:(?:the|final|answer|answers|is|are|equals|approximately|about|around|roughly|exactly|value|total"
    r"|result|solution|solutions|therefore|thus|so|hence|it|we|get|have|equal|to|will|be|would|of)\b\s*:?\s*"
    r"|\\(?:therefore|approx|Rightarrow|implies|sim|because)(?![a-zA-Z])\s*|[~≈:=]\s*)+",
    re.IGNORECASE,
)
_TRAILING: Final = re.compile(
    r"(?<=[\d)}\]%\s])\s*((?:[a-zA-Z][a-zA-Z'-]{2,}\.?)(?:[\s,]+[a-zA-Z][a-zA-Z'-]*\.?){0,11})$"
)
_LETTER_UNIT: Final = re.compile(
    r"(?<=[\d})\s])\s*([a-zA-Z]+(?:\s*/\s*[a-zA-Z]+)?(?:\^\{?-?\d\}?)?)$"
)
_TIMES_TEN: Final = re.compile(r"(\d)\s*[xX]\s*10(?=\s*\^)")
_LIBRARY: Final = re.compile(r"\b(?:np|numpy|math|sp|sympy)\.(?=[a-z])")
_SENTENCE: Final = re.compile(r"(?<![\\a-zA-Z])[a-zA-Z]{2,}\s*$")
_STRAY_POINT: Final = re.compile(r"(?<=[\d}])\.(?=\s*[\])])")
_ORDINAL: Final = re.compile(r"(?<=\d)(?:st|nd|rd|th)(?![a-zA-Z])")
_ENUMERATED: Final = re.compile(r"[,;]?\s*(?<![a-zA-Z\d])\([a-e]\)\s*")
_CONDITION: Final = re.compile(
    r",?\s*(?:\\text\s*\{\s*(?:,?\s*(?:for|where)\s+(?:all|any|every|some|each)\b[^{}]*)\}|\bfor (?:all|any|every|some)\b).*$"
)
_CLOCK: Final = re.compile(r"\d{1,2}:(?:0\d|\d\d\s*[aApP]\.?\s*[mM]\.?)(?:\s*[aApP]\.?\s*[mM]\.?)?")
_WORDS_ONLY: Final = re.compile(r"[a-zA-Z][a-zA-Z\s,.'\"!?;:-]*")
_TEXT: Final = re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mbox)\s*\{([^{}]*)\}")
_NO_LABELS: Final = frozenset(
    [
        "not",
        "no",
        "never",
        "neither",
        "nor",
        "except",
        "without",
        "cannot",
        "is",
        "are",
        "was",
        "which",
        "that",
        "because",
        "since",
        "has",
        "have",
    ]
)
_CONNECTIVES: Final = frozenset(
    ["and", "or", "if", "for", "where", "mod", "over", "times", "plus", "minus"]
)


@dataclass(frozen=True)
class Reading:
    """What a text says. `tree` is None when it cannot be read, and `problem` says why."""

    text: str
    tree: Node | None
    problem: str = ""
    is_too_large: bool = False
    is_ambiguous: bool = False

    @cached_property
    def others(self) -> tuple[Node, ...]:
        """Trees of other readings: a letter as a unit, `1/2x` as half of x, commas between all numbers."""
        found: list[Node] = []
        if self.is_ambiguous:
            found += _attempt(self.text, loose=True)
        if re.search(r"\d,\d{3}", self.text):
            found += _attempt(self.text, grouped=False)
        if re.fullmatch(r"-?\d+,\d+", self.text):
            found += _attempt(self.text.replace(",", "."))
        unit = _LETTER_UNIT.search(self.text)
        if unit and all(
            piece in AMBIGUOUS or len(piece) > 1 for piece in re.findall("[a-zA-Z]+", unit[1])
        ):
            found += _attempt(f"{self.text[: unit.start()]}\\text{{{unit[1]}}}")
        return tuple(tree for tree in found if tree != self.tree)


def _attempt(text: str, *, loose: bool = False, grouped: bool = True) -> list[Node]:
    try:
        return [parsed(text, loose=loose, grouped=grouped)[0]]
    except UnreadableError:
        return []


@lru_cache(maxsize=16384)
def read(answer: str) -> Reading:
    r"""The reading of an answer; golds are read once, however often they are compared.

    >>> read(r"\boxed{5\text{ cm}}").tree
    Quantity(value=Number(value=5, decimal=False), unit='cm')
    """
    if len(answer) > LONGEST:
        return Reading(answer[:LONGEST], None, f"{len(answer)} characters are no answer", True)
    text = _mended(without_markup(unwrapped(answer)))
    if not text:
        return Reading("", None, "it is empty")
    if depth_of(text) > DEEPEST:
        return Reading(text, None, f"brackets nest more than {DEEPEST} deep", True)
    if _CLOCK.fullmatch(text):
        return Reading(text, Words(re.sub(r"[\s.]", "", text.casefold())))
    words = _as_words(text)
    if words is not None:
        return Reading(text, words)
    text = _with_words_marked(text)
    try:
        tree, is_ambiguous = parsed(text)
    except UnreadableError as error:
        return Reading(text, None, str(error))
    return Reading(text, tree, is_ambiguous=is_ambiguous)


def _mended(text: str) -> str:
    """The text without slips of typing that change nothing: doubled backslashes, `√2.]`, `15th`."""
    text = _LIBRARY.sub("", text.replace("{,}", ",").strip())
    if "\\\\" in text and "matrix" not in text and "array" not in text:
        text = re.sub(r"\\\\(?=[a-zA-Z])", r"\\", text)
    text = _STRAY_POINT.sub("", text)
    text = _ORDINAL.sub("", text)
    text = _ENUMERATED.sub(r", ", text).lstrip(", ") if _ENUMERATED.match(text) else text
    return _CONDITION.sub("", text).strip()


def _as_words(text: str) -> Node | None:
    """What a text of words alone stands for: a set, a number, or itself."""
    plain = _TEXT.sub(lambda match: match[1], text)
    if not _WORDS_ONLY.fullmatch(plain):
        return None
    folded = " ".join(plain.casefold().split()).strip(" .,;:!?\"'")
    if folded in PHRASES:
        return PHRASES[folded]
    if folded in ("yes", "no", "true", "false"):
        return Words(folded)
    if folded in SPELLED:
        return Number(fmpq(SPELLED[folded]))
    first, _, rest = folded.partition(" ")
    if first in SPELLED and rest and not set(rest.split()) & (_NO_LABELS | _CONNECTIVES):
        return Quantity(Number(fmpq(SPELLED[first])), rest)
    words = re.findall("[a-z]+", folded)
    if plain != text or any(len(word) > 3 and not _is_mathematics(word) for word in words):
        return Words(folded)
    return None


def _is_mathematics(word: str) -> bool:
    return word in FUNCTIONS or word in GREEK or word in ("sqrt", "cbrt", "infty", "infinity")


def _with_words_marked(text: str) -> str:
    """The text without "the answer is" before it, and with the words behind it marked as text."""
    text = _TIMES_TEN.sub(r"\1\\times 10", text)
    leading = _LEADING.match(text)
    if leading and leading.end() < len(text):
        text = text[leading.end() :]
    trailing = _TRAILING.search(text)
    if trailing and _are_words(trailing[1]) and not _SENTENCE.search(text[: trailing.start()]):
        text = f"{text[: trailing.start()]}\\text{{{trailing[1]}}}"
    return text


def _are_words(text: str) -> bool:
    words = re.findall("[a-zA-Z'-]+", text)
    if any(word.lower() in _NO_LABELS | _CONNECTIVES or _is_mathematics(word) for word in words):
        return False
    return any(len(word) > 3 for word in words)
