"""Read rubrics, criteria and golden examples from the data of a file, in all supported layouts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from typing import Any, Final, NoReturn, TypeAlias, TypeGuard, cast

from pydantic import ValidationError

from assay.aggregation import AGGREGATIONS
from assay.checks import check_of
from assay.criterion import (
    MAX_MAGNITUDE,
    NOT_APPLICABLE,
    Criterion,
    is_scorer,
    read_ask_judge,
    read_reference,
)
from assay.errors import RubricError, RubricFileError, SignatureError
from assay.loading.document import CURLY_QUOTES, Node
from assay.messages import read_shows
from assay.parsers import Parser, parser_of
from assay.reasoning import read_thinking
from assay.shaping import read_shaping
from assay.wording import describe_error, explain_first_error, format_value, suggest_word

# The expected answer of a golden example: a verdict, or a number if code answers with one.
Expected: TypeAlias = str | float

# What to write for fields that are called differently elsewhere.
_FIELD_HINTS: Final = {
    "veto": "for a criterion that decides alone write required: true",
    "must": "for a criterion that decides alone write required: true",
    "condition": "write when: and the name of the criterion that must be met",
    "if": "write when: and the name of the criterion that must be met",
    "levels": "write choices: and list the verdicts from worst to best",
    "labels": "write choices: and list the verdicts from worst to best",
    "options": "write choices: and list the verdicts from worst to best",
    "description": "write requirement: and what must hold",
    "text": "write requirement: and what must hold",
    "question": "write requirement: and what must hold",
    "id": "write name:",
    "criterion": "write requirement: and what must hold",
    "points": "write weight:",
    "assert": "write check: and a built-in check such as {contains: Paris}, or requirement:",
    "type": "write check: and a built-in check such as {contains: Paris}, or requirement:",
}
# The same for fields of a rubric.
_RUBRIC_FIELD_HINTS: Final = {
    "judge": "the judge is named where the rubric is used: --judge, or judge= in Python",
    "model": "the judge is named where the rubric is used: --judge, or judge= in Python",
    "weights": "give each criterion its weight:",
    "prompt": "prompts are columns of the rows, or templates that `assay eval` takes by --prompt",
}

# How deep rubrics and sections may be nested.
MAX_LEVELS: Final = 50

# The pattern of a function that a file names: `package.module:function`.
REFERENCE: Final = r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$"

# The keys that hold the criteria of a rubric; a rubric has exactly one of them.
_CRITERIA_KEYS: Final = ("criteria", "sections", "rubric")
_RUBRIC_KEYS: Final = (
    *_CRITERIA_KEYS,
    "name",
    "description",
    "aggregation",
    "golden",
    "parser",
    "shows",
    "thinking",
    "shaping",
    "ask_judge",
    "reference",
    "$schema",
)
_GROUP_KEYS: Final = (
    "rubrics",
    "name",
    "description",
    "parser",
    "shows",
    "thinking",
    "shaping",
    "$schema",
)
_SECTION_KEYS: Final = ("title", "name", "description", "criteria")
_CRITERION_KEYS: Final = (*Criterion.model_fields, "rubric")
# The keys that say what answers a criterion; a criterion has exactly one of them.
_ANSWER_KEYS: Final = ("requirement", "check", "rubric")
# Options of a rubric that do not apply to the rubrics inside of it. These get their grader from the
# rubric around them.
_OUTER_OPTIONS: Final = (
    "weights",
    "judge",
    "aggregation",
    "name",
    "shows",
    "thinking",
    "shaping",
    "ask_judge",
    "reference",
)


def select_inner_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return those options of a rubric that also apply to the rubrics inside of it."""
    return {key: value for key, value in options.items() if key not in _OUTER_OPTIONS}


