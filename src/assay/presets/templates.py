"""Template: a user's words to a judge, with places in them that are filled in one pass."""

import re
from collections.abc import Mapping
from string import Formatter
from typing import TypeAlias

Piece: TypeAlias = tuple[str, str | None]
"""Words, and the name of the place after them; None when there is none."""

_PLACE = re.compile(r"\{([A-Za-z_]\w*)\}")


class Template:
    """Words with places such as `{completion}`. What is put in is never looked at again.

    Other braces stay as they are. Where the whole could also be filled by `str.format`, doubled
    braces mean single ones, as there.

    >>> Template('Answer: {completion}. Reply as {"score": 7}').filled({"completion": "{answer}"})
    'Answer: {answer}. Reply as {"score": 7}'
    >>> Template('Answer: {completion}. Reply as {{"score": 7}}').filled({"completion": "4"})
    'Answer: 4. Reply as {"score": 7}'
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._pieces = _formatted(text) or _literal(text)
        self.places = frozenset(name for _, name in self._pieces if name is not None)
        """The names in braces."""

    def filled(self, values: Mapping[str, str]) -> str:
        """The words with these values in their places; a place without a value stays as written."""
        parts: list[str] = []
        for words, name in self._pieces:
            parts.append(words)
            if name is not None:
                parts.append(values.get(name, f"{{{name}}}"))
        return "".join(parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Template) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Template({self.text!r})"


def _formatted(text: str) -> list[Piece] | None:
    """The pieces as `str.format` sees them; None when it would refuse, or do more than fill."""
    pieces: list[Piece] = []
    try:
        for words, name, form, conversion in Formatter().parse(text):
            if form or conversion or not (name is None or name.isidentifier()):
                return None
            pieces.append((words, name))
    except ValueError:
        return None
    return pieces


def _literal(text: str) -> list[Piece]:
    """The pieces when only names alone in braces are places."""
    parts: list[str | None] = [*_PLACE.split(text), None]
    return [(str(words), name) for words, name in zip(parts[::2], parts[1::2], strict=True)]
