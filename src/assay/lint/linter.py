"""Find faults in a rubric, or in the file of one.

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
from assay.lint.conflicts import find_hits_between, find_unreachable
from assay.lint.findings import RULES, Finding, Hit
from assay.lint.language import find_other_languages
from assay.lint.rules import find_hits
from assay.loading.document import KeyPath, Node, read_file
from assay.rubric import Rubric, rubric_at, rubrics_inside
from assay.wording import suggest_word


def lint(
    rubric: Any, *, run: Any = None, ignore: Collection[str] = (), allow_code: bool = False
) -> list[Finding]:
    """Return the faults of a rubric, or of the file of one, in the order of the file.

    A file that cannot be loaded is a finding, too. `run` is a folder, or a `Run`, of the same rubric,
    in whose verdicts more faults are found. `ignore` has the ids of rules to leave out.

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
            finding = _describe_unreadable(error)
            return [] if finding.id in ignore else [finding]
    findings: list[Finding] = []
    lists = place_criteria(rubric, node)
    for placed in lists:
        criteria = [item.criterion for item in placed]
        hits: list[tuple[int, Hit]] = []
        for index, criterion in enumerate(criteria):
            hits += [(index, hit) for hit in find_hits(criterion)]
        hits += find_hits_between(criteria)
        hits += find_unreachable(criteria)
        hits += find_other_languages(criteria)
        for index, hit in hits:
            if not placed[index].ignores(hit.rule):
                findings.append(placed[index].finding(hit))
    if run is not None:
        from assay.lint.run_rules import find_run_findings  # imported late, since it needs numpy

        all_criteria = [item for placed in lists for item in placed]
        findings += find_run_findings(run, all_criteria)
    kept = [finding for finding in findings if finding.id not in ignore]
    return sorted(kept, key=lambda finding: (finding.line or 0, finding.id))


def _describe_unreadable(error: RubricFileError) -> Finding:
    """Return the finding for a file that cannot be loaded."""
    position = ":".join(str(part) for part in (error.path, error.line) if part is not None)
    return Finding(
        id="R009" if error.field == "when" else "R000",
        criterion="",
        message=str(error).removeprefix(f"{position}: "),
        fix="",
        severity="error",
        line=error.line,
        path=error.path,
    )


def refuse_unknown(ignore: Collection[str]) -> None:
    """Raise `RubricError` if one of these is not the id of a rule."""
    for rule in ignore:
        if rule not in RULES:
            raise RubricError(f"there is no rule {rule!r}: {suggest_word(rule, RULES)}")


@dataclass(frozen=True, slots=True)
class PlacedCriterion:
    """A criterion and its position in a file."""

    criterion: Criterion
    name: str  # its name, after the names of the rubrics around it
    node: Node | None = None  # its position in the file; None if there is no file
    ignored: frozenset[str] = frozenset()  # ids that a comment asks to ignore here; `*` for all

    @property
    def path(self) -> KeyPath:
        """The keys that lead to it in the file; empty if there is no file."""
        if self.node is None:
            return ()
        return self.node.path

    def line(self, field: str = "") -> int | None:
        """Return the line of a field, or of the criterion if it does not have the field."""
        if self.node is None:
            return None
        path = (*self.path, field) if field else self.path
        return self.node.document.line(path)

    def ignores(self, rule: str) -> bool:
        """Return whether a comment asks to ignore this rule here."""
        return rule in self.ignored or "*" in self.ignored

    def finding(self, hit: Hit) -> Finding:
        """Return the finding for a hit, with the line of the field that it is about."""
        severity = hit.severity or RULES[hit.rule].severity
        path = None if self.node is None else self.node.document.path
        return Finding(
            hit.rule, self.name, hit.message, hit.fix, severity, self.line(hit.field), path
        )


def place_criteria(rubric: Rubric, node: Node | None = None) -> list[list[PlacedCriterion]]:
    """Return the criteria of a rubric, and of every rubric inside it or its group, a list for each."""
    lists: list[list[PlacedCriterion]] = []
    for prefix, inner_rubric, nodes in rubrics_inside(rubric, node):
        placed: list[PlacedCriterion] = []
        for criterion, criterion_node in zip(inner_rubric.criteria, nodes, strict=True):
            placed.append(PlacedCriterion(criterion, f"{prefix}{criterion.name}", criterion_node))
        lists.append(placed)
    if node is None:
        return lists
    lines = sorted(item.line() or 0 for placed in lists for item in placed)
    ignored = _ignored_rules(node.document.text, lines)
    return [
        [replace(item, ignored=ignored.get(item.line(), frozenset())) for item in placed]
        for placed in lists
    ]


_IGNORE = re.compile(r"(?:^|\s)#\s*assay:\s*ignore\b(?P<ids>[\sR\d,]*)")


def _ignored_rules(text: str, starts: Sequence[int]) -> dict[int | None, frozenset[str]]:
    """Return the rules that comments ask to ignore, by the first line of the criterion.

    A comment is about the criterion directly below it, or else about the one that it is in. `starts`
    are the first lines of all criteria, in order.
    """
    ignored: dict[int | None, frozenset[str]] = {}
    if not starts:
        return ignored
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        match = _IGNORE.search(line)
        if match is None:
            continue
        ids = frozenset(re.findall(r"R\d+", match["ids"])) or frozenset("*")
        next_line = number  # the first one that is not a comment
        while next_line <= len(lines) and lines[next_line - 1].lstrip().startswith("#"):
            next_line += 1
        if next_line in starts:
            start = next_line
        else:
            start = starts[max(bisect_right(starts, number) - 1, 0)]
        ignored[start] = ignored.get(start, frozenset()) | ids
    return ignored
