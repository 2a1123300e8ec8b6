"""Answer every question of a plan for a batch of rollouts: checks by column, the rest by the grader."""

import asyncio
import inspect
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

from assay.answers import WHOLE, Answers, Column
from assay.concurrency import side_by_side, together
from assay.criterion import Criterion, Score
from assay.errors import RubricError, SignatureError
from assay.graders.base import Autograder, verdict_score
from assay.messages import completion_text, question_text
from assay.plan import Plan, Question
from assay.report import EvaluationReport
from assay.rollout import Batch

logger = logging.getLogger("assay")

OnError: TypeAlias = Literal["record", "raise"]

CHUNK = 512
"""Rollouts checked between two breaths of the event loop."""

_PLAIN = frozenset({float, int, bool})


@dataclass(frozen=True, slots=True)
class Engine:
    """What the questions of one rubric are answered with."""

    plan: Plan
    objects: Mapping[str, Any]
    grader: Autograder | None
    on_error: OnError

    async def answer(self, batch: Batch) -> Answers:
        """Every answer, one column a criterion. Writes nothing."""
        self._refuse_without_grader()
        size = len(self.plan.questions)
        found = Answers(
            self.plan,
            columns=[[Score()] * len(batch) for _ in range(size)]
            if len(self.plan.phases) > 1
            else [[] for _ in range(size)],
            size=len(batch),
            scale=self.grader.scale if self.grader else None,
        )
        if not len(batch):
            return found
        for depth, phase in enumerate(self.plan.phases):
            if depth == 0:
                await self._ask_all(phase, batch, found)
            else:
                await self._ask_where_it_applies(phase, batch, found)
        return found

    async def _ask_all(self, phase: Sequence[Question], batch: Batch, found: Answers) -> None:
        by_code = [question for question in phase if not question.criterion.judged]
        judged = [question for question in phase if question.criterion.judged]
        if by_code and judged:
            # The model is asked while the checks run.
            await together(
                self._judge_all(judged, batch, found), self._check(by_code, batch, found)
            )
        elif judged:
            await self._judge_all(judged, batch, found)
        else:
            await self._check(by_code, batch, found)

    async def _ask_where_it_applies(
        self, phase: Sequence[Question], batch: Batch, found: Answers
    ) -> None:
        """Ask each question of the rollouts for which its `when` holds; the rest is not applicable."""
        criteria = {question.criterion.name: question for question in self.plan.questions}
        judged: list[list[Question]] = [[] for _ in range(len(batch))]
        for question in phase:
            verdicts = [_holds(question.criterion, criteria, found, i) for i in range(len(batch))]
            column = found.columns[question.index]
            applying: list[int] = []
            for place, verdict in enumerate(verdicts):
                if verdict is not None:
                    column[place] = verdict
                elif question.criterion.judged:
                    judged[place].append(question)
                else:
                    applying.append(place)
            if applying:
                part = Answers(self.plan, [[] for _ in self.plan.questions], len(applying))
                await self._check([question], batch.select(applying), part)
                for place, answer in zip(applying, part.columns[question.index], strict=True):
                    column[place] = answer
        if any(judged):
            await self._judge(judged, batch, found)

    # Checks

    async def _check(self, questions: Sequence[Question], batch: Batch, found: Answers) -> None:
        """Checks in the order listed: a later one may read what an earlier one left in the state."""
        for run in _runs(questions):
            if run[0].call is None:
                found.columns[run[0].index] = await self._nested(run[0], batch)
            elif run[0].is_group:
                found.columns[run[0].index] = await self._group(run[0], batch)
            elif any(question.call and question.call.is_async for question in run):
                await self._rollout_by_rollout(run, batch, found)
            else:
                await self._column_by_column(run, batch, found)

    async def _column_by_column(
        self, run: Sequence[Question], batch: Batch, found: Answers
    ) -> None:
        columns: list[Column] = [[] for _ in run]
        for number, chunk in enumerate(batch.chunks(CHUNK)):
            if number:
                await asyncio.sleep(0)
            for question, column in zip(run, columns, strict=True):
                assert question.call is not None
                values = self._collect(question.call.each(chunk, self.objects), len(chunk))
                column.extend(await self._settled(question.criterion, values))
        for question, column in zip(run, columns, strict=True):
            found.columns[question.index] = self._logged(question.criterion, column)

    async def _rollout_by_rollout(
        self, run: Sequence[Question], batch: Batch, found: Answers
    ) -> None:
        for question in run:
            assert question.call is not None
            question.call.refuse_missing(batch, self.objects)

        async def checked(place: int) -> list[Any]:
            alone = Batch(batch.rows[place : place + 1], batch.states[place : place + 1])
            answers: list[Any] = []
            for question in run:
                assert question.call is not None
                answers.append(await self._one(question, alone))
            return answers

        rows = await side_by_side(checked, range(len(batch)))
        for question, column in zip(run, zip(*rows, strict=True), strict=True):
            found.columns[question.index] = self._logged(question.criterion, list(column))

    async def _one(self, question: Question, alone: Batch) -> Any:
        assert question.call is not None
        try:
            value = next(question.call.each(alone, self.objects))
            if inspect.isawaitable(value):
                value = await value
        except Exception as error:
            if self.on_error == "raise":
                raise
            return Score.failed(error)
        return value if _is_plain([value]) else _as_answer(question.criterion, value)

    async def _group(self, question: Question, batch: Batch) -> Column:
        assert question.call is not None
        try:
            values = question.call.group(batch, self.objects)
            if inspect.isawaitable(values):
                values = await values
            column = _one_a_rollout(values, len(batch))
        except SignatureError:
            raise
        except Exception as error:
            if self.on_error == "raise":
                raise
            column = [Score.failed(error)] * len(batch)
        return self._logged(question.criterion, await self._settled(question.criterion, column))

    async def _nested(self, question: Question, batch: Batch) -> Column:
        """A whole rubric as one line, worth its normalised score."""
        scorer: Any = question.criterion.check
        inherits = getattr(scorer, "autograder", self) is None and self.grader is not None
        options = {"autograder": self.grader} if inherits else {}
        reports = await scorer.score(batch.rollouts(), **options)
        column = [_score_of_report(report) for report in reports]
        return self._logged(question.criterion, column)

    def _collect(self, results: Iterator[Any], size: int) -> Column:
        """Every result, with an error in the place of each that failed."""
        values: Column = []
        while len(values) < size:
            try:
                # An exception leaves what came before in place, and the iterator at the next item.
                values.extend(results)
                if len(values) < size:
                    raise RuntimeError("the check raised StopIteration")
            except Exception as error:
                if self.on_error == "raise":
                    raise
                values.append(Score.failed(error))
        return values

    async def _settled(self, criterion: Criterion, values: Column) -> Column:
        """The values as answers: finite numbers, or `Score`s that say what they are instead."""
        if _is_plain(values):
            return values
        pending = [place for place, value in enumerate(values) if inspect.isawaitable(value)]
        if pending:

            async def awaited(place: int) -> Any:
                try:
                    return await values[place]
                except Exception as error:
                    if self.on_error == "raise":
                        raise
                    return Score.failed(error)

            for place, value in zip(pending, await side_by_side(awaited, pending), strict=True):
                values[place] = value
        return [_as_answer(criterion, value) for value in values]

    def _logged(self, criterion: Criterion, column: Column) -> Column:
        """The column, after one line in the log if anything in it failed."""
        if Score not in set(map(type, column)):
            return column
        errors = [a.error for a in column if isinstance(a, Score) and a.error is not None]
        if errors:
            if self.on_error == "raise":
                raise RubricError(f"criterion {criterion.name!r} has no answer: {errors[0]}")
            logger.error(
                "criterion %r has no answer for %d of %d rollouts; the first: %s",
                criterion.name,
                len(errors),
                len(column),
                errors[0],
            )
        return column

    # Judging

    def _refuse_without_grader(self) -> None:
        if self.grader is not None:
            return
        for place, criterion in enumerate(self.plan.criteria, start=1):
            if criterion.judged:
                raise RubricError(
                    f"criterion {place} ({criterion.requirement!r}) is judged by a model, and no "
                    "grader was given: pass autograder="
                )

    async def _judge_all(self, judged: Sequence[Question], batch: Batch, found: Answers) -> None:
        questions = list(judged)
        for question in questions:
            found.columns[question.index] = [Score()] * len(batch)
        await self._judge([questions] * len(batch), batch, found)

    async def _judge(
        self, asked: Sequence[Sequence[Question]], batch: Batch, found: Answers
    ) -> None:
        """Hand each rollout's questions to the grader, all at once."""

        async def judge(place: int) -> None:
            questions = asked[place]
            if not questions:
                return
            answer = await self._ask_grader(questions, batch, place)
            if isinstance(answer, EvaluationReport):
                found.wholes[place] = found.wholes.get(place, EvaluationReport()) + answer
                answer = [WHOLE] * len(questions)
            for question, score in zip(questions, answer, strict=True):
                found.columns[question.index][place] = score

        await side_by_side(judge, range(len(batch)))
        for question in {q.index: q for questions in asked for q in questions}.values():
            self._logged(question.criterion, found.columns[question.index])

    async def _ask_grader(
        self, questions: Sequence[Question], batch: Batch, place: int
    ) -> Sequence[Score] | EvaluationReport:
        assert self.grader is not None
        criteria = [question.criterion for question in questions]
        try:
            answer = await self.grader.answer(_view(batch, place), criteria, _query(batch, place))
        except Exception as error:
            if self.on_error == "raise":
                raise
            return [Score.failed(error)] * len(questions)
        if isinstance(answer, EvaluationReport):
            return answer
        return [_finite(score) for score in answer]


