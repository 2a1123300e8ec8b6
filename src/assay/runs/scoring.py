"""score_rows: rows in, a run out. It streams, and loses nothing that is finished."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, TypeAlias

from assay.engine import logging_once
from assay.graders.base import Autograder
from assay.models.judge_log import judge_log
from assay.models.ledger import budget, rollout_spending
from assay.report import EvaluationReport
from assay.runs.about import RunAbout, judge_of
from assay.runs.data import data_about
from assay.runs.exchanges import exchanges_told
from assay.runs.feed import Feed, Pending
from assay.runs.plain import holdable
from assay.runs.progress import OnProgress, Watch
from assay.runs.row import Row
from assay.runs.row_rubrics import RowRubrics
from assay.runs.rubrics import RubricAbout
from assay.runs.sink import OnRow, Sink, opened_sink
from assay.runs.spending import NOTHING, Spending
from assay.runs.summary import Summary
from assay.runs.ways import reports_on

MOST_AT_ONCE = 128
"""Rows under way at once where somebody is waited for, unless said otherwise."""

CHUNK_SECONDS = 0.2
"""How long a chunk of rows should take where code answers at once: so much a kill can lose."""

LARGEST_CHUNK = 256

_UNTIMED: Mapping[str, float] = {}

Stopping: TypeAlias = Callable[[], bool]


async def score_rows(
    rubric: Any,
    rows: Iterable[Mapping[str, Any]],
    *,
    folder: str | PathLike[str] | None = None,
    grader: Autograder | None = None,
    about: RunAbout | None = None,
    resume: bool = False,
    on_row: OnRow | None = None,
    on_progress: OnProgress | None = None,
    stopping: Stopping | None = None,
    max_concurrent: int = MOST_AT_ONCE,
    total: int | None = None,
    exchanges: bool = False,
) -> Summary:
    """Score rows and save each as a line of a run's folder; without a folder only `on_row` sees them.

    `rubric` is a rubric, anything else with a `score`, or None when every row has its own in the
    column `rubric`. Rows are read one by one and not kept. Where a model is asked, `max_concurrent`
    of them are under way and each is saved as soon as its report is there; else they go in chunks
    of a fifth of a second. With `resume`, rows that are saved without an error are not done again.

    `stopping` is asked between pieces of work; when it says True, what is under way is finished and
    saved, and the summary is not `complete`. `total` is how many rows there are, for whoever watches.
    With `exchanges` each row keeps what judges were asked and said, word for word.

    >>> import asyncio
    >>> from assay import Rubric
    >>> rubric = Rubric.from_dict([{"check": {"contains": "Paris"}}])
    >>> asyncio.run(score_rows(rubric, [{"completion": "Paris"}, {"completion": "Rome"}])).score.mean
    0.5
    """
    refuse_too_few(max_concurrent)
    rubrics = rubric if isinstance(rubric, RowRubrics) else RowRubrics(rubric)
    about = _completed(about, rubrics.rubric, grader, rows)
    if total is None and hasattr(rows, "__len__"):
        total = len(rows)  # pyright: ignore[reportArgumentType]
    with budget() as spent, logging_once():
        watch = Watch(on_progress, total, spent)
        with opened_sink(folder, about, resume=resume, on_row=on_row, watch=watch) as sink:
            feed = Feed(rows, rubrics, sink.has)
            scoring = Scoring(
                sink, grader or rubrics.autograder, max_concurrent, exchanges=exchanges
            )
            stopped = await scoring.run(feed.units(), stopping)
            summary = sink.finish(complete=not stopped and feed.broken is None)
    if feed.broken is not None:
        raise feed.broken
    return summary


def refuse_too_few(max_concurrent: int) -> None:
    """Raise unless something can be under way at all."""
    if max_concurrent < 1:
        raise ValueError(f"max_concurrent is {max_concurrent}: give 1 or more")


def _completed(
    about: RunAbout | None, rubric: Any, grader: Autograder | None, rows: object
) -> RunAbout:
    """What is known of the run, with what the caller left out."""
    about = about or RunAbout.of("score", data=data_about(rows))
    if about.rubric is None and rubric is not None:
        about = about.with_fields(rubric=RubricAbout.of(rubric))
    if about.judge is None:
        about = about.with_fields(judge=judge_of(rubric, grader))
    return about


class Scoring:
    """Units of rows on their way to a sink."""

    def __init__(
        self,
        sink: Sink,
        grader: Autograder | None,
        max_concurrent: int,
        *,
        exchanges: bool = False,
    ) -> None:
        self._sink = sink
        self._exchanges = exchanges
        self._grader = grader
        self._slots = asyncio.Semaphore(max_concurrent)
        self._size = 1
        # A rubric that does not fit the very first row does not fit the data, and that is said at once.
        self._lenient = not sink.is_fresh

    async def run(self, units: Iterator[list[Pending]], stopping: Stopping | None) -> bool:
        """Score them all. Whether it was stopped."""
        stopped = False
        chunk: list[Pending] = []
        try:
            async with asyncio.TaskGroup() as tasks:
                for unit in units:
                    waits = unit[0].way.waits or len(unit) > 1
                    if waits:
                        await self._slots.acquire()
                    # Asked after the wait, or else one more would be begun.
                    if not chunk and stopping is not None and stopping():
                        stopped = True
                        break
                    if waits:
                        tasks.create_task(self._wait_for(unit))
                        continue
                    chunk += unit
                    if len(chunk) >= self._size:
                        await self._score_chunk(chunk)
                        chunk = []
                if chunk:
                    await self._score_chunk(chunk)
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return stopped

    async def _wait_for(self, unit: Sequence[Pending]) -> None:
        try:
            started = time.perf_counter()
            texts = [holdable(pending.row) for pending in unit]
            with budget() as ledger, judge_log(wanted=self._exchanges) as said:
                async with rollout_spending():
                    reports = await self._reports(unit)
            timing = {"scoring": round(time.perf_counter() - started, 6)}
            spent = Spending.of(ledger)
            rows: list[Row] = []
            kept = exchanges_told(said)
            texts = [text for pending, text in zip(unit, texts, strict=True) if not pending.is_done]
            for pending, report in zip(unit, reports, strict=True):
                if pending.is_done:
                    continue
                row = _row(pending, report, spent, timing)
                rows.append(replace(row, exchanges=kept) if kept else row)
                spent, kept = NOTHING, ()  # what a group took stands on the first that is written
            self._sink.take(rows, texts)
        finally:
            self._slots.release()

    async def _score_chunk(self, chunk: Sequence[Pending]) -> None:
        started = time.perf_counter()
        texts = [holdable(pending.row) for pending in chunk]
        reports = await self._reports(chunk)
        rows = [_row(pending, report) for pending, report in zip(chunk, reports, strict=True)]
        self._sink.take(rows, texts)
        taken = time.perf_counter() - started
        if taken < CHUNK_SECONDS / 2:
            self._size = min(2 * self._size, LARGEST_CHUNK)
        elif taken > CHUNK_SECONDS:
            self._size = max(1, self._size // 2)
        await asyncio.sleep(0)

    async def _reports(self, unit: Sequence[Pending]) -> Sequence[EvaluationReport]:
        """A report each; those of one rubric are made together."""
        lenient, self._lenient = self._lenient, True
        first = unit[0].scorer
        if first is not None and all(pending.scorer is first for pending in unit):
            rows = [pending.row.copy() for pending in unit]
            return await reports_on(first, rows, self._grader, lenient=lenient)
        reports: dict[int, EvaluationReport] = {}
        for scorer, places in _by_scorer(unit):
            rows = [unit[place].row.copy() for place in places]
            found = await reports_on(scorer, rows, self._grader)
            reports |= zip(places, found, strict=True)
        nothing = EvaluationReport()
        return [reports.get(place, nothing) for place in range(len(unit))]


def _by_scorer(unit: Sequence[Pending]) -> Iterator[tuple[Any, list[int]]]:
    places: dict[int, tuple[Any, list[int]]] = {}
    for place, pending in enumerate(unit):
        if pending.error is None:
            places.setdefault(id(pending.scorer), (pending.scorer, []))[1].append(place)
    yield from places.values()


def _row(
    pending: Pending,
    report: EvaluationReport,
    spent: Spending = NOTHING,
    timing: Mapping[str, float] = _UNTIMED,
) -> Row:
    example, sample = pending.key
    row = Row.made(example, sample, pending.row, report, spent, timing, pending.number)
    before = pending.saved
    if before is None:
        return row if pending.error is None else replace(row, error=pending.error)
    generation = {part: s for part, s in before.timing.items() if part != "scoring"}
    return replace(
        row,
        timing={**generation, **timing},
        error=before.error or pending.error,
        model=before.model,
        altered=before.altered,
    )
