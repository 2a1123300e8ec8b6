"""Checking: run the checks of a plan over a batch, by column where that is possible."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.call import Call
from assay.concurrency import FAILURES, is_stop, side_by_side
from assay.engine.answers import Column
from assay.engine.plan import Question
from assay.engine.settle import (
    all_floats,
    as_answer,
    is_answered,
    is_plain,
    one_a_rollout,
    score_of_report,
)
from assay.errors import SignatureError
from assay.graders.autograder import Autograder
from assay.report import Score
from assay.rollout import Batch
from assay.types import OnError
from assay.wording import described

CHUNK = 512
"""Rollouts checked between two breaths of the event loop."""


@dataclass(slots=True)
class Checking:
    """How checks are run: the objects they may name, and what happens when one fails."""

    objects: Mapping[str, Any]
    on_error: OnError
    grader: Autograder | None
    """For nested rubrics that have none of their own."""
    plain: bool = True
    """Whether every answer so far is a bare number."""
    floats: bool = True
    """Whether every answer so far is a float, and no bool or int."""

    async def columns(self, runs: Sequence[Sequence[Question]], batch: Batch) -> list[Column]:
        """One column a question. A later check may read what an earlier one left in the state."""
        columns: list[Column] = []
        for run in runs:
            first = run[0]
            if first.call is None:
                columns.append(await self._nested(first, batch))
            elif first.call.is_group:
                columns.append(await self._group(first, batch))
            elif any(question.call and question.call.is_async for question in run):
                columns += await self._rollout_by_rollout(run, batch)
            else:
                columns += await self._column_by_column(run, batch)
        return columns

    async def _column_by_column(self, run: Sequence[Question], batch: Batch) -> list[Column]:
        columns: list[Column] = [[] for _ in run]
        for number, chunk in enumerate(batch.chunks(CHUNK)):
            if number:
                await asyncio.sleep(0)
            for question, column in zip(run, columns, strict=True):
                results = _call(question).each(chunk, self.objects, whole=batch)
                values = self._collect(results, len(chunk.rows))
                if not all_floats(values):
                    self.floats = False
                    if not is_plain(values):
                        values = await self._settled(question, values)
                column += values
        return columns

    async def _rollout_by_rollout(self, run: Sequence[Question], batch: Batch) -> list[Column]:
        async def checked(place: int) -> list[Any]:
            alone = Batch(batch.rows[place : place + 1], batch.states[place : place + 1])
            self.floats = False
            answers: list[Any] = []
            for question in run:
                answers.append(await self._one(question, alone, batch))
            return answers

        rows = await side_by_side(checked, range(len(batch)))
        return [list(column) for column in zip(*rows, strict=True)]

    async def _one(self, question: Question, alone: Batch, batch: Batch) -> Any:
        call = _call(question)
        results = call.each(alone, self.objects, whole=batch)
        try:
            value = next(results)
            if call.is_async or inspect.isawaitable(value):
                value = await value
        except FAILURES as error:
            if self.on_error == "raise" or is_stop(error):
                raise
            value = Score.failed(error)
        if is_plain((value,)):
            return value
        self.plain = False
        return as_answer(question.criterion, value)

    async def _group(self, question: Question, batch: Batch) -> Column:
        call = _call(question)
        lacking = {} if call.compares else call.lacking(batch, self.objects)
        if not lacking:
            return await self._grouped(question, batch)
        # Each stands for itself, so those that can be answered are.
        missing = [SignatureError(f"this rollout has no field {n!r}") for n in lacking.values()]
        if self.on_error == "raise":
            raise missing[0]
        rest = [place for place in range(len(batch)) if place not in lacking]
        answers = iter(await self._grouped(question, batch.select(rest)))
        errors = dict(zip(lacking, map(Score.failed, missing), strict=True))
        self.plain = False
        return [errors[p] if p in errors else next(answers) for p in range(len(batch))]

    async def _grouped(self, question: Question, batch: Batch) -> Column:
        self.floats = False
        call = _call(question)
        try:
            values = call.group(batch, self.objects)
            if inspect.isawaitable(values):
                values = await values
            column = one_a_rollout(values, len(batch))
        except SignatureError:
            raise
        except FAILURES as error:
            if self.on_error == "raise" or is_stop(error):
                raise
            if len(batch) > 1 and not call.compares:
                return await self._one_by_one(self._grouped, question, batch)
            column = [Score.failed(_of_the_group(error, len(batch)))] * len(batch)
        return column if is_plain(column) else await self._settled(question, column)

    async def _one_by_one(
        self,
        ask: Callable[[Question, Batch], Awaitable[Column]],
        question: Question,
        batch: Batch,
    ) -> Column:
        """Ask about each rollout by itself, after asking about all of them failed: whose fault it was
        comes out, and the others keep their answers."""
        self.plain = False
        answers = await side_by_side(
            lambda place: ask(question, batch.select([place])), range(len(batch))
        )
        return [answer for [answer] in answers]

    async def _nested(self, question: Question, batch: Batch) -> Column:
        """A whole rubric as one line, worth its normalised score."""
        self.plain = False
        scorer: Any = question.criterion.check
        inherits = getattr(scorer, "autograder", self) is None and self.grader is not None
        options = {"autograder": self.grader} if inherits else {}
        try:
            reports = await scorer.score(batch.rollouts(), **options)
            if len(reports) != len(batch):
                raise ValueError(f"it gave {len(reports)} reports on {len(batch)} rollouts")
        except SignatureError:
            raise
        except FAILURES as error:
            if self.on_error == "raise" or is_stop(error):
                raise
            if len(batch) > 1 and not getattr(scorer, "compares", False):
                return await self._one_by_one(self._nested, question, batch)
            return [Score.failed(_of_the_group(error, len(batch)))] * len(batch)
        return [score_of_report(report) for report in reports]

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

    async def _settled(self, question: Question, values: Column) -> Column:
        """Results that are not all plain numbers: awaitables awaited, the rest read or refused."""
        self.plain = False
        if not is_answered(values):
            pending = [place for place, value in enumerate(values) if inspect.isawaitable(value)]
            results = await side_by_side(self._awaited, [values[place] for place in pending])
            for place, value in zip(pending, results, strict=True):
                values[place] = value
        answers: Column = []
        for start in range(0, len(values), CHUNK):
            if start:
                await asyncio.sleep(0)
            answers += [as_answer(question.criterion, v) for v in values[start : start + CHUNK]]
        return answers

    async def _awaited(self, value: Any) -> Any:
        try:
            return await value
        except FAILURES as error:
            if self.on_error == "raise" or is_stop(error):
                raise
            return Score.failed(error)


def _of_the_group(error: BaseException, size: int) -> str:
    """What to say of an error that leaves a whole group without an answer."""
    if size < 2:
        return described(error)
    return (
        f"{described(error)} (it compares the {size} rollouts of the group, so that none of them has "
        "an answer)"
    )


def _call(question: Question) -> Call:
    assert question.call is not None
    return question.call
