"""Ways to score: by chunk where code answers at once, side by side where somebody is waited for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from assay.call import Call
from assay.criterion import Criterion, is_scorer
from assay.engine import Reports
from assay.graders.base import Autograder
from assay.report import EvaluationReport
from assay.rollout import Batch
from assay.rubric import BaseRubric


@dataclass(frozen=True)
class Way:
    """What has to be known of a rubric before its rows are handed out."""

    waits: bool = False
    """Whether a model, another process or a network is waited for, so that rows go side by side."""
    asks: bool = False
    """Whether a model answers anything, here or in a rubric inside."""
    compares: str = ""
    """The criterion that weighs the rollouts of an example against each other; empty when none does."""

    @classmethod
    def of(cls, scorer: Any) -> "Way":
        """The way of a rubric. Of anything else with a `score` nothing is known, so its rows go alone."""
        criteria: Sequence[Criterion] | None = getattr(scorer, "criteria", None)
        if criteria is None:
            return cls(waits=True)
        ways = [_way_of(criterion) for criterion in criteria]
        own: frozenset[str] = getattr(scorer, "own_methods", frozenset())
        if "score_group" in own:
            ways.append(cls(compares="score_group"))
        return cls(
            waits=bool(own) or any(way.waits for way in ways),
            asks=any(way.asks for way in ways),
            compares=next((way.compares for way in ways if way.compares), ""),
        )


def _way_of(criterion: Criterion) -> Way:
    check = criterion.check
    if check is None:
        return Way(waits=True, asks=True)
    if is_scorer(check):
        return Way.of(check)
    call = Call(check, criterion.name)
    # What takes many at a time is better off in a chunk, also when it is awaited.
    waits = criterion.isolate or (call.is_async and not call.is_group)
    return Way(waits=waits, compares=criterion.name if call.compares else "")


async def reports_on(
    scorer: Any,
    rows: list[dict[str, Any]],
    grader: Autograder | None,
    *,
    lenient: bool = True,
) -> Sequence[EvaluationReport]:
    """A report a row. The rows are the checks' own, to read and to write.

    A field that none of these rows has is an error of each row that needs it. When not `lenient` it is
    raised at once, since then the rubric does not fit the data.
    """
    if isinstance(scorer, BaseRubric) and type(scorer).score is BaseRubric.score:
        batch = (_Piece if lenient else Batch)(rows, rows)
        findings = await scorer._findings(batch, grader)  # pyright: ignore[reportPrivateUsage]
        return Reports(findings, len(rows))
    options: Mapping[str, Any] = {} if grader is None else {"autograder": grader}
    return cast("Sequence[EvaluationReport]", await scorer.score(rows, **options))


class _Piece(Batch):
    """Some rows of many: a field that none of these has may be in others."""

    def lacks(self, name: str) -> bool:
        return False

    def select(self, indices: Sequence[int]) -> "Batch":
        chosen = super().select(indices)
        return _Piece(chosen.rows, chosen.states, chosen.views)
