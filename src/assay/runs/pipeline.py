"""score_rows scores a stream of rows and saves each as soon as it is finished; what is finished is never lost."""

import asyncio
import sqlite3
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import timedelta
from os import PathLike
from typing import Any, TypeAlias, TypedDict, Unpack, cast

from assay.aggregation import group_by_key
from assay.base_rubric import BaseRubric
from assay.concurrency import run_sync
from assay.display import make_notebook_bar
from assay.engine import logging_once
from assay.errors import AssayError
from assay.graders.grader import Grader
from assay.models.budgets import Ledger, budget, rollout_spending
from assay.models.model import judge_log as logging_judges
from assay.plan import Traits
from assay.report import EvaluationReport
from assay.rollout import Rollout
from assay.runs.journal import Journal
from assay.runs.jsonable import as_text, holdable, to_jsonable
from assay.runs.metadata import RunAbout, data_about
from assay.runs.row import LARGEST_SAMPLE, Key, Row, split_messages
from assay.runs.row_rubrics import RowRubrics, unreadable
from assay.runs.run_store import RunRefused
from assay.runs.spending import Spending
from assay.runs.stats import DEFAULT_PASS_RULE, PassRule
from assay.runs.summary import Summary, Tally
from assay.tables import rows_of
from assay.wording import format_count, format_value

EVERY_SECONDS = 0.2  # how often progress is told at most
WAITING_SECONDS = 10  # after so long without a finished row, progress says what is waited for
TICK_SECONDS = 1.0  # progress is told at least this often

MOST_AT_ONCE = (
    128  # rows under way at once where a model or a process is waited for, unless said otherwise
)

CHUNK_SECONDS = (
    0.2  # how long a chunk of rows should take where code answers at once: so much a kill can lose
)

