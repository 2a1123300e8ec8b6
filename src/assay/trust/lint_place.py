"""Where criteria stand: each criterion of a rubric with its name, its lines, and what it says to ignore."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from assay.criterion import Criterion
from assay.loading import lines
from assay.loading.source import Place, Source
from assay.loading.yaml_text import yaml_marks

_HOLDERS: Final = ("criteria", "sections", "rubric")
_IGNORE = re.compile(r"(?:^|\s)#\s*assay:\s*ignore\b(?P<ids>[\sR\d,]*)")


_NOWHERE: Final = Source()


@dataclass(frozen=True, slots=True)
class Spot:
    """The lines of one criterion in a file; none of them when there is no file."""

    source: Source = _NOWHERE
    path: lines.Path = ()
    line_of: Mapping[lines.Path, int] = field(default_factory=dict[lines.Path, int])
    ignored: frozenset[str] = frozenset()
    """Ids that a comment asks to ignore here; `*` for all."""

    def line(self, field: str = "") -> int | None:
        """The line of a field, or of the criterion when it does not have it."""
        return self.line_of.get((*self.path, field), self.line_of.get(self.path))

    def ignores(self, rule: str) -> bool:
        return rule in self.ignored or "*" in self.ignored


@dataclass(frozen=True, slots=True)
class Asked:
    """One criterion and where it stands."""

    criterion: Criterion
    name: str
    """Its name, after the names of the rubrics around it."""
    spot: Spot = Spot()


def asked(rubric: Any, place: Place | None = None) -> list[list[Asked]]:
    """The criteria of a rubric, and of every rubric inside it or of its group, a list each."""
    if place is None:
        return list(_of_rubric(rubric, "", None, {}, {}))
    line_of = line_numbers(place.source)
    starts = sorted(line_of[path] for path in _entry_paths(place) if path in line_of)
    return list(_of_rubric(rubric, "", place, line_of, _ignored(place.source.text, starts)))


def line_numbers(source: Source) -> dict[lines.Path, int]:
    """The line of every key and entry of a text, in one pass."""
    if source.format == "toml":
        found = lines.toml_nodes(source.text)
    else:
        marks = lines.json_marks if source.format == "json" else yaml_marks
        found = lines.nodes(marks(source.text))
    here: list[str | int] = []
    numbers: dict[lines.Path, int] = {}
    for node in found:
        here[node.depth - 1 :] = [node.key]
        numbers.setdefault(tuple(here), node.line)
    return numbers


def _of_rubric(
    rubric: Any,
    inside: str,
    place: Place | None,
    line_of: Mapping[lines.Path, int],
    ignored: Mapping[int, frozenset[str]],
) -> Iterator[list[Asked]]:
    """The criteria of one rubric, then those of the rubrics inside it, or of a group's."""
    parts = cast("Sequence[Any] | None", getattr(rubric, "rubrics", None))
    if parts is not None:
        for index, part in enumerate(parts):
            within = f"{inside}{getattr(part, 'name', '') or index}/"
            there = None if place is None else place.at("rubrics").at(index)
            yield from _of_rubric(part, within, there, line_of, ignored)
        return
    criteria = cast("Sequence[Criterion]", rubric.criteria)
    places: Sequence[Place | None] = [] if place is None else list(entries(place))
    if len(places) != len(criteria):  # no file, or one in a form that has no such places
        places = [None] * len(criteria)
    yield [
        Asked(criterion, f"{inside}{criterion.name}", _spot(where, line_of, ignored))
        for criterion, where in zip(criteria, places, strict=True)
    ]
    for criterion, where in zip(criteria, places, strict=True):
        if hasattr(criterion.check, "criteria"):
            within = f"{inside}{criterion.name}/"
            there = None if where is None else where.at("rubric")
            yield from _of_rubric(criterion.check, within, there, line_of, ignored)


def _spot(
    place: Place | None, line_of: Mapping[lines.Path, int], ignored: Mapping[int, frozenset[str]]
) -> Spot:
    if place is None:
        return Spot()
    told = ignored.get(line_of.get(place.path, 0), frozenset())
    return Spot(place.source, place.path, line_of, told)


def entries(place: Place) -> Iterator[Place]:
    """The criteria that stand at a place, in the order a rubric has them, through its sections."""
    while place.is_mapping:
        holder = next((key for key in _HOLDERS if key in place.data), None)
        if holder is None:
            return
        place = place.at(holder)
    for index in range(len(place.data)):
        entry = place.at(index)
        if entry.is_mapping and "criteria" in entry.data:
            yield from entries(entry.at("criteria"))
        else:
            yield entry


def _entry_paths(place: Place) -> Iterator[lines.Path]:
    """The paths of all criteria of a file, also of those in rubrics inside it."""
    if place.is_mapping and "rubrics" in place.data:
        for index in range(len(place.data["rubrics"])):
            yield from _entry_paths(place.at("rubrics").at(index))
        return
    for entry in entries(place):
        yield entry.path
        if entry.is_mapping and "rubric" in entry.data:
            yield from _entry_paths(entry.at("rubric"))


def _ignored(text: str, starts: Sequence[int]) -> dict[int, frozenset[str]]:
    """What comments ask to ignore, by the first line of the criterion they are about.

    A comment on a line of its own right above a criterion is about that one.
    """
    told: dict[int, frozenset[str]] = {}
    rows = text.split("\n")
    for number, row in enumerate(rows, start=1):
        found = _IGNORE.search(row)
        if found is None or not starts:
            continue
        ids = frozenset(re.findall(r"R\d+", found["ids"])) or frozenset("*")
        below = number
        while below <= len(rows) and rows[below - 1].lstrip().startswith("#"):
            below += 1
        place = bisect_right(starts, number) - 1
        about = below if below in starts else starts[max(place, 0)]
        told[about] = told.get(about, frozenset()) | ids
    return told
