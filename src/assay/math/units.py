"""Read units of measure: what a quantity is measured in, as powers of base units and an exact factor."""

import re
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from math import prod
from typing import Final, NamedTuple

from assay.math.words import GENERIC, UNIT_TABLES, is_label, words_of

_WORDS_OF_SHAPE: Final = {"square": 2, "squared": 2, "sq": 2, "cubic": 3, "cubed": 3, "cu": 3}
_PIECE: Final = re.compile(r"[a-zA-Z¢]+|\^\{?-?\d+\}?|[/·*]|\\cdot")
# Units that may as well be two letters side by side.
_NO_UNITS_IN_LETTERS: Final = frozenset({"mg", "ms", "gm", "mV", "mA", "in", "mi", "am", "pm"})
SHAPES: Final[dict[str, str]] = UNIT_TABLES["chinese_shapes"]
CHINESE: Final[dict[str, str]] = UNIT_TABLES["chinese"] | dict.fromkeys(
    UNIT_TABLES["chinese_counters"], "units"
)


class Unit(NamedTuple):
    """Powers of dimensions, sorted, and the factor to the base unit of each."""

    dimensions: tuple[tuple[str, int], ...]
    factor: Fraction


def _read_table() -> Iterator[tuple[str, tuple[str, Fraction]]]:
    for line in UNIT_TABLES["rows"]:
        dimension, _, entries = line.partition(" ")
        for entry in entries.split("|"):
            name, factor, *others = entry.split()
            # A factor of 0 marks a unit that is never converted.
            unit = (name, Fraction(1)) if factor == "0" else (dimension, Fraction(factor))
            yield from ((word, unit) for word in (name, *others))


UNITS: Final = dict(_read_table())
_GENERIC: Final = {word.rstrip("s") for word in GENERIC}


def _named(word: str) -> tuple[str, Fraction] | None:
    """The unit of this name; one of two letters in capitals alone (`CM`) is the one in small letters."""
    return UNITS.get(word) or (UNITS.get(word.lower()) if len(word) > 2 or word.isupper() else None)


def is_unit(word: str) -> bool:
    """Whether a word, standing behind a number, is surely a unit: `cm`, `hours`, but not `m`, nor `mg`."""
    return len(word) > 1 and _named(word) is not None and word not in _NO_UNITS_IN_LETTERS


def is_generic(text: str) -> bool:
    """Whether words behind a number name no unit and no thing: `units`, `square units`, `in total`."""
    return GENERIC.issuperset(words_of(text))


def count_other_things(one: str, two: str) -> bool:
    """Whether the words behind two numbers name things, and none in common: `apples` and `oranges`, but not `red apples`."""
    first, second = (
        {word.rstrip("s") for word in words_of(text)} - _GENERIC for text in (one, two)
    )
    return bool(first and second) and first.isdisjoint(second)


def says_what(text: str) -> bool:
    """Whether words behind a number are its unit, or say what it counts; if not, they may change the number."""
    return unit_of(text) is not None or is_label(text)


@lru_cache(maxsize=4096)
def unit_of(text: str) -> Unit | None:
    """The unit a text names, or None for words that are no known unit."""
    found: list[tuple[tuple[str, Fraction], int]] = []  # units with their powers
    sign, pending = 1, 1
    text = text.replace(" per ", "/").replace(".", "").replace("mph", "mi/h").replace("kph", "km/h")
    if _PIECE.sub("", text).strip(" {}()-"):
        return None
    for piece in _PIECE.findall(text):
        if piece[0] == "^" and found and len(piece) < 6:
            found.append((found[-1][0], sign * (int(piece.strip("^{}")) - 1)))
        elif piece == "/":
            sign = -1
        elif piece.lower() in _WORDS_OF_SHAPE:
            shape = _WORDS_OF_SHAPE[piece.lower()]
            if piece.lower().endswith("d") and found:
                found.append((found[-1][0], sign * (shape - 1)))
            else:
                pending = shape
        elif piece.isalpha() or piece == "¢":
            unit = _named(piece)
            if unit is None:
                return None
            found.append((unit, sign * pending))
            pending = 1
    powers: Counter[str] = Counter()
    for (dimension, _), power in found:
        powers[dimension] += power
    dimensions = tuple(sorted((name, power) for name, power in powers.items() if power))
    return (
        Unit(dimensions, prod((factor**power for (_, factor), power in found), start=Fraction(1)))
        if found
        else None
    )
