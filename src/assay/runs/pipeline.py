"""score_rows scores a stream of rows and saves each as soon as it is finished; what is finished is never lost."""

import asyncio
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, NamedTuple, TypeAlias, cast

from assay.engine import Traits, logging_once
from assay.errors import AssayError
from assay.graders.autograder import Autograder
from assay.models.budgets import Ledger, budget, rollout_spending
from assay.models.model import judge_log
from assay.report import EvaluationReport
from assay.rollout import Batch
from assay.rubric import BaseRubric
from assay.runs.folder import RunRefused
from assay.runs.journal import Journal
from assay.runs.jsonable import as_text, holdable, to_jsonable
from assay.runs.metadata import RubricAbout, RunAbout, data_about, judge_of
from assay.runs.row import LARGEST_SAMPLE, Key, Row, Seen, exchanges_told
from assay.runs.row_rubrics import RowRubrics, unreadable
from assay.runs.spending import NOTHING, Spending
from assay.runs.summary import Summary, Tally
from assay.wording import short_repr

EVERY_SECONDS = 0.2
"""How often progress is told at most."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is, and what it took so far."""

    done: int
    """Rows that are finished, those of earlier sittings included."""
    total: int | None = None
    """None when that is not known."""
    kept: int = 0
    """Of the finished rows, those that were there before and not done again."""
    errors: int = 0
    """Rows of this sitting on which something went wrong."""
    unscored: int = 0
    hits: int = 0
    calls: int = 0
    tokens: int = 0
    cost: float = 0.0
    """Dollars, as far as prices are known."""
    unpriced: int = 0
    """Calls whose price is not known."""
    seconds: float = 0.0
    """Since this sitting began."""
    eta: float | None = None
    """Seconds that are left at this pace; None when that cannot be told."""


OnProgress: TypeAlias = Callable[[Progress], object]


class Watch:
    """Counts what is finished, and reports the progress."""

    def __init__(self, on_progress: OnProgress | None, total: int | None, ledger: Ledger) -> None:
        self.kept = self.errors = self.unscored = self.fresh = 0
        self._tell = on_progress
        self._total = total
        self.ledger = ledger
        self._began = time.monotonic()
        self._told = 0.0

    @property
    def models(self) -> Collection[str]:
        """The ids that endpoints gave the models that answered."""
        return self.ledger.models.keys()

    def now(self) -> Progress:
        """How far it is."""
        seconds = time.monotonic() - self._began
        done = self.kept + self.fresh
        eta = None
        if self._total is not None and self.fresh:
            eta = max(0, self._total - done) * seconds / self.fresh
        usage = self.ledger.usage
        return Progress(
            done=done,
            total=self._total,
            kept=self.kept,
            errors=self.errors,
            unscored=self.unscored,
            hits=self.ledger.hits,
            calls=self.ledger.calls,
            tokens=usage.prompt + usage.completion,
            cost=self.ledger.cost,
            unpriced=self.ledger.unpriced,
            seconds=seconds,
            eta=eta,
        )

    def tell(self, *, at_once: bool = False) -> None:
        """Tell, if it is time."""
        if self._tell is None:
            return
        now = time.monotonic()
        if at_once or now - self._told >= EVERY_SECONDS:
            self._told = now
            self._tell(self.now())


class Numbering:
    """Gives each row of an input its key, in order.

    >>> number = Numbering()
    >>> [number.key_of({"id": name}) for name in ("a", "b", "a")]
    [('a', 0), ('b', 0), ('a', 1)]
    """

    def __init__(self, first: int = 0) -> None:
        """`first` is the number of the first row."""
        self.rows = first
        """The number of the next row."""
        self._alike: tuple[bool, bool] | None = None
        """Whether rows have an id, and a sample, of their own: all of them, or none."""
        self._seen = Seen()
        self._times: dict[str, int] = {}
        """How often an example came again."""

    def key_of(self, row: Mapping[str, Any]) -> Key:
        """The key of the next row."""
        own = row.get("example_id")
        if own is None:
            own = row.get("id")
        sample = None if row.get("sample") is None else _own_sample(row["sample"])
        number, self.rows = self.rows, self.rows + 1
        has = (own is not None, sample is not None)
        if has != self._alike:
            self._refuse_some(has, number)
        if own is None:
            return str(number), sample or 0
        example = own if isinstance(own, str) else _text(own)
        if sample is None:
            return example, self._next(example)
        if not self._seen.add(f"{sample} {example}"):
            raise RunRefused(
                f"row {number} is example {example!r}, sample {sample}, and so was one before it: "
                "give each its own `sample`, or leave that out"
            )
        return example, sample

    def _next(self, example: str) -> int:
        if self._seen.add(example):
            return 0
        self._times[example] = sample = self._times.get(example, 0) + 1
        return sample

    def _refuse_some(self, has: tuple[bool, bool], number: int) -> None:
        if self._alike is None:
            self._alike = has
        else:
            field = "id" if has[0] is not self._alike[0] else "sample"
            here = has[0] if field == "id" else has[1]
            raise RunRefused(
                f"row {number} has {'its own' if here else 'no'} `{field}`, and the rows before it "
                f"have {'none' if here else 'one'}: give every row one, or none"
            )


