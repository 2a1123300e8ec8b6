"""Mend a rubric file, as a diff to approve: what is certain, and what a model proposes.

Values are changed where they stand in the text, so that every comment, blank line and quotation mark stays.
"""

import codecs
import difflib
import json
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import getitem
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from pydantic import BaseModel, Field

from assay.concurrency import run_concurrently, run_sync
from assay.criterion import Criterion
from assay.errors import ModelError, RubricError
from assay.graders.prompt_text import prompt_version, system_prompt
from assay.lint.findings import Hit
from assay.lint.lexicon import pattern, third_person
from assay.lint.linter import PlacedCriterion, place_criteria, refuse_unknown
from assay.lint.rules import hits_of_criterion
from assay.loading.document import KeyPath, Node, Position, dump_yaml, read_file, read_text
from assay.models import Model, Request, model_of
from assay.rubric import rubric_at

# What other words can mend. What is at odds with something else is for people to settle.
REWRITABLE: Final = frozenset(("R001", "R002", "R003", "R004", "R006"))


@dataclass(frozen=True)
class RubricFix:
    """A rubric file before and after. Nothing is written until `write` is called."""

    path: Path
    before: str
    after: str
    changed: tuple[str, ...] = ()  # the criteria that were mended
    notes: tuple[str, ...] = ()  # what could not be mended, and why

    @property
    def diff(self) -> str:
        """The change as a unified diff; empty when there is none."""
        before, after = (text.splitlines(keepends=True) for text in (self.before, self.after))
        rows = difflib.unified_diff(before, after, str(self.path), str(self.path))
        return "".join(row if row.endswith("\n") else f"{row}\n" for row in rows)

    def write(self) -> None:
        """Write the file, as UTF-8 with or without a byte order mark as it was."""
        had_mark = self.path.read_bytes().startswith(codecs.BOM_UTF8)
        text = self.after.encode("utf-8")
        self.path.write_bytes(codecs.BOM_UTF8 + text if had_mark else text)


def fix_rubric(
    path: str | Path, *, model: Any = None, ignore: Collection[str] = (), allow_code: bool = False
) -> RubricFix:
    """A rubric file with its faults mended, as far as that can be done without asking its author.

    Without a `model` only what is certain is changed: `does not fail to mention` becomes `mentions`, and
    the two choices of a scale that stands upside down change places. A model also splits and rewrites.
    """
    refuse_unknown(ignore)
    node = read_file(path)
    if node.document.format == "sheet":
        raise RubricError(
            f"{path} is a spreadsheet, which cannot be changed here: edit it yourself"
        )
    items = [
        item
        for criteria in place_criteria(rubric_at(node, allow_code=allow_code), node)
        for item in criteria
    ]
    changes: dict[KeyPath, Change] = {}
    left: list[tuple[PlacedCriterion, list[Hit]]] = []
    for item in items:
        found = hits_of_criterion(item.criterion)
        hits = [hit for hit in found if hit.rule not in ignore and not item.ignores(hit.rule)]
        changes[item.path] = change = _certain(item, {hit.rule for hit in hits})
        rewritable = [hit for hit in hits if hit.rule in REWRITABLE]
        if rewritable and not change.requirements:
            left.append((item, rewritable))
    notes: list[str] = []
    if model is not None:
        for (item, _), answer in zip(left, run_sync(_propose(left, model_of(model))), strict=True):
            if isinstance(answer, str):
                notes.append(answer)
            else:
                changes[item.path] = changes[item.path]._replace(requirements=answer)
    editor, made, edits = _Editor(node), list[Change](), list[Edit]()
    waited_for = {
        condition.criterion for item in items for condition in item.criterion.verdict_conditions
    }
    for change in changes.values():
        name = change.item.criterion.name
        if change.requirements and name in waited_for:
            change = change._replace(name=name)  # the `when` of another criterion knows it by that
        try:
            if change.requirements or change.choices:
                edits += editor.edits(change)
                made.append(change)
        except RubricError as error:
            notes.append(f"{change.item.name}: {error}")
    mended = editor.apply(made, edits)
    if made:
        rubric_at(mended, allow_code=allow_code)  # what is no rubric any more is not handed out
    changed = tuple(dict.fromkeys(change.item.name for change in made))
    return RubricFix(
        Path(str(node.document.path)), editor.text, mended.document.text, changed, tuple(notes)
    )


class Change(NamedTuple):
    """What becomes of one criterion."""

    item: PlacedCriterion
    requirements: tuple[
        str, ...
    ] = ()  # its new one; several split it into criteria of equal shares of the weight
    choices: tuple[str, ...] = ()  # its choices in their new order; none when they stay
    name: str = ""  # a name to write down, since others know it by that; empty when none is needed


# What is certain.

