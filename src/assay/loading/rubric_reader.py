"""Read criteria from data: every shape that a rubric file may have, one entry after the other."""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final, TypeAlias, cast

from pydantic import ValidationError

from assay.aggregation import AGGREGATIONS
from assay.checks import check_of
from assay.criterion import NOT_APPLICABLE, Criterion, is_scorer
from assay.errors import RubricError, RubricFileError, SignatureError
from assay.loading.document import Node
from assay.messages import shows_of
from assay.shaping import shaping_of
from assay.wording import described, did_you_mean, first_error, short_repr

Expected: TypeAlias = str | float  # a verdict on offer; or a number, of what code answers with one

MOST_LEVELS: Final = 50  # how deep rubrics and sections may be nested in each other

# A function that a file names, as `package.module:function`.
REFERENCE: Final = r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$"

_HOLDERS: Final = (
    "criteria",
    "sections",
    "rubric",
)  # the keys that the criteria of a rubric stand under; one of them
_RUBRIC_KEYS: Final = (
    *_HOLDERS,
    "name",
    "description",
    "aggregation",
    "golden",
    "shows",
    "shaping",
    "$schema",
)
_GROUP_KEYS: Final = ("rubrics", "name", "description", "shows", "shaping", "$schema")
_SECTION_KEYS: Final = ("title", "name", "description", "criteria")
_CRITERION_KEYS: Final = (*Criterion.model_fields, "rubric")
_GOLDEN_FIELDS: Final = ("prompt", "completion", "answer", "task", "info")
_WAYS: Final = ("requirement", "check", "rubric")  # what answers a criterion; one of them


