"""The words and notations that answers are written with, read from `tables.toml`."""

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from assay.lazy import read_toml


class TableRow(NamedTuple):
    """Words or notations of one kind, and a pair of answers that shows what they do."""

    kind: str
    entries: str  # the words or notations, some with their meanings
    rule: str  # what they do, in words
    gold: str
    answer: str
    same: bool  # whether the answer equals the gold


_TABLES: Final[dict[str, Any]] = read_toml("assay.math", "tables.toml")


def _read_rows(name: str) -> tuple[TableRow, ...]:
    """Return the rows of a table of `tables.toml`."""
    rows: list[TableRow] = []
    for fields in _TABLES[name]:
        row = TableRow(**fields)
        rows.append(row._replace(entries=" ".join(row.entries.split())))
    return tuple(rows)


WORDS: Final = _read_rows("words")
NOTATIONS: Final = _read_rows("notations")
UNIT_TABLES: Final[dict[str, Any]] = _TABLES["units"]


def meanings(rows: Sequence[TableRow], kinds: Sequence[str], separator: str) -> dict[str, str]:
    """Return the meanings of all entries in the rows of these kinds.

    An entry is a name, or a name and its meaning with the separator between them. Without a meaning
    it stands for itself.
    """
    meaning_by_entry: dict[str, str] = {}
    for row in rows:
        if row.kind not in kinds:
            continue
        # Words are separated by spaces, phrases of several words by commas.
        are_phrases = ", " in row.entries and separator not in row.entries
        entries = row.entries.split(", " if are_phrases else " ")
        for entry in entries:
            name, _, meaning = entry.partition(separator)
            meaning_by_entry[name] = meaning or name
    return meaning_by_entry


def notations(*kinds: str) -> dict[str, str]:
    """Return every notation of these kinds with what it stands for."""
    return meanings(NOTATIONS, kinds, "↦")


def _words(*kinds: str) -> dict[str, str]:
    """Return every word of these kinds with what it means."""
    return meanings(WORDS, kinds, "=")


def _numbers(kind: str) -> dict[str, int]:
    """Return every word of this kind with the number that it means."""
    return {word: int(number) for word, number in _words(kind).items()}


def _read_signs() -> dict[str, str]:
    """Return the unicode signs with the LaTeX that each stands for."""
    signs: dict[str, str] = {}
    for sign, latex in notations("sign").items():
        # A command needs a space before a letter: ∈x is \in x.
        is_command = latex[0] == "\\" and latex[-1].isalpha()
        signs[sign] = f"{latex} " if is_command else latex
    return signs


def _read_phrases() -> dict[str, str]:
    """Return the phrases that stand for a set, infinity or nothing, with the name of that."""
    phrases: dict[str, str] = {}
    for kind in ("R", "Z", "empty", "infinity", "absent"):
        phrases |= dict.fromkeys(_words(kind), kind)
    return phrases


def _pluralize(noun: str) -> str:
    """Return the plural of an English noun."""
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{noun[:-1]}ies"
    if noun.endswith(("s", "x", "ch", "sh", "tomato", "potato")):
        return f"{noun}es"
    return f"{noun}s"


def _with_plurals(words: dict[str, int]) -> dict[str, int]:
    """Return the words and their plurals, with the same numbers."""
    return words | {_pluralize(word): value for word, value in words.items()}