def _view(batch: Batch, place: int) -> str:
    if batch.views is not None:
        return batch.views[place]
    row = batch.rows[place]
    if "completion" not in row:
        raise SignatureError("this rollout has no field 'completion' for a model to judge")
    return completion_text(row["completion"])


def _query(batch: Batch, place: int) -> str | None:
    row: Any = batch.rows[place]
    return question_text(row.get("prompt")) or None


def _runs(questions: Sequence[Question]) -> list[list[Question]]:
    """Questions in order, cut wherever the whole batch must be done before going on."""
    runs: list[list[Question]] = []
    for question in questions:
        alone = question.call is None or question.is_group
        if runs and not alone and not (runs[-1][0].call is None or runs[-1][0].is_group):
            runs[-1].append(question)
        else:
            runs.append([question])
    return runs


def _holds(
    criterion: Criterion, questions: Mapping[str, Question], found: Answers, place: int
) -> Score | None:
    """None when the criterion is to be asked of this rollout, else the answer it has already."""
    for name, verdicts in criterion.when:
        other = questions[name]
        line = found.line(other.index, place)
        if line.error is not None:
            return Score.failed(f"JudgeError: it depends on {name!r}, which has no answer")
        holds = line.verdict in verdicts if verdicts else bool(line.passed)
        if not holds:
            return Score.not_applicable(f"{name!r} came out {line.verdict or line.value}")
    return None