LARGEST_CHUNK = 256


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is, and what it took so far."""

    done: int  # rows that are finished, those of earlier sittings included
    total: int | None = None  # None when that is not known
    kept: int = 0  # of the finished rows, those that were there before and not done again
    errors: int = 0  # rows of this sitting on which something went wrong
    unscored: int = 0
    hits: int = 0
    calls: int = 0
    tokens: int = 0
    cost: float = 0.0  # dollars, as far as prices are known
    unpriced: int = 0  # calls whose price is not known
    seconds: float = 0.0  # since this sitting began
    idle_seconds: float = 0.0  # since the last row was finished
    # The calls that are not answered yet: how many by model, and the seconds of the oldest.
    open_calls: Mapping[str, tuple[int, float]] = field(default_factory=dict[Any, Any])

    @property
    def eta(self) -> float | None:
        """Seconds that are left at this pace; None when that cannot be told."""
        fresh = self.done - self.kept
        return (
            None
            if self.total is None or not fresh
            else max(0, self.total - self.done) * self.seconds / fresh
        )

    def told(self, noun: str) -> str:
        """How far it is, what went wrong, what it took, and how long it will be."""
        of = "" if self.total is None else f" of {self.total:,}"
        parts = [f"{self.done:,}{of} {noun}"]
        if self.errors:
            parts.append(format_count(self.errors, "error"))
        if self.hits:
            parts.append(f"{self.hits:,} from the cache")
        if self.calls:
            parts += [format_count(self.calls, "call"), format_count(self.tokens, "token")]
        if self.cost:
            parts.append(f"${self.cost:.4f}{' at least' if self.unpriced else ''}")
        if self.is_waiting:
            parts.append(self.describe_waiting())
        elif self.eta is not None and self.total != self.done:
            parts.append(f"about {timedelta(seconds=round(self.eta))} left")
        return ", ".join(parts)

    @property
    def is_waiting(self) -> bool:
        """Whether nothing has finished for so long that a reader asks what is being waited for."""
        return self.idle_seconds >= WAITING_SECONDS and bool(self.open_calls)

    def describe_waiting(self) -> str:
        """Say which calls are being waited for; empty if there are none.

        >>> Progress(1, open_calls={"gpt-5-mini": (1, 63.2)}).describe_waiting()
        'waiting for 1 call to gpt-5-mini, 63 s'
        """
        if not self.open_calls:
            return ""
        calls = [
            f"{format_count(count, 'call')} to {model}, {seconds:.0f} s"
            for model, (count, seconds) in self.open_calls.items()
        ]
        return f"waiting for {' and '.join(calls)}"


OnProgress: TypeAlias = Callable[[Progress], object]
OnRow: TypeAlias = Callable[[Row], object]
Stopping: TypeAlias = Callable[[], bool]


class Watch:
    """Counts what is finished, and reports the progress."""

    def __init__(
        self,
        on_progress: OnProgress | None,
        total: int | None,
        ledger: Ledger,
        *,
        every: float = EVERY_SECONDS,
    ) -> None:
        """`every` is how many seconds lie between two reports at least."""
        self.kept = self.errors = self.unscored = self.fresh = 0
        self._tell = on_progress or _notebook_progress()
        self._total, self._every = total, every
        self.ledger = ledger
        self._began = time.monotonic()
        self._told = 0.0
        self._last_done = 0
        self._last_finished = self._began  # when a row was last seen to be finished

    @contextmanager
    def ticking(self) -> Generator[None]:
        """Inside the block, tell once a second, so that it is seen what is being waited for."""
        if self._tell is None:
            yield
            return
        loop = asyncio.get_running_loop()

        def tick() -> None:
            nonlocal timer
            self.tell()
            timer = loop.call_later(TICK_SECONDS, tick)

        timer = loop.call_later(TICK_SECONDS, tick)
        try:
            yield
        finally:
            timer.cancel()

    def now(self) -> Progress:
        """How far it is."""
        ledger, now = self.ledger, time.monotonic()
        done = self.kept + self.fresh
        if done != self._last_done:
            self._last_done = done
            self._last_finished = now
        open_calls: dict[str, tuple[int, float]] = {}
        for call in list(ledger.open_calls):  # the oldest first
            count, seconds = open_calls.get(call.model, (0, now - call.start))
            open_calls[call.model] = (count + 1, seconds)
        return Progress(
            done=done,
            total=self._total,
            kept=self.kept,
            errors=self.errors,
            unscored=self.unscored,
            hits=ledger.hits,
            calls=ledger.calls,
            tokens=ledger.usage.prompt + ledger.usage.completion,
            cost=ledger.cost,
            unpriced=ledger.unpriced,
            seconds=now - self._began,
            idle_seconds=now - self._last_finished,
            open_calls=open_calls,
        )

    def tell(self, *, at_once: bool = False) -> None:
        """Tell, if it is time."""
        now = time.monotonic()
        if self._tell is not None and (at_once or now - self._told >= self._every):
            self._told = now
            self._tell(self.now())


def _notebook_progress() -> OnProgress | None:
    """A bar, where this runs in a notebook. `on_progress=` takes its place."""
    bar = make_notebook_bar()
    return (
        None
        if bar is None
        else lambda progress: bar(progress.told("rollouts"), progress.done, progress.total)
    )


class SeenTexts:
    """A set of texts in a temporary SQLite file, so that its memory does not grow with the data."""

    def __init__(self) -> None:
        self._connection: sqlite3.Connection | None = None  # opened with the first text

    def add(self, text: str) -> bool:
        """Add a text. Return whether it is new."""
        if self._connection is None:
            # An empty name makes a file that SQLite deletes when the connection is closed.
            self._connection = sqlite3.connect("", isolation_level=None, check_same_thread=False)
            self._connection.execute("PRAGMA journal_mode = OFF")
            self._connection.execute("CREATE TABLE texts (text PRIMARY KEY) WITHOUT ROWID")
            self._connection.execute("BEGIN")
        encoded = text.encode("utf-8", "surrogatepass")
        cursor = self._connection.execute("INSERT OR IGNORE INTO texts VALUES (?)", (encoded,))
        return cursor.rowcount == 1


class Numbering:
    """Gives each row of an input its key, in order: the second `a` is sample 1 of example `a`."""

    def __init__(self, first: int = 0) -> None:
        """`first` is the number of the first row."""
        self.rows = first  # the number of the next row
        # Whether rows have an id, and a sample, of their own: all of them, or none.
        self._alike: tuple[bool, bool] | None = None
        self._seen = SeenTexts()
        self._times: dict[str, int] = {}  # how often an example came again

    def key_of(self, row: Mapping[str, Any]) -> Key:
        """The key of the next row."""
        own = row.get("example_id")
        if own is None:
            own = row.get("id")
        sample = row.get("sample")
        if sample is not None:
            sample = read_own_sample(sample)
        number, self.rows = self.rows, self.rows + 1
        has = (own is not None, sample is not None)
        if has != self._alike:
            self._refuse_some(has, number)
        if own is None:
            return str(number), sample or 0
        if not isinstance(own, str):
            own = str(own) if isinstance(own, int | float) else as_text(to_jsonable(own))
        example: str = own
        if sample is None:
            if not self._seen.add(example):
                self._times[example] = sample = self._times.get(example, 0) + 1
            return example, sample or 0
        if not self._seen.add(f"{sample} {example}"):
            told = f"row {number} is example {example!r}, sample {sample}, and so was one before it"
            raise RunRefused(f"{told}: give each its own `sample`, or leave that out")
        return example, sample

    def _refuse_some(self, has: tuple[bool, bool], number: int) -> None:
        if self._alike is not None:
            field, here = ("id", has[0]) if has[0] is not self._alike[0] else ("sample", has[1])
            own, others = ("its own", "none") if here else ("no", "one")
            told = f"row {number} has {own} `{field}`, and the rows before it have {others}"
            raise RunRefused(f"{told}: give every row one, or none")
        self._alike = has


def read_own_sample(given: object) -> int | None:
    """Return the sample that a row names; None if its column of that name holds something else."""
    if type(given) is int and given >= 0:
        sample = given
    elif isinstance(given, str) and given.isascii() and given.isdecimal() and len(given) < 1000:
        sample = int(given)
    else:
        return None
    if sample > LARGEST_SAMPLE:
        instead = f"give at most {LARGEST_SAMPLE}, or name the column otherwise"
        raise RunRefused(f"a row has the sample {format_value(given)}: {instead}")
    return sample


class Sink:
    """A journal, or a tally where nothing is saved; and the callback that sees each row."""

    def __init__(
        self,
        journal: Journal | None,
        on_row: OnRow | None,
        watch: Watch,
        *,
        pass_rule: PassRule = DEFAULT_PASS_RULE,
        alone: bool = False,
    ) -> None:
        """`alone`: each example comes once."""
        self._journal = journal
        self._tally = Tally(pass_rule=pass_rule, alone=alone)
        self._on_row = on_row
        self._watch = watch
        self.is_fresh = journal is None or journal.is_new  # whether nothing was there before

    def has(self, key: Key) -> bool:
        """Whether a row is finished already; it counts as kept."""
        if self._journal is None or not self._journal.is_finished(key):
            return False
        self._watch.kept += 1
        return True

    def has_row(self, row: Row) -> bool:
        """Whether a row is finished already; it counts as kept."""
        return self.has(row.key)

    def save_generation(self, row: Row, state: Mapping[str, Any]) -> None:
        """Save what was generated for a rollout, so that a kill while it is judged cannot lose it."""
        if self._journal is not None:
            self._journal.save_generation(row, state)

    def read_generation(self, key: Key) -> tuple[Row, dict[str, Any]] | None:
        """Return what was generated for a rollout in an earlier session; None if nothing was."""
        return None if self._journal is None else self._journal.read_generation(key)

    def texts(self, rows: Iterable[Row]) -> list[tuple[str, tuple[str, ...]]]:
        """What will be saved of the fields of rows as they are now; nothing where it is not asked for."""
        return (
            [] if self._journal is self._on_row is None else [holdable(row.fields) for row in rows]
        )

    def take(self, rows: Sequence[Row], texts: Sequence[tuple[str, tuple[str, ...]]]) -> None:
        """Save finished rows, with their fields as they were before any check saw them."""
        for place, (_, altered) in enumerate(texts):
            if altered:
                rows[place].give(altered=(*rows[place].altered, *altered))
        if self._journal is not None:
            self._journal.write_all(rows, texts)
        watch = self._watch
        watch.fresh += len(rows)
        for row in rows:
            if self._journal is None:
                self._tally.add(row)
            if row.errors:
                watch.errors += 1
            if not row.scored:
                watch.unscored += 1
            if self._on_row is not None:
                self._on_row(row)
        watch.tell()

    def finish(self, *, complete: bool) -> Summary:
        self._watch.tell(at_once=True)
        if self._journal is not None:
            return self._journal.finish(complete=complete, models=self._watch.ledger.models)
        return replace(self._tally.summary(), complete=complete)


@contextmanager
def opened_sink(
    folder: str | PathLike[str] | None,
    about: RunAbout,
    *,
    resume: bool,
    on_row: OnRow | None,
    watch: Watch,
    alone: bool = False,
) -> Generator[Sink]:
    """A sink into a folder; without one nothing is saved."""
    with nullcontext() if folder is None else Journal.open(folder, about, resume=resume) as journal:
        if journal is not None:
            journal.count_spending(watch.ledger)
        with watch.ticking():
            yield Sink(journal, on_row, watch, pass_rule=about.pass_rule, alone=alone)


_NO_TRAITS = Traits()
_NO_REPORT = EvaluationReport()


@dataclass(slots=True)
class Pending:
    """A row that is to be scored, and what scores it."""

    row: Row  # all that is known of it; `error` says why there is nothing to score
    scorer: Any = None  # None where nothing is to be scored
    plan: Traits = _NO_TRAITS
    is_done: bool = (
        False  # whether it is saved already, and only there for others to be compared with
    )
    state: dict[str, Any] | None = (
        None  # what is scored, and written to; None for a copy of the row's fields
    )
    columns: Sequence[str] = ()  # fields of the state that are saved too, as scoring leaves them


@dataclass
class Feed:
    """What is to be scored, in units: a row, or the rollouts of an example that are compared."""

    _rows: Iterable[Mapping[str, Any]]
    _rubrics: RowRubrics
    _has: Callable[[Row], bool]  # whether a row is finished already
    _number: Numbering = field(default_factory=Numbering)
    _seen: SeenTexts = field(default_factory=SeenTexts)
    # Why the rows ended too soon. What came before it is scored; then it is for the caller to raise.
    broken: AssayError | None = None

    def units(self) -> Iterator[list[Pending]]:
        """Rows in order, without those that are done."""
        group: list[Pending] = []
        try:
            for row in self._rows:
                if not isinstance(row, dict | Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
                    raise RunRefused(
                        f"row {self._number.rows} is {format_value(row)}: give a mapping"
                    )
                number = self._number.rows
                key = self._number.key_of(row)
                fields = split_messages(row if isinstance(row, dict) else dict(row))
                pending = self.pending(Row(key[0], key[1], fields, number=number))
                if group and not (pending.plan.compares and key[0] == group[0].row.example):
                    yield from undone(group)
                    group = []
                if pending.plan.compares:
                    if not group:
                        self._refuse_apart(pending)
                    group.append(pending)
                elif not pending.is_done:
                    yield [pending]
            yield from undone(group)
        except AssayError as error:
            self.broken = error

    def pending(self, row: Row) -> Pending:
        """A row with the rubric that scores it."""
        is_done = self._has(row)
        fields = row.fields
        try:
            scorer, plan = self._rubrics.of(fields)
        except AssayError as error:
            why = row.error or unreadable(error, f"example {row.example}")
            return Pending(replace(row, error=why), is_done=is_done)
        if row.error is None and "completion" in fields and fields["completion"] is None:
            # Nothing was written, which is not an empty text.
            why = f"NoCompletion: the completion of example {row.example} is null: write it, or leave the row out"
            row = replace(row, error=why)
        return Pending(row, scorer if row.error is None else None, plan, is_done)

    def _refuse_apart(self, first: Pending) -> None:
        """Refuse rollouts of an example that do not stand together: they could not be compared."""
        example, fields, why = first.row.example, first.row.fields, ""
        if fields.get("example_id") is None and fields.get("id") is None:
            why = f"row {example} does not say which it belongs to: give every row an `example_id`"
        elif not self._seen.add(example):
            why = f"those of {example!r} do not stand together: sort the rows by example"
        if why:
            raise RunRefused(
                f"criterion {first.plan.compares[0]!r} compares the rollouts of an example, and {why}"
            )


def undone(group: list[Pending]) -> Iterator[list[Pending]]:
    """The group, unless all of it is saved already."""
    if not all(pending.is_done for pending in group):
        yield group


class ScoreOptions(TypedDict, total=False):
    """What `score_rows` takes besides the rubric and the rows."""

    folder: str | PathLike[str] | None
    grader: Grader | None
    about: RunAbout | None
    resume: bool
    on_row: OnRow | None
    on_progress: OnProgress | None
    stopping: Stopping | None
    max_concurrent: int
    total: int | None
    judge_log: bool


def score_rows_sync(rubric: Any, rows: Any, **options: Unpack[ScoreOptions]) -> Summary:
    """Call `score_rows` from synchronous code, even inside a running event loop.

    >>> from assay import Rubric
    >>> rubric = Rubric.from_dict([{"check": {"contains": "Paris"}}])
    >>> score_rows_sync(rubric, [{"completion": "Paris"}, {"completion": "Rome"}]).score.mean
    0.5
    """
    return run_sync(score_rows(rubric, rows, **options))


async def score_rows(
    rubric: Any,
    rows: Any,
    *,
    folder: str | PathLike[str] | None = None,
    grader: Grader | None = None,
    about: RunAbout | None = None,
    resume: bool = False,
    on_row: OnRow | None = None,
    on_progress: OnProgress | None = None,
    stopping: Stopping | None = None,
    max_concurrent: int = MOST_AT_ONCE,
    total: int | None = None,
    judge_log: bool = False,
) -> Summary:
    """Score rows and save each in a run; without a folder only `on_row` sees them.

    `rubric` is a rubric, anything else with a `score`, or None when every row has its own in the
    column `rubric`. Rows are read one by one and not kept. Where a model is asked, `max_concurrent`
    of them are under way and each is saved as soon as its report is there; else they go in chunks
    of a fifth of a second. `rows` may also be the path of a table, or a data frame. With `resume`, rows that are saved without an error are not done again.

    `stopping` is asked between pieces of work; when it says True, what is under way is finished and
    saved, and the summary is not `complete`. `total` is how many rows there are, for the progress.
    With `judge_log` each row keeps what judges were asked and said, word for word.

    >>> import asyncio
    >>> from assay import Rubric
    >>> rubric = Rubric.from_dict([{"check": {"contains": "Paris"}}])
    >>> asyncio.run(score_rows(rubric, [{"completion": "Paris"}, {"completion": "Rome"}])).score.mean
    0.5
    """
    refuse_too_few(max_concurrent)
    rubrics = rubric if isinstance(rubric, RowRubrics) else RowRubrics(rubric)
    about = (about or RunAbout.of("score", data=data_about(rows))).completed(rubrics, grader)
    if total is None and isinstance(rows, Sized) and not isinstance(rows, str):
        total = len(rows)
    stream = cast("Iterable[Mapping[str, Any]]", rows)
    if isinstance(rows, str | PathLike) or hasattr(rows, "columns"):  # a table or a data frame
        stream = rows_of(cast("object", rows))
    with budget() as spent, logging_once():
        watch = Watch(on_progress, total, spent)
        with opened_sink(folder, about, resume=resume, on_row=on_row, watch=watch) as sink:
            feed = Feed(stream, rubrics, sink.has_row)
            scoring = Pipeline(
                sink, grader or rubrics.autograder, max_concurrent, judge_log=judge_log
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


class Pipeline:
    """Units of rows on their way to a sink."""

    def __init__(
        self, sink: Sink, grader: Grader | None, max_concurrent: int, *, judge_log: bool = False
    ) -> None:
        self._sink = sink
        self._judge_log = judge_log
        self._grader = grader
        self._slots = asyncio.Semaphore(max_concurrent)
        self._size = 1

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
            await self.score(unit)
        finally:
            self._slots.release()

    async def score(self, unit: Sequence[Pending]) -> list[Row]:
        """Score some rows together and save them, with what that took; from then on they survive a kill."""
        started = time.perf_counter()
        to_save = [pending for pending in unit if not pending.is_done]
        # Before a check can touch them; but what is to be saved of a state is there only afterwards.
        texts = None if unit[0].columns else self._sink.texts(pending.row for pending in to_save)
        with budget() as ledger, logging_judges(wanted=self._judge_log) as calls:
            async with rollout_spending():
                reports = await self.reports(unit)
        found = dict(zip(map(id, unit), reports, strict=True))
        # What a group was asked together is shared out over its rows, and its judge log stands on the first.
        count = sum(pending.scorer is not None for pending in to_save)
        shares = iter(Spending.of(ledger).shares(count))
        seconds = round((time.perf_counter() - started) / max(1, count), 6)
        log = tuple(call._asdict() for call in calls)
        rows = [pending.row for pending in to_save]
        for pending in to_save:
            row, state = pending.row, pending.state or {}
            changes: dict[str, Any] = {
                "report": found[id(pending)],
                "timing": {**row.timing, "scoring": 0.0},
            }
            if kept := {name: state[name] for name in pending.columns if state.get(name)}:
                changes["fields"] = {**row.fields, **kept}
            if pending.scorer is not None:
                changes |= {"spent": row.spent + next(shares), "judge_log": (*row.judge_log, *log)}
                changes["timing"]["scoring"] = seconds
                log = ()
            row.give(**changes)
        self._sink.take(rows, texts or self._sink.texts(rows))
        return rows

    async def _score_chunk(self, chunk: Sequence[Pending]) -> None:
        started = time.perf_counter()
        texts = self._sink.texts(pending.row for pending in chunk)
        reports = await self.reports(chunk)
        for pending, report in zip(chunk, reports, strict=True):
            pending.row.give(report=report)
        self._sink.take([pending.row for pending in chunk], texts)
        taken = time.perf_counter() - started
        if taken < CHUNK_SECONDS / 2:
            self._size = min(2 * self._size, LARGEST_CHUNK)
        elif taken > CHUNK_SECONDS:
            self._size = max(1, self._size // 2)
        await asyncio.sleep(0)

    async def reports(self, unit: Sequence[Pending]) -> Sequence[EvaluationReport]:
        """A report each; those of one rubric are made together."""
        reports: list[EvaluationReport] = [_NO_REPORT] * len(unit)
        places = group_by_key(
            (id(each.scorer), place) for place, each in enumerate(unit) if each.scorer is not None
        )
        for of_it in places.values():
            some = [unit[place] for place in of_it]
            states = [dict(each.row.fields) if each.state is None else each.state for each in some]
            found = await reports_on(some[0].scorer, states, self._grader)
            for place, report in zip(of_it, found, strict=True):
                reports[place] = report
        return reports


async def reports_on(
    scorer: Any, rows: list[dict[str, Any]], grader: Grader | None
) -> Sequence[EvaluationReport]:
    """Return one report per row. Checks may write into the rows."""
    if isinstance(scorer, BaseRubric) and type(scorer).score is BaseRubric.score:
        return await scorer.score_all([Rollout.from_state(row) for row in rows], grader)
    options: Mapping[str, Any] = {} if grader is None else {"autograder": grader}
    return cast("Sequence[EvaluationReport]", await scorer.score(rows, **options))
