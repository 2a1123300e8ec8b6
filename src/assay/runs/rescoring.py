"""rescore: a saved run by any rubric, without generating anything again."""

from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from assay.engine import logging_once
from assay.graders.base import Autograder
from assay.models.ledger import budget
from assay.runs.about import RunAbout, judge_of
from assay.runs.data import data_about
from assay.runs.errors import RunRefused
from assay.runs.feed import Feed, Pending
from assay.runs.kept import Recalled, keeping, saved_answers
from assay.runs.progress import OnProgress, Watch
from assay.runs.reading import Run
from assay.runs.row import Row
from assay.runs.row_rubrics import COLUMN, RowRubrics
from assay.runs.rubrics import CriterionAbout, RubricAbout
from assay.runs.scoring import MOST_AT_ONCE, Scoring, Stopping, refuse_too_few
from assay.runs.sink import OnRow, opened_sink
from assay.runs.summary import Summary
from assay.runs.ways import Way


async def rescore(
    run: Run,
    rubric: Any,
    folder: str | PathLike[str] | None,
    *,
    grader: Autograder | None = None,
    resume: bool = False,
    on_row: OnRow | None = None,
    on_progress: OnProgress | None = None,
    stopping: Stopping | None = None,
    max_concurrent: int = MOST_AT_ONCE,
    exchanges: bool = False,
) -> Summary:
    """Score a saved run by a rubric, into another folder. Nothing is generated.

    What a model was asked is not asked again where the question is the same, whatever its weight or name,
    and the judge is: those answers are kept. Checks are run again, since a function has no hash. A judge
    of the whole is asked again. Rows where generation failed stay as they are.
    """
    refuse_too_few(max_concurrent)
    _refuse_same(folder, run)
    judge = judge_of(rubric, grader)
    keeps = judge is None or run.about.judge is None or judge == run.about.judge
    scorer, asked = keeping(rubric, grader) if keeps else (rubric, grader)
    about = RunAbout.of(
        "rescore",
        rubric=None if rubric is None else RubricAbout.of(rubric),
        judge=judge,
        model=run.about.model,
        config=run.about.config,
        data=data_about(run.path / "rollouts.jsonl"),
    )
    with budget() as spent, logging_once():
        watch = Watch(on_progress, len(run), spent)
        with opened_sink(folder, about, resume=resume, on_row=on_row, watch=watch) as sink:
            rubrics = RowRubrics(scorer)
            feed = _SavedRows(run, Feed((), rubrics, sink.has), rubrics, keeps=keeps)
            scoring = Scoring(sink, asked, max_concurrent, exchanges=exchanges)
            stopped = await scoring.run(feed.units(), stopping)
            return sink.finish(complete=not stopped)


def _refuse_same(folder: str | PathLike[str] | None, run: Run) -> None:
    if folder is not None and Path(folder).resolve() == run.path.resolve():
        raise RunRefused(f"{run.path} would be written over: name another folder")


class _SavedRows:
    """The rows of a run, each with what was answered about it."""

    def __init__(self, run: Run, feed: Feed, rubrics: RowRubrics, *, keeps: bool) -> None:
        self._run = run
        self._feed = feed
        self._rubrics = rubrics
        self._keeps = keeps

    def units(self) -> Iterator[list[Pending]]:
        """Single rows, or the rollouts of an example together where they are compared."""
        rubric = self._rubrics.rubric
        if rubric is None or not Way.of(rubric).compares:
            units = ([self._pending(row)] for row in self._run.rows())
        else:
            units = (list(map(self._pending, rows)) for rows in self._run.by_example())
        for unit in units:
            failed = [pending for pending in unit if pending.error is not None]
            scored = [pending for pending in unit if pending.error is None]
            yield from ([pending] for pending in failed if not pending.is_done)
            if not all(pending.is_done for pending in scored):
                yield scored

    def _pending(self, row: Row) -> Pending:
        pending = self._feed.pending(row.key, Recalled(row.fields, {}), row)
        if row.error is not None:
            return pending._replace(scorer=None, error=row.error)
        if not self._keeps or pending.error is not None:
            return pending
        answers = saved_answers(row.report, self._criteria_of(row))
        return pending._replace(row=Recalled(row.fields, answers))

    def _criteria_of(self, row: Row) -> Sequence[CriterionAbout]:
        if row.fields.get(COLUMN) is not None:
            rubric, _ = self._rubrics.of(row.fields)
            return [CriterionAbout.of(criterion) for criterion in rubric.criteria]
        rubric = self._run.about.rubric
        return () if rubric is None else rubric.criteria