# Scales of two that can only be meant the other way round.
_SURELY_REVERSED: Final = frozenset(
    (("met", "unmet"), ("pass", "fail"), ("passed", "failed"), ("good", "bad"))
)


def _certain(item: PlacedCriterion, broken: Collection[str]) -> Change:
    """The change that needs no judgement; it may change nothing."""
    criterion, change = item.criterion, Change(item)
    if "R006" in broken and criterion.requirement is not None:
        said = said_once(criterion.requirement)
        mended = criterion.with_fields(requirement=said or criterion.requirement)
        if all(hit.rule != "R006" for hit in hits_of_criterion(mended)):
            change = change._replace(requirements=(said,))
    if "R011" in broken and tuple(c.casefold() for c in criterion.choices) in _SURELY_REVERSED:
        change = change._replace(choices=criterion.choices[::-1])
    return change


def said_once(requirement: str) -> str:
    """A requirement without `does not fail to`; empty when it does not say so."""
    found = pattern("fails_not").search(requirement)
    if found is None:
        return ""
    verb, duty = found["verb"].lower(), (found["duty"] or "").lower()
    said = {"": third_person(verb), "do": verb}.get(duty, f"{duty} {verb}")
    if found[0][0].isupper():
        said = said[0].upper() + said[1:]
    return requirement[: found.start()] + said + requirement[found.end() :]


# What a model proposes: taken only when what was wrong is gone.


class ProposedWording(BaseModel):
    """What a model proposes: the reason first, so that the words follow from it."""

    reason: str
    requirements: list[str] = Field(min_length=1, max_length=6)


async def _propose(
    items: Sequence[tuple[PlacedCriterion, list[Hit]]], model: Model
) -> list[tuple[str, ...] | str]:
    """The requirements that a model proposes for each criterion, or why it proposes none."""

    async def one(broken: tuple[PlacedCriterion, list[Hit]]) -> tuple[str, ...] | str:
        item, hits = broken
        criterion, prompt = item.criterion, ("lint_rewrite", "assay.lint")
        question = {name: getattr(criterion, name) for name in ("requirement", "weight", "choices")}
        question["problems"] = [f"{hit.message}; {hit.fix}" for hit in hits]
        user = json.dumps(question, ensure_ascii=False, indent=1)
        request = replace(
            Request.of(system_prompt(*prompt), user, schema=ProposedWording),
            check=partial(_complaint, criterion, {hit.rule for hit in hits}),
            prompt=prompt_version(*prompt),
            question=criterion.question_hash,
        )
        try:
            return tuple(
                " ".join(text.split()) for text in (await model(request)).value.requirements
            )
        except ModelError as error:
            return f"{item.name}: {error}"

    return await run_concurrently(one, items, limit=8) if items else []


def _complaint(criterion: Criterion, wrong: set[str], proposed: ProposedWording) -> str | None:
    if len(proposed.requirements) > 1 and "R001" not in wrong:
        return "it splits a criterion that asks one thing: give one requirement"
    for text in proposed.requirements:
        if not text.strip() or len(text) > 2_000:
            return f"a requirement is {'blank' if not text.strip() else 'too long'}: write one sentence"
        for hit in hits_of_criterion(criterion.with_fields(requirement=text, name="")):
            if hit.rule in REWRITABLE:
                return f"{text!r} is no better: {hit.message}; {hit.fix}"
    return None


# Criteria changed where they stand in a file.

Edit: TypeAlias = tuple[
    int, int, str
]  # where a change begins and ends in a text, and what comes instead


