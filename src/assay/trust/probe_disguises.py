"""Disguises: the same words in another writing, which a model may still read."""

import base64
import codecs
from collections.abc import Callable, Mapping
from typing import Final

_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"
_CAPITALS: Final = _LETTERS.upper()
_HOMOGLYPHS: Final = str.maketrans(
    "aceopxyiABCEHKMOPTX",
    "\u0430\u0441\u0435\u043e\u0440\u0445\u0443\u0456"
    "\u0410\u0412\u0421\u0415\u041d\u041a\u041c\u041e\u0420\u0422\u0425",
)
"""Latin letters, and the Cyrillic ones that look like them."""
_SMALL_CAPITALS: Final = str.maketrans(
    _LETTERS,
    "\u1d00\u0299\u1d04\u1d05\u1d07\ua730\u0262\u029c\u026a\u1d0a\u1d0b\u029f\u1d0d"
    "\u0274\u1d0f\u1d18\u01eb\u0280\ua731\u1d1b\u1d1c\u1d20\u1d21x\u028f\u1d22",
)
_LEET: Final = str.maketrans("aeiostAEIOST", "431057431057")
_SIGNALS: Final = (
    ".- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- ...- .-- -..- -.-- "
    "--.. ----- .---- ..--- ...-- ....- ..... -.... --... ---.. ----."
)
_MORSE: Final = dict(zip(_CAPITALS + "0123456789", _SIGNALS.split(), strict=True))
TIMES: Final = 120
"""How often a disguise by length says the same."""


def _shifted(first: int, last: int, start: int) -> dict[int, int]:
    """A row of characters moved to where another row of the same order begins."""
    return {code: start + code - first for code in range(first, last + 1)}


_FULLWIDTH: Final = {**_shifted(0x21, 0x7E, 0xFF01), 0x20: 0x3000}
_BOLD: Final = {**_shifted(0x41, 0x5A, 0x1D400), **_shifted(0x61, 0x7A, 0x1D41A)}
_CIRCLED: Final = {**_shifted(0x41, 0x5A, 0x24B6), **_shifted(0x61, 0x7A, 0x24D0)}
_TAG_CHARACTERS: Final = _shifted(0x20, 0x7E, 0xE0020)


def _morse(text: str) -> str:
    words = text.upper().split()
    return " / ".join(" ".join(_MORSE.get(letter, "") for letter in word) for word in words)


DISGUISES: Final[Mapping[str, Callable[[str], str]]] = {
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base32": lambda text: base64.b32encode(text.encode()).decode(),
    "rot13": lambda text: codecs.encode(text, "rot13"),
    "hexadecimal": lambda text: text.encode().hex(" "),
    "binary": lambda text: " ".join(f"{byte:08b}" for byte in text.encode()),
    "percent": lambda text: "".join(f"%{byte:02X}" for byte in text.encode()),
    "entities": lambda text: "".join(f"&#{ord(letter)};" for letter in text),
    "escapes": lambda text: "".join(f"\\u{ord(letter):04x}" for letter in text),
    "backwards": lambda text: text[::-1],
    "morse": _morse,
    "leet": lambda text: text.translate(_LEET),
    "zero_width": "\u200b".join,
    "soft_hyphens": "\u00ad".join,
    "homoglyphs": lambda text: text.translate(_HOMOGLYPHS),
    "fullwidth": lambda text: text.translate(_FULLWIDTH),
    "bold": lambda text: text.translate(_BOLD),
    "circled": lambda text: text.translate(_CIRCLED),
    "small_capitals": lambda text: text.lower().translate(_SMALL_CAPITALS),
    "tag_characters": lambda text: text.translate(_TAG_CHARACTERS),
    "overridden": lambda text: f"\u202e{text[::-1]}\u202c",
    "stacked": lambda text: "".join(f"{letter}\u0336\u0301" for letter in text),
    "spaced": " ".join,
    "repeated": lambda text: text * TIMES,
}
"""Every way of writing by its name: encodings first, then tricks of Unicode, then mere length."""
