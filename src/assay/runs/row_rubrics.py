"""RowRubrics scores each row by the rubric that the row brings, and builds each such rubric once."""

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, cast

from assay.concurrency import run_concurrently
from assay.criterion import hash_json
from assay.errors import AssayError, RubricError
from assay.graders.grader import Grader
from assay.loading.document import read_text
from assay.loading.row_budget import DEFAULT_ROW_BUDGET, RowBudget
from assay.messages import read_shows
from assay.parsers import Parser
from assay.plan import Traits
from assay.reasoning import Thinking
from assay.report import CriterionReport, EvaluationReport, aggregate
from assay.rollout import Rollout
from assay.runs.row import COLUMN, own_rubric
from assay.runs.row_rubric import RowRubric
from assay.wording import describe_error, format_value

MOST_KEPT = 1000  # rubrics that are kept ready; what is asked for again later is made again


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

    def __init__(
        self,
        rubric: Any = None,
        *,
        autograder: Grader | None = None,
        shows: str | Sequence[str] | None = None,
        thinking: Thinking | None = None,
        parser: Parser | None = None,
        budget: RowBudget | None = None,
    ) -> None:
        """`rubric` scores the rows that have none of their own; without it such rows are errors.

        `budget` limits what the rubric of a row may use; without one, the `row_budget` of the rubric
        applies, or the default. A row that exceeds it is an error. `shows`, `thinking` and `parser` replace what the rubrics of rows say; without them, what the
        rubric was told by `show()` and `use_parser()`.
        """
        self.rubric = rubric
        self.shows = getattr(rubric, "caller_shows", None) if shows is None else read_shows(shows)
        self.thinking: Thinking | None = thinking or getattr(rubric, "caller_thinking", None)
        self.parser: Parser | None = parser or getattr(rubric, "caller_parser", None)
        self.autograder = autograder
        self.budget: RowBudget = budget or getattr(rubric, "row_budget", None) or DEFAULT_ROW_BUDGET
        self._plan = Traits() if rubric is None else Traits.of(rubric)
        self._ready: dict[str, tuple[RowRubric, Traits]] = {}

    def around(self, rubric: Any) -> "RowRubrics":
        """The same, with another rubric for the rows that have none."""
        other = copy(self)
        other.rubric, other._plan = rubric, Traits.of(rubric)
        return other

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
        if hasattr(own, "tolist"):  # a column of lists comes from Parquet and pandas as an array
            own = own.tolist()
        self.budget.refuse_excess(own)
        try:
            data = _without_gaps(own)
            key = own if isinstance(own, str) else hash_json(data)
        except (TypeError, ValueError) as error:
            raise RubricError(
                f"its column {COLUMN!r} holds what no rubric file can: {error}"
            ) from None
        found = self._ready.pop(key, None)
        if found is None:
            rubric = _read(data, self.budget)
            rubric.limit(self.budget)
            rubric.show(self.shows, thinking=self.thinking)
            if self.parser is not None:
                rubric.use_parser(self.parser)
            found = (rubric, Traits.of(rubric))
            if len(self._ready) >= MOST_KEPT:
                del self._ready[next(iter(self._ready))]
        self._ready[key] = found  # at the end, so that what was used longest ago goes first
        return found

    async def score(
        self, rollouts: Sequence[Any], *, autograder: Grader | None = None
    ) -> list[EvaluationReport]:
        """One report a rollout, in order. A rubric that cannot be read is an error of its row."""
        grader = autograder or self.autograder
        reports: dict[int, EvaluationReport] = {}
        together: dict[int, tuple[Any, list[int]]] = {}
        for place, rollout in enumerate(rollouts):
            try:
                rubric, _ = self.of(rollout.fields if isinstance(rollout, Rollout) else rollout)
            except AssayError as error:
                reports[place] = unreadable_report(error, f"row {place}")
            else:
                together.setdefault(id(rubric), (rubric, []))[1].append(place)

        async def scored(part: tuple[Any, list[int]]) -> None:
            rubric, places = part
            options = {} if grader is None else {"autograder": grader}
            found = await rubric.score([rollouts[place] for place in places], **options)
            reports.update(zip(places, found, strict=True))

        if together:
            await run_concurrently(scored, list(together.values()))
        return [reports[place] for place in range(len(rollouts))]


def unreadable(error: AssayError, where: str) -> str:
    """What is said of a row whose rubric cannot be read."""
    kind, _, message = describe_error(error).partition(": ")
    return f"{kind}: the rubric of {where}: {message}"


def is_unreadable(error: str, example: str) -> bool:
    """Whether an error says that the rubric of the row of this example cannot be read."""
    return f": the rubric of example {example}: " in error


def unreadable_report(error: AssayError, where: str) -> EvaluationReport:
    """The report on a row whose rubric cannot be read: one line, without an answer."""
    return aggregate([CriterionReport(name=COLUMN, error=unreadable(error, where))])


def _without_gaps(data: object) -> object:
    """The data without empty fields: a table gives every entry the keys of all of them."""
    if isinstance(data, Mapping):
        items = cast("Mapping[str, object]", data).items()
        return {key: _without_gaps(value) for key, value in items if value is not None}
    if isinstance(data, list):
        return [_without_gaps(value) for value in cast("list[object]", data)]
    return data


def _read(data: object, budget: RowBudget) -> RowRubric:
    if isinstance(data, str) and data.lstrip().startswith(("[", "{")):
        node = read_text(data, "json")
        budget.refuse_excess(node.data)
        return RowRubric.from_node(node)
    if isinstance(data, Mapping | list):
        return RowRubric.from_dict(cast("object", data))
    raise RubricError(
        f"its column {COLUMN!r} holds {format_value(data)}: "
        "give a list of criteria, or name the column otherwise"
    )
