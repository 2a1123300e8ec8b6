"""Fix a rubric file, as a diff to approve: what is certain, and what a model proposes.

Values are changed in place in the text, so that every comment, blank line and quotation mark stays.
"""

import codecs
import difflib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import getitem
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, Field

from assay.concurrency import run_concurrently, run_sync
from assay.criterion import Criterion
from assay.errors import ModelError, RubricError
from assay.graders.prompt_text import prompt_version, system_prompt
from assay.lint.findings import Hit
from assay.lint.lexicon import pattern, third_person
from assay.lint.linter import PlacedCriterion, place_criteria, refuse_unknown
from assay.lint.rules import find_hits
from assay.loading.document import KeyPath, Node, Position, dump_yaml, read_file, read_text
from assay.models import Model, Request, model_of
from assay.rubric import rubric_at

# The rules whose hits another wording can fix. For a conflict with another criterion, for example,
# people have to decide which of the two is right.
REWRITABLE: Final = frozenset(("R001", "R002", "R003", "R004", "R006"))


@dataclass(frozen=True)
class RubricFix:
    """A rubric file before and after. Nothing is written until `write` is called."""

    path: Path
    before: str
    after: str
    changed: tuple[str, ...] = ()  # the names of the criteria that were changed
    notes: tuple[str, ...] = ()  # what could not be fixed, and why

    @property
    def diff(self) -> str:
        """The change as a unified diff; empty if there is none."""
        diff_lines = difflib.unified_diff(
            self.before.splitlines(keepends=True),
            self.after.splitlines(keepends=True),
            fromfile=str(self.path),
            tofile=str(self.path),
        )
        # The last line of a file may have no line break.
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in diff_lines)

    def write(self) -> None:
        """Write the file as UTF-8, with a byte order mark if it had one."""
        had_mark = self.path.read_bytes().startswith(codecs.BOM_UTF8)
        text = self.after.encode("utf-8")
        self.path.write_bytes(codecs.BOM_UTF8 + text if had_mark else text)


class Change(NamedTuple):
    """The change of one criterion. Empty fields change nothing."""

    item: PlacedCriterion
    # The new requirement. Several split the criterion into several ones, which share its weight.
    requirements: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()  # the choices in their new order
    # A name to write into the file, since the `when` of another criterion uses it.
    name: str = ""


def fix_rubric(
    path: str | Path, *, model: Any = None, ignore: Collection[str] = (), allow_code: bool = False
) -> RubricFix:
    """Fix the faults of a rubric file, as far as that is possible without asking its author.

    Without a `model`, only what is certain is changed: `does not fail to mention` becomes
    `mentions`, and the two choices of a reversed scale are exchanged. A model also splits and
    rewrites requirements.
    """
    refuse_unknown(ignore)
    node = read_file(path)
    if node.document.format == "sheet":
        raise RubricError(
            f"{path} is a spreadsheet, which cannot be changed here: edit it yourself"
        )
    items: list[PlacedCriterion] = []
    for placed in place_criteria(rubric_at(node, allow_code=allow_code), node):
        items += placed

    changes: dict[KeyPath, Change] = {}
    # The criteria for a model to rewrite, each with its hits.
    to_rewrite: list[tuple[PlacedCriterion, list[Hit]]] = []
    for item in items:
        hits: list[Hit] = []
        for hit in find_hits(item.criterion):
            if hit.rule not in ignore and not item.ignores(hit.rule):
                hits.append(hit)
        change = _make_certain_change(item, {hit.rule for hit in hits})
        changes[item.path] = change
        rewritable = [hit for hit in hits if hit.rule in REWRITABLE]
        if rewritable and not change.requirements:
            to_rewrite.append((item, rewritable))
    notes: list[str] = []
    if model is not None:
        proposals = run_sync(_propose(to_rewrite, model_of(model)))
        for (item, _), proposal in zip(to_rewrite, proposals, strict=True):
            if isinstance(proposal, str):  # why there is none
                notes.append(proposal)
            else:
                changes[item.path] = changes[item.path]._replace(requirements=proposal)

    editor = _Editor(node)
    made, edits, notes_of_edits = _make_all_edits(editor, _keep_names(changes.values(), items))
    fixed = editor.apply(made, edits)
    if made:
        rubric_at(fixed, allow_code=allow_code)  # raises if it is not a valid rubric any more
    return RubricFix(
        path=Path(str(node.document.path)),
        before=editor.text,
        after=fixed.document.text,
        changed=tuple(dict.fromkeys(change.item.name for change in made)),
        notes=(*notes, *notes_of_edits),
    )


