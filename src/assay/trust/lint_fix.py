"""Fixes: a rubric file with what can be mended mended, as a diff to approve."""

import codecs
import difflib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from assay.concurrency import run_sync, side_by_side
from assay.errors import ModelError
from assay.loading.read import is_group
from assay.loading.source import Place
from assay.models import Model, model_of
from assay.rubric import Rubric, RubricGroup
from assay.trust.lint_edit import Change, EditError, Editor
from assay.trust.lint_finding import Hit
from assay.trust.lint_lexicon import pattern, third_person
from assay.trust.lint_place import Asked, asked
from assay.trust.lint_rewrite import REWRITABLE, rewritten
from assay.trust.linting import alone, load, refuse_unknown

AT_ONCE: Final = 8
"""Criteria that a model is asked about side by side."""


@dataclass(frozen=True)
class Fixed:
    """A rubric file before and after. Nothing is written until `write` is called."""

    path: Path
    before: str
    after: str
    changed: tuple[str, ...] = ()
    """The criteria that were mended."""
    notes: tuple[str, ...] = ()
    """What could not be mended, and why."""

    @property
    def diff(self) -> str:
        """The change as a unified diff; empty when there is none."""
        rows = difflib.unified_diff(
            self.before.splitlines(keepends=True),
            self.after.splitlines(keepends=True),
            str(self.path),
            str(self.path),
        )
        return "".join(row if row.endswith("\n") else f"{row}\n" for row in rows)

    def write(self) -> None:
        """Write the file, as UTF-8 with or without a byte order mark as it was."""
        had_mark = self.path.read_bytes().startswith(codecs.BOM_UTF8)
        text = self.after.encode("utf-8")
        self.path.write_bytes(codecs.BOM_UTF8 + text if had_mark else text)


def fix_rubric(
    path: str | Path, *, model: Any = None, ignore: Collection[str] = (), allow_code: bool = False
) -> Fixed:
    """A rubric file with its faults mended, as far as that can be done without asking its author.

    Without a `model` only what is certain is changed: `does not fail to mention` becomes `mentions`, and
    the two choices of a scale that stands upside down change places. A model also splits and rewrites.
    """
    refuse_unknown(ignore)
    rubric, place = load(path, allow_code)
    criteria = [item for listed in asked(rubric, place) for item in listed]
    hits = {item.spot.path: _open_hits(item, ignore) for item in criteria}
    certain = [change for item in criteria for change in _certain(item, hits[item.spot.path])]
    done = {change.path for change in certain if change.requirements}
    left = [item for item in criteria if item.spot.path not in done and _rewritable(hits, item)]
    proposed, notes = run_sync(_proposed(left, hits, model)) if model is not None else ([], [])
    fixed = _fixed(place, [*certain, *proposed], criteria, notes)
    _refuse_unreadable(fixed, place, allow_code)
    return fixed


def _refuse_unreadable(fixed: Fixed, place: Place, allow_code: bool) -> None:
    """Raise when what was mended is no rubric any more, rather than hand it out."""
    kind = RubricGroup if is_group(place) else Rubric
    read = kind.from_json if place.source.format == "json" else kind.from_yaml
    if fixed.changed:
        read(fixed.after, allow_code=allow_code)


def _open_hits(item: Asked, ignore: Collection[str]) -> list[Hit]:
    return [
        hit
        for hit in alone(item.criterion)
        if hit.rule not in ignore and not item.spot.ignores(hit.rule)
    ]


def _rewritable(hits: dict[Any, list[Hit]], item: Asked) -> bool:
    return any(hit.rule in REWRITABLE for hit in hits[item.spot.path])


def _certain(item: Asked, hits: Sequence[Hit]) -> Iterator[Change]:
    """The changes that need nobody's judgement."""
    rules = {hit.rule for hit in hits}
    criterion = item.criterion
    if "R006" in rules and criterion.requirement is not None:
        said = said_once(criterion.requirement)
        if said and "R006" not in {h.rule for h in alone(criterion.with_fields(requirement=said))}:
            yield Change(item.spot.path, (said,))
    if "R011" in rules and tuple(c.casefold() for c in criterion.choices) in _SURELY_REVERSED:
        yield Change(item.spot.path, choices=criterion.choices[::-1])


_SURELY_REVERSED: Final = frozenset(
    (("met", "unmet"), ("pass", "fail"), ("passed", "failed"), ("good", "bad"))
)
"""Scales of two that can only be meant the other way round."""

_FAILS_NOT = pattern(
    r"\b(?:does|(?P<duty>do|should|must|shall|will|can))(?: not|n['’]t) fail to (?P<verb>[a-z]+)\b"
)


def said_once(requirement: str) -> str:
    """A requirement without `does not fail to`; empty when it does not say so.

    >>> said_once("Does not fail to mention the dose")
    'Mentions the dose'
    >>> said_once("The reply should not fail to say so")
    'The reply should say so'
    """
    found = _FAILS_NOT.search(requirement)
    if found is None:
        return ""
    verb, duty = found["verb"].lower(), (found["duty"] or "").lower()
    said = {"": third_person(verb), "do": verb}.get(duty, f"{duty} {verb}")
    if found[0][0].isupper():
        said = said[0].upper() + said[1:]
    return requirement[: found.start()] + said + requirement[found.end() :]


async def _proposed(
    items: Sequence[Asked], hits: dict[Any, list[Hit]], model: Any
) -> tuple[list[Change], list[str]]:
    """What a model proposes for each criterion, and for which it could not."""
    asking: Model = model_of(model)

    async def one(item: Asked) -> Change | str:
        wrong = [hit for hit in hits[item.spot.path] if hit.rule in REWRITABLE]
        try:
            words = await rewritten(asking, item.criterion, wrong, lambda c: list(alone(c)))
        except ModelError as error:
            return f"{item.name}: {error}"
        return Change(item.spot.path, words)

    answers = await side_by_side(one, items, limit=AT_ONCE) if items else []
    changes = [answer for answer in answers if isinstance(answer, Change)]
    return changes, [answer for answer in answers if isinstance(answer, str)]


def _fixed(
    place: Place, changes: Sequence[Change], criteria: Sequence[Asked], notes: Sequence[str]
) -> Fixed:
    """The file with as many of the changes as can be made in place."""
    by_path = {item.spot.path: item for item in criteria}
    known = {name for item in criteria for name, _ in item.criterion.when}
    editor, made, told = Editor(place), list[Change](), list(notes)
    for change in changes:
        item = by_path[change.path]
        try:
            named = _named(change, item, known)
            editor.edits(named)
        except EditError as error:
            told.append(f"{item.name}: {error}")
        else:
            made.append(named)
    after = editor.edited(made) if made else editor.text
    names = tuple(dict.fromkeys(by_path[change.path].name for change in made))
    return Fixed(Path(str(place.source.path)), editor.text, after, names, tuple(told))


def _named(change: Change, item: Asked, known: Collection[str]) -> Change:
    """The change, with the old name written down when the `when` of another criterion knows it."""
    name = item.criterion.name
    if not change.requirements or name not in known:
        return change
    if len(change.requirements) > 1:
        raise EditError(
            f"it asks two things, and the `when` of another asks for {name!r}: split it by hand"
        )
    return change._replace(name=name)
