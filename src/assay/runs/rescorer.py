"""Score a saved run by another rubric; a judge is asked only what the run has no answer to."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any

from assay.criterion import Criterion
from assay.engine import logging_once
from assay.errors import AssayError, JudgeError
from assay.graders.grader import Grader, JudgeAnswer, ask_grader
from assay.graders.judge_input import JudgeInput
from assay.graders.model_grader import hash_question
from assay.messages import find_media_source
from assay.models import Model
from assay.models.budgets import budget
from assay.plan import Traits
from assay.report import CriterionReport, EvaluationReport, Score
from assay.rubric import RubricGroup
from assay.runs import pipeline
from assay.runs.journal import Run
from assay.runs.metadata import CriterionAbout, RunAbout, judge_of
from assay.runs.row import Row, own_rubric, without_rubric
from assay.runs.row_rubrics import is_unreadable
from assay.runs.run_store import RunRefused, find_run_file
from assay.runs.spending import NOTHING
from assay.runs.summary import Summary
from assay.types import OnError


async def rescore(
    run: Run,
    rubric: Any,
    folder: str | PathLike[str] | None,
    *,
    grader: Grader | None = None,
    resume: bool = False,
    on_row: pipeline.OnRow | None = None,
    on_progress: pipeline.OnProgress | None = None,
    stopping: pipeline.Stopping | None = None,
    max_concurrent: int = pipeline.MAX_CONCURRENT,
    judge_log: bool = False,
) -> Summary:
    """Score a saved run by a rubric, into another folder. Nothing is generated.

    The rubric scores every row. It replaces the rubrics that rows bring, and the new run keeps no
    copy of those. With None, each row is scored again by the rubric that it brings. With
    `RowRubrics(rubric)`, the rubric scores only the rows that bring none.

    An answer of a judge is kept if the question and the judge are the same, whatever the name and
    the weight of the criterion. Checks run again, because a function has no hash. A judge of the
    whole rubric is asked again. Rows whose generation failed stay as they are.
    """
    pipeline.refuse_too_few(max_concurrent)
    if folder is not None and find_run_file(folder).resolve() == run.file.path.resolve():
        raise RunRefused(f"{run.path} would be written over: name another folder")
    replaces_row_rubrics = rubric is not None and not isinstance(rubric, pipeline.RowRubrics)
    rubrics = rubric if isinstance(rubric, pipeline.RowRubrics) else pipeline.RowRubrics(rubric)
    judge = judge_of(rubric if replaces_row_rubrics else rubrics, grader)
    keeps = judge is None or run.about.judge is None or judge == run.about.judge
    before: dict[str, Any] = {"model": run.about.model, "config": run.about.config}
    data = _describe_rows(run)
    about = RunAbout.of("rescore", rubric=rubrics.rubric, judge=judge, data=data, **before)
    if keeps and isinstance(rubrics.rubric, RubricGroup) and grader is None:
        rubrics = rubrics.around(_with_saved_answers(rubrics.rubric, None))
    elif keeps:
        grader = _reusing(grader or getattr(rubrics.rubric, "autograder", None))
    with budget() as spent, logging_once():
        watch = pipeline.Watch(on_progress, len(run), spent)
        with pipeline.open_sink(folder, about, resume=resume, on_row=on_row, watch=watch) as sink:
            rows = _RowsToScore(
                run=run,
                feed=pipeline.Feed((), rubrics, sink.has_row),
                rubrics=rubrics,
                replaces_row_rubrics=replaces_row_rubrics,
                keeps_answers=keeps,
            )
            stopped = await pipeline.Pipeline(
                sink, grader, max_concurrent, judge_log=judge_log
            ).run(rows.units(), stopping)
            return sink.finish(complete=not stopped)


def _describe_rows(run: Run) -> dict[str, Any]:
    """Return where the rows come from, with a hash of all of them."""
    digest = hashlib.sha256()
    count = 0
    with run.file.connect() as connection:
        for (checksum,) in connection.execute("SELECT checksum FROM rollouts ORDER BY row, id"):
            digest.update(b"%d " % checksum)
            count += 1
    return {"source": str(run.file.path), "rows": count, "fingerprint": digest.hexdigest()}


@dataclass(frozen=True)
class _RowsToScore:
    """The rows of a saved run, ready to be scored again."""

    run: Run
    feed: pipeline.Feed
    rubrics: pipeline.RowRubrics  # what scores the rows now
    replaces_row_rubrics: bool  # whether rows are scored without the rubrics that they bring
    keeps_answers: bool  # whether answers of the saved run are used again
    # Builds the rubrics that rows bring, to read the saved answers to their questions.
    saved_rubrics: pipeline.RowRubrics = field(default_factory=pipeline.RowRubrics)

    def units(self) -> Iterator[list[pipeline.Pending]]:
        """Yield the rows, each alone, or those of one example if its rollouts are compared."""
        rubric = self.rubrics.rubric
        if rubric is not None and Traits.of(rubric).compares:
            groups = self.run.by_example()
        else:
            groups = ([row] for row in self.run.rows())
        for rows in groups:
            to_score: list[pipeline.Pending] = []
            for row in rows:
                pending = self._prepare(row)
                if pending.scorer is None:
                    yield from pipeline.skip_finished([pending])
                else:
                    to_score.append(pending)
            yield from pipeline.skip_finished(to_score)

    def _prepare(self, row: Row) -> pipeline.Pending:
        """Return a row without its scores, with what judges have answered about it."""
        generation_times = {
            part: seconds for part, seconds in row.timing.items() if part != "scoring"
        }
        fields = without_rubric(row.fields) if self.replaces_row_rubrics else row.fields
        # Whether the rubric of a row can be read is found out again, if it still is the one to use.
        has_generation_error = row.error is not None and not is_unreadable(row.error, row.example)
        unscored_row = replace(
            row,
            fields=fields,
            error=row.error if has_generation_error else None,
            report=EvaluationReport(),
            spent=NOTHING,
            spent_on_model=NOTHING,
            timing=generation_times,
            judge_log=(),
        )
        pending = self.feed.prepare(unscored_row)
        if self.keeps_answers and pending.scorer is not None:
            criteria = self._saved_criteria(row, pending.scorer)
            pending.state = _Recalled(fields, dict(_answers(row.report.lines, criteria)))
        return pending

    def _saved_criteria(self, row: Row, scorer: Any) -> Sequence[CriterionAbout]:
        """Return the criteria of the saved run whose answers about a row `scorer` may use."""
        if own_rubric(row.fields) is None:
            return () if self.run.about.rubric is None else self.run.about.rubric.criteria
        try:
            saved_rubric, _ = self.saved_rubrics.of(row.fields)
        except AssayError:
            return ()  # it could not be read then either, so there are no answers
        saved_view = (saved_rubric.shows, saved_rubric.thinking)
        view = (getattr(scorer, "shows", None), getattr(scorer, "thinking", None))
        if self.replaces_row_rubrics and saved_view != view:
            return ()  # the judge read other parts of the rollout
        return [CriterionAbout.of(criterion) for criterion in saved_rubric.criteria]


class _Recalled(dict[str, Any]):
    """The fields of a saved row, with what judges answered about it, by the hash of the question."""

    def __init__(self, fields: Mapping[str, Any], answers: Mapping[str, Score]) -> None:
        super().__init__(fields)
        self.answers = answers


def _answers(
    lines: Sequence[CriterionReport], criteria: Sequence[CriterionAbout]
) -> Iterator[tuple[str, Score]]:
    """What judges answered, by the hash of the question; without what has no answer."""
    by_name = {criterion.name: criterion for criterion in criteria}
    for line in lines:
        criterion = by_name.get(line.name)
        if criterion is None or line.error is not None or not line.asked:
            continue
        if not criterion.judged:
            yield from _answers(line.lines, criterion.inside)
        elif line.requirement == criterion.requirement and (line.applies or not criterion.when):
            # Where a condition did not hold, no judge was asked.
            yield criterion.question, line.as_score
            yield from (
                (f"{criterion.question}@{step.name}", step.as_score)
                for step in line.lines
                if step.step
            )


class ReuseAnswers(Grader):
    """Gives the saved answer where there is one, and asks another grader the rest."""

    takes_media = True  # the other one refuses what it cannot take

    def __init__(self, inner: Grader | None) -> None:
        super().__init__(normalize=True if inner is None else inner.normalize)
        self._inner = inner

    @property
    def title(self) -> str:
        return "no grader" if self._inner is None else self._inner.title

    def models(self) -> tuple[Model, ...]:
        return () if self._inner is None else self._inner.models()

    async def answer(
        self, judge_input: JudgeInput, criteria: list[Criterion], *, on_error: OnError
    ) -> JudgeAnswer:
        fields = judge_input.fields
        saved: Mapping[str, Score] = fields.answers if isinstance(fields, _Recalled) else {}
        if self._inner is not None and _shows_files(judge_input):
            # They may have changed. If not, the cache of the judge still has the answer.
            saved = {}
        known: dict[str, Score] = {}
        for criterion in criteria:
            # The row is the same, so a requirement that is filled with its columns is too.
            question = criterion.memo.get("template_hash") or hash_question(criterion)
            if question in saved:
                known[criterion.name] = saved[question]
        rest = [criterion for criterion in criteria if criterion.name not in known]
        if not rest:
            return [known[criterion.name] for criterion in criteria]
        if self._inner is None:
            missing = Score.failed(JudgeError("no answer is saved, and no grader was given to ask"))
            return [known.get(criterion.name, missing) for criterion in criteria]
        answer = await ask_grader(self._inner, judge_input, rest, on_error=on_error)
        if isinstance(answer, EvaluationReport):
            # One report cannot be mixed with single answers: then everything is asked.
            if not known:
                return answer
            return await ask_grader(self._inner, judge_input, criteria, on_error=on_error)
        asked = {c.name: score for c, score in zip(rest, answer, strict=True)}
        return [(known | asked)[criterion.name] for criterion in criteria]


def _shows_files(judge_input: JudgeInput) -> bool:
    """Return whether the judge is shown a file or a web page that the rollout only names."""
    sources = [find_media_source(medium.part.original) for medium in judge_input.media]
    return any(source.content is None for source in sources)


def _reusing(grader: Grader | None) -> Grader:
    """Return a grader that reuses saved answers, if the given one allows it."""
    if grader is not None:
        # A judge of the whole has no answers to keep. What a judge with tools read may have changed.
        judges_whole = grader.returns_report or grader.length_penalty is not None
        if judges_whole or grader.reads_outside:
            return grader
    return ReuseAnswers(grader)


def _with_saved_answers(rubric: Any, outer: Grader | None) -> Any:
    """A copy of a rubric of a group, or of the group, whose graders reuse the saved answers."""
    rubric = copy(rubric)
    grader = rubric.autograder or outer
    if isinstance(rubric, RubricGroup):
        rubric.rubrics = [_with_saved_answers(each, grader) for each in rubric.rubrics]
    else:
        rubric.autograder = _reusing(grader)
    return rubric
