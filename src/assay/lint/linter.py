"""Look for faults in a rubric, or in the file of one, and say where they stand.

Rules have ids that stay. R001 to R011 look at the rubric alone; R101 to R105 look at a run of it.
"""

import re
from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from assay.criterion import Criterion
from assay.errors import RubricError, RubricFileError
from assay.lint.conflicts import hits_between, unreachable
from assay.lint.findings import RULES, Finding, Hit
from assay.lint.language import hits_in_other_languages
from assay.lint.rules import hits_of_criterion
from assay.loading.document import KeyPath, Node, read_file
from assay.rubric import Rubric, rubric_at, rubrics_inside
from assay.wording import suggest_word


def lint(
    rubric: Any, *, run: Any = None, ignore: Collection[str] = (), allow_code: bool = False
) -> list[Finding]:
    """What to mend in a rubric, or in the file of one, in the order it stands there.

    A file that cannot be loaded is a finding too. `run` is a folder, or a `Run`, of the same rubric:
    what its verdicts tell is found as well. `ignore` leaves rules out by id.

    >>> from assay import Rubric
    >>> for finding in lint(Rubric([{"requirement": "Cites several sources", "weight": 2}])):
    ...     print(finding)
    warning R004 cites_several_sources: 'several' names no number; say how many, such as 'at least two' for 'several'
    """
    refuse_unknown(ignore)
    node: Node | None = None
    if isinstance(rubric, str | Path):
        try:
            node = read_file(rubric)
            rubric = rubric_at(node, allow_code=allow_code)
        except RubricFileError as error:
            rule = "R009" if error.field == "when" else "R000"
            where = ":".join(str(part) for part in (error.path, error.line) if part is not None)
            message = str(error).removeprefix(f"{where}: ")
            return (
                []
                if rule in ignore
                else [Finding(rule, "", message, "", "error", error.line, error.path)]
            )
    listed = place_criteria(rubric, node)
    found: list[Finding] = []
    for placed in listed:  # the criteria of one rubric, each by itself and then beside each other
        criteria = [item.criterion for item in placed]
        alone = (
            (index, hit) for index, each in enumerate(criteria) for hit in hits_of_criterion(each)
        )
        hits = (
            *alone,
            *hits_between(criteria),
            *unreachable(criteria),
            *hits_in_other_languages(criteria),
        )
        found += [
            placed[index].finding(hit) for index, hit in hits if not placed[index].ignores(hit.rule)
        ]
    if run is not None:
        from assay.lint.run_rules import findings_of_run

        found += findings_of_run(run, [item for criteria in listed for item in criteria])
    kept = (finding for finding in found if finding.id not in ignore)
    return sorted(kept, key=lambda finding: (finding.line or 0, finding.id))


def refuse_unknown(ignore: Collection[str]) -> None:
    for rule in ignore:
        if rule not in RULES:
            raise RubricError(f"there is no rule {rule!r}: {suggest_word(rule, RULES)}")


@dataclass(frozen=True, slots=True)
class PlacedCriterion:
    """One criterion and where it stands."""

    criterion: Criterion
    name: str  # its name, after the names of the rubrics around it
    node: Node | None = None  # where it stands in the file; None when there is no file
    ignored: frozenset[str] = frozenset()  # ids that a comment asks to ignore here; `*` for all

    @property
    def path(self) -> KeyPath:
        """The keys that lead to it in the file; none when there is no file."""
        return () if self.node is None else self.node.path

    def line(self, field: str = "") -> int | None:
        """The line of a field, or of the criterion where it does not have it."""
        path = (*self.path, field) if field else self.path
        return None if self.node is None else self.node.document.line(path)

    def ignores(self, rule: str) -> bool:
        return rule in self.ignored or "*" in self.ignored

    def finding(self, hit: Hit) -> Finding:
        """What a rule has found in it, with the line of the field that it is about."""
        severity = hit.severity or RULES[hit.rule].severity
        path = None if self.node is None else self.node.document.path
        return Finding(
            hit.rule, self.name, hit.message, hit.fix, severity, self.line(hit.field), path
        )


def place_criteria(rubric: Rubric, node: Node | None = None) -> list[list[PlacedCriterion]]:
    """The criteria of a rubric, and of every rubric inside it or of its group, a list each."""
    listed = [
        [
            PlacedCriterion(c, f"{inside}{c.name}", where)
            for c, where in zip(each.criteria, nodes, strict=True)
        ]
        for inside, each, nodes in rubrics_inside(rubric, node)
    ]
    if node is None:
        return listed
    ignored = _ignored_rules(
        node.document.text, sorted(item.line() or 0 for criteria in listed for item in criteria)
    )
    return [
        [replace(item, ignored=ignored.get(item.line(), frozenset())) for item in criteria]
        for criteria in listed
    ]


_IGNORE = re.compile(r"(?:^|\s)#\s*assay:\s*ignore\b(?P<ids>[\sR\d,]*)")


def _ignored_rules(text: str, starts: Sequence[int]) -> dict[int | None, frozenset[str]]:
    """What comments ask to ignore, by the first line of the criterion that they stand in, or right above."""
    told: dict[int | None, frozenset[str]] = {}
    rows = text.split("\n")
    for number, row in enumerate(rows, start=1):
        found = _IGNORE.search(row)
        if found is None or not starts:
            continue
        ids = frozenset(re.findall(r"R\d+", found["ids"])) or frozenset("*")
        below = number
        while below <= len(rows) and rows[below - 1].lstrip().startswith("#"):
            below += 1
        about = below if below in starts else starts[max(bisect_right(starts, number) - 1, 0)]
        told[about] = told.get(about, frozenset()) | ids
    return told
