"""Logic: conditions that can never hold, so that a criterion is never asked, or never passes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from assay.criterion import NOT_APPLICABLE, Condition, Criterion
from assay.trust.lint_finding import Hit

Domains: TypeAlias = dict[str, frozenset[str]]
"""The verdicts that each criterion may still have."""


def unreachable(criteria: Sequence[Criterion]) -> Iterator[tuple[int, Hit]]:
    """Criteria whose `when` cannot hold, and required ones that no answer passes."""
    by_name = {criterion.name: criterion for criterion in criteria}
    for index, criterion in enumerate(criteria):
        reason = _why_never(criterion, by_name)
        if reason:
            yield (
                index,
                Hit("R009", f"it is never asked: {reason}", "mend or drop its `when`", "when"),
            )
        if criterion.judged and criterion.pass_at > 1 and criterion.weight >= 0:
            yield (
                index,
                Hit(
                    "R009",
                    f"its pass_at is {criterion.pass_at:g}, and no verdict is worth more than 1",
                    "give a pass_at of at most 1",
                    "pass_at",
                ),
            )


def _why_never(criterion: Criterion, by_name: Mapping[str, Criterion]) -> str:
    """Why no response can meet its conditions; empty when one can.

    What must hold for the criteria it depends on to be asked at all must hold too.
    """
    left: Domains = {}
    waiting, seen = list(criterion.when), set(criterion.when)
    while waiting:
        condition = waiting.pop()
        other = by_name.get(condition.criterion)
        if other is None or not other.judged:
            continue  # what code answers, it may answer in any way
        wanted = _wanted(condition, other)
        before = left.get(other.name, _possible(other))
        left[other.name] = before & wanted
        if not left[other.name]:
            return _contradiction(condition, other, before)
        if NOT_APPLICABLE not in wanted:
            waiting.extend(step for step in other.when if step not in seen)
            seen.update(other.when)
    return ""


def _contradiction(condition: Condition, other: Criterion, before: frozenset[str]) -> str:
    wanted = " or ".join(condition.verdicts) or "to be met"
    offered = ", ".join(
        verdict for verdict in (*other.choices, NOT_APPLICABLE) if verdict in before
    )
    return f"it needs {other.name!r} {wanted}, which can only be {offered}"


def _possible(criterion: Criterion) -> frozenset[str]:
    may_not_apply = criterion.allow_na or bool(criterion.when)
    return frozenset((*criterion.choices, NOT_APPLICABLE) if may_not_apply else criterion.choices)


def _wanted(condition: Condition, other: Criterion) -> frozenset[str]:
    """The verdicts that a condition is content with."""
    if condition.verdicts:
        return frozenset(condition.verdicts)
    return frozenset(verdict for verdict, value in other.values.items() if other.passes(value))
