"""Score each row with its own rubric, and build equal rubrics only once."""

from collections.abc import Mapping, Sequence
from copy import copy
from os import PathLike
from typing import Any, cast

from assay.concurrency import run_concurrently
from assay.criterion import hash_json
from assay.errors import AssayError, RubricError
from assay.graders.grader import JudgeSource, grader_of
from assay.loading.document import read_text
from assay.loading.row_budget import DEFAULT_ROW_BUDGET, RowBudget
from assay.messages import read_shows
from assay.parsers import Parser
from assay.plan import Traits
from assay.reasoning import Thinking
from assay.report import CriterionReport, EvaluationReport, aggregate
from assay.rollout import Rollout
from assay.runs.row import RUBRIC_COLUMN, own_rubric
from assay.runs.row_rubric import RowRubric
from assay.wording import describe_error, format_value

MAX_CACHED = 1000  # rubrics of rows that are kept; the least recently used are dropped


class RowRubrics:
    """Scores each row by the rubric in its column `rubric`, or else by a rubric for all rows.

    The column holds a list of criteria, a mapping with such a list, or the JSON of either. The
    object has a method `score`, so it can be used in place of a rubric.

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
        judge: JudgeSource | None = None,
        shows: str | Sequence[str] | None = None,
        thinking: Thinking | None = None,
        parser: Parser | None = None,
        budget: RowBudget | None = None,
    ) -> None:
        """`rubric` scores the rows without their own rubric; with None, such rows are errors.

        `judge` answers the judged criteria of all rows: a grader, a model, or the name of one. By
        default it is that of the rubric that scores the row.

        `budget` limits what the rubric of a row may use. By default it is the `row_budget` of
        `rubric`, or else the usual one. A row that exceeds it is an error.

        `shows`, `thinking` and `parser` replace what the rubrics of rows say. By default they are
        those that `show()` and `use_parser()` gave `rubric`.
        """
        if rubric is not None and not callable(getattr(rubric, "score", None)):
            advice = "give a Rubric"
            if isinstance(rubric, str | PathLike):
                advice = f"give Rubric.from_file({str(cast('object', rubric))!r})"
            raise TypeError(f"the rubric is {format_value(cast('object', rubric))}: {advice}")
        self.rubric = rubric
        self.shows = getattr(rubric, "caller_shows", None) if shows is None else read_shows(shows)
        self.thinking: Thinking | None = thinking or getattr(rubric, "caller_thinking", None)
        self.parser: Parser | None = parser or getattr(rubric, "caller_parser", None)
        self.grader = grader_of(judge)
        self.budget: RowBudget = budget or getattr(rubric, "row_budget", None) or DEFAULT_ROW_BUDGET
        # Traits say, for example, whether a rubric has to wait for a model.
        self._traits = Traits() if rubric is None else Traits.of(rubric)
        # Rubrics of rows and their traits by the content of the column, the least recently used
        # first.
        self._cache: dict[str, tuple[RowRubric, Traits]] = {}

    def around(self, rubric: Any) -> "RowRubrics":
        """Return a copy with another rubric for the rows that have none."""
        other = copy(self)
        other.rubric = rubric
        other._traits = Traits.of(rubric)
        return other

    @property
    def criteria(self) -> Sequence[Any]:
        """The criteria of the rubric for all rows."""
        return getattr(self.rubric, "criteria", ())

    def of(self, row: Mapping[str, Any]) -> tuple[Any, Traits]:
        """Return the rubric that scores a row, and its traits.

        Raise `RubricError` if there is none, or if that of the row cannot be read.
        """
        saved_rubric = own_rubric(row)  # as data: a list, a mapping or JSON text
        if saved_rubric is None:
            if self.rubric is None:
                raise RubricError(
                    f"it has no {RUBRIC_COLUMN!r}, and there is no rubric for all rows"
                )
            return self.rubric, self._traits
        if hasattr(saved_rubric, "tolist"):  # Parquet and pandas hold a list as an array
            saved_rubric = saved_rubric.tolist()
        self.budget.refuse_excess(saved_rubric)
        try:
            data = _without_gaps(saved_rubric)
            key = data if isinstance(data, str) else hash_json(data)
        except (TypeError, ValueError) as error:
            raise RubricError(
                f"its column {RUBRIC_COLUMN!r} has values that a rubric file cannot contain: {error}"
            ) from None
        entry = self._cache.pop(key, None)
        if entry is None:
            rubric = self._build(data)
            entry = (rubric, Traits.of(rubric))
            if len(self._cache) >= MAX_CACHED:
                least_recently_used = next(iter(self._cache))
                del self._cache[least_recently_used]
        self._cache[key] = entry  # at the end, as the most recently used
        return entry

    def _build(self, data: object) -> RowRubric:
        """Return the rubric of a row from its data, limited by the budget."""
        rubric = _read_rubric(data, self.budget)
        rubric.limit(self.budget)
        rubric.show(self.shows, thinking=self.thinking)
        if self.parser is not None:
            rubric.use_parser(self.parser)
        return rubric

    async def score(
        self, rollouts: Sequence[Any], *, judge: JudgeSource | None = None
    ) -> list[EvaluationReport]:
        """Return one report per rollout. A rubric that cannot be read is an error of its row."""
        grader = grader_of(judge) or self.grader
        reports: dict[int, EvaluationReport] = {}  # by the index of the rollout
        # Rubrics cannot be keys of a dictionary, so they are found by their `id`.
        rubrics_by_id: dict[int, Any] = {}
        indices_by_id: dict[int, list[int]] = {}  # of the rollouts that each rubric scores
        for index, rollout in enumerate(rollouts):
            fields = rollout.fields if isinstance(rollout, Rollout) else rollout
            try:
                rubric, _ = self.of(fields)
            except AssayError as error:
                reports[index] = unreadable_report(error, f"row {index}")
            else:
                rubrics_by_id[id(rubric)] = rubric
                indices_by_id.setdefault(id(rubric), []).append(index)

        async def score_with(rubric_id: int) -> None:
            """Score, in one call, all rollouts that belong to one rubric."""
            rubric = rubrics_by_id[rubric_id]
            indices = indices_by_id[rubric_id]
            options = {} if grader is None else {"judge": grader}
            its_rollouts = [rollouts[index] for index in indices]
            its_reports = await rubric.score(its_rollouts, **options)
            reports.update(zip(indices, its_reports, strict=True))

        if rubrics_by_id:
            await run_concurrently(score_with, list(rubrics_by_id))
        return [reports[index] for index in range(len(rollouts))]


def unreadable(error: AssayError, where: str) -> str:
    """Return the error message of a row whose rubric cannot be read; `where` names the row."""
    kind, _, message = describe_error(error).partition(": ")
    return f"{kind}: the rubric of {where}: {message}"


def is_unreadable(error: str, example: str) -> bool:
    """Return whether an error says that the rubric of this example cannot be read."""
    return f": the rubric of example {example}: " in error


def unreadable_report(error: AssayError, where: str) -> EvaluationReport:
    """Return the report of a row whose rubric cannot be read: one line, with the error."""
    return aggregate([CriterionReport(name=RUBRIC_COLUMN, error=unreadable(error, where))])


def _without_gaps(data: object) -> object:
    """Return the data of a rubric without null fields.

    A table gives each criterion the fields of all criteria, and fills the missing ones with null.
    """
    if isinstance(data, Mapping):
        items = cast("Mapping[str, object]", data).items()
        return {key: _without_gaps(value) for key, value in items if value is not None}
    if isinstance(data, list):
        return [_without_gaps(value) for value in cast("list[object]", data)]
    return data


def _read_rubric(data: object, budget: RowBudget) -> RowRubric:
    """Return a rubric from a list of criteria, a mapping, or the JSON of either."""
    if isinstance(data, str) and data.lstrip().startswith(("[", "{")):
        node = read_text(data, "json")
        budget.refuse_excess(node.data)  # before only the length of the text was counted
        return RowRubric.from_node(node)
    if isinstance(data, Mapping | list):
        return RowRubric.from_dict(cast("object", data))
    raise RubricError(
        f"its column {RUBRIC_COLUMN!r} holds {format_value(data)}: "
        "give a list of criteria, or rename the column"
    )
