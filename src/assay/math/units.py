"""Read units of measure: what a quantity is measured in, as powers of base units and an exact factor."""

import re
from collections import Counter
from functools import lru_cache
from typing import Final, NamedTuple

from flint import fmpq

_TABLE: Final = """
length      m 1 meter meters metre metres | km 1000 kilometer kilometers kilometre kilometres | cm 1/100 centimeter centimeters centimetre centimetres
length      mm 1/1000 millimeter millimeters | nm 1/1000000000 nanometer nanometers | ft 381/1250 foot feet | in 127/5000 inch inches
length      yd 1143/1250 yard yards | mi 201168/125 mile miles | dm 1/10 | um 1/1000000 micron microns
time        s 1 sec secs second seconds | min 60 mins minute minutes | h 3600 hr hrs hour hours | day 86400 days | week 604800 weeks | ms 1/1000 milliseconds
month       month 1 months | year 12 years yr yrs
mass        kg 1 kilogram kilograms kgs | g 1/1000 gram grams gm gms | mg 1/1000000 milligram milligrams | lb 45359237/100000000 lbs pound pounds
mass        oz 45359237/1600000000 ounce ounces | ton 1000 tons tonne tonnes
volume      L 1 liter liters litre litres l | mL 1/1000 ml milliliter milliliters | gal 473176473/125000000 gallon gallons
money       dollar 1 dollars usd | cent 1/100 cents ¢
angle       degree 1 degrees deg | rad 0 radian radians
energy      J 1 joule joules | kJ 1000 kilojoule kilojoules | eV 0 | MeV 0 | cal 523/125 calorie calories | kcal 4184
power       W 1 watt watts | kW 1000 kilowatt kilowatts | MW 1000000 | hp 0 horsepower
force       N 1 newton newtons | kN 1000
pressure    Pa 1 pascal pascals | kPa 1000 | MPa 1000000 | atm 101325 atmospheres
voltage     V 1 volt volts | mV 1/1000 | kV 1000
current     A 1 amp amps ampere amperes | mA 1/1000
resistance  ohm 1 ohms
frequency   Hz 1 hertz | kHz 1000 | MHz 1000000 | GHz 1000000000
temperature K 1 kelvin kelvins
celsius     C 1 celsius
fahrenheit  F 1 fahrenheit
amount      mol 1 mole moles | mmol 1/1000
molar       M 1 molar
rotation    rpm 1
angstrom    angstrom 1 angstroms
charge      coulomb 1 coulombs
"""
_WORDS_OF_SHAPE: Final = {"square": 2, "squared": 2, "sq": 2, "cubic": 3, "cubed": 3, "cu": 3}
_PIECE: Final = re.compile(r"[a-zA-Z¢]+|\^\{?-?\d+\}?|[/·*]|\\cdot")
AMBIGUOUS: Final = frozenset("mshgLlJWNVAKCFM")  # letters that are units as often as variables


class Unit(NamedTuple):
    """Powers of dimensions, sorted, and the factor to the base unit of each."""

    dimensions: tuple[tuple[str, int], ...]
    factor: fmpq


def _read_table() -> dict[str, tuple[str, fmpq]]:
    table: dict[str, tuple[str, fmpq]] = {}
    for line in _TABLE.strip().splitlines():
        dimension, _, entries = line.partition(" ")
        for entry in entries.split("|"):
            name, factor, *others = entry.split()
            top, _, bottom = factor.partition("/")
            for word in (name, *others):
                # A factor of 0 marks a unit that is never converted.
                kind = dimension if top != "0" else name
                table[word] = (kind, fmpq(int(top) or 1, int(bottom or 1)))
    return table


UNITS: Final = _read_table()


def is_unit(word: str) -> bool:
    """Whether a word, standing behind a number, is surely a unit: `cm`, `hours`, but not `m`."""
    return len(word) > 1 and (word in UNITS or word.lower() in UNITS)


@lru_cache(maxsize=4096)
def unit_of(text: str) -> Unit | None:
    """The unit a text names, or None for words that are no known unit."""
    powers: Counter[str] = Counter()
    factor, sign, pending = fmpq(1), 1, 1
    last: tuple[str, fmpq] | None = None

    def measured(unit: tuple[str, fmpq], power: int) -> fmpq:
        """Count a power of a unit, and give its factor."""
        powers[unit[0]] += sign * power
        return unit[1] ** (sign * power)

    for piece in _PIECE.findall(text.replace(" per ", "/")):
        if piece[0] == "^" and last is not None:
            factor *= measured(last, int(piece.strip("^{}")) - 1)
        elif piece == "/":
            sign = -1
        elif piece.lower() in _WORDS_OF_SHAPE:
            shape = _WORDS_OF_SHAPE[piece.lower()]
            if piece.lower().endswith("d") and last is not None:
                factor *= measured(last, shape - 1)
            else:
                pending = shape
        elif piece.isalpha() or piece == "¢":
            last = UNITS.get(piece) or UNITS.get(piece.lower())
            if last is None:
                return None
            factor *= measured(last, pending)
            pending = 1
    if last is None:
        return None
    return Unit(tuple(sorted((name, power) for name, power in powers.items() if power)), factor)
