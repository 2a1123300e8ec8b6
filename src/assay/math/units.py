"""Read units of measure: powers of base units and an exact factor."""

import re
from collections import Counter
from fractions import Fraction
from functools import lru_cache
from typing import Final, NamedTuple

from assay.math.words import GENERIC, UNIT_TABLES, is_label, list_words

SHAPES: Final[dict[str, str]] = UNIT_TABLES["chinese_shapes"]
CHINESE: Final[dict[str, str]] = UNIT_TABLES["chinese"] | dict.fromkeys(
    UNIT_TABLES["chinese_counters"], "units"
)

_SHAPE_POWERS: Final = {"square": 2, "squared": 2, "sq": 2, "cubic": 3, "cubed": 3, "cu": 3}
_PIECE: Final = re.compile(r"[a-zA-Z¢]+|\^\{?-?\d+\}?|[/·*]|\\cdot")
_DEGREES_OF_TEMPERATURE: Final = re.compile(r"(?i)\bdegrees? (?=celsius|fahrenheit|[cf]\b)")
_MAX_EXPONENT_LENGTH: Final = 5  # characters of `^` and the exponent
# Units whose letters may as well be a product of two variables.
_AMBIGUOUS_UNITS: Final = frozenset({"mg", "ms", "gm", "mV", "mA", "in", "mi", "am", "pm"})


class Unit(NamedTuple):
    """A unit as powers of dimensions, and its size in the base units of these dimensions."""

    dimensions: tuple[tuple[str, int], ...]  # names with their powers, sorted
    factor: Fraction


class _NamedUnit(NamedTuple):
    """A unit with a name of its own, such as `km`."""

    dimension: str
    factor: Fraction  # its size in the base unit of its dimension


def _read_units() -> dict[str, _NamedUnit]:
    """Return the units of `tables.toml` by each of their names."""
    units: dict[str, _NamedUnit] = {}
    for line in UNIT_TABLES["rows"]:
        dimension, _, entries = line.partition(" ")
        for entry in entries.split("|"):
            name, factor, *other_names = entry.split()
            if factor == "0":
                # The unit is never converted: it is a dimension by itself.
                unit = _NamedUnit(name, Fraction(1))
            else:
                unit = _NamedUnit(dimension, Fraction(factor))
            for spelling in (name, *other_names):
                units[spelling] = unit
    return units


_UNITS: Final = _read_units()
_GENERIC_SINGULARS: Final = frozenset(word.rstrip("s") for word in GENERIC)


def _find_unit(word: str) -> _NamedUnit | None:
    """Return the unit with this name, or None.

    Capitals are ignored in long names and where all letters are capitals (`CM`), but not in short
    names of mixed case.
    """
    unit = _UNITS.get(word)
    if unit is None and (len(word) > 2 or word.isupper()):
        unit = _UNITS.get(word.lower())
    return unit


def is_unit(word: str) -> bool:
    """Return True if a word behind a number is certainly a unit: `cm`, `hours`, but not `m` or `mg`."""
    return len(word) > 1 and word not in _AMBIGUOUS_UNITS and _find_unit(word) is not None


def is_generic(text: str) -> bool:
    """Return True if words behind a number name neither a unit nor a thing: `units`, `in total`."""
    return GENERIC.issuperset(list_words(text))


def name_different_things(first: str, second: str) -> bool:
    """Return True if the words behind two numbers certainly name different things.

    `apples` and `oranges` do, `apples` and `red apples` do not.
    """
    first_things = _read_things(first)
    second_things = _read_things(second)
    if not first_things or not second_things:
        return False
    return first_things.isdisjoint(second_things)


def _read_things(text: str) -> set[str]:
    """Return the words that name things, in the singular."""
    return {word.rstrip("s") for word in list_words(text)} - _GENERIC_SINGULARS


def is_unit_or_label(text: str) -> bool:
    """Return True if words behind a number are its unit, or say what it counts.

    Other words may change the number.
    """
    return parse_unit(text) is not None or is_label(text)


@lru_cache(maxsize=4096)
def parse_unit(text: str) -> Unit | None:
    """Return the unit that a text names, or None if it is not a known unit."""
    text = text.replace(" per ", "/").replace(".", "").replace("mph", "mi/h").replace("kph", "km/h")
    text = _DEGREES_OF_TEMPERATURE.sub("", text)
    other_text = _PIECE.sub("", text).strip(" {}()-")
    if other_text:
        return None
    powers = _read_unit_powers(_PIECE.findall(text))
    if not powers:
        return None
    dimension_powers: Counter[str] = Counter()
    factor = Fraction(1)
    for unit, power in powers:
        dimension_powers[unit.dimension] += power
        factor *= unit.factor**power
    dimensions = [(name, power) for name, power in dimension_powers.items() if power != 0]
    return Unit(tuple(sorted(dimensions)), factor)


def _read_unit_powers(pieces: list[str]) -> list[tuple[_NamedUnit, int]] | None:
    """Return the units in a text with their powers, or None if a word is not a unit.

    `pieces` are the words, exponents and fraction bars of the text. A unit occurs twice in the
    result if an exponent or a word such as `squared` follows it: `m^3` is m and m².
    """
    powers: list[tuple[_NamedUnit, int]] = []
    sign = 1  # -1 below a fraction bar
    next_power = 1  # of the next unit: 2 after `square`
    for piece in pieces:
        word = piece.lower()
        if piece.startswith("^") and powers and len(piece) <= _MAX_EXPONENT_LENGTH:
            # The unit was counted once already.
            last_unit, _ = powers[-1]
            exponent = int(piece.strip("^{}"))
            powers.append((last_unit, sign * (exponent - 1)))
        elif piece == "/":
            sign = -1
        elif word in ("squared", "cubed") and powers:
            last_unit, _ = powers[-1]
            powers.append((last_unit, sign * (_SHAPE_POWERS[word] - 1)))
        elif word in _SHAPE_POWERS:
            next_power = _SHAPE_POWERS[word]
        elif piece.isalpha() or piece == "¢":
            unit = _find_unit(piece)
            if unit is None:
                return None
            powers.append((unit, sign * next_power))
            next_power = 1
    return powers
