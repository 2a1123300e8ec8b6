"""Read units of measure: what a quantity is measured in, as powers of base units and an exact factor."""

import re
from collections import Counter
from functools import lru_cache
from math import gcd
from typing import Final, NamedTuple

from assay.math.words import GENERIC, is_label, words_of

TABLE: Final = """
length      m 1 meter meters metre metres | km 1000 kilometer kilometers kilometre kilometres | cm 1/100 centimeter centimeters centimetre centimetres
length      mm 1/1000 millimeter millimeters | nm 1/1000000000 nanometer nanometers | ft 381/1250 foot feet | in 127/5000 inch inches
length      yd 1143/1250 yard yards | mi 201168/125 mile miles | dm 1/10 | um 1/1000000 micron microns
time        s 1 sec secs second seconds | min 60 mins minute minutes | h 3600 hr hrs hour hours | day 86400 days | week 604800 weeks | ms 1/1000 milliseconds
month       month 1 months | year 12 years yr yrs
mass        kg 1 kilogram kilograms kgs | g 1/1000 gram grams gm gms | mg 1/1000000 milligram milligrams | lb 45359237/100000000 lbs pound pounds
mass        oz 45359237/1600000000 ounce ounces | ton 1000 tons tonne tonnes
volume      L 1 liter liters litre litres l | mL 1/1000 ml milliliter milliliters | gal 473176473/125000000 gallon gallons
money       dollar 1 dollars usd | cent 1/100 cents ¢
currency    euro 0 euros eur | yen 0 jpy | rupee 0 rupees | yuan 0 rmb | peso 0 pesos | franc 0 francs
daytime     am 0 | pm 0
angle       degree 1 degrees deg | rad 0 radian radians
energy      J 1 joule joules | kJ 1000 kilojoule kilojoules | eV 0 | MeV 0 | cal 523/125 calorie calories | kcal 4184
power       W 1 watt watts | kW 1000 kilowatt kilowatts | MW 1000000 | mW 1/1000 | hp 0 horsepower
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
other       erg 0 ergs | dyne 0 dynes dyn | tesla 0 | gauss 0 | parsec 0 parsecs pc | kpc 0 | Mpc 0 | AU 0 | ly 0 | bar 0 bars | torr 0 | amu 0 | dB 0
other       bit 0 bits | byte 0 bytes | mph 0 | kph 0 | acre 0 acres | hectare 0 hectares ha | carat 0 carats | farad 0 farads | henry 0 henries
"""
_WORDS_OF_SHAPE: Final = {"square": 2, "squared": 2, "sq": 2, "cubic": 3, "cubed": 3, "cu": 3}
_PIECE: Final = re.compile(r"[a-zA-Z¢]+|\^\{?-?\d+\}?|[/·*]|\\cdot")
_NO_UNITS_IN_LETTERS: Final = frozenset({"mg", "ms", "gm", "mV", "mA", "in", "mi", "am", "pm"})
"""Units that may as well be two letters side by side."""


SHAPES: Final = {"平方": "square", "立方": "cubic", "": ""}
CHINESE: Final = {
    "千米": "km", "公里": "km", "厘米": "cm", "毫米": "mm", "分米": "dm", "米": "meters", "千克": "kg", "公斤": "kg", "克": "grams",
    "小时": "hours", "分钟": "minutes", "秒": "seconds", "天": "days", "度": "degrees",
    **dict.fromkeys("个只人名本次种条张辆棵支件块颗元岁", "units"),
}  # fmt: skip
"""Units, and words that stand between a number and what is counted, as they are written behind a number in Chinese."""


class Unit(NamedTuple):
    """Powers of dimensions, sorted, and the factor to the base unit of each."""

    dimensions: tuple[tuple[str, int], ...]
    factor: tuple[int, int]  # top and bottom


def _read_table() -> dict[str, tuple[str, int, int]]:
    table: dict[str, tuple[str, int, int]] = {}
    for line in TABLE.strip().splitlines():
        dimension, _, entries = line.partition(" ")
        for entry in entries.split("|"):
            name, factor, *others = entry.split()
            top, _, bottom = factor.partition("/")
            for word in (name, *others):
                # A factor of 0 marks a unit that is never converted.
                kind = dimension if top != "0" else name
                table[word] = (kind, int(top) or 1, int(bottom or 1))
    return table


UNITS: Final = _read_table()


def _named(word: str) -> tuple[str, int, int] | None:
    """The unit of this name; one of two letters in capitals alone (`CM`) is the one in small letters."""
    return UNITS.get(word) or (UNITS.get(word.lower()) if len(word) > 2 or word.isupper() else None)


def is_unit(word: str) -> bool:
    """Whether a word, standing behind a number, is surely a unit: `cm`, `hours`, but not `m`, nor `mg`."""
    return len(word) > 1 and _named(word) is not None and word not in _NO_UNITS_IN_LETTERS


def is_generic(text: str) -> bool:
    """Whether words behind a number name no unit and no thing: `units`, `square units`, `in total`."""
    return GENERIC.issuperset(words_of(text))


def says_what(text: str) -> bool:
    """Whether words behind a number are its unit, or say what it counts; if not, they may change the number."""
    return unit_of(text) is not None or is_label(text)


@lru_cache(maxsize=4096)
def unit_of(text: str) -> Unit | None:
    """The unit a text names, or None for words that are no known unit."""
    powers: Counter[str] = Counter()
    top, bottom, sign, pending = 1, 1, 1, 1
    last: tuple[str, int, int] | None = None

    def count(unit: tuple[str, int, int], power: int) -> None:
        nonlocal top, bottom
        powers[unit[0]] += sign * power
        above, below = (unit[1], unit[2]) if sign * power > 0 else (unit[2], unit[1])
        top, bottom = top * above ** abs(power), bottom * below ** abs(power)

    text = text.replace(" per ", "/").replace(".", "").replace("mph", "mi/h").replace("kph", "km/h")
    if _PIECE.sub("", text).strip(" {}()-"):
        return None
    for piece in _PIECE.findall(text):
        if piece[0] == "^" and last is not None and len(piece) < 6:
            count(last, int(piece.strip("^{}")) - 1)
        elif piece == "/":
            sign = -1
        elif piece.lower() in _WORDS_OF_SHAPE:
            shape = _WORDS_OF_SHAPE[piece.lower()]
            if piece.lower().endswith("d") and last is not None:
                count(last, shape - 1)
            else:
                pending = shape
        elif piece.isalpha() or piece == "¢":
            last = _named(piece)
            if last is None:
                return None
            count(last, pending)
            pending = 1
    if last is None:
        return None
    shared = gcd(top, bottom)
    return Unit(tuple(sorted((n, power) for n, power in powers.items() if power)), (top // shared, bottom // shared))