SIGNS: Final = _read_signs()
RELATIONS: Final = {
    command: relation.replace("_", " ") for command, relation in notations("relation").items()
}
FUNCTIONS: Final = _words("function")  # spellings of functions, with the name in the tree
GREEK: Final = frozenset(_words("letter"))
CONSTANTS: Final = _words("constant")
SETS: Final = frozenset("RZNQC")  # letters that name a set of numbers, in blackboard bold
PHRASES: Final = _read_phrases()
VERDICTS: Final = frozenset(_words("verdict"))
NUMERALS: Final = _numbers("numeral")
SCALES: Final = _with_plurals(_numbers("scale"))
PARTS: Final = _numbers("part")
BASIS_POINTS: Final = frozenset({"basis point", "basis points", "bp", "bps"})
PERCENT: Final = frozenset(_words("percent"))
ORDINALS: Final = tuple(_words("ordinal"))
LEADS: Final = frozenset(_words("lead"))
MEASURES: Final = frozenset(_words("measure"))
VERBS: Final = LEADS & frozenset(_TABLES["sets"]["verbs"].split())
LINKS: Final = frozenset(_TABLES["sets"]["links"].split())
DENIALS: Final = frozenset(_words("denial"))
RETRACTIONS: Final = tuple(_words("retraction"))
_NOUNS: Final = frozenset(_words("noun"))
_LABELS: Final = _NOUNS | {_pluralize(noun) for noun in _NOUNS} | frozenset(_words("label"))
# Words that begin the place, the time or the purpose of what is counted: `3 apples in the bag`.
_AFTER_LABELS: Final = frozenset(_words("preposition"))
# Words behind a number that name neither a unit nor a thing.
GENERIC: Final = frozenset(_words("label")) | {
    *("unit", "units", "way", "ways", "day", "days", "square", "cubic", "sq", "in", "of", "the"),
    "all",
}
# Words that make another number, or none, of the number that they stand beside.
CHANGES: Final = frozenset(_words("part", "scale", "sign", "operation", "bound", "denial")) | {
    *SCALES,
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
# Words that are not multiplied by standing beside a number.
NO_FACTORS: Final = frozenset({"and", "or", "if", "for", "where", "mod", "to"})
# Words in `\text{…}` behind a number that are not its unit.
NO_UNITS: Final = NO_FACTORS | CONNECTIVES.keys() | PERCENT | {"with", "when", "such that"}
# Words that never say what is counted.
NO_LABELS: Final = (
    CHANGES
    | frozenset(_words("link"))
    | NUMERALS.keys()
    | GREEK
    | FUNCTIONS.keys()
    | CONSTANTS.keys()
) - {"min", "square", "cube"}

_OTHER_NUMBER: Final = re.compile(r"(?<![\^{\d])\d")  # not the power of a unit
_WORD: Final = re.compile(r"[^\W\d_]+(?:'[a-z]+)?")


def list_words(text: str) -> list[str]:
    """Return the words of a text in lower case."""
    return _WORD.findall(text.casefold())


def makes_another(word: str) -> bool:
    """Return True if a word beside a number makes another number of it, as `half` does."""
    return word in NO_LABELS - LINKS or word in ("square", "cube")


def is_label(text: str) -> bool:
    """Return True if words behind a number only say what it counts.

    `apples` and `different ways` do; `hundred`, `theta` and words that are in no table do not.
    """
    words = list_words(text)
    if not words or _OTHER_NUMBER.search(text) or not NO_LABELS.isdisjoint(words):
        return False
    labels = [word in _LABELS for word in words]
    if True not in labels:
        return False
    # Adjectives before the thing are free. Behind it, `3 apples fail` says something else.
    after_label = words[labels.index(True) + 1 :]
    for word in after_label:
        if word in _AFTER_LABELS:
            return True
        if word not in _LABELS:
            return False
    return True


class SpelledNumber(NamedTuple):
    """A number in words: its value, and how many words it takes."""

    top: int
    bottom: int
    word_count: int


def read_number(words: list[str]) -> SpelledNumber | None:
    """Return the number that a list of words begins with, or None.

    `minus two thirds` is -2/3, in three words.
    """
    has_sign = words[:1] in (["negative"], ["minus"])
    start = 1 if has_sign else 0
    if words[start : start + 2] == ["half", "a"] and _is_article(words, start + 1):
        scale, position = _read_whole_number(words, start + 1)  # the 12 of `half a dozen`
        return None if scale is None else SpelledNumber(-scale if has_sign else scale, 2, position)
    whole, position = _read_whole_number(words, start)
    if whole is None and words[start : start + 1] == ["half"]:
        whole = 1
    if whole is None:
        return None
    top = whole
    bottom = 1
    rest = words[position : position + 3]
    if rest and rest[0] in PARTS:
        bottom = PARTS[rest[0]]
        position += 1
    elif rest in (["and", "a", "half"], ["and", "one", "half"]):
        top = 2 * top + 1
        bottom = 2
        position += 3
    return SpelledNumber(-top if has_sign else top, bottom, position)


def _read_whole_number(words: list[str], start: int) -> tuple[int | None, int]:
    """Return the whole number that is spelled from `start` on, and the position behind it.

    The number is None if none is spelled there.
    """
    total = 0  # up to the last scale: the 2000 of `two thousand three hundred`
    group = 0  # since the last scale: the 300
    last = 0  # the value of the last word, which decides what may follow
    position = start
    while position < len(words):
        word = words[position]
        is_first = position == start
        if is_first and _is_article(words, position):
            last = 1
            group = 1
        elif word in NUMERALS and _may_follow(NUMERALS[word], last):
            last = NUMERALS[word] or 10  # nothing follows `zero`
            group += NUMERALS[word]
        elif word == "hundred":
            last = 100
            group = max(group, 1) * 100
        elif word in SCALES and not (is_first and word in ("dozen", "dozens")):
            last = SCALES[word]
            total += max(group, 1) * SCALES[word]
            group = 0
        elif word != "and" or last < 100 or not _is_numeral(words, position + 1):
            break
        position += 1
    if position == start:
        return None, position
    return total + group, position


def _is_article(words: list[str], position: int) -> bool:
    """Return True for the article of `a dozen` and `an eighth`, which means one."""
    if words[position] not in ("a", "an") or position + 1 == len(words):
        return False
    return words[position + 1] in SCALES or words[position + 1] in PARTS


def _is_numeral(words: list[str], position: int) -> bool:
    """Return True if there is a word at this position, and it is a numeral such as `seven`."""
    return position < len(words) and words[position] in NUMERALS


def _may_follow(numeral: int, last: int) -> bool:
    """Return True if a numeral may follow a number word: `one` follows `twenty` and `hundred`.

    Both are given by their values; `last` is 0 if there is no word before.
    """
    is_after_tens = last % 10 == 0 and numeral < 10 <= last < 100
    return last == 0 or is_after_tens or last >= 100
