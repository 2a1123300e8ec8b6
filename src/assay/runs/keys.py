"""Keys: what rows go by, given to them as they come and remembered in little room."""

from array import array
from collections.abc import Mapping
from typing import Any

from assay.runs.errors import RunRefused
from assay.runs.plain import as_text, plain
from assay.runs.row import LARGEST_SAMPLE, Key
from assay.wording import short_repr

_MASK = (1 << 64) - 1
_PARTS = 64
LONGEST_NUMBER = 8
"""Digits of an example's number up to which a bit remembers it."""


class Numbering:
    """Gives each row of an input its key, in order.

    >>> number = Numbering()
    >>> [number.key_of({"id": name}) for name in ("a", "b", "a")]
    [('a', 0), ('b', 0), ('a', 1)]
    """

    def __init__(self, first: int = 0) -> None:
        """`first` is the number of the first row."""
        self.rows = first
        """The number of the next row."""
        self._alike: tuple[bool, bool] | None = None
        """Whether rows have an id, and a sample, of their own: all of them, or none."""
        self._seen = Hashes()
        self._times: dict[str, int] = {}
        """How often an example came again."""

    def key_of(self, row: Mapping[str, Any]) -> Key:
        """The key of the next row."""
        own = row.get("example_id")
        if own is None:
            own = row.get("id")
        sample = None if row.get("sample") is None else _own_sample(row["sample"])
        number, self.rows = self.rows, self.rows + 1
        has = (own is not None, sample is not None)
        if has != self._alike:
            self._refuse_some(has, number)
        if own is None:
            return str(number), sample or 0
        example = own if isinstance(own, str) else _text(own)
        if sample is None:
            return example, self._next(example)
        if not self._seen.add(f"{sample} {example}"):
            raise RunRefused(
                f"row {number} is example {example!r}, sample {sample}, and so was one before it: "
                "give each its own `sample`, or leave that out"
            )
        return example, sample

    def _next(self, example: str) -> int:
        if self._seen.add(example):
            return 0
        self._times[example] = sample = self._times.get(example, 0) + 1
        return sample

    def _refuse_some(self, has: tuple[bool, bool], number: int) -> None:
        if self._alike is None:
            self._alike = has
        else:
            field = "id" if has[0] is not self._alike[0] else "sample"
            here = has[0] if field == "id" else has[1]
            raise RunRefused(
                f"row {number} has {'its own' if here else 'no'} `{field}`, and the rows before it "
                f"have {'none' if here else 'one'}: give every row one, or none"
            )


def _text(value: object) -> str:
    return str(value) if isinstance(value, int | float) else as_text(plain(value))


def _own_sample(given: object) -> int | None:
    """The sample that a row names; None when its column of that name holds something else."""
    if type(given) is int and given >= 0:
        sample = given
    elif isinstance(given, str) and given.isascii() and given.isdecimal() and len(given) < 1000:
        sample = int(given)
    else:
        return None
    if sample > LARGEST_SAMPLE:
        raise RunRefused(
            f"a row has the sample {short_repr(given)}: give at most {LARGEST_SAMPLE}, or name the column otherwise"
        )
    return sample


class Keys:
    """A set of keys. One of an example that goes by its number takes a bit."""

    def __init__(self) -> None:
        self._numbered: dict[int, bytearray] = {}
        self._named: set[Key] = set()
        self._size = 0

    def add(self, key: Key) -> None:
        if key in self:
            return
        self._size += 1
        number = _number(key[0])
        if number is None:
            self._named.add(key)
            return
        bits = self._numbered.setdefault(key[1], bytearray())
        if number // 8 >= len(bits):
            bits.extend(bytes(max(len(bits), number // 8 + 1 - len(bits))))
        bits[number // 8] |= 1 << number % 8

    def __contains__(self, key: Key) -> bool:
        if not self._size:
            return False
        example, sample = key
        number = _number(example)
        if number is None:
            return key in self._named
        bits = self._numbered.get(sample, b"")
        return number // 8 < len(bits) and bool(bits[number // 8] >> number % 8 & 1)

    def __len__(self) -> int:
        return self._size


def _number(example: str) -> int | None:
    """The number that an example goes by; None when it has a name, or a number spelled otherwise."""
    if len(example) > LONGEST_NUMBER or not (example.isascii() and example.isdecimal()):
        return None
    return int(example) if example[0] != "0" or example == "0" else None


class Hashes:
    """A set of texts by 64-bit hashes, in arrays: a tenth of the room that a set of texts takes.

    Two texts of one hash are taken for one, which among ten million happens once in 400,000 runs.
    """

    def __init__(self) -> None:
        # In parts, so that only a small one is copied when it grows.
        self._parts = [_Part() for _ in range(_PARTS)]

    def add(self, text: str) -> bool:
        """Whether the text was not there before."""
        hashed = hash(text) & _MASK
        return self._parts[hashed % _PARTS].add(hashed or 1)


class _Part:
    """Some of the hashes, each at the first free place from where it belongs."""

    __slots__ = ("_places", "_room")

    def __init__(self) -> None:
        self._places = array("Q", bytes(8 * 32))
        self._room = 16
        """How many more it takes before it has to grow."""

    def add(self, hashed: int) -> bool:
        places = self._places
        size = len(places)
        place = hashed // _PARTS % size
        while found := places[place]:
            if found == hashed:
                return False
            place = place + 1 if place + 1 < size else 0
        places[place] = hashed
        self._room -= 1
        if not self._room:
            self._grow()
        return True

    def _grow(self) -> None:
        hashes = [hashed for hashed in self._places if hashed]
        size = 2 * len(self._places)
        self._places = array("Q", bytes(8 * size))
        self._room = size * 4 // 5
        for hashed in hashes:
            self.add(hashed)
