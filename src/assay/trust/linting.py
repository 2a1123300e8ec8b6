"""Lint: what a rubric says in a way that judges will stumble over, told before any model is asked.

Rules have ids that stay. R001 to R011 look at the rubric alone; R101 to R105 look at a run of it.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from assay.criterion import Criterion
from assay.errors import RubricError, RubricFileError
from assay.loading.read import is_group
from assay.loading.source import Place, place_of_file
from assay.rubric import Rubric, RubricGroup
from assay.trust.lint_compound import compound
from assay.trust.lint_counting import uncounted
from assay.trust.lint_finding import RULES, Finding, Hit
from assay.trust.lint_levels import unanchored, upside_down
from assay.trust.lint_logic import unreachable
from assay.trust.lint_pairs import pairs
from assay.trust.lint_place import Asked, asked
from assay.trust.lint_polarity import at_odds, describes_fault, negation
from assay.trust.lint_text import Text, text_of
from assay.trust.lint_unseen import unseen
from assay.trust.lint_vague import vague
from assay.wording import did_you_mean

_ALONE: tuple[Callable[[Criterion, Text], Iterator[Hit]], ...] = (
    compound, vague, unanchored, uncounted, at_odds, negation, unseen
)  # fmt: skip
"""The rules that look at one criterion by itself."""


def lint(
    rubric: Any, *, run: Any = None, ignore: Collection[str] = (), allow_code: bool = False
) -> list[Finding]:
    """What to mend in a rubric, or in the file of one, in the order it stands there.

    A file that cannot be loaded is a finding too. `run` is a folder, or a `Run`, of the same rubric:
    what its verdicts tell is found as well. `ignore` leaves rules out by id.

    >>> for finding in lint(Rubric([{"requirement": "Cites several sources", "weight": 2}])):
    ...     print(finding)
    warning R004 cites_several_sources: 'several' names no number; say how many, such as 'at least two' for 'several'
    """
    refuse_unknown(ignore)
    loaded, place, broken = _loaded(rubric, allow_code)
    if broken is not None:
        found = [broken]
    else:
        listed = asked(loaded, place)
        found = [finding for criteria in listed for finding in _of_rubric(criteria)]
        if run is not None:
            from assay.trust.lint_runs import findings_of_run

            found += findings_of_run(run, [item for criteria in listed for item in criteria])
    return sorted(
        (finding for finding in found if finding.id not in ignore),
        key=lambda finding: (finding.line or 0, finding.id),
    )


def refuse_unknown(ignore: Collection[str]) -> None:
    """Raise for an id that no rule has."""
    for rule in ignore:
        if rule not in RULES:
            raise RubricError(f"there is no rule {rule!r}: {did_you_mean(rule, RULES)}")


def _loaded(rubric: Any, allow_code: bool) -> tuple[Any, Place | None, Finding | None]:
    """A rubric, where it stands when it was a file, and what is wrong when it cannot be loaded."""
    if not isinstance(rubric, str | Path):
        return rubric, None, None
    try:
        return *load(rubric, allow_code), None
    except RubricFileError as error:
        rule = "R009" if error.field == "when" else "R000"
        where = ":".join(str(part) for part in (error.path, error.line) if part is not None)
        message = str(error).removeprefix(f"{where}: ")
        return None, None, Finding(rule, "", message, "", "error", error.line, error.path)


def load(path: str | Path, allow_code: bool) -> tuple[Rubric, Place]:
    """The rubric, or group of rubrics, in a file, and the file as it was read."""
    place = place_of_file(path)
    kind = RubricGroup if is_group(place) else Rubric
    return kind.from_file(path, allow_code=allow_code), place


def _of_rubric(criteria: Sequence[Asked]) -> Iterator[Finding]:
    """What is wrong with the criteria of one rubric, each by itself and together."""
    for item in criteria:
        for hit in alone(item.criterion):
            yield from _finding(item, hit)
    listed = [item.criterion for item in criteria]
    together: Iterable[tuple[int, Hit]] = (*pairs(listed), *unreachable(listed))
    for index, hit in together:
        yield from _finding(criteria[index], hit)


def alone(criterion: Criterion) -> Iterator[Hit]:
    """What is wrong with a criterion by itself."""
    if criterion.requirement is None:
        return
    text = text_of(criterion.requirement)
    for rule in _ALONE:
        yield from rule(criterion, text)
    yield from upside_down(criterion, asks_for_fault=bool(describes_fault(text)))


def _finding(item: Asked, hit: Hit) -> Iterator[Finding]:
    if item.spot.ignores(hit.rule):
        return
    severity = hit.severity or RULES[hit.rule].severity
    line, path = item.spot.line(hit.field), item.spot.source.path
    yield Finding(hit.rule, item.name, hit.message, hit.fix, severity, line, path)