@dataclass(frozen=True, slots=True)
class RubricReader:
    """Reads rubrics from the data of a file."""

    # Builds a rubric from its criteria, with options by keyword.
    build_rubric: Callable[..., Any]
    # Options of the caller, which replace those of the file.
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    # Whether the file may name functions.
    allow_code: bool = False
    # The reference of the rubric around the one that is read. It is used if that names none.
    reference: str | Sequence[str] = ()

    def read_rubric(self, node: Node, *, location: str = "", level: int = 0) -> Any:
        """Return the rubric at a node.

        `location` is added to the label of its criteria in errors; `level` is the number of rubrics
        and sections around it.
        """
        list_node, options, golden_node = self._find_criteria(node, level)
        entries = _list_entries(list_node, location, level)
        if not entries:
            raise list_node.error("No criteria found: give at least one")
        if self.reference:
            options.setdefault("reference", self.reference)
        if any(map(is_healthbench_criterion, cast("list[Any]", list_node.data))):
            options.setdefault("aggregation", "healthbench")
        if level == 0:
            options |= self.options
        else:
            options |= select_inner_options(self.options)
        reader = replace(self, reference=options.get("reference", ()))
        criteria = [entry.read_criterion(reader, level) for entry in entries]
        _refuse_repeated_names(criteria, entries)
        if not any(criterion.counts for criterion in criteria):
            raise list_node.error(
                "all weights are zero, so nothing could be scored: give a criterion a weight"
            )
        try:
            rubric = self.build_rubric(criteria, **options)
        except (RubricError, SignatureError) as error:
            raise _locate(error, criteria, entries) from error
        if "parser" in options:
            rubric.inherit_parser(rubric.parser)  # for rubrics inside that name none
        if golden_node is not None:
            rubric.golden = _read_golden_examples(golden_node, rubric.criteria)
        return rubric

    def _find_criteria(self, node: Node, level: int) -> tuple[Node, dict[str, Any], Node | None]:
        """Return the list of criteria of a rubric, its options, and its golden examples if any.

        A mapping may hold the rubric under `rubric`, once or several times.
        """
        options: dict[str, Any] = {}
        golden_node: Node | None = None
        while node.is_mapping:
            level += 1
            _refuse_deep(node, level)
            options |= _read_options(node, allow_code=self.allow_code)
            if "golden" in node.data:
                golden_node = node.at("golden")
            node = node.at(_find_criteria_key(node))
        if node.data is None:
            raise node.error("No criteria found: it is empty")
        if not node.is_list:
            hint = ""
            if isinstance(node.data, str) and re.fullmatch(r".+\.(ya?ml|json|toml)", node.data):
                hint = ": from_file(...) reads a file"
            raise node.error(
                "a rubric is a list of criteria, or a mapping with such a list, not "
                f"{format_value(node.data)}{hint}"
            )
        return node, options, golden_node


def _refuse_repeated_names(
    criteria: Sequence[Criterion], entries: Sequence[CriterionEntry]
) -> None:
    """Raise an error if a file gives a name that an earlier criterion already has.

    The constructor would number such a name, so it would not be the one in the file.
    """
    first_indices: dict[str, int] = {}
    for index, (criterion, entry) in enumerate(zip(criteria, entries, strict=True)):
        first_index = first_indices.setdefault(criterion.name, index)
        if first_index < index and "name" in entry.node.data:
            raise entry.error(
                f"name is {criterion.name!r}, as for criterion {first_index + 1}: "
                "give each its own name",
                "name",
            )


def _locate(
    error: Exception, criteria: Sequence[Criterion], entries: Sequence[CriterionEntry]
) -> Exception:
    """Return an error of the constructor with the line of the criterion that its message names.

    An error that names no criterion is returned unchanged.
    """
    if isinstance(error, RubricFileError):
        return error
    message = str(error)
    for criterion, entry in zip(criteria, entries, strict=True):
        beginnings = (
            f"criterion {criterion.name!r}",
            f"check {criterion.name!r}",
            f"the `when` of {criterion.name!r}",
        )
        if message.startswith(beginnings):
            return entry.error(message, "when" if criterion.when else "")
    return error