def _keep_names(changes: Iterable[Change], items: Sequence[PlacedCriterion]) -> list[Change]:
    """Return changes that write down the names which the `when` of another criterion uses.

    The name of a criterion may be made from its requirement, and would change with it.
    """
    names_in_conditions: set[str] = set()
    for item in items:
        for condition in item.criterion.verdict_conditions:
            names_in_conditions.add(condition.criterion)
    kept: list[Change] = []
    for change in changes:
        name = change.item.criterion.name
        if change.requirements and name in names_in_conditions:
            change = change._replace(name=name)
        kept.append(change)
    return kept


def _make_all_edits(
    editor: "_Editor", changes: Sequence[Change]
) -> "tuple[list[Change], list[Edit], list[str]]":
    """Return the changes that can be made in place, their edits, and notes on the other changes."""
    made: list[Change] = []
    edits: list[Edit] = []
    notes: list[str] = []
    for change in changes:
        if not change.requirements and not change.choices:
            continue
        try:
            edits += editor.make_edits(change)
        except RubricError as error:
            notes.append(f"{change.item.name}: {error}")
        else:
            made.append(change)
    return made, edits, notes


# What is certain.

# Pairs of choices that can only be meant in the opposite order.
_SURELY_REVERSED: Final = frozenset(
    (("met", "unmet"), ("pass", "fail"), ("passed", "failed"), ("good", "bad"))
)


def _make_certain_change(item: PlacedCriterion, broken_rules: Collection[str]) -> Change:
    """Return the change that needs no judgement, which may be empty."""
    criterion = item.criterion
    change = Change(item)
    # R006: a double negation.
    if "R006" in broken_rules and criterion.requirement is not None:
        requirement = remove_double_negation(criterion.requirement)
        if requirement is not None:
            fixed = criterion.with_fields(requirement=requirement)
            is_fixed = all(hit.rule != "R006" for hit in find_hits(fixed))
            if is_fixed:
                change = change._replace(requirements=(requirement,))
    # R011: choices that do not run from worst to best.
    choices = tuple(choice.casefold() for choice in criterion.choices)
    if "R011" in broken_rules and choices in _SURELY_REVERSED:
        change = change._replace(choices=criterion.choices[::-1])
    return change


def remove_double_negation(requirement: str) -> str | None:
    """Return a requirement without `does not fail to`; None if it does not contain that."""
    match = pattern("fails_not").search(requirement)
    if match is None:
        return None
    verb = match["verb"].lower()
    auxiliary = (match["duty"] or "").lower()  # such as "must" or "do"; empty for "does"
    if not auxiliary:
        positive = third_person(verb)
    elif auxiliary == "do":
        positive = verb
    else:
        positive = f"{auxiliary} {verb}"
    if match[0][0].isupper():
        positive = positive[0].upper() + positive[1:]
    return requirement[: match.start()] + positive + requirement[match.end() :]


# What a model proposes. It is used only if the faults are gone.


class ProposedWording(BaseModel):
    """A model's proposal. The reason comes first, so that the wording follows from it."""

    reason: str
    requirements: list[str] = Field(min_length=1, max_length=6)


async def _propose(
    items: Sequence[tuple[PlacedCriterion, list[Hit]]], model: Model
) -> list[tuple[str, ...] | str]:
    """Return the requirements that a model proposes for each criterion, or why there are none."""
    prompt = ("lint_rewrite", "assay.lint")

    async def propose_one(
        item_and_hits: tuple[PlacedCriterion, list[Hit]],
    ) -> tuple[str, ...] | str:
        """Return the requirements for one criterion, or why there are none."""
        item, hits = item_and_hits
        criterion = item.criterion
        question = {
            "requirement": criterion.requirement,
            "weight": criterion.weight,
            "choices": criterion.choices,
            "problems": [f"{hit.message}; {hit.fix}" for hit in hits],
        }
        user_prompt = json.dumps(question, ensure_ascii=False, indent=1)
        broken_rules = {hit.rule for hit in hits}
        request = replace(
            Request.of(system_prompt(*prompt), user_prompt, schema=ProposedWording),
            check=partial(_find_objection, criterion, broken_rules),
            prompt=prompt_version(*prompt),
            question=criterion.question_hash,
        )
        try:
            reply = await model(request)
        except ModelError as error:
            return f"{item.name}: {error}"
        return tuple(" ".join(text.split()) for text in reply.value.requirements)

    return await run_concurrently(propose_one, items, limit=8) if items else []


