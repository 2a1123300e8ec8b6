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
    """Score the completions of a saved run with a rubric, and save the result in another folder.

    The rubric scores every row. It replaces the rubrics that rows bring, and the new run keeps no
    copy of those. With None, each row is scored again by the rubric that it brings. With
    `RowRubrics(rubric)`, the rubric scores only the rows that bring none.

    A saved answer of a judge is used again if the question and the judge are the same, even if the
    criterion has another name or weight. Checks run again, since their code may have changed. A
    judge of the whole rubric is asked again. Rows whose generation failed stay as they are.
    """
    pipeline.refuse_too_few(max_concurrent)
    if folder is not None and find_run_file(folder).resolve() == run.file.path.resolve():
        raise RunRefused(f"{run.path} would be overwritten: name another folder")
    replaces_row_rubrics = rubric is not None and not isinstance(rubric, pipeline.RowRubrics)
    rubrics = rubric if isinstance(rubric, pipeline.RowRubrics) else pipeline.RowRubrics(rubric)
    grader = grader_of(judge)
    new_judge = judge_of(rubric if replaces_row_rubrics else rubrics, grader)
    saved_judge = run.about.judge
    keeps_answers = new_judge is None or saved_judge is None or new_judge == saved_judge
    about = RunAbout.of(
        "rescore",
        rubric=rubrics.rubric,
        judge=new_judge,
        data=_describe_rows(run),
        model=run.about.model,
        config=run.about.config,
    )
    if keeps_answers and isinstance(rubrics.rubric, RubricGroup) and grader is None:
        # Each rubric of the group may have a grader of its own.
        rubrics = rubrics.around(_reuse_answers_in(rubrics.rubric))
    elif keeps_answers:
        grader = _reuse_answers(grader or getattr(rubrics.rubric, "grader", None))
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
    """Return the part of the new run's metadata that says where its rows come from.

    A hash of the saved rows shows whether the saved run has changed when the new run is resumed.
    """
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
    # Builds the rubrics that rows bring, to find the questions of the saved answers.
    saved_rubrics: pipeline.RowRubrics = field(default_factory=pipeline.RowRubrics)

    def units(self) -> Iterator[list[pipeline.Pending]]:
        """Yield the rows that are scored by one call, without those that are finished.

        That is a single row, or all rows of an example if the rubric compares its rollouts. A row
        that failed, and so has nothing to score, comes by itself.
        """
        rubric = self.rubrics.rubric
        if rubric is not None and Traits.of(rubric).comparing_criteria:
            groups = self.run.by_example()
        else:
            groups = ([row] for row in self.run.rows())
        for rows in groups:
            to_score: list[pipeline.Pending] = []
            for row in rows:
                pending = self._prepare(row)
                if pending.scorer is None:  # it failed
                    yield from pipeline.skip_finished([pending])
                else:
                    to_score.append(pending)
            yield from pipeline.skip_finished(to_score)

    def _prepare(self, row: Row) -> pipeline.Pending:
        """Return a saved row as one to score again, with the saved answers of judges about it.

        Its scores, and what they cost, are left out.
        """
        generation_times = {
            part: seconds for part, seconds in row.timing.items() if part != "scoring"
        }
        fields = without_rubric(row.fields) if self.replaces_row_rubrics else row.fields
        # If only the rubric of the row could not be read, the row may be scored now: the rubric may
        # be readable by now, or be replaced.
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
            criteria = self._find_saved_criteria(row, new_rubric=pending.scorer)
            answers = dict(_list_answers(row.report.lines, criteria))
            # The grader receives these fields, and finds the saved answers in them.
            pending.state = _AnsweredFields(fields, answers)
        return pending

    def _find_saved_criteria(self, row: Row, new_rubric: Any) -> Sequence[CriterionAbout]:
        """Return the criteria by which a row was scored in the saved run.

        The result is empty if their answers cannot be used with the rubric that scores the row now.
        """
        if own_rubric(row.fields) is None:
            return () if self.run.about.rubric is None else self.run.about.rubric.criteria
        try:
            saved_rubric, _ = self.saved_rubrics.of(row.fields)
        except AssayError:
            return ()  # it could not be read then either, so there are no answers
        # Answers hold only for the parts of the rollout that the judge was shown.
        saved_view = (saved_rubric.shows, saved_rubric.thinking)
        new_view = (getattr(new_rubric, "shows", None), getattr(new_rubric, "thinking", None))
        if self.replaces_row_rubrics and saved_view != new_view:
            return ()
        return [CriterionAbout.of(criterion) for criterion in saved_rubric.criteria]