class _Editor:
    """A file that is edited in place, so that comments and quotation marks stay."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.text = node.document.text
        self.newline = "\r\n" if "\r\n" in self.text else "\n"

    def apply(self, changes: Sequence[Change], edits: Sequence[Edit]) -> Node:
        """The file with these changes made, read back. Raises `RubricError` when it does not hold what it should."""
        text, expected, document = self.text, deepcopy(self.node.data), self.node.document
        for start, end, instead in sorted(edits, reverse=True):
            text = text[:start] + instead + text[end:]
        # From the last to the first: a split moves only what comes after it, and inner rubrics come after outer ones.
        for change in reversed(changes):
            *around, index = change.item.path
            entries = reduce(getitem, around, expected)
            assert isinstance(index, int)
            entries[index : index + 1] = _parts(entries[index], change)
        mended = read_text(text, document.format, document.path)
        if mended.data != expected:
            raise RubricError(
                "it is written in a way that cannot be edited in place: do it by hand"
            )
        return mended

    def edits(self, change: Change) -> list[Edit]:
        """The edits of one criterion. Raises `RubricError` when it cannot be changed in place."""
        if change.name and len(change.requirements) > 1:
            asked = f"the `when` of another asks for {change.name!r}"
            raise RubricError(f"it asks two things, and {asked}: split it by hand")
        if self.node.document.format == "toml":
            raise RubricError("TOML is not edited in place: do it by hand")
        path, entry = change.item.path, reduce(getitem, change.item.path, self.node.data)
        edits: list[Edit] = []
        if change.choices:  # each goes with its quotation marks
            here = [self._position((*path, "choices", n)) for n in range(len(change.choices))]
            written = {
                label: self.text[at.start : at.end]
                for label, at in zip(entry["choices"], here, strict=True)
            }
            edits += [
                (at.start, at.end, written[label])
                for at, label in zip(here, change.choices, strict=True)
            ]
        if change.requirements:
            first, *others = _parts(entry, change)
            # The requirement in its place, fields that are new after it, and a new weight.
            at = self._position((*path, "requirement"))
            words = self._scalar(first["requirement"], at)
            words += "".join(
                self._field(key, value, at) for key, value in first.items() if key not in entry
            )
            # A block ends with its line.
            edits.append((at.start, at.end, words + self.newline * (self.text[at.end - 1] == "\n")))
            if "weight" in entry and first["weight"] != entry["weight"]:
                weight = self._position((*path, "weight"))
                edits.append((weight.start, weight.end, json.dumps(first["weight"])))
            if others:
                edits.append(self._append(path, others))
        return edits

    def _field(self, key: str, value: Any, beside: Position) -> str:
        if beside.key_start is None or beside.in_brackets:
            name = f'"{key}"' if self.node.document.format == "json" else key
            return f", {name}: {_quoted(value)}"
        return f"{self.newline}{' ' * self._column(beside.key_start)}{key}: {_yaml_scalar(value)}"

    def _append(self, path: KeyPath, entries: Sequence[dict[str, Any]]) -> Edit:
        """Further entries of the list, after the one that stands there."""
        here = self._position(path)
        if here.in_brackets:
            # On lines of their own where the entry before them is.
            column = self._column(here.start)
            stands_alone = column and not self.text[here.start - column : here.start].strip()
            space = f"{self.newline}{' ' * column}" if stands_alone else " "
            return here.end, here.end, "".join(f",{space}{_quoted(entry)}" for entry in entries)
        dash = self.text.rfind("-", 0, here.start)
        indent = self._column(dash)
        if self.text[dash - indent : dash].strip() or self.text[dash + 1 : here.start].strip():
            raise RubricError("its list is written in a way that cannot be edited: do it by hand")
        block = self.newline.join(
            f"{' ' * indent}{row}" for row in dump_yaml(entries).rstrip("\n").split("\n")
        )
        if self.text[here.end - 1] == "\n":
            return here.end, here.end, f"{block}{self.newline}"
        end = self.text.find("\n", here.end)
        end = len(self.text) if end < 0 else end - (self.text[end - 1] == "\r")
        return end, end, f"{self.newline}{block}"

    def _position(self, path: KeyPath) -> Position:
        position = self.node.document.positions.get(path)
        if position is None or position.is_shared:
            raise RubricError("it is written with an anchor or an alias: do it by hand")
        return position

    def _scalar(self, value: str, here: Position) -> str:
        """A text in the quotation marks of the one that it replaces."""
        if here.style == "'":
            return "'" + value.replace("'", "''") + "'"
        is_quoted = here.style == '"' or self.node.document.format == "json"
        return _quoted(value) if is_quoted else _yaml_scalar(value, in_brackets=here.in_brackets)

    def _column(self, place: int) -> int:
        return place - (self.text.rfind("\n", 0, place) + 1)


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _yaml_scalar(value: Any, *, in_brackets: bool = False) -> str:
    """Return a value as YAML, without quotation marks if it is the same when read again."""
    if not isinstance(value, str) or "\n" in value:
        return _quoted(value)
    try:
        if in_brackets:
            is_unchanged = read_text(f"[{value}]\n", "yaml").data == [value]
        else:
            is_unchanged = read_text(f"key: {value} # \n", "yaml").data == {"key": value}
    except RubricError:
        is_unchanged = False
    return value if is_unchanged else _quoted(value)


def _parts(entry: Mapping[str, Any], change: Change) -> list[dict[str, Any]]:
    """Return the entries that replace one. Several of them share its weight equally."""
    requirements = change.requirements or (entry["requirement"],)
    count = len(requirements)
    parts: list[dict[str, Any]] = []
    for number, requirement in enumerate(requirements, start=1):
        part = deepcopy(dict(entry)) | {"requirement": requirement}
        if change.choices:
            part["choices"] = list(change.choices)
        if change.name:
            part.setdefault("name", change.name)
        if number > 1 and "name" in part:
            part["name"] = f"{part['name']}_{number}"
        if count > 1:
            part["weight"] = round(float(entry.get("weight", 1.0)) / count, 6)
        parts.append(part)
    return parts