def _find_objection(
    criterion: Criterion, broken_rules: set[str], proposed: ProposedWording
) -> str | None:
    """Return what is wrong with a proposal, which the model is then told; None if nothing is."""
    if len(proposed.requirements) > 1 and "R001" not in broken_rules:
        return "it splits a criterion that asks one thing: give one requirement"
    for text in proposed.requirements:
        if not text.strip():
            return "a requirement is blank: write one sentence"
        if len(text) > 2_000:
            return "a requirement is too long: write one sentence"
        for hit in find_hits(criterion.with_fields(requirement=text, name="")):
            if hit.rule in REWRITABLE:
                return f"{text!r} is no better: {hit.message}; {hit.fix}"
    return None


# Criteria that are changed in place in a file.


class Edit(NamedTuple):
    """The replacement of the characters from `start` to `end` of a text."""

    start: int
    end: int
    replacement: str


class _Editor:
    """Changes criteria in the text of a file, so that comments and quotation marks stay."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.text = node.document.text
        self.newline = "\r\n" if "\r\n" in self.text else "\n"

    def apply(self, changes: Sequence[Change], edits: Sequence[Edit]) -> Node:
        """Make the edits of these changes, and return the new text as it is read back.

        Raise `RubricError` if it does not contain the data that the changes should lead to.
        """
        document = self.node.document
        text = self.text
        # From the last to the first, so that the positions of the others stay valid.
        for start, end, replacement in sorted(edits, reverse=True):
            text = text[:start] + replacement + text[end:]
        expected = deepcopy(self.node.data)
        # Again from the last to the first, since a split moves the entries that come after it. Inner
        # rubrics come after outer ones.
        for change in reversed(changes):
            *path_of_list, index = change.item.path
            assert isinstance(index, int)
            entries = reduce(getitem, path_of_list, expected)
            entries[index : index + 1] = _make_entries(entries[index], change)
        edited = read_text(text, document.format, document.path)
        if edited.data != expected:
            raise RubricError(
                "it is written in a way that cannot be edited in place: do it by hand"
            )
        return edited

    def make_edits(self, change: Change) -> list[Edit]:
        """Return the edits for a change. Raise `RubricError` if it is not possible in place."""
        if change.name and len(change.requirements) > 1:
            raise RubricError(
                f"it asks two things, and the `when` of another asks for {change.name!r}: "
                "split it by hand"
            )
        if self.node.document.format == "toml":
            raise RubricError("TOML is not edited in place: do it by hand")
        path = change.item.path
        entry = reduce(getitem, path, self.node.data)
        edits: list[Edit] = []
        if change.choices:
            edits += self._reorder_choices(path, entry["choices"], change.choices)
        if change.requirements:
            first_entry, *other_entries = _make_entries(entry, change)
            edits += self._edit_entry(path, entry, first_entry)
            if other_entries:
                edits.append(self._insert_after(path, other_entries))
        return edits

    def _reorder_choices(
        self, path: KeyPath, choices: Sequence[str], new_choices: Sequence[str]
    ) -> list[Edit]:
        """Return the edits that write choices in another order, with their quotation marks."""
        positions = [self._find_position((*path, "choices", n)) for n in range(len(choices))]
        written: dict[str, str] = {}
        for choice, position in zip(choices, positions, strict=True):
            written[choice] = self.text[position.start : position.end]
        edits: list[Edit] = []
        for position, new_choice in zip(positions, new_choices, strict=True):
            edits.append(Edit(position.start, position.end, written[new_choice]))
        return edits

    def _edit_entry(
        self, path: KeyPath, entry: Mapping[str, Any], new_entry: Mapping[str, Any]
    ) -> list[Edit]:
        """Return the edits for another requirement, another weight and new fields of an entry."""
        position = self._find_position((*path, "requirement"))
        replacement = self._write_scalar(new_entry["requirement"], position)
        for key, value in new_entry.items():
            if key not in entry:  # new fields follow the requirement
                replacement += self._write_field(key, value, position)
        if self.text[position.end - 1] == "\n":  # a block of YAML includes the end of its last line
            replacement += self.newline
        edits = [Edit(position.start, position.end, replacement)]
        if "weight" in entry and new_entry["weight"] != entry["weight"]:
            weight = self._find_position((*path, "weight"))
            edits.append(Edit(weight.start, weight.end, json.dumps(new_entry["weight"])))
        return edits

    def _write_field(self, key: str, value: Any, neighbour: Position) -> str:
        """Return a new field in the form of its neighbour: in brackets, or on a line of its own."""
        if neighbour.key_start is None or neighbour.in_brackets:
            written_key = f'"{key}"' if self.node.document.format == "json" else key
            return f", {written_key}: {_to_json(value)}"
        indent = " " * self._get_column(neighbour.key_start)
        return f"{self.newline}{indent}{key}: {_to_yaml_scalar(value)}"

    def _insert_after(self, path: KeyPath, entries: Sequence[dict[str, Any]]) -> Edit:
        """Return the edit that adds entries to a list, after the one at this path."""
        position = self._find_position(path)
        if position.in_brackets:
            # If the entry before them begins a line, each of them is on a line of its own, too.
            column = self._get_column(position.start)
            text_before = self.text[position.start - column : position.start]
            begins_line = column > 0 and not text_before.strip()
            separator = f"{self.newline}{' ' * column}" if begins_line else " "
            written = "".join(f",{separator}{_to_json(entry)}" for entry in entries)
            return Edit(position.end, position.end, written)
        # A YAML list with a dash before each entry.
        dash = self.text.rfind("-", 0, position.start)
        indent = self._get_column(dash)
        text_before_dash = self.text[dash - indent : dash]
        text_after_dash = self.text[dash + 1 : position.start]
        if text_before_dash.strip() or text_after_dash.strip():
            raise RubricError("its list is written in a way that cannot be edited: do it by hand")
        lines = dump_yaml(entries).rstrip("\n").split("\n")
        block = self.newline.join(f"{' ' * indent}{line}" for line in lines)
        if self.text[position.end - 1] == "\n":
            return Edit(position.end, position.end, f"{block}{self.newline}")
        # The entry ends within a line, which may end with a comment.
        line_end = self.text.find("\n", position.end)
        if line_end < 0:
            line_end = len(self.text)
        elif self.text[line_end - 1] == "\r":
            line_end -= 1
        return Edit(line_end, line_end, f"{self.newline}{block}")

    def _find_position(self, path: KeyPath) -> Position:
        """Return where a value is in the text; raise if a change would also change other values."""
        position = self.node.document.positions.get(path)
        if position is None or position.is_shared:
            raise RubricError("it is written with an anchor or an alias: do it by hand")
        return position

    def _write_scalar(self, value: str, position: Position) -> str:
        """Return a text in the quotation marks of the one at this position, which it replaces."""
        if position.style == "'":
            return "'" + value.replace("'", "''") + "'"
        if position.style == '"' or self.node.document.format == "json":
            return _to_json(value)
        return _to_yaml_scalar(value, in_brackets=position.in_brackets)

    def _get_column(self, index: int) -> int:
        """Return how many characters there are before an index in its line."""
        line_start = self.text.rfind("\n", 0, index) + 1
        return index - line_start


def _to_json(value: Any) -> str:
    """Return a value as JSON, which is also YAML in brackets and quotation marks."""
    return json.dumps(value, ensure_ascii=False)


def _to_yaml_scalar(value: Any, *, in_brackets: bool = False) -> str:
    """Return a value as YAML, without quotation marks if it is the same when read again."""
    if not isinstance(value, str) or "\n" in value:
        return _to_json(value)
    try:
        if in_brackets:
            is_unchanged = read_text(f"[{value}]\n", "yaml").data == [value]
        else:
            is_unchanged = read_text(f"key: {value} # \n", "yaml").data == {"key": value}
    except RubricError:
        is_unchanged = False
    return value if is_unchanged else _to_json(value)


def _make_entries(entry: Mapping[str, Any], change: Change) -> list[dict[str, Any]]:
    """Return the entries that replace one. Several of them share its weight equally."""
    requirements = change.requirements or (entry["requirement"],)
    count = len(requirements)
    entries: list[dict[str, Any]] = []
    for number, requirement in enumerate(requirements, start=1):
        new_entry = deepcopy(dict(entry)) | {"requirement": requirement}
        if change.choices:
            new_entry["choices"] = list(change.choices)
        if change.name:
            new_entry.setdefault("name", change.name)
        if number > 1 and "name" in new_entry:  # names are unique
            new_entry["name"] = f"{new_entry['name']}_{number}"
        if count > 1:
            new_entry["weight"] = round(float(entry.get("weight", 1.0)) / count, 6)
        entries.append(new_entry)
    return entries
