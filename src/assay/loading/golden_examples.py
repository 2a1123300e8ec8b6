"""Read golden examples: completions with known verdicts, which a rubric carries to be tested by."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

from assay.criterion import NOT_APPLICABLE, Criterion
from assay.loading.document import Node
from assay.wording import did_you_mean, short_repr

Expected: TypeAlias = str | float
"""A verdict on offer; or a number, of what code answers with one."""

_FIELDS: Final = ("prompt", "completion", "answer", "task", "info")
_KEYS: Final = ("name", *_FIELDS, "expect")


@dataclass(frozen=True, slots=True)
class Golden:
    """A rollout, and the verdicts that its rubric should come to.

    >>> example = Golden("polite", {"completion": "Good morning."}, {"is_rude": "UNMET"})
    >>> example.to_dict()
    {'name': 'polite', 'completion': 'Good morning.', 'expect': {'is_rude': 'UNMET'}}
    """

    name: str
    fields: Mapping[str, Any]
    """The rollout: `completion`, and any of `prompt`, `answer`, `task` and `info`."""
    expect: Mapping[str, Expected]
    """What the criteria should answer, by name; those that are left out may answer anything."""

    def to_dict(self) -> dict[str, Any]:
        """The example as a file holds it."""
        return {"name": self.name, **self.fields, "expect": dict(self.expect)}


def golden_at(node: Node, criteria: Sequence[Criterion]) -> tuple[Golden, ...]:
    """The examples that stand at a node of a file, for a rubric of these criteria."""
    listed: Any = node.data
    if not isinstance(listed, list) or not listed:
        raise node.error(f"golden is {short_repr(cast('object', listed))}: give a list of examples")
    by_name = {criterion.name: criterion for criterion in criteria}
    found: dict[str, Golden] = {}
    for index in range(len(cast("list[object]", listed))):
        entry = _Entry(node.at(index), index)
        example = entry.read(by_name)
        if example.name in found:
            raise entry.error(f"name is {example.name!r}, as for another: give each its own", "name")
        found[example.name] = example
    return tuple(found.values())


@dataclass(frozen=True, slots=True)
class _Entry:
    """One example as it stands in a file."""

    node: Node
    index: int

    def error(self, message: str, field: str = "") -> Exception:
        return self.node.error(f"golden example at index {self.index}: {message}", field)

    def read(self, criteria: Mapping[str, Criterion]) -> Golden:
        given = self.node.data
        if not self.node.is_mapping:
            raise self.error(f"expected a mapping, and this is {short_repr(given)}")
        for key in given:
            if key not in _KEYS:
                raise self.error(f"{short_repr(key)} is no field: {did_you_mean(key, _KEYS)}", str(key))
        for key in ("completion", "expect"):
            if key not in given:
                raise self.error(f"{key} is missing: give it")
        self._refuse_kinds(given)
        fields = {key: given[key] for key in _FIELDS if key in given}
        name = given.get("name", f"golden_{self.index + 1}")
        return Golden(name, fields, dict(self._read_expect(given["expect"], criteria)))

    def _refuse_kinds(self, given: Mapping[str, Any]) -> None:
        for key in ("name", "task"):
            if not isinstance(given.get(key, ""), str) or given.get(key, "-") == "":
                raise self.error(f"{key} is {short_repr(given[key])}: give a text, in quotes", key)
        for key in ("prompt", "completion"):
            if not (isinstance(given.get(key, ""), str) or _is_chat(given[key])):
                raise self.error(f"{key} is {short_repr(given[key])}: give a text, or messages", key)
        for key in ("info", "expect"):
            if not isinstance(given.get(key, {}), Mapping):
                raise self.error(f"{key} is {short_repr(given[key])}: give a mapping", key)
        if not given["expect"]:
            raise self.error("expect is empty: name a criterion, and its verdict", "expect")

    def _read_expect(
        self, expect: Mapping[Any, Any], criteria: Mapping[str, Criterion]
    ) -> Iterator[tuple[str, Expected]]:
        for name, said in expect.items():
            criterion = criteria.get(name)
            if criterion is None:
                advice = did_you_mean(name, criteria)
                raise self.error(f"there is no criterion {short_repr(name)}: {advice}", "expect")
            expected = _spelled_as_offered(criterion, said)
            if expected is None:
                offered = ", ".join(_labels(criterion))
                number = " or a number" if not criterion.judged else ""
                raise self.error(f"{name} is expected to be {short_repr(said)}: give {offered}{number}", "expect")
            yield name, expected


def _is_chat(value: object) -> bool:
    """Whether this is a list of messages, as a rollout may have it."""
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(message, Mapping) for message in cast("list[object]", value))


def _labels(criterion: Criterion) -> tuple[str, ...]:
    """The verdicts that a criterion may come to. Where it is not asked, it does not apply."""
    may_not_apply = criterion.allow_na or bool(criterion.when)
    return (*criterion.choices, NOT_APPLICABLE) if may_not_apply else criterion.choices


def _spelled_as_offered(criterion: Criterion, said: object) -> Expected | None:
    """What is expected, spelled as the criterion spells it; None when it can never be."""
    if isinstance(said, str):
        folded = said.strip().casefold()
        labels = _labels(criterion)
        return next((label for label in labels if label.strip().casefold() == folded), None)
    if isinstance(said, bool) or not isinstance(said, int | float) or criterion.judged:
        return None
    return float(said) if math.isfinite(said) else None
