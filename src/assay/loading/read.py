"""Data to criteria: every shape that a rubric file may have."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from assay.aggregation import AGGREGATIONS
from assay.criterion import Criterion, Scorer
from assay.errors import RubricError, RubricFileError, SignatureError
from assay.loading.code import function_of, is_reference
from assay.loading.entry import Entry
from assay.loading.golden import golden_at
from assay.loading.source import Place
from assay.wording import did_you_mean, short_repr

MOST_LEVELS: Final = 50
"""How deep rubrics and sections may be nested in each other."""

HOLDERS: Final = ("criteria", "sections", "rubric")
"""The keys that the criteria of a rubric stand under; one of them."""

RUBRIC_KEYS: Final = (*HOLDERS, "name", "description", "aggregation", "golden", "$schema")
GROUP_KEYS: Final = ("rubrics", "name", "description", "$schema")
SECTION_KEYS: Final = ("title", "name", "description", "criteria")

_NAMERS: Final = ("criterion", "check", "the `when` of")
"""How an error begins that goes on to name a criterion."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads rubrics. `build` makes one from its criteria, its options, and whether it is the outer."""

    build: Callable[[list[Criterion], dict[str, Any], bool], Any]
    allow_code: bool = False

    def rubric(self, place: Place, *, inside: str = "", level: int = 0) -> Any:
        """The rubric that stands at a place."""
        holder, options = self._opened(place, level)
        golden: Place | None = options.pop("golden", None)
        entries = list(_entries(holder, level, inside))
        if not entries:
            raise holder.error("No criteria found: give at least one")

        def nested(inner: Place, label: str) -> Scorer:
            where = label.removeprefix("Invalid ")
            return self.rubric(inner, inside=f" in the rubric of {where}", level=level + 1)

        criteria = [e.criterion(nested, allow_code=self.allow_code) for e in entries]
        _refuse_together(criteria, entries, holder)
        try:
            rubric = self.build(criteria, options, level == 0)
        except (RubricError, SignatureError) as error:
            raise _located(error, criteria, entries) from error
        if golden is not None:
            rubric.golden = golden_at(golden, rubric.criteria)
        return rubric

    def _opened(self, place: Place, level: int) -> tuple[Place, dict[str, Any]]:
        """The list of entries of a rubric, and its options, through any `rubric:` around it."""
        options: dict[str, Any] = {}
        while place.is_mapping:
            level += 1
            _refuse_deep(place, level)
            options |= self._options(place)
            place = place.at(_holder(place))
        if not isinstance(place.data, list):
            if place.data is None:
                raise place.error("No criteria found: it is empty")
            raise place.error(
                f"a rubric is a list of criteria, or a mapping with one, and this is "
                f"{short_repr(place.data)}"
            )
        return place, options

    def _options(self, place: Place) -> dict[str, Any]:
        options: dict[str, Any] = {}
        if "name" in place.data:
            options["name"] = _text(place, "name")
        if "aggregation" in place.data:
            options["aggregation"] = self._aggregation(place)
        if "golden" in place.data:
            options["golden"] = place.at("golden")
        return options

    def _aggregation(self, place: Place) -> Any:
        given = place.data["aggregation"]
        if callable(given) or (isinstance(given, str) and given in AGGREGATIONS):
            return given
        if isinstance(given, str) and is_reference(given):
            try:
                return function_of(given, allow_code=self.allow_code)
            except RubricError as error:
                raise place.error(str(error), "aggregation") from error
        raise place.error(
            f"there is no aggregation {short_repr(given)}: {did_you_mean(given, AGGREGATIONS)}",
            "aggregation",
        )


def is_group(place: Place) -> bool:
    """Whether several rubrics stand at a place, and not one."""
    return place.is_mapping and "rubrics" in place.data