def inner_options(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a rubric that also hold for the rubrics inside it, which get their grader from the one around them."""
    outer = ("weights", "autograder", "aggregation", "name", "shows", "shaping")
    return {key: value for key, value in options.items() if key not in outer}


@dataclass(frozen=True, slots=True)
class RubricReader:
    """Reads rubrics. `make` makes one of its criteria and options, to which the caller's are added."""

    make: Callable[..., Any]
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    allow_code: bool = False

    def rubric(self, node: Node, *, inside: str = "", level: int = 0) -> Any:
        holder, options = self._open(node, level)
        golden: Node | None = options.pop("golden", None)
        entries: list[CriterionEntry] = []
        for index, (found, tags) in enumerate(_flat(holder, (), level)):
            what = (
                "criterion"
                if found.is_mapping or len(found.path) > len(holder.path) + 1
                else "item"
            )
            entries.append(CriterionEntry(found, f"Invalid {what} at index {index}{inside}", tags))
        if not entries:
            raise holder.error("No criteria found: give at least one")
        criteria = [entry.criterion(self, level) for entry in entries]
        taken: dict[str, int] = {}
        for index, (criterion, entry) in enumerate(zip(criteria, entries, strict=True)):
            first = taken.setdefault(criterion.name, index)
            # A name that was taken would be numbered, and the file's own name would not hold.
            if first < index and "name" in entry.node.data:
                said = f"name is {criterion.name!r}, as for the criterion at index {first}"
                raise entry.error(f"{said}: give each its own", "name")
        if not any(criterion.counts for criterion in criteria):
            raise holder.error(
                "all weights are zero, so nothing could be scored: give a criterion a weight"
            )
        try:
            rubric = self.make(
                criteria, **options | (inner_options(self.options) if level else self.options)
            )
        except (RubricError, SignatureError) as error:
            raise _locate(error, criteria, entries) from error
        if golden is not None:
            rubric.golden = _golden_at(golden, rubric.criteria)
        return rubric

    def _open(self, node: Node, level: int) -> tuple[Node, dict[str, Any]]:
        """The list of entries of a rubric, and its options, through any `rubric:` around it."""
        options: dict[str, Any] = {}
        while node.is_mapping:
            level += 1
            _refuse_deep(node, level)
            options |= _options(node, self.allow_code)
            if "golden" in node.data:
                options["golden"] = node.at("golden")
            node = node.at(_holder(node))
        if node.data is None:
            raise node.error("No criteria found: it is empty")
        if not isinstance(node.data, list):
            given = short_repr(node.data)
            raise node.error(
                f"a rubric is a list of criteria, or a mapping with one, and this is {given}"
            )
        return node, options


@dataclass(frozen=True, slots=True)
class CriterionEntry:
    """One criterion, or one golden example, as it stands in a file."""

    node: Node
    label: str  # what an error about it begins with
    tags: tuple[str, ...] = ()  # the titles of the sections it stands in

    def criterion(self, reader: RubricReader, level: int = 0) -> Criterion:
        """The criterion. The reader reads the rubric that stands under `rubric`."""
        if not self.node.is_mapping:
            raise self.error(f"expected a dictionary, and this is {short_repr(self.node.data)}")
        given: dict[Any, Any] = dict(self.node.data)
        self._refuse_fields(given)
        if "check" in given:
            given["check"] = self._check(given["check"], reader.allow_code)
        if "rubric" in given:
            inside = f" in the rubric of {self.label.removeprefix('Invalid ')}"
            given["check"] = reader.rubric(self.node.at("rubric"), inside=inside, level=level + 1)
            given.setdefault("name", getattr(given["check"], "name", "") or "rubric")
            del given["rubric"]
        try:
            criterion = Criterion.model_validate(given)
        except ValidationError as error:
            field, sentence = first_error(error)
            raise self.error(sentence, field) from None
        if not self.tags:
            return criterion
        return criterion.with_fields(tags=tuple(dict.fromkeys((*self.tags, *criterion.tags))))

    def error(self, message: str, field: str = "") -> RubricFileError:
        return self.node.error(f"{self.label}: {message}", field)

    def _refuse_fields(self, given: Mapping[Any, Any]) -> None:
        """Refuse unknown fields, and what pydantic would take for a number or a bool and a writer hardly means."""
        self.node.refuse_unknown(_CRITERION_KEYS, f"{self.label}: ")
        ways = [way for way in _WAYS if way in given]
        for key, value in given.items():
            kind = Criterion.model_fields[key].annotation if key in Criterion.model_fields else None
            if value is None:
                raise self.error(f"{key} is empty: give it a value, or leave it out", key)
            if kind is float and isinstance(value, bool):
                raise self.error(f"{key} is {value}: give a number", key)
            if kind is bool and not isinstance(value, bool):
                raise self.error(f"{key} is {short_repr(value)}: give true or false", key)
        if len(ways) != 1:
            has = " and ".join(ways) or "none of them"
            said = f"a criterion has exactly one of requirement, check and rubric, and this one has {has}"
            raise self.error(said, ways[-1] if ways else "")

    def _check(self, spec: Any, allow_code: bool) -> Any:
        if callable(spec) or is_scorer(spec):
            return spec
        try:
            if isinstance(spec, str) and is_reference(spec):
                return function_of(spec, allow_code=allow_code)
            return check_of(_with_predicate(spec, allow_code))
        except RubricError as error:
            raise self.error(str(error), "check") from error


def _with_predicate(spec: Any, allow_code: bool) -> object:
    """A check as a file names it, with the function that its `predicate` names."""
    for name, fields in cast("dict[str, Any]", spec).items() if isinstance(spec, dict) else ():
        given = cast("dict[str, Any]", fields) if isinstance(fields, dict) else {}
        named = given.get("predicate")
        if isinstance(named, str) and is_reference(named):
            return {name: {**given, "predicate": function_of(named, allow_code=allow_code)}}
    return cast("object", spec)


def is_reference(text: str) -> bool:
    """Whether a text names a function, rather than something built in."""
    return re.search(REFERENCE, text) is not None


def function_of(reference: str, *, allow_code: bool) -> Callable[..., Any]:
    """The function that a file names; raises unless the caller has said that files may run code."""
    if not allow_code:
        raise RubricError(
            f"{reference!r} names code: pass allow_code=True if you trust this file (--allow-code)"
        )
    found = object_of(reference)
    if not callable(found):
        raise RubricError(f"{reference!r} is {found!r:.80}, which cannot be called")
    return found


def object_of(reference: str) -> Any:
    """What `module:path` names in Python."""
    module, _, path = reference.partition(":")
    try:
        # Importing a module runs it, so anything may be raised.
        found: Any = import_module(module)
    except Exception as error:
        raise RubricError(f"{reference!r} cannot be imported: {described(error)}") from error
    for step in path.split("."):
        if not hasattr(found, step):
            raise RubricError(
                f"{reference!r}: there is no {step!r} in it: {did_you_mean(step, dir(found))}"
            )
        found = getattr(found, step)
    return found


def is_group(node: Node) -> bool:
    return node.is_mapping and "rubrics" in node.data


def group_parts(node: Node, *, allow_code: bool = False) -> tuple[list[Node], dict[str, Any]]:
    if not is_group(node) or not isinstance(node.data["rubrics"], list):
        raise node.error("a group of rubrics is a mapping with a list of them under 'rubrics'")
    node.refuse_unknown(_GROUP_KEYS)
    _refuse_deep(node, len(node.path) // 2)
    holder = node.at("rubrics")
    return [holder.at(index) for index in range(len(holder.data))], _options(node, allow_code)


def criterion_nodes(node: Node) -> list[Node]:
    """Where the criteria of a rubric stand, in the order that it has them, through its sections."""
    while node.is_mapping:
        node = node.at(_holder(node))
    return [found for found, _ in _flat(node, (), 0)]


def _holder(node: Node) -> str:
    """The key of a mapping that its criteria stand under."""
    found = [key for key in _HOLDERS if key in node.data]
    if not found and is_group(node):
        raise node.error("this is a group of rubrics: load it as a RubricGroup", "rubrics")
    if not found:
        raise node.error("Dict must contain either 'sections' or 'rubric' key, or 'criteria'")
    if len(found) > 1:
        raise node.error(f"it has both {found[0]!r} and {found[1]!r}: keep one", found[1])
    node.refuse_unknown(_RUBRIC_KEYS)
    held = node.data[found[0]]
    if held is None:
        raise node.error(f"No criteria found: {found[0]!r} is empty", found[0])
    if not isinstance(held, list) and not (found[0] == "rubric" and isinstance(held, Mapping)):
        raise node.error(f"{found[0]!r} is {short_repr(held)}: give a list", found[0])
    return found[0]


def _flat(
    holder: Node, tags: tuple[str, ...], level: int
) -> Iterator[tuple[Node, tuple[str, ...]]]:
    """Every criterion in a list, those of its sections too, with the titles above it."""
    _refuse_deep(holder, level)
    for index in range(len(holder.data)):
        node = holder.at(index)
        if not node.is_mapping or "criteria" not in node.data:
            yield node, tags
            continue
        label = f"Invalid section at index {index}: "
        node.refuse_unknown(_SECTION_KEYS, label)
        if not isinstance(node.data["criteria"], list):
            raise node.error(
                f"{label}'criteria' is {short_repr(node.data['criteria'])}: give a list", "criteria"
            )
        key = "title" if "title" in node.data else "name"
        title = _text(node, key, label) if key in node.data else ""
        yield from _flat(node.at("criteria"), (*tags, title) if title else tags, level + 1)


def _text(node: Node, key: str, label: str = "") -> str:
    value = node.data[key]
    if not isinstance(value, str):
        raise node.error(f"{label}{key} is {short_repr(value)}: give a text, in quotes", key)
    return value


def _options(node: Node, allow_code: bool) -> dict[str, Any]:
    """What a rubric or a group says beside its criteria, as the constructor takes it."""

    def aggregation(given: Any) -> Any:
        if callable(given) or (isinstance(given, str) and given in AGGREGATIONS):
            return given
        if isinstance(given, str) and is_reference(given):
            return function_of(given, allow_code=allow_code)
        raise RubricError(
            f"there is no aggregation {short_repr(given)}: {did_you_mean(given, AGGREGATIONS)}"
        )

    def shaping(given: Any) -> Any:
        parts = cast("list[Any]", given) if isinstance(given, list) else ()
        named = [
            function_of(p, allow_code=allow_code) if is_reference(str(p)) else p for p in parts
        ]
        return shaping_of(named or cast("object", given))

    options: dict[str, Any] = {"name": _text(node, "name")} if "name" in node.data else {}
    for key, read in {"aggregation": aggregation, "shows": shows_of, "shaping": shaping}.items():
        try:
            options |= {key: read(node.data[key])} if key in node.data else {}
        except RubricError as error:
            raise node.error(str(error), key) from error
    return options


def _refuse_deep(node: Node, level: int) -> None:
    if level > MOST_LEVELS:
        raise node.error(f"rubrics are nested more than {MOST_LEVELS} deep: flatten them")


def _locate(
    error: Exception, criteria: list[Criterion], entries: list[CriterionEntry]
) -> Exception:
    """The error of a constructor, at the criterion it names; as it is when it names none."""
    if isinstance(error, RubricFileError):
        return error
    for criterion, entry in zip(criteria, entries, strict=True):
        named = [f"{what} {criterion.name!r}" for what in ("criterion", "check", "the `when` of")]
        if str(error).startswith(tuple(named)):
            return entry.error(str(error), "when" if criterion.when else "")
    return error


# Golden examples: completions with known verdicts, which a rubric carries to be tested by.


@dataclass(frozen=True, slots=True)
class Golden:
    """A rollout, and the verdicts that its rubric should come to."""

    name: str
    fields: Mapping[
        str, Any
    ]  # the rollout: `completion`, and any of `prompt`, `answer`, `task` and `info`
    # What the criteria should answer, by name; those that are left out may answer anything.
    expect: Mapping[str, Expected]

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, **self.fields, "expect": dict(self.expect)}


def _golden_at(node: Node, criteria: Sequence[Criterion]) -> tuple[Golden, ...]:
    """The examples that stand at a node of a file, for a rubric of these criteria."""
    listed: Any = node.data
    if not isinstance(listed, list) or not listed:
        raise node.error(f"golden is {short_repr(cast('object', listed))}: give a list of examples")
    by_name = {criterion.name: criterion for criterion in criteria}
    found: dict[str, Golden] = {}
    for index in range(len(cast("list[object]", listed))):
        entry = CriterionEntry(node.at(index), f"golden example at index {index}")
        example = _golden(entry, f"golden_{index + 1}", by_name)
        if example.name in found:
            raise entry.error(
                f"name is {example.name!r}, as for another: give each its own", "name"
            )
        found[example.name] = example
    return tuple(found.values())


def _golden(entry: CriterionEntry, stand_in: str, criteria: Mapping[str, Criterion]) -> Golden:
    given = entry.node.data
    if not entry.node.is_mapping:
        raise entry.error(f"expected a mapping, and this is {short_repr(given)}")
    entry.node.refuse_unknown(("name", *_GOLDEN_FIELDS, "expect"), f"{entry.label}: ")
    for key in ("completion", "expect"):
        if key not in given:
            raise entry.error(f"{key} is missing: give it")
    for key, value in given.items():
        said = f"{key} is {short_repr(value)}"
        if key in ("name", "task") and (not isinstance(value, str) or not value):
            raise entry.error(f"{said}: give a text, in quotes", key)
        turns = cast("list[object]", value) if isinstance(value, list) else []
        is_chat = turns and all(isinstance(turn, Mapping) for turn in turns)
        if key in ("prompt", "completion") and not isinstance(value, str) and not is_chat:
            raise entry.error(f"{said}: give a text, or messages", key)
        if key in ("info", "expect") and not isinstance(value, Mapping):
            raise entry.error(f"{said}: give a mapping", key)
    if not given["expect"]:
        raise entry.error("expect is empty: name a criterion, and its verdict", "expect")
    expect: dict[str, Expected] = {}
    for name, said in given["expect"].items():
        criterion = criteria.get(name)
        if criterion is None:
            raise entry.error(
                f"there is no criterion {short_repr(name)}: {did_you_mean(name, criteria)}",
                "expect",
            )
        # Where a criterion is not asked, it does not apply.
        may_not_apply = criterion.allow_na or bool(criterion.when)
        labels = (*criterion.choices, NOT_APPLICABLE) if may_not_apply else criterion.choices
        expected = _spelled_as_offered(criterion, labels, said)
        if expected is None:
            offered = ", ".join(labels) + ("" if criterion.judged else " or a number")
            raise entry.error(
                f"{name} is expected to be {short_repr(said)}: give {offered}", "expect"
            )
        expect[name] = expected
    fields = {key: given[key] for key in _GOLDEN_FIELDS if key in given}
    return Golden(given.get("name", stand_in), fields, expect)


def _spelled_as_offered(
    criterion: Criterion, labels: Sequence[str], said: object
) -> Expected | None:
    """What is expected, spelled as the criterion spells it; None when it can never be."""
    if isinstance(said, str):
        return next(
            (label for label in labels if label.strip().casefold() == said.strip().casefold()), None
        )
    if isinstance(said, bool) or not isinstance(said, int | float) or criterion.judged:
        return None
    return float(said) if math.isfinite(said) else None
