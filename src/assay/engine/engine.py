"""Engine: answer every question of a plan for a batch of rollouts. Writes nothing."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from assay.concurrency import together
from assay.criterion import Criterion
from assay.engine.answers import WHOLE, Answers, Column
from assay.engine.checking import Checking
from assay.engine.judging import Judging
from assay.engine.plan import Phase, Plan, Question
from assay.errors import RubricError
from assay.graders.autograder import Autograder
from assay.messages import read_completion
from assay.models.budgets import is_dry_run
from assay.redaction import logger_of
from assay.report import Score
from assay.rollout import Batch
from assay.types import OnError

logger = logger_of("assay")


_SAID: ContextVar[set[str] | None] = ContextVar("said", default=None)
"""Criteria whose errors were logged, where each is to be logged once."""


@contextmanager
def logging_once() -> Generator[None]:
    """Log the errors of a criterion once, and not for every batch: a run counts them anyway."""
    token = _SAID.set(set())
    try:
        yield
    finally:
        _SAID.reset(token)


@dataclass(slots=True)
class Engine:
    """What the questions of one rubric are answered with."""

    plan: Plan
    objects: Mapping[str, Any]
    grader: Autograder | None
    on_error: OnError
    read: Callable[[object], Any] = read_completion
    """How a completion is read; a TypeError says why it cannot be."""

    async def answer(self, batch: Batch) -> Answers:
        """Every answer, one column a criterion."""
        self._refuse_without_grader()
        scale = self.grader.scale if self.grader else None
        batch, unreadable = batch.readable(self.read)
        if unreadable and self.on_error == "raise":
            raise TypeError(next(iter(unreadable.values())).removeprefix("TypeError: "))
        by_place = len(self.plan.phases) > 1 or bool(unreadable)
        found = Answers.unasked(self.plan, len(batch), scale, self.on_error, by_place=by_place)
        if not len(batch):
            return found
        for depth, phase in enumerate(self.plan.phases):
            if depth or unreadable:
                found.clean = False
                await self._ask_some(phase, batch, found, unreadable)
            elif not phase.judged:
                await self._check(phase, batch, found)
            elif not phase.by_code:
                await self._judge(phase, batch, found)
            else:
                # The model is asked while the checks run.
                await together(self._judge(phase, batch, found), self._check(phase, batch, found))
        if not found.plain and found.failed():
            for question in self.plan.questions:
                self._report_errors(question.criterion, found.columns[question.index])
        return found

    async def _ask_some(
        self, phase: Phase, batch: Batch, found: Answers, unreadable: Mapping[int, str]
    ) -> None:
        """Ask each question where its `when` holds; elsewhere it is not applicable.

        Where the completion is `unreadable`, a question about it is not asked either, and says why.
        """
        asked: list[list[Question]] = [[] for _ in range(len(batch))]
        for question in (*phase.by_code, *phase.judged):
            places: list[int] = []
            for place in range(len(batch)):
                settled = self._settled_by_condition(question.criterion, found, place)
                if settled is None and place in unreadable and question.reads_completion:
                    settled = Score.failed(unreadable[place])
                if settled is None:
                    places.append(place)
                else:
                    found.columns[question.index][place] = settled
            if question.criterion.judged:
                for place in places:
                    asked[place].append(question)
            elif places:
                await self._check_at(question, places, batch, found)
        if any(asked):
            await self._judge_some(asked, batch, found)

    async def _check(self, phase: Phase, batch: Batch, found: Answers) -> None:
        checking = Checking(self.objects, self.on_error, self.grader)
        columns = await checking.columns(phase.runs, batch)
        found.plain = self.plan.plain and checking.plain and not self.plan.judged
        found.floats = checking.floats
        for question, column in zip(phase.by_code, columns, strict=True):
            found.columns[question.index] = column

    async def _check_at(
        self, question: Question, places: Sequence[int], batch: Batch, found: Answers
    ) -> None:
        checking = Checking(self.objects, self.on_error, self.grader)
        [answers] = await checking.columns([[question]], batch.select(places))
        for place, answer in zip(places, answers, strict=True):
            found.columns[question.index][place] = answer

    async def _judge(self, phase: Phase, batch: Batch, found: Answers) -> None:
        """Ask the grader about every rollout, all criteria at once."""
        assert self.grader is not None
        judging = Judging(self.grader, self.on_error)
        answers = await judging.answers([phase.criteria] * len(batch), batch)
        found.clean = judging.clean
        rows = [found.scores(place, answer, phase.judged) for place, answer in enumerate(answers)]
        for question, column in zip(phase.judged, zip(*rows, strict=True), strict=True):
            found.columns[question.index] = list(column)

    async def _judge_some(
        self, asked: Sequence[Sequence[Question]], batch: Batch, found: Answers
    ) -> None:
        """Ask the grader about each rollout what is asked of that one."""
        assert self.grader is not None
        criteria = [[question.criterion for question in questions] for questions in asked]
        answers = await Judging(self.grader, self.on_error).answers(criteria, batch)
        found.clean = False
        for place, (questions, answer) in enumerate(zip(asked, answers, strict=True)):
            scores = found.scores(place, answer, questions)
            for question, score in zip(questions, scores, strict=True):
                found.columns[question.index][place] = score

    def _settled_by_condition(
        self, criterion: Criterion, found: Answers, place: int
    ) -> Score | None:
        """None when the criterion is to be asked of this rollout, else the answer it has already."""
        if is_dry_run():
            return None  # where nothing is answered, everything that could be asked counts
        for name, verdicts in criterion.when:
            if found.columns[self.plan.index_of(name)][place] is WHOLE:
                return Score.failed(
                    f"JudgeError: it depends on {name!r}, which was judged as part of the whole"
                )
            line = found.line(self.plan.index_of(name), place)
            if line.error is not None:
                return Score.failed(f"JudgeError: it depends on {name!r}, which has no answer")
            holds = line.verdict in verdicts if verdicts else bool(line.passed)
            if not holds:
                return Score.not_applicable(f"{name!r} came out {line.verdict or line.value}")
        return None

    def _report_errors(self, criterion: Criterion, column: Column) -> None:
        """One line in the log when a criterion has no answer somewhere."""
        errors = [a.error for a in column if isinstance(a, Score) and a.error is not None]
        if not errors:
            return
        if self.on_error == "raise":
            raise RubricError(f"criterion {criterion.name!r} has no answer: {errors[0]}")
        said = _SAID.get()
        if said is not None:
            if criterion.name in said:
                return
            said.add(criterion.name)
        logger.error(
            "criterion %r has no answer for %d of %d rollouts; the first: %s",
            criterion.name, len(errors), len(column), errors[0],
        )  # fmt: skip

    def _refuse_without_grader(self) -> None:
        if self.grader is not None or not self.plan.judged:
            return
        for place, criterion in enumerate(self.plan.criteria, start=1):
            if criterion.judged:
                raise RubricError(
                    f"criterion {place} ({criterion.requirement!r}) is judged by a model, and no "
                    "grader was given: pass autograder="
                )