def _is_plain(values: Sequence[Any]) -> bool:
    """Whether all are finite numbers, as nearly every column is."""
    return _PLAIN.issuperset(map(type, values)) and math.isfinite(sum(values))


def _as_answer(criterion: Criterion, value: Any) -> float | Score:
    """A check's result as an answer; what is no finite number is an error that says so."""
    if isinstance(value, Score):
        return _finite(value)
    if isinstance(value, str):
        return verdict_score(criterion, value)
    if isinstance(value, bool):
        return value
    try:
        number = (
            float(value) if hasattr(value, "__float__") or hasattr(value, "__index__") else None
        )
    except Exception as error:  # noqa: BLE001 - a foreign number type may raise anything
        return Score.failed(error)
    if number is None or not math.isfinite(number):
        return Score.failed(f"ValueError: the check returned {value!r:.200}, not a finite number")
    return number


def _finite(score: Score) -> Score:
    value: Any = score.value
    if value is None:
        if score.error is None and score.applies:
            return score._replace(error="ValueError: no value and no reason why")
        return score
    if isinstance(value, bool) or (isinstance(value, int | float) and math.isfinite(value)):
        return score if type(value) is float else score._replace(value=float(value))
    return Score.failed(
        f"ValueError: a score of {value!r:.200} is not a finite number", score.reason
    )


def _one_a_rollout(values: Any, size: int) -> Column:
    if isinstance(values, (str, bytes, Mapping)) or not hasattr(values, "__iter__"):
        raise ValueError(
            f"the group function returned {values!r:.200}: return a list of {size} numbers"
        )
    column = list(cast("Sequence[Any]", values))
    if len(column) != size:
        raise ValueError(
            f"the group function returned {len(column)} numbers for {size} rollouts: return one each"
        )
    return column


def _score_of_report(report: EvaluationReport) -> Score:
    lines = tuple(report.lines)
    if not report.scored or report.score is None:
        errors = report.errors
        reason = "; ".join(f"{name}: {error}" for name, error in errors.items())
        return Score(error=f"GradingError: {reason or 'nothing in it counts'}", lines=lines)
    return Score(report.score, lines=lines)