@dataclass(frozen=True, slots=True)
class CriterionEntry:
    """The data of one criterion, or of one golden example."""

    node: Node
    # The beginning of every error about it.
    label: str
    # The titles of the sections around it.
    tags: tuple[str, ...] = ()

    def read_criterion(self, reader: RubricReader, level: int = 0) -> Criterion:
        """Return the criterion; `reader` reads the rubric that it may hold."""
        if not self.node.is_mapping:
            raise self._not_a_mapping_error()
        fields: dict[Any, Any] = dict(self.node.data)
        self._check_fields(fields)
        if "check" in fields:
            fields["check"] = self._read_check(fields["check"], reader.allow_code)
        if "rubric" in fields:
            location = f" in the rubric of {self.label}"
            rubric = reader.read_rubric(self.node.at("rubric"), location=location, level=level + 1)
            del fields["rubric"]
            fields["check"] = rubric
            fields.setdefault("name", getattr(rubric, "name", "") or "rubric")
        try:
            criterion = Criterion.model_validate(fields)
        except ValidationError as error:
            name, sentence = explain_first_error(error)
            raise self.error(sentence, name) from None
        if not self.tags:
            return criterion
        all_tags = dict.fromkeys((*self.tags, *criterion.tags))
        return criterion.with_fields(tags=tuple(all_tags))

    def error(self, message: str, field: str = "") -> RubricFileError:
        """Return an error about this entry, or about one field of it."""
        return self.node.error(f"{self.label}: {message}", field)

    def _not_a_mapping_error(self) -> RubricFileError:
        data = self.node.data
        if not isinstance(data, str):
            return self.error(f"it must be a mapping, not {format_value(data)}")
        shown = format_value(data)
        field, colon, value = data.partition(":")
        if colon and field in _CRITERION_KEYS:
            return self.error(f"put a space after the colon: {field}: {value.strip():.80}")
        return self.error(f"it must be a mapping, not the text {shown}: write requirement: {shown}")

    def _check_fields(self, fields: Mapping[Any, Any]) -> None:
        """Raise an error for unknown fields and for values that are probably a mistake.

        Pydantic would accept True as a number, and 1 or "yes" as a bool.
        """
        for key in fields:
            if key not in _CRITERION_KEYS and key in _FIELD_HINTS:
                raise self.error(f"unknown field {key!r}: {_FIELD_HINTS[key]}", key)
        self.node.refuse_unknown(_CRITERION_KEYS, f"{self.label}: ")
        _refuse_curly_quotes(self)
        for key, value in fields.items():
            if value is None:
                raise self.error(f"{key} is empty: give it a value, or leave it out", key)
            if key not in Criterion.model_fields:
                continue
            field_type = Criterion.model_fields[key].annotation
            if field_type is float and isinstance(value, bool):
                raise self.error(f"{key} is {value}: give a number", key)
            if field_type is bool and not isinstance(value, bool):
                raise self.error(f"{key} is {format_value(value)}: give true or false", key)
        answer_keys = [key for key in _ANSWER_KEYS if key in fields]
        if len(answer_keys) != 1:
            raise self.error(
                "a criterion needs exactly one of requirement, check and rubric, but this one has "
                f"{' and '.join(answer_keys) or 'none of them'}",
                answer_keys[-1] if answer_keys else "",
            )

    def _read_check(self, spec: Any, allow_code: bool) -> Any:
        """Return a function that the file names, or a built-in check."""
        if callable(spec) or is_scorer(spec):
            return spec
        try:
            if isinstance(spec, str) and is_reference(spec):
                return import_function(spec, allow_code=allow_code)
            return check_of(_import_predicate(spec, allow_code))
        except RubricError as error:
            raise self.error(str(error), "check") from error


def _refuse_curly_quotes(entry: CriterionEntry) -> None:
    """Raise an error for a plain YAML text in curly quotes, which would be a part of the text."""
    for key in ("name", "when", "tags", "check", "choices"):
        if key not in entry.node.data:
            continue
        for node in _list_values(entry.node.at(key)):
            position = node.document.positions.get(node.path)
            is_plain = position is not None and not position.style
            if is_plain and isinstance(node.data, str) and CURLY_QUOTES.fullmatch(node.data):
                text = json.dumps(node.data[1:-1], ensure_ascii=False)
                raise entry.error(
                    f"{key} is {node.data}, in curly quotes: use straight ones, {text}", key
                )


