"""Score a saved run with another rubric, and ask judges only about questions without a saved answer."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any

from assay.criterion import Criterion
from assay.engine import logging_once
from assay.errors import AssayError, JudgeError
from assay.graders.grader import Grader, JudgeAnswer, JudgeSource, ask_grader, grader_of
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
from assay.runs.run_errors import RunRefused
from assay.runs.run_schema import find_run_file
from assay.runs.spending import NOTHING
from assay.runs.summary import Summary
from assay.types import OnError


async def rescore(
    run: Run,
    rubric: Any,
    folder: str | PathLike[str] | None,
    *,
    judge: JudgeSource | None = None,
    resume: bool = False,
    allow_changes: bool = False,
    on_row: pipeline.OnRow | None = None,
    on_progress: pipeline.OnProgress | None = None,
    stopping: pipeline.Stopping | None = None,
    max_concurrent: int = pipeline.MAX_CONCURRENT,
    save_requests: bool = False,
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
        raise RunRefused(f"{run.path} would be overwritten: name another folder")
    replaces_row_rubrics = rubric is not None and not isinstance(rubric, pipeline.RowRubrics)
    rubrics = rubric if isinstance(rubric, pipeline.RowRubrics) else pipeline.RowRubrics(rubric)
    grader = grader_of(judge)
    new_judge = judge_of(rubric if replaces_row_rubrics else rubrics, grader)
    keeps_answers = None in (new_judge, run.about.judge) or new_judge == run.about.judge
    about = RunAbout.of(
        "rescore",
        rubric=rubrics.rubric,
        judge=new_judge,
        data=_describe_rows(run),
        model=run.about.model,
        config=run.about.config,
    )
    if keeps_answers and isinstance(rubrics.rubric, RubricGroup) and grader is None:
        rubrics = rubrics.around(_with_saved_answers(rubrics.rubric, None))
    elif keeps_answers:
        grader = _reusing(grader or getattr(rubrics.rubric, "grader", None))
    with budget() as ledger, logging_once():
        watch = pipeline.Watch(on_progress, len(run), ledger)
        with pipeline.open_sink(
            folder,
            about,
            resume=resume,
            allow_changes=allow_changes,
            on_row=on_row,
            watch=watch,
        ) as sink:
            rows = _RowsToScore(
                run=run,
                feed=pipeline.Feed((), rubrics, sink.has_row),
                rubrics=rubrics,
                replaces_row_rubrics=replaces_row_rubrics,
                keeps_answers=keeps_answers,
            )
            is_stopped = await pipeline.Pipeline(
                sink, grader, max_concurrent, save_requests=save_requests
            ).run(rows.units(), stopping)
            return sink.finish(complete=not is_stopped)


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
        """Yield single rows, or all rows of an example if the rubric compares its rollouts."""
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
        """Return a row without its scores, but with what judges have answered about it."""
        generation_times = {
            part: seconds for part, seconds in row.timing.items() if part != "scoring"
        }
        fields = without_rubric(row.fields) if self.replaces_row_rubrics else row.fields
        # An error about the row's rubric does not count: the rubric may be readable by now, or unused.
        has_generation_error = row.error is not None and not is_unreadable(row.error, row.example)
        unscored_row = replace(
            row,
            fields=fields,
            error=row.error if has_generation_error else None,
            report=EvaluationReport(),
            spent=NOTHING,
            spent_on_model=NOTHING,
            timing=generation_times,
            calls=(),
        )
        pending = self.feed.prepare(unscored_row)
        if self.keeps_answers and pending.scorer is not None:
            criteria = self._saved_criteria(row, pending.scorer)
            pending.state = _AnsweredFields(fields, dict(_list_answers(row.report.lines, criteria)))
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


class _AnsweredFields(dict[str, Any]):
    """The fields of a saved row, with the answers of judges by the hash of the question."""

    def __init__(self, fields: Mapping[str, Any], answers: Mapping[str, Score]) -> None:
        super().__init__(fields)
        self.answers = answers


def _list_answers(
    lines: Sequence[CriterionReport], criteria: Sequence[CriterionAbout]
) -> Iterator[tuple[str, Score]]:
    """Yield each answer of a judge with the hash of its question."""
    by_name = {criterion.name: criterion for criterion in criteria}
    for line in lines:
        criterion = by_name.get(line.name)
        if criterion is None or line.error is not None or not line.asked:
            continue
        if not criterion.judged:
            yield from _list_answers(line.lines, criterion.inside)
        elif line.requirement == criterion.requirement and (line.applies or not criterion.when):
            # If a condition did not hold, no judge was asked.
            yield criterion.question, line.as_score
            for step in line.lines:
                if step.step:
                    yield f"{criterion.question}@{step.name}", step.as_score


class ReuseAnswers(Grader):
    """Returns saved answers, and asks another grader the questions that have none."""

    takes_media = True  # the other grader refuses media that it cannot read

    def __init__(self, inner: Grader | None) -> None:
        super().__init__(normalize=True if inner is None else inner.normalize)
        self._inner = inner

    @property
    def title(self) -> str:
        return "no judge" if self._inner is None else self._inner.title

    def models(self) -> tuple[Model, ...]:
        return () if self._inner is None else self._inner.models()

    async def answer(
        self, judge_input: JudgeInput, criteria: list[Criterion], *, on_error: OnError
    ) -> JudgeAnswer:
        scores = self._find_saved_answers(judge_input, criteria)
        unanswered = [criterion for criterion in criteria if criterion.name not in scores]
        if unanswered and self._inner is None:
            error = JudgeError("no answer is saved, and no judge was named")
            for criterion in unanswered:
                scores[criterion.name] = Score.failed(error)
        elif unanswered and self._inner is not None:
            answer = await ask_grader(self._inner, judge_input, unanswered, on_error=on_error)
            if isinstance(answer, EvaluationReport):
                if not scores:
                    return answer
                # A report on some criteria cannot be joined with saved answers: ask about all.
                return await ask_grader(self._inner, judge_input, criteria, on_error=on_error)
            for criterion, score in zip(unanswered, answer, strict=True):
                scores[criterion.name] = score
        return [scores[criterion.name] for criterion in criteria]

    def _find_saved_answers(
        self, judge_input: JudgeInput, criteria: list[Criterion]
    ) -> dict[str, Score]:
        """Return the saved answers by the name of the criterion."""
        fields = judge_input.fields
        if not isinstance(fields, _AnsweredFields):
            return {}
        if self._inner is not None and _shows_files(judge_input):
            # Files may have changed. If not, the cache of the judge still has its answers.
            return {}
        scores: dict[str, Score] = {}
        for criterion in criteria:
            # In the same row, a template is filled in with the same values.
            question = criterion.memo.get("template_hash") or hash_question(criterion)
            if question in fields.answers:
                scores[criterion.name] = fields.answers[question]
        return scores


def _shows_files(judge_input: JudgeInput) -> bool:
    """Return whether the judge is shown a file or a web page that the rollout only names."""
    sources = [find_media_source(medium.part.original) for medium in judge_input.media]
    return any(source.content is None for source in sources)


def _reusing(grader: Grader | None) -> Grader:
    """Return a grader that reuses saved answers, if the given one allows it."""
    if grader is not None:
        # A judge of the whole rubric saves no single answers. What a judge read with tools may have
        # changed.
        judges_whole = grader.returns_report or grader.length_penalty is not None
        if judges_whole or grader.reads_outside:
            return grader
    return ReuseAnswers(grader)


def _with_saved_answers(rubric: Any, group_grader: Grader | None) -> Any:
    """Return a copy of a rubric or a group, whose graders reuse the saved answers.

    `group_grader` grades the rubrics of a group that have no grader of their own.
    """
    rubric = copy(rubric)
    grader = rubric.grader or group_grader
    if isinstance(rubric, RubricGroup):
        rubric.rubrics = [_with_saved_answers(inner, grader) for inner in rubric.rubrics]
    else:
        rubric.grader = _reusing(grader)
    return rubric
