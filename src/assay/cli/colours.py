"""Colours, where somebody looks and wants them."""

import os
import sys
from typing import Final, TextIO

_CODES: Final = {"green": "32", "yellow": "33", "red": "31", "bold": "1"}


def are_wanted(stream: TextIO) -> bool:
    """Whether it is a terminal that shows colours, and NO_COLOR is not set."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def painted(text: str, colour: str, stream: TextIO | None = None) -> str:
    """The text in that colour; as it is where colours are not wanted."""
    if not are_wanted(stream or sys.stdout):
        return text
    return f"\x1b[{_CODES[colour]}m{text}\x1b[0m"
