"""Read the words, notations and units of answers from `tables.toml`: what each does to what it stands beside."""

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from assay.lazy import read_toml


class TableRow(NamedTuple):
    """Words or notations of one kind, and a pair of answers that shows what they do."""

    kind: str
    entries: str
    rule: str
    gold: str
    answer: str
    same: bool


_TABLES: Final[dict[str, Any]] = read_toml("assay.math", "tables.toml")


def _rows(name: str) -> tuple[TableRow, ...]:
    rows = (TableRow(**row) for row in _TABLES[name])
    return tuple(row._replace(entries=" ".join(row.entries.split())) for row in rows)


WORDS, NOTATIONS = _rows("words"), _rows("notations")
UNIT_TABLES: Final[dict[str, Any]] = _TABLES["units"]


def meanings(rows: Sequence[TableRow], kinds: Sequence[str], separator: str) -> dict[str, str]:
    """Every entry of these kinds, by what it means: itself, or what stands behind its separator."""
    found: dict[str, str] = {}
    for row in rows:
        if row.kind in kinds:
            between = ", " if ", " in row.entries and separator not in row.entries else " "
            for entry in row.entries.split(between):
                name, _, meaning = entry.partition(separator)
                found[name] = meaning or name
    return found


def _of_kind(*kinds: str) -> dict[str, str]:
    return meanings(WORDS, kinds, "=")


def notations(*kinds: str) -> dict[str, str]:
    """Every notation of these kinds, and what it stands for."""
    return meanings(NOTATIONS, kinds, "↦")


# A command before a letter needs a space: ∈x is \in x.
SIGNS: Final = {
    sign: f"{meant} " if meant[0] == "\\" and meant[-1].isalpha() else meant
    for sign, meant in notations("sign").items()
}
RELATIONS: Final = {
    command: meant.replace("_", " ") for command, meant in notations("relation").items()
}
FUNCTIONS: Final = _of_kind(
    "function"
)  # how functions may be written, and what each is called in the tree
GREEK: Final = frozenset(_of_kind("letter"))
CONSTANTS: Final = _of_kind("constant")
SETS: Final = frozenset("RZNQC")  # letters that name a set of numbers, in blackboard bold
# Sentences that stand for a set of numbers, by its name, or for infinity.
PHRASES: Final = {
    phrase: kind for kind in ("R", "Z", "empty", "infinity") for phrase in _of_kind(kind)
}
VERDICTS: Final = frozenset(_of_kind("verdict"))
SPELLED: Final = {word: int(number) for word, number in _of_kind("numeral").items()}
SCALES: Final = {word: int(number) for word, number in _of_kind("scale").items()}
_PARTS: Final = {word: int(number) for word, number in _of_kind("part").items()}
PERCENT: Final = frozenset(_of_kind("percent"))
ORDINALS: Final = tuple(_of_kind("ordinal"))
LEADS: Final = frozenset(_of_kind("lead"))
_LABELS: Final = frozenset(_of_kind("label"))
MEASURES: Final = frozenset(_of_kind("measure"))
VERBS: Final = LEADS & frozenset(_TABLES["sets"]["verbs"].split())
LINKS: Final = frozenset(_TABLES["sets"]["links"].split())
GENERIC: Final = _LABELS | frozenset({"square", "cubic", "sq", "in", "of", "the", "all"})
DENIALS: Final = frozenset(_of_kind("denial"))
# Words that make another number, or none, of the number that they stand beside.
CHANGES: Final = frozenset(_of_kind("part", "scale", "sign", "operation", "bound", "denial")) | {
    "percent",
    "third",
}
# What may stand between two answers, and which connective it is.
CONNECTIVES: Final = {
    "and": "and",
    "or": "or",
    ", and": "and",
    ", or": "or",
    ",": ",",
    "and/or": "or",
}
# Words that are never multiplied by standing beside a number.
NO_FACTORS: Final = frozenset({"and", "or", "if", "for", "where", "mod", "to"})
NO_UNITS: Final = NO_FACTORS | CONNECTIVES.keys() | PERCENT | {"with", "when", "such that"}
"""Words in `\\text{…}` behind a number that are not its unit."""
NO_LABELS: Final = (
    CHANGES
    | frozenset(_of_kind("link"))
    | SPELLED.keys()
    | GREEK
    | FUNCTIONS.keys()
    | CONSTANTS.keys()
) - {"min", "square", "cube"}

_NUMBER: Final = re.compile(r"(?<![\^{\d])\d")  # another number than the power of a unit
_WORD: Final = re.compile(r"[^\W\d_]+(?:'[a-z]+)?")


def words_of(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def makes_another(word: str) -> bool:
    """Whether a word beside a number makes another of it."""
    return word in NO_LABELS - LINKS or word in ("square", "cube") or word.rstrip("s") in SCALES


def is_label(text: str) -> bool:
    """Whether words behind a number only say what it counts: `apples`, `different ways`, but not `hundred` or `theta`."""
    words = words_of(text)
    if words[-1:] == ["times"]:
        words = [*words[:-1], "ways"]
    if (
        not words
        or _NUMBER.search(text)
        or not NO_LABELS.isdisjoint(words)
        or any(word.rstrip("s") in SPELLED.keys() | SCALES for word in words)
    ):
        return False
    return any(word in _LABELS or (len(word) > 3 and word[-1] == "s" != word[-2]) for word in words)


def spelled(words: list[str]) -> tuple[int, int, int] | None:
    """The number that words begin with (top and bottom), and how many words it takes: `minus two thirds` is (-2, 3, 3)."""
    place = 1 if words[:1] in (["negative"], ["minus"]) else 0
    sign, start, total, current, last = (-1 if place else 1), place, 0, 0, 0
    while place < len(words):
        word = words[place]
        if word in SPELLED and (
            last == 0 or (last % 10 == 0 and SPELLED[word] < 10 <= last < 100) or last >= 100
        ):
            current += SPELLED[word]
            last = SPELLED[word] or 10
        elif word in SCALES and (last or word != "dozen"):
            if word == "hundred":
                current = (current or 1) * 100
            else:
                total, current = total + (current or 1) * SCALES[word], 0
            last = SCALES[word]
        elif not (
            word == "and"
            and last >= 100
            and words[place + 1 : place + 2]
            and words[place + 1] in SPELLED
        ):
            break
        place += 1
    if place == start:
        return None
    top, bottom = total + current, 1
    if place < len(words) and words[place] in _PARTS:
        bottom, place = _PARTS[words[place]], place + 1
    elif words[place : place + 3] in (["and", "a", "half"], ["and", "one", "half"]):
        top, bottom, place = 2 * top + 1, 2, place + 3
    return sign * top, bottom, place
