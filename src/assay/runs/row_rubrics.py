"""RowRubrics scores rows that bring their own rubric."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, cast

from assay.concurrency import side_by_side
from assay.engine import Traits
from assay.errors import AssayError, RubricError
from assay.graders.autograder import Autograder
from assay.identity import hash_of
from assay.report import CriterionReport, EvaluationReport, aggregate
from assay.rollout import Rollout
from assay.rubric import Rubric
from assay.wording import described, short_repr

COLUMN = "rubric"
"""The column that holds a row's own rubric, as a rubric file would."""

MOST_KEPT = 1000
"""Rubrics that are kept ready; what is asked for again later is made again."""


def own_rubric(row: Mapping[str, Any]) -> Any:
    """What a row brings for its own rubric; None when it brings none."""
    own = row.get(COLUMN)
    if own is None and isinstance(inherited := row.get("input"), Mapping):
        own = cast("Mapping[str, Any]", inherited).get(COLUMN)
    return None if isinstance(own, str) and not own else own


class RowRubrics:
    """A rubric for each row: the one in its column `rubric`, else the one that is for all.

    The column holds a list of criteria or a mapping with one, or the JSON of either. It has a `score`,
    so it goes wherever a rubric does.

    >>> import asyncio
    >>> rows = [
    ...     {"completion": "Paris", "rubric": [{"check": {"contains": "Paris"}}]},
    ...     {"completion": "Paris", "rubric": [{"check": {"contains": "Rome"}}]},
    ... ]
    >>> [report.score for report in asyncio.run(RowRubrics().score(rows))]
    [1.0, 0.0]
    """

    def __init__(self, rubric: Any = None, *, autograder: Autograder | None = None) -> None:
        """`rubric` scores the rows that have none of their own; without it such rows are errors."""
        self.rubric = rubric
        self.autograder = autograder
        self._plan = Traits() if rubric is None else Traits.of(rubric)
        self._ready: OrderedDict[str, tuple[Rubric, Traits]] = OrderedDict()

    @property
    def criteria(self) -> Sequence[Any]:
        """Those of the rubric that is for all rows."""
        return getattr(self.rubric, "criteria", ())

    def of(self, row: Mapping[str, Any]) -> tuple[Any, Traits]:
        """The rubric of a row, and its plan. Raises `RubricError` when it can have none."""
        own = own_rubric(row)
        if own is None:
            if self.rubric is None:
                raise RubricError(f"it has no {COLUMN!r} of its own, and no rubric is for all rows")
            return self.rubric, self._plan
        data = own if isinstance(own, str) else _listed(own)
        key = own if isinstance(own, str) else _key(data)
        found = self._ready.get(key)
        if found is None:
            rubric = _read(data)
            found = self._ready[key] = (rubric, Traits.of(rubric))
            if len(self._ready) > MOST_KEPT:
                self._ready.popitem(last=False)
        else:
            self._ready.move_to_end(key)
        return found

    async def score(self, rollouts: Sequence[Any], *, autograder: Autograder | None = None) -> list[EvaluationReport]:
        """One report a rollout, in order. A rubric that cannot be read is an error of its row."""
        grader = autograder or self.autograder
        reports: list[EvaluationReport | None] = [None] * len(rollouts)
        together: dict[int, tuple[Any, list[int]]] = {}
        for place, rollout in enumerate(rollouts):
            try:
                rubric, _ = self.of(_row_of(rollout))
            except AssayError as error:
                reports[place] = unreadable_report(error, f"row {place}")
            else:
                together.setdefault(id(rubric), (rubric, []))[1].append(place)

        async def scored(part: tuple[Any, list[int]]) -> None:
            rubric, places = part
            options = {} if grader is None else {"autograder": grader}
            found = await rubric.score([rollouts[place] for place in places], **options)
            for place, report in zip(places, found, strict=True):
                reports[place] = report

        if together:
            await side_by_side(scored, list(together.values()))
        return cast("list[EvaluationReport]", reports)


def unreadable(error: AssayError, where: str) -> str:
    """What is said of a row whose rubric cannot be read."""
    kind, _, message = described(error).partition(": ")
    return f"{kind}: the rubric of {where}: {message}"


def unreadable_report(error: AssayError, where: str) -> EvaluationReport:
    """The report on a row whose rubric cannot be read: one line, without an answer."""
    return aggregate([CriterionReport(name=COLUMN, error=unreadable(error, where))])


def _row_of(rollout: Any) -> Mapping[str, Any]:
    return rollout.columns if isinstance(rollout, Rollout) else rollout


def _listed(own: object) -> object:
    if hasattr(own, "tolist"):  # a column of lists comes from Parquet and pandas as an array
        own = cast("Any", own).tolist()
    if not isinstance(own, Mapping | list):
        raise _no_rubric(own)
    return _without_gaps(cast("object", own))


def _without_gaps(data: object) -> object:
    """The data without empty fields: a table gives every entry the keys of all of them."""
    if isinstance(data, Mapping):
        items = cast("Mapping[str, object]", data).items()
        return {key: _without_gaps(value) for key, value in items if value is not None}
    if isinstance(data, list):
        return [_without_gaps(value) for value in cast("list[object]", data)]
    return data


def _key(data: object) -> str:
    try:
        return hash_of(data)
    except (TypeError, ValueError) as error:
        raise RubricError(f"its column {COLUMN!r} holds what no rubric file can: {error}") from None


def _read(data: object) -> Rubric:
    if not isinstance(data, str):
        return Rubric.from_dict(data)
    if not data.lstrip().startswith(("[", "{")):
        raise _no_rubric(data)
    return Rubric.from_json(data)


def _no_rubric(own: object) -> RubricError:
    return RubricError(
        f"its column {COLUMN!r} holds {short_repr(own)}: give a list of criteria, or name the column otherwise"
    )
