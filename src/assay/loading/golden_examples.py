"""Read golden examples: completions with known verdicts, which a rubric carries to be tested by."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias, cast

from assay.criterion import NOT_APPLICABLE, Criterion
from assay.loading.document import Node
from assay.wording import did_you_mean, short_repr

Expected: TypeAlias = str | float  # a verdict on offer; or a number, of what code answers with one

_FIELDS: Final = ("prompt", "completion", "answer", "task", "info")
_KEYS: Final = ("name", *_FIELDS, "expect")


@dataclass(frozen=True, slots=True)
class Golden:
    """A rollout, and the verdicts that its rubric should come to."""

    name: str
    fields: Mapping[str, Any]  # the rollout: `completion`, and any of `prompt`, `answer`, `task` and `info`
    expect: Mapping[str, Expected]
    """What the criteria should answer, by name; those that are left out may answer anything."""

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, **self.fields, "expect": dict(self.expect)}


def golden_at(node: Node, criteria: Sequence[Criterion]) -> tuple[Golden, ...]:
    """The examples that stand at a node of a file, for a rubric of these criteria."""
    listed: Any = node.data
    if not isinstance(listed, list) or not listed:
        raise node.error(f"golden is {short_repr(cast('object', listed))}: give a list of examples")
    by_name = {criterion.name: criterion for criterion in criteria}
    found: dict[str, Golden] = {}
    for index in range(len(cast("list[object]", listed))):
        example = _read(node.at(index), index, by_name)
        if example.name in found:
            raise _error(node.at(index), index, f"name is {example.name!r}, as for another: give each its own", "name")
        found[example.name] = example
    return tuple(found.values())


def _error(node: Node, index: int, message: str, field: str = "") -> Exception:
    return node.error(f"golden example at index {index}: {message}", field)


def _read(node: Node, index: int, criteria: Mapping[str, Criterion]) -> Golden:
    given, error = node.data, partial(_error, node, index)
    if not node.is_mapping:
        raise error(f"expected a mapping, and this is {short_repr(given)}")
    node.refuse_unknown(_KEYS, f"golden example at index {index}: ")
    for key in ("completion", "expect"):
        if key not in given:
            raise error(f"{key} is missing: give it")
    for key, value in given.items():
        said = f"{key} is {short_repr(value)}"
        if key in ("name", "task") and (not isinstance(value, str) or not value):
            raise error(f"{said}: give a text, in quotes", key)
        turns = cast("list[object]", value) if isinstance(value, list) else []
        is_chat = turns and all(isinstance(turn, Mapping) for turn in turns)
        if key in ("prompt", "completion") and not isinstance(value, str) and not is_chat:
            raise error(f"{said}: give a text, or messages", key)
        if key in ("info", "expect") and not isinstance(value, Mapping):
            raise error(f"{said}: give a mapping", key)
    if not given["expect"]:
        raise error("expect is empty: name a criterion, and its verdict", "expect")
    expect: dict[str, Expected] = {}
    for name, said in given["expect"].items():
        criterion = criteria.get(name)
        if criterion is None:
            raise error(f"there is no criterion {short_repr(name)}: {did_you_mean(name, criteria)}", "expect")
        # Where a criterion is not asked, it does not apply.
        may_not_apply = criterion.allow_na or bool(criterion.when)
        labels = (*criterion.choices, NOT_APPLICABLE) if may_not_apply else criterion.choices
        expected = _spelled_as_offered(criterion, labels, said)
        if expected is None:
            number = " or a number" if not criterion.judged else ""
            raise error(f"{name} is expected to be {short_repr(said)}: give {', '.join(labels)}{number}", "expect")
        expect[name] = expected
    fields = {key: given[key] for key in _FIELDS if key in given}
    return Golden(given.get("name", f"golden_{index + 1}"), fields, expect)


def _spelled_as_offered(criterion: Criterion, labels: Sequence[str], said: object) -> Expected | None:
    """What is expected, spelled as the criterion spells it; None when it can never be."""
    if isinstance(said, str):
        return next((label for label in labels if label.strip().casefold() == said.strip().casefold()), None)
    if isinstance(said, bool) or not isinstance(said, int | float) or criterion.judged:
        return None
    return float(said) if math.isfinite(said) else None