class _AnsweredFields(dict[str, Any]):
    """The fields of a saved row, with the saved answers of judges by the hash of the question.

    A grader receives the fields of the row that it judges, and so finds the answers there.
    """

    def __init__(self, fields: Mapping[str, Any], answers: Mapping[str, Score]) -> None:
        super().__init__(fields)
        self.answers = answers


def _list_answers(
    lines: Sequence[CriterionReport], criteria: Sequence[CriterionAbout]
) -> Iterator[tuple[str, Score]]:
    """Yield the hash of each question that a judge has answered, with its answer.

    `lines` are those of a saved report, and `criteria` are the criteria that they answer. Criteria
    of nested rubrics are included.
    """
    criteria_by_name = {criterion.name: criterion for criterion in criteria}
    for line in lines:
        criterion = criteria_by_name.get(line.name)
        if criterion is None or line.error is not None or not line.asked:
            continue
        if not criterion.judged:
            # If a nested rubric answers, judges may have answered its criteria.
            yield from _list_answers(line.lines, criterion.inside)
            continue
        if line.requirement != criterion.requirement:
            continue
        if criterion.when and not line.applies:
            continue  # its condition did not hold, so no judge was asked
        yield criterion.question, line.as_score
        for inner_line in line.lines:
            if inner_line.step:  # the answer about a single step of the rollout
                yield f"{criterion.question}@{inner_line.name}", inner_line.as_score


class ReuseAnswers(Grader):
    """Gives the saved answers of a row, and asks another grader only the other questions."""

    takes_media = True  # the other grader refuses media that it cannot read

    def __init__(self, inner: Grader | None) -> None:
        """`inner` is the grader to ask; with None, a question without an answer is an error."""
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
        """Return the answer to each criterion, in their order."""
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
                # A report scores the criteria as a whole, so it cannot be joined with the saved
                # answers to other criteria. Ask about all of them.
                return await ask_grader(self._inner, judge_input, criteria, on_error=on_error)
            for criterion, score in zip(unanswered, answer, strict=True):
                scores[criterion.name] = score
        return [scores[criterion.name] for criterion in criteria]

    def _find_saved_answers(
        self, judge_input: JudgeInput, criteria: list[Criterion]
    ) -> dict[str, Score]:
        """Return the saved answers to these criteria about one row, by the name of the criterion."""
        fields = judge_input.fields
        if not isinstance(fields, _AnsweredFields):
            return {}
        if self._inner is not None and _shows_files(judge_input):
            # The files may have changed since. If they have not, the cache of the judge still has
            # its answers.
            return {}
        scores: dict[str, Score] = {}
        for criterion in criteria:
            # If a requirement is filled with columns of the row, the hash is that of the template:
            # it is the same row, so it is filled with the same values.
            question = criterion.memo.get("template_hash") or hash_question(criterion)
            if question in fields.answers:
                scores[criterion.name] = fields.answers[question]
        return scores


def _shows_files(judge_input: JudgeInput) -> bool:
    """Return whether the judge is shown a file or a web page that the rollout only names."""
    sources = [find_media_source(medium.part.original) for medium in judge_input.media]
    # A source with content is part of the rollout itself, and so saved with it.
    return any(source.content is None for source in sources)


def _reuse_answers(grader: Grader | None) -> Grader:
    """Return a grader that gives saved answers, and asks `grader` only the other questions.

    Return `grader` itself if its answers cannot be used again.
    """
    if grader is not None:
        # A judge of the whole rubric gives no answers to single criteria.
        judges_whole = grader.returns_report or grader.length_penalty is not None
        # What a judge reads with tools may have changed.
        if judges_whole or grader.reads_outside:
            return grader
    return ReuseAnswers(grader)


def _reuse_answers_in(rubric: Any, group_grader: Grader | None = None) -> Any:
    """Return a copy of a rubric or of a group of rubrics, whose graders give saved answers.

    `group_grader` is that of the group around a rubric, which the rubric uses if it has none.
    """
    rubric = copy(rubric)
    grader = rubric.grader or group_grader
    if isinstance(rubric, RubricGroup):
        rubric.rubrics = [_reuse_answers_in(inner, grader) for inner in rubric.rubrics]
    else:
        rubric.grader = _reuse_answers(grader)
    return rubric