def _text(value: object) -> str:
    return str(value) if isinstance(value, int | float) else as_text(to_jsonable(value))


def _own_sample(given: object) -> int | None:
    """The sample that a row names; None when its column of that name holds something else."""
    if type(given) is int and given >= 0:
        sample = given
    elif isinstance(given, str) and given.isascii() and given.isdecimal() and len(given) < 1000:
        sample = int(given)
    else:
        return None
    if sample > LARGEST_SAMPLE:
        raise RunRefused(
            f"a row has the sample {short_repr(given)}: give at most {LARGEST_SAMPLE}, or name the column otherwise"
        )
    return sample


OnRow: TypeAlias = Callable[[Row], object]
Texts: TypeAlias = Sequence[tuple[str, tuple[str, ...]]]


class Sink:
    """A journal, or a tally where nothing is saved; and the callback that sees each row."""

    def __init__(self, journal: Journal | None, on_row: OnRow | None, watch: Watch) -> None:
        self._journal = journal
        self._tally = Tally() if journal is None else None
        self._on_row = on_row
        self._watch = watch
        self._done = Seen() if journal is None else journal.done
        self.is_fresh = not self._done
        """Whether nothing was there before."""

    def has(self, key: Key) -> bool:
        """Whether a row is finished already; it counts as kept."""
        if key not in self._done:
            return False
        self._watch.kept += 1
        return True

    def take(self, rows: Sequence[Row], texts: Texts) -> None:
        """Save finished rows, with their fields as they were before any check saw them."""
        if any(altered for _, altered in texts):
            rows = [
                replace(row, altered=(*row.altered, *altered)) if altered else row
                for row, (_, altered) in zip(rows, texts, strict=True)
            ]
        if self._journal is not None:
            self._journal.write_all(rows, texts)
        if self._tally is not None:
            for row in rows:
                self._tally.add(row)
        watch = self._watch
        for row in rows:
            watch.fresh += 1
            watch.errors += bool(row.errors)
            watch.unscored += not row.scored
            if self._on_row is not None:
                self._on_row(row)
        watch.tell()

    def finish(self, *, complete: bool) -> Summary:
        self._watch.tell(at_once=True)
        if self._journal is not None:
            return self._journal.finish(complete=complete, models=self._watch.models)
        summary = None if self._tally is None else self._tally.summary()
        assert summary is not None
        return summary.with_fields(complete=complete)


@contextmanager
def opened_sink(
    folder: str | PathLike[str] | None, about: RunAbout, *, resume: bool, on_row: OnRow | None, watch: Watch
) -> Generator[Sink]:
    """A sink into a folder; without one nothing is saved."""
    if folder is None:
        yield Sink(None, on_row, watch)
        return
    with Journal.open(folder, about, resume=resume) as journal:
        journal.count_spending(watch.ledger)
        yield Sink(journal, on_row, watch)


_NO_TRAITS = Traits()


class Pending(NamedTuple):
    """A row that waits, and who scores it."""

    key: Key
    row: dict[str, Any]
    scorer: Any
    """None where nothing is to be scored."""
    plan: Traits
    is_done: bool = False
    """Whether it is saved already, and only there for others to be compared with."""
    error: str | None = None
    """Why there is nothing to score: its rubric cannot be read, or it has no completion."""
    saved: Row | None = None
    """What an earlier run saved of it."""
    number: int | None = None
    """Its place in the data, from 0."""


