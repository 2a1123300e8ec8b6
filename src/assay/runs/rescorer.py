"""rescore scores a saved run by another rubric; a judge is asked only what the run has no answer to."""

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from os import PathLike
from pathlib import Path
from typing import Any

from assay.criterion import Criterion
from assay.engine import Traits, logging_once
from assay.errors import JudgeError
from assay.graders.autograder import Autograder, Grader, JudgeAnswer
from assay.graders.judge_input import JudgeInput
from assay.graders.model_grader import question_of
from assay.models import Model
from assay.models.budgets import budget
from assay.report import CriterionReport, EvaluationReport, Score
from assay.rubric import Rubric, RubricGroup
from assay.runs.folder import RunRefused
from assay.runs.metadata import CriterionAbout, RubricAbout, RunAbout, data_about, judge_of
from assay.runs.pipeline import (
    MOST_AT_ONCE,
    Feed,
    OnProgress,
    OnRow,
    Pending,
    Pipeline,
    Stopping,
    Watch,
    opened_sink,
    refuse_too_few,
)
from assay.runs.row import Row
from assay.runs.row_rubrics import COLUMN, RowRubrics
from assay.runs.saved_run import Run
from assay.runs.summary import Summary
from assay.types import OnError


class Recalled(dict[str, Any]):
    """The fields of a saved row, with what judges answered about it, by the hash of the question."""

    answers: Mapping[str, Score]

    def __init__(self, fields: Mapping[str, Any], answers: Mapping[str, Score]) -> None:
        super().__init__(fields)
        self.answers = answers

    def copy(self) -> "Recalled":
        return Recalled(self, self.answers)


class ReuseAnswers(Grader):
    """Gives the saved answer where there is one, and asks another grader the rest."""

    def __init__(self, inner: Autograder | None) -> None:
        super().__init__(normalize=True if inner is None else inner.normalize)
        self._inner = inner

    @property
    def title(self) -> str:
        return "nobody" if self._inner is None else self._inner.title

    def models(self) -> tuple[Model, ...]:
        return () if self._inner is None else self._inner.models()

    async def ask(self, to_grade: str, criteria: list[Criterion], query: str | None, on_error: OnError) -> JudgeAnswer:
        saved = _answers_of(to_grade)
        known = {c.name: saved[q] for c in criteria if (q := question_of(c)) in saved}
        rest = [criterion for criterion in criteria if criterion.name not in known]
        if not rest:
            return [known[criterion.name] for criterion in criteria]
        if self._inner is None:
            missing = Score.failed(JudgeError("no answer is saved, and no grader was given to ask"))
            return [known.get(criterion.name, missing) for criterion in criteria]
        answer = await self._inner.answer(to_grade, rest, query, on_error=on_error)
        if isinstance(answer, EvaluationReport):
            # One report cannot be mixed with single answers: then everything is asked.
            if not known:
                return answer
            return await self._inner.answer(to_grade, criteria, query, on_error=on_error)
        asked = {c.name: score for c, score in zip(rest, answer, strict=True)}
        return [(known | asked)[criterion.name] for criterion in criteria]


def reusing(rubric: Any, grader: Autograder | None) -> tuple[Any, Autograder | None]:
    """The rubric and the grader to score with, so that saved answers are kept.

    One that judges as a whole has no answers to keep, and is asked again.
    """
    if isinstance(rubric, RubricGroup) and grader is None:
        group = copy(rubric)
        group.rubrics = [_reusing_child(child, rubric.autograder) for child in rubric.rubrics]
        return group, None
    asked = grader or getattr(rubric, "autograder", None)
    return rubric, _kept(asked)


def _reusing_child(child: Rubric, outer: Autograder | None) -> Rubric:
    child = copy(child)
    if isinstance(child, RubricGroup):
        inner = child.autograder or outer
        child.rubrics = [_reusing_child(each, inner) for each in child.rubrics]
    else:
        child.autograder = _kept(child.autograder or outer)
    return child


def _kept(grader: Autograder | None) -> Autograder:
    if grader is not None and (grader.gives_whole or grader.length_penalty is not None):
        return grader
    return ReuseAnswers(grader)


def _answers_of(to_grade: str) -> Mapping[str, Score]:
    fields = JudgeInput.of(to_grade).fields
    return fields.answers if isinstance(fields, Recalled) else {}


def saved_answers(report: EvaluationReport, criteria: Sequence[CriterionAbout]) -> dict[str, Score]:
    """What judges answered, by the hash of the question; without what has no answer."""
    return dict(_answers(report.lines, criteria))


def _answers(lines: Sequence[CriterionReport], criteria: Sequence[CriterionAbout]) -> Iterator[tuple[str, Score]]:
    by_name = {criterion.name: criterion for criterion in criteria}
    for line in lines:
        criterion = by_name.get(line.name)
        if criterion is None or not line.answered:
            continue
        if not criterion.judged:
            yield from _answers(line.lines, criterion.inside)
        elif line.requirement == criterion.requirement and (line.applies or not criterion.when):
            # Where a condition did not hold, no judge was asked.
            yield (
                criterion.question,
                Score(line.value, line.reason, line.verdict, None, line.lines, line.disagreement),
            )


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
    scorer, asked = reusing(rubric, grader) if keeps else (rubric, grader)
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
            scoring = Pipeline(sink, asked, max_concurrent, exchanges=exchanges)
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
        if rubric is None or not Traits.of(rubric).compares:
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