def _list_values(node: Node) -> Iterator[Node]:
    """Yield the nodes of all values inside of one."""
    if node.is_mapping:
        for key in node.data:
            yield from _list_values(node.at(key))
    elif node.is_list:
        for item in node.items():
            yield from _list_values(item)
    else:
        yield node


def _import_predicate(spec: Any, allow_code: bool) -> object:
    """Return a built-in check's data, with the function that its `predicate` names imported."""
    if not isinstance(spec, dict):
        return spec
    for name, value in cast("dict[str, Any]", spec).items():
        if isinstance(value, dict):
            options = cast("dict[str, Any]", value)
            predicate = options.get("predicate")
            if isinstance(predicate, str) and is_reference(predicate):
                function = import_function(predicate, allow_code=allow_code)
                return {name: {**options, "predicate": function}}
    return cast("object", spec)


def is_reference(text: str) -> bool:
    """Return True if a text names a function: `package.module:function`."""
    return re.search(REFERENCE, text) is not None


def import_function(reference: str, *, allow_code: bool) -> Callable[..., Any]:
    """Import the function that a file names; raise `RubricError` unless code is allowed."""
    if not allow_code:
        raise RubricError(
            f"{reference!r} names code: if you trust this file, give --allow-code, in Python allow_code=True"
        )
    function = import_object(reference)
    if not callable(function):
        raise RubricError(
            f"{reference!r} is {function!r:.80}, which cannot be called: name a function"
        )
    return function


def import_object(reference: str) -> Any:
    """Import the object that `module:path` names."""
    module, _, path = reference.partition(":")
    try:
        imported: Any = import_module(module)
    except Exception as error:  # importing a module runs it, so anything may be raised
        raise RubricError(f"{reference!r} cannot be imported: {describe_error(error)}") from error
    for name in path.split("."):
        if not hasattr(imported, name):
            raise RubricError(
                f"{reference!r}: there is no {name!r} in it: {suggest_word(name, dir(imported))}"
            )
        imported = getattr(imported, name)
    return imported


# The structure of a file: groups, rubrics and sections.


def is_group(node: Node) -> bool:
    """Return True if a node is a group of rubrics."""
    return node.is_mapping and "rubrics" in node.data and not _is_healthbench(node)


def is_healthbench_criterion(value: object) -> bool:
    """Return True for a criterion with the keys of HealthBench: `criterion` and `points`."""
    return isinstance(value, Mapping) and "criterion" in value and "points" in value


def _is_healthbench(node: Node) -> bool:
    """Return True for a rubric of HealthBench, which has its criteria under `rubrics`."""
    entries: Any = node.data.get("rubrics")
    return isinstance(entries, list) and any(map(is_healthbench_criterion, cast("Any", entries)))


def _rename_healthbench_keys(node: Node) -> Node:
    """Return the node of a criterion with our names for the keys of HealthBench."""
    if not is_healthbench_criterion(node.data):
        return node
    names = {"criterion": "requirement", "points": "weight"}
    data = {names.get(key, key): value for key, value in node.data.items()}
    return replace(node, data=data)