class Feed:
    """What is to be scored, in units: a row, or the rollouts of an example that are compared."""

    def __init__(
        self,
        rows: Iterable[Mapping[str, Any]],
        rubrics: RowRubrics,
        has: Callable[[Key], bool],
        numbering: Numbering | None = None,
    ) -> None:
        self._rows = rows
        self._rubrics = rubrics
        self._has = has
        self._number = numbering or Numbering()
        self._seen = Seen()
        self.broken: AssayError | None = None
        """Why the rows ended too soon. What came before it is scored; then it is for you to raise."""

    def units(self) -> Iterator[list[Pending]]:
        """Rows in order, without those that are done."""
        try:
            yield from self._units()
        except AssayError as error:
            self.broken = error

    def _units(self) -> Iterator[list[Pending]]:
        group: list[Pending] = []
        for pending in self._pending():
            is_compared = bool(pending.plan.compares)
            if group and not (is_compared and pending.key[0] == group[0].key[0]):
                yield from _undone(group)
                group = []
            if is_compared:
                if not group:
                    self._refuse_apart(pending)
                group.append(pending)
            elif not pending.is_done:
                yield [pending]
        yield from _undone(group)

    def _pending(self) -> Iterator[Pending]:
        for row in self._rows:
            if not isinstance(row, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise RunRefused(f"row {self._number.rows} is {short_repr(row)}: give a mapping")
            fields: dict[str, Any] = row if isinstance(row, dict) else dict(row)
            number = self._number.rows
            yield self.pending(self._number.key_of(fields), fields)._replace(number=number)

    def pending(self, key: Key, row: dict[str, Any], saved: Row | None = None) -> Pending:
        """A row with the rubric that scores it."""
        is_done = self._has(key)
        number = None if saved is None else saved.number
        try:
            scorer, plan = self._rubrics.of(row)
        except AssayError as error:
            why = unreadable(error, f"example {key[0]}")
            return Pending(key, row, None, _NO_TRAITS, is_done, why, saved, number)
        if "completion" in row and row["completion"] is None:
            return Pending(key, row, None, plan, is_done, _without_completion(key), saved, number)
        return Pending(key, row, scorer, plan, is_done, None, saved, number)

    def _refuse_apart(self, first: Pending) -> None:
        """Refuse rollouts of an example that do not stand together: they could not be compared."""
        name, example = first.plan.compares[0], first.key[0]
        if first.row.get("example_id") is None and first.row.get("id") is None:
            raise RunRefused(
                f"criterion {name!r} compares the rollouts of an example, and row {example} does not "
                "say which it belongs to: give every row an `example_id`"
            )
        if not self._seen.add(example):
            raise RunRefused(
                f"criterion {name!r} compares the rollouts of an example, and those of {example!r} do "
                "not stand together: sort the rows by example"
            )


def _without_completion(key: Key) -> str:
    """What is said of a row whose completion is null: nothing was written, which is not an empty text."""
    return f"NoCompletion: the completion of example {key[0]} is null: write it, or leave the row out"


def _undone(group: list[Pending]) -> Iterator[list[Pending]]:
    if not all(pending.is_done for pending in group):
        yield group


MOST_AT_ONCE = 128
"""Rows under way at once where a model or a process is waited for, unless said otherwise."""

CHUNK_SECONDS = 0.2
"""How long a chunk of rows should take where code answers at once: so much a kill can lose."""

LARGEST_CHUNK = 256

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
    saved, and the summary is not `complete`. `total` is how many rows there are, for the progress.
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
            scoring = Pipeline(sink, grader or rubrics.autograder, max_concurrent, exchanges=exchanges)
            stopped = await scoring.run(feed.units(), stopping)
            summary = sink.finish(complete=not stopped and feed.broken is None)
    if feed.broken is not None:
        raise feed.broken
    return summary


def refuse_too_few(max_concurrent: int) -> None:
    """Raise unless something can be under way at all."""
    if max_concurrent < 1:
        raise ValueError(f"max_concurrent is {max_concurrent}: give 1 or more")


def _completed(about: RunAbout | None, rubric: Any, grader: Autograder | None, rows: object) -> RunAbout:
    """What is known of the run, with what the caller left out."""
    about = about or RunAbout.of("score", data=data_about(rows))
    if about.rubric is None and rubric is not None:
        about = about.with_fields(rubric=RubricAbout.of(rubric))
    if about.judge is None:
        about = about.with_fields(judge=judge_of(rubric, grader))
    return about


class Pipeline:
    """Units of rows on their way to a sink."""

    def __init__(self, sink: Sink, grader: Autograder | None, max_concurrent: int, *, exchanges: bool = False) -> None:
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
                    waits = unit[0].plan.waits or len(unit) > 1
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
    pending: Pending, report: EvaluationReport, spent: Spending = NOTHING, timing: Mapping[str, float] | None = None
) -> Row:
    example, sample = pending.key
    error, before = pending.error, pending.saved
    if before is not None:
        generation = {part: s for part, s in before.timing.items() if part != "scoring"}
        error, timing = before.error or error, {**generation, **(timing or {})}
    return Row(
        example,
        sample,
        fields=pending.row,
        report=report,
        error=error,
        spent=spent,
        timing=timing or {},
        model=None if before is None else before.model,
        altered=() if before is None else before.altered,
        number=pending.number,
    )


async def reports_on(
    scorer: Any, rows: list[dict[str, Any]], grader: Autograder | None, *, lenient: bool = True
) -> Sequence[EvaluationReport]:
    """A report a row. The rows are the checks' own, to read and to write.

    A field that none of these rows has is an error of each row that needs it. When not `lenient` it is
    raised at once, since then the rubric does not fit the data.
    """
    if isinstance(scorer, BaseRubric) and type(scorer).score is BaseRubric.score:
        return await scorer.score_batch(Batch(rows, rows, is_whole=not lenient), grader)
    options: Mapping[str, Any] = {} if grader is None else {"autograder": grader}
    return cast("Sequence[EvaluationReport]", await scorer.score(rows, **options))