def group_parts(place: Place) -> tuple[list[Place], dict[str, Any]]:
    """The rubrics of a group, and its options."""
    if not is_group(place) or not isinstance(place.data["rubrics"], list):
        raise place.error("a group of rubrics is a mapping with a list of them under 'rubrics'")
    _refuse_unknown(place, GROUP_KEYS)
    _refuse_deep(place, len(place.path) // 2)
    holder = place.at("rubrics")
    options = {"name": _text(place, "name")} if "name" in place.data else {}
    return [holder.at(index) for index in range(len(holder.data))], options


def _holder(place: Place) -> str:
    """The key of a mapping that its criteria stand under."""
    found = [key for key in HOLDERS if key in place.data]
    if not found and is_group(place):
        raise place.error("this is a group of rubrics: load it as a RubricGroup", "rubrics")
    if not found:
        raise place.error("Dict must contain either 'sections' or 'rubric' key, or 'criteria'")
    if len(found) > 1:
        raise place.error(f"it has both {found[0]!r} and {found[1]!r}: keep one", found[1])
    _refuse_unknown(place, RUBRIC_KEYS)
    held = place.data[found[0]]
    if not isinstance(held, list) and not (found[0] == "rubric" and isinstance(held, Mapping)):
        if held is None:
            raise place.error(f"No criteria found: {found[0]!r} is empty", found[0])
        raise place.error(f"{found[0]!r} is {short_repr(held)}: give a list", found[0])
    return found[0]


def _entries(holder: Place, level: int, inside: str) -> Iterator[Entry]:
    for index, (place, tags) in enumerate(_flat(holder, (), level)):
        in_section = len(place.path) > len(holder.path) + 1
        what = "criterion" if place.is_mapping or in_section else "item"
        yield Entry(place, f"Invalid {what} at index {index}{inside}", tags)


def _flat(
    holder: Place, tags: tuple[str, ...], level: int
) -> Iterator[tuple[Place, tuple[str, ...]]]:
    """Every criterion in a list, those of its sections too, with the titles above it."""
    _refuse_deep(holder, level)
    for index in range(len(holder.data)):
        place = holder.at(index)
        if not place.is_mapping or "criteria" not in place.data:
            yield place, tags
            continue
        title = _title(place, f"Invalid section at index {index}: ")
        yield from _flat(place.at("criteria"), (*tags, title) if title else tags, level + 1)


def _title(section: Place, label: str) -> str:
    _refuse_unknown(section, SECTION_KEYS, label)
    if not isinstance(section.data["criteria"], list):
        raise section.error(
            f"{label}'criteria' is {short_repr(section.data['criteria'])}: give a list", "criteria"
        )
    key = "title" if "title" in section.data else "name"
    return _text(section, key, label) if key in section.data else ""


def _text(place: Place, key: str, label: str = "") -> str:
    value = place.data[key]
    if not isinstance(value, str):
        raise place.error(f"{label}{key} is {short_repr(value)}: give a text, in quotes", key)
    return value


def _refuse_unknown(place: Place, known: tuple[str, ...], label: str = "") -> None:
    for key in place.data:
        if key not in known:
            raise place.error(
                f"{label}{short_repr(key)} is no field: {did_you_mean(key, known)}", str(key)
            )


def _refuse_deep(place: Place, level: int) -> None:
    if level > MOST_LEVELS:
        raise place.error(f"rubrics are nested more than {MOST_LEVELS} deep: flatten them")


def _refuse_together(criteria: list[Criterion], entries: list[Entry], holder: Place) -> None:
    """Refuse what each criterion may be alone, and they may not be together."""
    first: dict[str, int] = {}
    for index, entry in enumerate(entries):
        name = criteria[index].name
        # A name that was taken would be numbered, and the file's own name would not hold.
        if first.setdefault(name, index) != index and "name" in entry.place.data:
            raise entry.error(
                f"name is {name!r}, as for the criterion at index {first[name]}: give each its own",
                "name",
            )
    if not any(criterion.counts for criterion in criteria):
        raise holder.error(
            "all weights are zero, so nothing could be scored: give a criterion a weight"
        )


def _located(error: Exception, criteria: list[Criterion], entries: list[Entry]) -> Exception:
    """The error of a constructor, at the criterion it names; as it is when it names none."""
    if isinstance(error, RubricFileError):
        return error
    for criterion, entry in zip(criteria, entries, strict=True):
        openings = tuple(f"{what} {criterion.name!r}" for what in _NAMERS)
        if str(error).startswith(openings):
            return entry.error(str(error), "when" if criterion.when else "")
    return error