def read_group(node: Node, *, allow_code: bool = False) -> tuple[list[Node], dict[str, Any]]:
    """Return the rubrics of a group, and its options."""
    if not is_group(node) or not isinstance(node.data["rubrics"], list):
        raise node.error("a group of rubrics is a mapping with a list of them under 'rubrics'")
    node.refuse_unknown(_GROUP_KEYS)
    _refuse_deep(node, len(node.path) // 2)  # each group adds two keys: `rubrics` and an index
    return node.at("rubrics").items(), _read_options(node, allow_code=allow_code)


def find_criterion_nodes(node: Node) -> list[Node]:
    """Return the nodes of a rubric's criteria in order, including those in sections."""
    while node.is_mapping:
        node = node.at(_find_criteria_key(node))
    return [criterion_node for criterion_node, _ in _flatten_sections(node, (), 0)]


def _find_criteria_key(node: Node) -> str:
    """Return the key of a mapping that holds its criteria; raise an error unless there is one."""
    keys = [key for key in _CRITERIA_KEYS if key in node.data]
    if "rubrics" in node.data and _is_healthbench(node):
        keys.append("rubrics")
    if not keys and is_group(node):
        raise node.error("this is a group of rubrics: load it as a RubricGroup", "rubrics")
    if not keys:
        _explain_missing_criteria(node)
    if len(keys) > 1:
        raise node.error(f"it has both {keys[0]!r} and {keys[1]!r}: keep one", keys[1])
    for key in node.data:
        if key in _RUBRIC_FIELD_HINTS:
            raise node.error(f"unknown field {key!r}: {_RUBRIC_FIELD_HINTS[key]}", key)
    node.refuse_unknown(tuple(dict.fromkeys((*_RUBRIC_KEYS, *keys))))
    key = keys[0]
    criteria_node = node.at(key)
    if criteria_node.data is None:
        raise node.error(f"No criteria found: {key!r} is empty", key)
    is_inner_rubric = key == "rubric" and criteria_node.is_mapping
    if not criteria_node.is_list and not is_inner_rubric:
        raise node.error(f"{key!r} is {format_value(criteria_node.data)}: give a list", key)
    return key


def _explain_missing_criteria(node: Node) -> NoReturn:
    """Raise an error about a mapping without criteria that says what was probably meant."""
    for key in node.data:
        if get_close_matches(str(key), _CRITERIA_KEYS, n=1):
            raise node.error(
                f"unknown field {format_value(key)}: {suggest_word(key, _CRITERIA_KEYS)}", str(key)
            )
    first_key = str(next(iter(node.data), ""))
    if first_key.startswith("-"):
        name = first_key.lstrip("-")
        raise node.error(f"put a space between the dash and {name!r}: - {name}:", first_key)
    if any(key in node.data for key in ("requirement", "check")):
        raise node.error(
            "this is one criterion, and a rubric is a list of them: "
            f"begin it with a dash, - {first_key}:",
            first_key,
        )
    raise node.error("there are no criteria: list them under `criteria`")


def _list_entries(list_node: Node, location: str, level: int) -> list[CriterionEntry]:
    """Return the criteria of a list, including those in sections.

    Anything but a mapping in the list itself is called an item, since a section may be meant.
    """
    entries: list[CriterionEntry] = []
    for index, (node, tags) in enumerate(_flatten_sections(list_node, (), level)):
        is_in_section = len(node.path) > len(list_node.path) + 1
        noun = "criterion" if node.is_mapping or is_in_section else "item"
        label = f"{noun} {index + 1}{location}"
        entries.append(CriterionEntry(node, label, tags))
    return entries


def _flatten_sections(
    list_node: Node, tags: tuple[str, ...], level: int
) -> Iterator[tuple[Node, tuple[str, ...]]]:
    """Yield every criterion in a list and in its sections, with the titles of its sections."""
    _refuse_deep(list_node, level)
    for index, node in enumerate(list_node.items()):
        is_section = node.is_mapping and "criteria" in node.data
        if not is_section:
            yield _rename_healthbench_keys(node), tags
            continue
        label = f"section {index + 1}: "
        node.refuse_unknown(_SECTION_KEYS, label)
        if not isinstance(node.data["criteria"], list):
            raise node.error(
                f"{label}'criteria' is {format_value(node.data['criteria'])}: give a list",
                "criteria",
            )
        title_key = "title" if "title" in node.data else "name"
        title = _read_text(node, title_key, label) if title_key in node.data else ""
        inner_tags = (*tags, title) if title else tags
        yield from _flatten_sections(node.at("criteria"), inner_tags, level + 1)


def _refuse_deep(node: Node, level: int) -> None:
    if level > MAX_LEVELS:
        raise node.error(f"rubrics are nested more than {MAX_LEVELS} deep: flatten them")


def _read_text(node: Node, key: str, label: str = "") -> str:
    value = node.data[key]
    if not isinstance(value, str):
        raise node.error(f"{label}{key} is {format_value(value)}: give a text, in quotes", key)
    return value


# The options of rubrics and groups.


def _read_options(node: Node, *, allow_code: bool) -> dict[str, Any]:
    """Return the options of a rubric or a group, as its constructor takes them."""
    readers: dict[str, Callable[[Any], Any]] = {
        "aggregation": partial(_read_aggregation, allow_code=allow_code),
        "parser": partial(_read_parser, allow_code=allow_code),
        "shows": read_shows,
        "thinking": read_thinking,
        "shaping": partial(_read_shaping, allow_code=allow_code),
        "ask_judge": read_ask_judge,
        "reference": read_reference,
    }
    options: dict[str, Any] = {}
    if "name" in node.data:
        options["name"] = _read_text(node, "name")
    for key, read in readers.items():
        if key in node.data:
            try:
                options[key] = read(node.data[key])
            except RubricError as error:
                raise node.error(str(error), key) from error
    return options


def _read_aggregation(spec: Any, *, allow_code: bool) -> Any:
    if callable(spec) or (isinstance(spec, str) and spec in AGGREGATIONS):
        return spec
    if isinstance(spec, str) and is_reference(spec):
        return import_function(spec, allow_code=allow_code)
    raise RubricError(
        f"there is no aggregation {format_value(spec)}: {suggest_word(spec, AGGREGATIONS)}"
    )


def _read_parser(spec: Any, *, allow_code: bool) -> Parser:
    """Return the parser that a file names: a built-in one, or one of a module of the user."""
    if not isinstance(spec, str) or not is_reference(spec):
        return parser_of(spec)
    if not allow_code:
        raise RubricError(
            f"{spec!r} names code: if you trust this file, give --allow-code, in Python allow_code=True"
        )
    parser = import_object(spec)
    if isinstance(parser, type):
        parser = parser()
    if not isinstance(parser, Parser):
        raise RubricError(f"{spec!r} is {format_value(parser)}: name a Parser")
    return parser


def _read_shaping(shaping: Any, *, allow_code: bool) -> Any:
    if not isinstance(shaping, list):
        return read_shaping(shaping)  # raises an error about it
    parts: list[Any] = []
    for part in cast("list[Any]", shaping):
        if isinstance(part, str) and is_reference(part):
            parts.append(import_function(part, allow_code=allow_code))
        else:
            parts.append(part)
    return read_shaping(parts)


# Golden examples: completions with known verdicts, by which a rubric can be tested.

_GOLDEN_FIELDS: Final = ("prompt", "completion", "answer", "task", "info")
_BOUND_NAMES: Final = ("at_least", "at_most")


@dataclass(frozen=True, slots=True)
class Golden:
    """A rollout, and the answers that its rubric should give."""

    name: str
    # The rollout: `completion`, and any of `prompt`, `answer`, `task` and `info`.
    fields: Mapping[str, Any]
    # The expected answers by the name of the criterion. Others may have any answer.
    expect: Mapping[str, Expected]
    # What the score has to be: `at_least`, `at_most` or both. Empty if it may be anything.
    score: Mapping[str, float] = field(default_factory=dict[str, float])
    # Further columns of the row, for criteria that name them.
    columns: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def row(self) -> dict[str, Any]:
        """The rollout with its further columns."""
        return {**self.columns, **self.fields}

    def to_dict(self) -> dict[str, Any]:
        """Return the example as a file holds it."""
        data: dict[str, Any] = {"name": self.name, **self.fields}
        for key in ("columns", "expect", "score"):
            value = getattr(self, key)
            if value:
                data[key] = dict(value)
        return data


def _read_golden_examples(node: Node, criteria: Sequence[Criterion]) -> tuple[Golden, ...]:
    """Return the examples in a list, for a rubric with these criteria."""
    if not node.is_list or not node.data:
        raise node.error(f"golden is {format_value(node.data)}: give a list of examples")
    criteria_by_name = {criterion.name: criterion for criterion in criteria}
    examples: dict[str, Golden] = {}
    for index, example_node in enumerate(node.items()):
        entry = CriterionEntry(example_node, f"golden example {index + 1}")
        example = _read_golden(entry, f"golden_{index + 1}", criteria_by_name)
        if example.name in examples:
            raise entry.error(
                f"name is {example.name!r}, as for another: give each its own name", "name"
            )
        examples[example.name] = example
    return tuple(examples.values())


def _read_golden(
    entry: CriterionEntry, default_name: str, criteria: Mapping[str, Criterion]
) -> Golden:
    """Return one example; raise an error about the first field that is wrong."""
    data = entry.node.data
    if not entry.node.is_mapping:
        raise entry.error(f"expected a mapping, not {format_value(data)}")
    known = ("name", *_GOLDEN_FIELDS, "columns", "expect", "score")
    entry.node.refuse_unknown(known, f"{entry.label}: ")
    if "completion" not in data:
        raise entry.error("completion is missing: give it")
    if "expect" not in data and "score" not in data:
        raise entry.error(
            "expect is missing: give it, or a `score` such as {at_least: 0.8}, or both"
        )
    for key, value in data.items():
        _check_golden_field(entry, key, value)
    if "expect" in data and not data["expect"]:
        raise entry.error("expect is empty: name a criterion, and its verdict", "expect")
    expect: dict[str, Expected] = {}
    for name, answer in data.get("expect", {}).items():
        if name not in criteria:
            raise entry.error(
                f"there is no criterion {format_value(name)}: {suggest_word(name, criteria)}",
                "expect",
            )
        expect[name] = _read_expected(entry, criteria[name], answer)
    return Golden(
        name=data.get("name", default_name),
        fields={key: data[key] for key in _GOLDEN_FIELDS if key in data},
        expect=expect,
        score=_read_bounds(entry, data.get("score", {})),
        columns=data.get("columns", {}),
    )


def _read_bounds(entry: CriterionEntry, bounds: Any) -> dict[str, float]:
    """Return the bounds of the score of an example; a number stands for both of them."""
    if _is_finite_number(bounds):
        return {"at_least": float(bounds), "at_most": float(bounds)}
    problem = f"score is {format_value(bounds)}: give {{at_least: 0.8}}, {{at_most: 0.2}} or both"
    if not isinstance(bounds, Mapping):
        raise entry.error(problem, "score")
    read: dict[str, float] = {}
    for name, bound in cast("Mapping[Any, object]", bounds).items():
        if name not in _BOUND_NAMES or not _is_finite_number(bound):
            raise entry.error(problem, "score")
        read[name] = float(bound)
    if read.get("at_least", -MAX_MAGNITUDE) > read.get("at_most", MAX_MAGNITUDE):
        raise entry.error(f"score is {format_value(read)}: no score is between the two", "score")
    return read


def _check_golden_field(entry: CriterionEntry, key: str, value: Any) -> None:
    """Raise an error if a field of a golden example has a value of the wrong type."""
    if key in ("name", "task"):
        if not isinstance(value, str) or not value:
            raise entry.error(f"{key} is {format_value(value)}: give a text, in quotes", key)
    elif key in ("prompt", "completion"):
        if not isinstance(value, str) and not _is_chat(value):
            raise entry.error(f"{key} is {format_value(value)}: give a text, or messages", key)
    elif key in ("info", "expect", "columns") and not isinstance(value, Mapping):
        raise entry.error(f"{key} is {format_value(value)}: give a mapping", key)


def _is_chat(value: Any) -> bool:
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(message, Mapping) for message in cast("list[object]", value))


def _read_expected(entry: CriterionEntry, criterion: Criterion, answer: object) -> Expected:
    """Return an expected answer, spelled as in the criterion; raise if it can never be given."""
    labels = criterion.choices
    if criterion.may_not_apply:
        labels = (*labels, NOT_APPLICABLE)
    if isinstance(answer, str):
        for label in labels:
            if label.strip().casefold() == answer.strip().casefold():
                return label
    elif _is_finite_number(answer) and not criterion.judged:
        return float(answer)
    allowed = ", ".join(labels)
    if not criterion.judged:
        allowed += " or a number"
    raise entry.error(
        f"{criterion.name} is expected to be {format_value(answer)}: give {allowed}", "expect"
    )


def _is_finite_number(value: object) -> TypeGuard[float]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) <= MAX_MAGNITUDE
