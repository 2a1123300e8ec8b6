"""Score a stream of rows, and save each row as soon as it is finished."""

import asyncio
import sqlite3
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import ExitStack, contextmanager
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
from assay.graders.grader import Grader, JudgeSource, grader_of
from assay.models.budgets import Ledger, RolloutCalls, attribute_calls, budget, rollout_spending
from assay.models.model import log_calls
from assay.plan import Traits
from assay.report import EvaluationReport
from assay.rollout import Rollout
from assay.runs.journal import Journal
from assay.runs.jsonable import SerializedFields, as_text, serialize_fields, to_jsonable
from assay.runs.metadata import RunAbout, data_about
from assay.runs.row import LARGEST_SAMPLE, Key, Row, split_messages
from assay.runs.row_rubrics import RowRubrics, unreadable
from assay.runs.run_errors import RunRefused
from assay.runs.spending import NOTHING, Spending
from assay.runs.stats import DEFAULT_PASS_RULE, PassRule
from assay.runs.summary import Summary, Tally
from assay.tables import rows_of
from assay.wording import format_count, format_dollars, format_value

EVERY_SECONDS = 0.2  # progress is reported at most this often
WAITING_SECONDS = 10  # after so long without a finished row, progress names the open calls
TICK_SECONDS = 1.0  # progress is reported at least this often

# Rows that are scored concurrently, by default, if scoring waits for a model or a process.
MAX_CONCURRENT = 128

# The time that a chunk of rows should take if code alone scores it. A kill loses at most one chunk.
CHUNK_SECONDS = 0.2

LARGEST_CHUNK = 256


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is, and what it has spent so far."""

    done: int  # finished rows, including those of earlier sessions
    total: int | None = None  # None if it is not known
    kept: int = 0  # finished rows that an earlier session had saved
    errors: int = 0  # rows of this session with an error
    unscored: int = 0
    hits: int = 0
    calls: int = 0
    tokens: int = 0
    cost: float = 0.0  # dollars, without calls whose price is not known
    unpriced: int = 0  # calls whose price is not known
    seconds: float = 0.0  # since this session began
    idle_seconds: float = 0.0  # since the last row was finished
    # The calls without a reply yet: their number by model, and the seconds since the oldest began.
    open_calls: Mapping[str, tuple[int, float]] = field(default_factory=dict[Any, Any])

    @property
    def eta(self) -> float | None:
        """The seconds that are left at this pace; None if they cannot be estimated."""
        rows_of_session = self.done - self.kept
        if self.total is None or not rows_of_session:
            return None
        rows_left = max(0, self.total - self.done)
        return rows_left * self.seconds / rows_of_session

    def describe(self, noun: str) -> str:
        """Say how far the run is, what it has spent, and how much time is left.

        >>> Progress(30, total=40, calls=30, tokens=900, seconds=60).describe("rollouts")
        '30 of 40 rollouts, 30 calls, 900 tokens, about 0:00:20 left'
        """
        count = f"{self.done:,}"
        if self.total is not None:
            count += f" of {self.total:,}"
        parts = [f"{count} {noun}"]
        if self.errors:
            parts.append(format_count(self.errors, "error"))
        if self.hits:
            parts.append(f"{self.hits:,} from the cache")
        if self.calls:
            parts.append(format_count(self.calls, "call"))
            parts.append(format_count(self.tokens, "token"))
        if self.cost:
            at_least = " at least" if self.unpriced else ""
            parts.append(f"{format_dollars(self.cost)}{at_least}")
        if self.is_waiting:
            parts.append(self.describe_waiting())
        elif self.eta is not None and self.total != self.done:
            parts.append(f"about {timedelta(seconds=round(self.eta))} left")
        return ", ".join(parts)

    @property
    def is_waiting(self) -> bool:
        """Whether no row has finished for a while although calls are open."""
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
    """Counts finished rows, and reports the progress to a callback."""

    def __init__(
        self,
        on_progress: OnProgress | None,
        total: int | None,
        ledger: Ledger,
        *,
        every: float = EVERY_SECONDS,
    ) -> None:
        """`every` is the least number of seconds between two reports."""
        self.ledger = ledger
        self.kept = 0  # finished rows that an earlier session had saved
        self.fresh = 0  # rows that this session has finished
        self.errors = 0
        self.unscored = 0
        self._on_progress = on_progress or _make_notebook_listener()
        self._total = total
        self._every = every
        self._start = time.monotonic()
        self._last_report = 0.0
        self._last_done = 0
        self._last_finished = self._start  # when the number of finished rows last changed

    @contextmanager
    def ticking(self) -> Generator[None]:
        """Report every second inside the block, even while no row finishes."""
        if self._on_progress is None:
            yield
            return
        loop = asyncio.get_running_loop()

        def tick() -> None:
            nonlocal timer
            self.report()
            timer = loop.call_later(TICK_SECONDS, tick)

        timer = loop.call_later(TICK_SECONDS, tick)
        try:
            yield
        finally:
            timer.cancel()

    def now(self) -> Progress:
        """Return the progress at this moment."""
        ledger = self.ledger
        now = time.monotonic()
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
            seconds=now - self._start,
            idle_seconds=now - self._last_finished,
            open_calls=open_calls,
        )

    def report(self, *, at_once: bool = False) -> None:
        """Report the progress, unless the last report was just now; with `at_once` in any case."""
        if self._on_progress is None:
            return
        now = time.monotonic()
        if at_once or now - self._last_report >= self._every:
            self._last_report = now
            self._on_progress(self.now())


def _make_notebook_listener() -> OnProgress | None:
    """Return a function that shows progress as a bar in a notebook; None outside of notebooks."""
    bar = make_notebook_bar()
    if bar is None:
        return None

    def show(progress: Progress) -> None:
        bar(progress.describe("rollouts"), progress.done, progress.total)

    return show


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
    """Gives each row of an input its key, in order: the second row with id `a` is sample 1 of `a`."""

    def __init__(self, first: int = 0) -> None:
        """`first` is the number of the first row."""
        self.rows = first  # the number of the next row
        # Whether rows have an id, and whether they have a sample. All rows must agree.
        self._alike: tuple[bool, bool] | None = None
        self._seen = SeenTexts()
        self._repeats: dict[str, int] = {}  # how often each example came again

    def number_row(self, row: Mapping[str, Any]) -> Key:
        """Return the key of the next row: its own sample number, or the next free one."""
        example = row.get("example_id")
        if example is None:
            example = row.get("id")
        sample = row.get("sample")
        if sample is not None:
            sample = read_own_sample(sample)
        number = self.rows
        self.rows += 1
        self._refuse_mixed(number, has_id=example is not None, has_sample=sample is not None)
        if example is None:
            return str(number), sample or 0
        if isinstance(example, str):
            name = example
        elif isinstance(example, int | float):
            name = str(example)
        else:
            name = as_text(to_jsonable(example))
        if sample is None:
            return name, self._count_sample(name)
        if not self._seen.add(f"{sample} {name}"):
            raise RunRefused(
                f"row {number} is example {name!r}, sample {sample}, like an earlier row: give "
                "each row its own `sample`, or remove the column"
            )
        return name, sample

    def _count_sample(self, example: str) -> int:
        """Return how often an example came before."""
        if self._seen.add(example):
            return 0
        sample = self._repeats.get(example, 0) + 1
        self._repeats[example] = sample
        return sample

    def _refuse_mixed(self, number: int, *, has_id: bool, has_sample: bool) -> None:
        """Raise if only some of the rows have an id, or only some have a sample."""
        if self._alike is None:
            self._alike = (has_id, has_sample)
        had_id, had_sample = self._alike
        if has_id is not had_id:
            field, has_field = "id", has_id
        elif has_sample is not had_sample:
            field, has_field = "sample", has_sample
        else:
            return
        if has_field:
            difference = f"row {number} has its own `{field}`, but the rows before it have none"
        else:
            difference = f"row {number} has no `{field}`, but the rows before it have one"
        raise RunRefused(f"{difference}: give it to every row or to none")


def read_own_sample(value: object) -> int | None:
    """Return the sample that a row names; None if its column `sample` holds something else."""
    if type(value) is int and value >= 0:
        sample = value
    elif isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 1000:
        sample = int(value)
    else:
        return None
    if sample > LARGEST_SAMPLE:
        raise RunRefused(
            f"a row has the sample {format_value(value)}: give at most {LARGEST_SAMPLE}, or rename "
            "the column"
        )
    return sample


class Sink:
    """Saves finished rows in a journal, if there is one, and hands them to a callback."""

    def __init__(
        self,
        journal: Journal | None,
        on_row: OnRow | None,
        watch: Watch,
        *,
        pass_rule: PassRule = DEFAULT_PASS_RULE,
        unique_examples: bool = False,
    ) -> None:
        """`unique_examples` says that each example comes only once."""
        self._journal = journal
        self._tally = Tally(
            pass_rule=pass_rule, unique_examples=unique_examples
        )  # only used without a journal
        self._on_row = on_row
        self._watch = watch
        self.is_fresh = journal is None or journal.is_new  # False if an earlier session saved rows

    def has(self, key: Key) -> bool:
        """Return whether a row was finished in an earlier session, and count it if so."""
        if self._journal is None or self.is_fresh or not self._journal.is_finished(key):
            return False
        self._watch.kept += 1
        return True

    def has_row(self, row: Row) -> bool:
        """Return whether a row was finished in an earlier session, and count it if so."""
        return self.has(row.key)

    def save_generation(self, row: Row, state: Mapping[str, Any]) -> None:
        """Save what was generated for a rollout, so that a kill while it is judged cannot lose it."""
        if self._journal is not None:
            self._journal.save_generation(row, state)

    def read_generation(self, key: Key) -> tuple[Row, dict[str, Any]] | None:
        """Return what was generated for a rollout in an earlier session; None if nothing was."""
        if self._journal is None or self.is_fresh:
            return None
        return self._journal.read_generation(key)

    def serialize_fields(self, rows: Iterable[Row]) -> list[SerializedFields]:
        """Return the fields of rows as they are now, as JSON; an empty list if they are neither saved nor passed on."""
        if self._journal is None and self._on_row is None:
            return []
        return [serialize_fields(row.fields) for row in rows]

    def save(self, rows: Sequence[Row], fields: Sequence[SerializedFields]) -> None:
        """Save finished rows, with their fields as they were before any check saw them."""
        for index, (_, altered) in enumerate(fields):
            if altered:
                rows[index].update(altered=(*rows[index].altered, *altered))
        if self._journal is not None:
            self._journal.write_all(rows, fields)
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
        watch.report()

    def finish(self, *, complete: bool) -> Summary:
        """Return the summary of all rows."""
        self._watch.report(at_once=True)
        if self._journal is not None:
            return self._journal.finish(complete=complete, models=self._watch.ledger.models)
        return replace(self._tally.summary(), complete=complete)


@contextmanager
def open_sink(
    folder: str | PathLike[str] | None,
    about: RunAbout,
    *,
    resume: bool,
    allow_changes: bool,
    on_row: OnRow | None,
    watch: Watch,
    unique_examples: bool = False,
) -> Generator[Sink]:
    """Yield a sink that saves into a folder; without a folder it saves nothing.

    `unique_examples` says that each example comes only once.
    """
    with ExitStack() as stack:
        journal: Journal | None = None
        if folder is not None:
            journal = stack.enter_context(
                Journal.open(folder, about, resume=resume, allow_changes=allow_changes)
            )
        if journal is not None:
            journal.count_spending(watch.ledger)
        with watch.ticking():
            yield Sink(
                journal, on_row, watch, pass_rule=about.pass_rule, unique_examples=unique_examples
            )


_NO_TRAITS = Traits()
_NO_REPORT = EvaluationReport()


@dataclass(slots=True)
class Pending:
    """A row that is to be scored, and what scores it."""

    row: Row  # without its results; its `error` says why there is nothing to score
    scorer: Any = None  # None if there is nothing to score
    plan: Traits = _NO_TRAITS
    # Whether the row is saved already, and is here only for others to be compared with.
    is_done: bool = False
    # What checks read and write; None for a copy of the row's fields.
    state: dict[str, Any] | None = None
    columns: Sequence[str] = ()  # names in the state that are saved too, as scoring leaves them


@dataclass
class Feed:
    """Gives out rows in units that are scored together: one row, or all rollouts of an example."""

    _rows: Iterable[Mapping[str, Any]]
    _rubrics: RowRubrics
    _is_finished: Callable[[Row], bool]
    _numbering: Numbering = field(default_factory=Numbering)
    _seen: SeenTexts = field(default_factory=SeenTexts)
    # Why reading stopped early. The rows before it are scored; the caller raises it afterwards.
    error: AssayError | None = None

    def units(self) -> Iterator[list[Pending]]:
        """Yield the units in order, without those that are finished."""
        group: list[Pending] = []  # rollouts of one example whose rubric compares them
        try:
            for row in self._rows:
                if not isinstance(row, dict | Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
                    raise RunRefused(
                        f"row {self._numbering.rows} is {format_value(row)}: give a mapping"
                    )
                number = self._numbering.rows
                example, sample = self._numbering.number_row(row)
                fields = split_messages(row if isinstance(row, dict) else dict(row))
                pending = self.prepare(Row(example, sample, fields, number=number))
                compares = bool(pending.plan.compares)
                if group and not (compares and example == group[0].row.example):
                    yield from skip_finished(group)
                    group = []
                if compares:
                    if not group:
                        self._refuse_scattered(pending)
                    group.append(pending)
                elif not pending.is_done:
                    yield [pending]
            yield from skip_finished(group)
        except AssayError as error:
            self.error = error

    def prepare(self, row: Row) -> Pending:
        """Return a row with the rubric that scores it."""
        is_done = self._is_finished(row)
        fields = row.fields
        try:
            scorer, plan = self._rubrics.of(fields)
        except AssayError as error:
            message = row.error or unreadable(error, f"example {row.example}")
            return Pending(replace(row, error=message), is_done=is_done)
        if row.error is None and "completion" in fields and fields["completion"] is None:
            # Without a completion there is nothing to score. An empty text is a completion.
            message = (
                f"NoCompletion: the completion of example {row.example} is null: write it, or "
                "leave the row out"
            )
            row = replace(row, error=message)
        return Pending(row, scorer if row.error is None else None, plan, is_done)

    def _refuse_scattered(self, first: Pending) -> None:
        """Raise if the rollouts of an example are not next to each other, and so not comparable."""
        example = first.row.example
        fields = first.row.fields
        if fields.get("example_id") is None and fields.get("id") is None:
            problem = f"row {example} does not name its example: give every row an `example_id`"
        elif not self._seen.add(example):
            problem = f"those of {example!r} are not adjacent: sort the rows by example"
        else:
            return
        raise RunRefused(
            f"criterion {first.plan.compares[0]!r} compares the rollouts of an example, "
            f"and {problem}"
        )


def skip_finished(group: list[Pending]) -> Iterator[list[Pending]]:
    """Yield the group, unless all its rows are finished."""
    if not all(pending.is_done for pending in group):
        yield group


class ScoreOptions(TypedDict, total=False):
    """What `score_rows` takes besides the rubric and the rows."""

    folder: str | PathLike[str] | None
    judge: JudgeSource | None
    about: RunAbout | None
    resume: bool
    allow_changes: bool
    on_row: OnRow | None
    on_progress: OnProgress | None
    stopping: Stopping | None
    max_concurrent: int
    total: int | None
    save_requests: bool


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
    judge: JudgeSource | None = None,
    about: RunAbout | None = None,
    resume: bool = False,
    allow_changes: bool = False,
    on_row: OnRow | None = None,
    on_progress: OnProgress | None = None,
    stopping: Stopping | None = None,
    max_concurrent: int = MAX_CONCURRENT,
    total: int | None = None,
    save_requests: bool = False,
) -> Summary:
    """Score rows and save each in a run; without a folder only `on_row` sees them.

    `rubric` is a rubric, any other object with a method `score`, or None if every row has its own
    in the column `rubric`. `rows` may also be the path of a table, or a data frame. They are read
    one by one and not kept. `judge` answers the judged criteria: a grader, a model, or the name of
    one. With `resume`, rows that are saved without an error are not scored again. A run that another
    git commit or another version has started is resumed only with `allow_changes`, and records the
    change.

    If a model is asked, up to `max_concurrent` rows are scored concurrently, and each is saved as
    soon as it has its report. Otherwise rows are scored in chunks of a fifth of a second.

    `stopping` is called between units of work. When it returns True, the rows under way are
    finished and saved, and the summary is not `complete`. `total` is the number of rows, for the
    progress. With `save_requests`, each row keeps the exact requests to judges and the replies.

    >>> import asyncio
    >>> from assay import Rubric
    >>> rubric = Rubric.from_dict([{"check": {"contains": "Paris"}}])
    >>> asyncio.run(score_rows(rubric, [{"completion": "Paris"}, {"completion": "Rome"}])).score.mean
    0.5
    """
    refuse_too_few(max_concurrent)
    grader = grader_of(judge)
    rubrics = rubric if isinstance(rubric, RowRubrics) else RowRubrics(rubric)
    about = (about or RunAbout.of("score", data=data_about(rows))).completed(rubrics, grader)
    if total is None and isinstance(rows, Sized) and not isinstance(rows, str):
        total = len(rows)
    row_stream = cast("Iterable[Mapping[str, Any]]", rows)
    # A table, a data frame, or a mapping of columns.
    if isinstance(rows, str | PathLike | Mapping) or hasattr(rows, "columns"):
        row_stream = rows_of(cast("object", rows))
    with budget() as ledger, logging_once():
        watch = Watch(on_progress, total, ledger)
        with open_sink(
            folder,
            about,
            resume=resume,
            allow_changes=allow_changes,
            on_row=on_row,
            watch=watch,
        ) as sink:
            feed = Feed(row_stream, rubrics, sink.has_row)
            pipeline = Pipeline(
                sink, grader or rubrics.grader, max_concurrent, save_requests=save_requests
            )
            is_stopped = await pipeline.run(feed.units(), stopping)
            summary = sink.finish(complete=not is_stopped and feed.error is None)
    if feed.error is not None:
        raise feed.error
    return summary


def refuse_too_few(max_concurrent: int) -> None:
    """Raise `ValueError` unless at least one row may be scored at a time."""
    if max_concurrent < 1:
        raise ValueError(f"max_concurrent is {max_concurrent}: give 1 or more")


class Pipeline:
    """Scores units of rows, and saves them in a sink."""

    def __init__(
        self, sink: Sink, grader: Grader | None, max_concurrent: int, *, save_requests: bool = False
    ) -> None:
        self._sink = sink
        self._save_requests = save_requests
        self._grader = grader
        self._slots = asyncio.Semaphore(max_concurrent)
        self._chunk_size = 1

    async def run(self, units: Iterator[list[Pending]], stopping: Stopping | None) -> bool:
        """Score all units. Return whether `stopping` ended that early.

        Units that wait for a model are scored concurrently, the others in chunks, one at a time.
        """
        is_stopped = False
        chunk: list[Pending] = []
        try:
            async with asyncio.TaskGroup() as tasks:
                for unit in units:
                    waits = unit[0].plan.waits or len(unit) > 1
                    if waits:
                        await self._slots.acquire()
                    # Asked after waiting for a slot, since the answer may have changed meanwhile, and
                    # not while a chunk is being filled: its rows count as begun.
                    if not chunk and stopping is not None and stopping():
                        is_stopped = True
                        break
                    if waits:
                        tasks.create_task(self._score_in_slot(unit))
                        continue
                    chunk += unit
                    if len(chunk) >= self._chunk_size:
                        await self._score_chunk(chunk)
                        chunk = []
                if chunk:
                    await self._score_chunk(chunk)
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return is_stopped

    async def _score_in_slot(self, unit: Sequence[Pending]) -> None:
        try:
            await self.score(unit)
        finally:
            self._slots.release()

    async def score(self, unit: Sequence[Pending]) -> list[Row]:
        """Score a unit and save its rows, with what that cost. Return the rows that were saved."""
        start = time.perf_counter()
        to_save = [pending for pending in unit if not pending.is_done]
        fields: Sequence[SerializedFields] | None = None
        has_columns = bool(unit[0].columns)
        if not has_columns:  # columns of the state have their values only after scoring
            fields = self._sink.serialize_fields(pending.row for pending in to_save)
        for pending in unit:
            if pending.state is None:
                pending.state = dict(pending.row.fields)
        states = [pending.state or {} for pending in unit]
        with (
            budget() as ledger,
            log_calls(wanted=self._save_requests) as shared_calls,
            attribute_calls(states, is_logged=self._save_requests) as rollouts,
        ):
            async with rollout_spending():
                reports = await self.make_reports(unit)
        seconds = time.perf_counter() - start
        scored_count = sum(pending.scorer is not None for pending in to_save)
        seconds_per_row = round(seconds / max(1, scored_count), 6)
        # What was asked about the group as a whole is divided among its rows, and logged with the
        # first.
        spendings = [_add_spending(rollout) for rollout in rollouts]
        shared_spending = Spending.of(ledger) - sum(spendings, start=NOTHING)
        if not shared_spending.calls and not shared_spending.hits:
            shared_spending = NOTHING  # the rest of the cost is a rounding error
        shares = iter(shared_spending.shares(scored_count))
        for pending, report, rollout, spent in zip(unit, reports, rollouts, spendings, strict=True):
            if pending.is_done:
                continue
            row = pending.row
            changes: dict[str, Any] = {
                "report": report,
                "timing": {**row.timing, "scoring": 0.0},
            }
            state = pending.state or {}
            columns = {name: state[name] for name in pending.columns if state.get(name)}
            if columns:
                changes["fields"] = {**row.fields, **columns}
            if pending.scorer is not None:
                changes["spent"] = row.spent + spent + next(shares)
                calls = [call._asdict() for call in (*rollout.calls, *shared_calls)]
                changes["calls"] = (*row.calls, *calls)
                changes["timing"]["scoring"] = seconds_per_row
                shared_calls = []
            row.update(**changes)
        rows = [pending.row for pending in to_save]
        self._sink.save(rows, fields or self._sink.serialize_fields(rows))
        return rows

    async def _score_chunk(self, chunk: Sequence[Pending]) -> None:
        """Score and save rows that wait for nothing, and adapt the size of the next chunk."""
        start = time.perf_counter()
        rows = [pending.row for pending in chunk]
        fields = self._sink.serialize_fields(rows)
        reports = await self.make_reports(chunk)
        for row, report in zip(rows, reports, strict=True):
            row.update(report=report)
        self._sink.save(rows, fields)
        seconds = time.perf_counter() - start
        if seconds < CHUNK_SECONDS / 2:
            self._chunk_size = min(2 * self._chunk_size, LARGEST_CHUNK)
        elif seconds > CHUNK_SECONDS:
            self._chunk_size = max(1, self._chunk_size // 2)
        await asyncio.sleep(0)

    async def make_reports(self, unit: Sequence[Pending]) -> Sequence[EvaluationReport]:
        """Return one report per row. Rows with the same rubric are scored by one call."""
        reports: list[EvaluationReport] = [_NO_REPORT] * len(unit)
        indices_by_scorer = group_by_key(
            (id(pending.scorer), index)
            for index, pending in enumerate(unit)
            if pending.scorer is not None
        )
        for indices in indices_by_scorer.values():
            states: list[dict[str, Any]] = []
            for index in indices:
                state = unit[index].state
                states.append(dict(unit[index].row.fields) if state is None else state)
            scorer = unit[indices[0]].scorer
            scorer_reports = await score_states(scorer, states, self._grader)
            for index, report in zip(indices, scorer_reports, strict=True):
                reports[index] = report
        return reports


def _add_spending(rollout: RolloutCalls) -> Spending:
    """Return what the calls about one rollout took."""
    total = NOTHING
    for ledger in rollout.ledgers:
        total += Spending.of(ledger)
    return total


async def score_states(
    scorer: Any, states: list[dict[str, Any]], grader: Grader | None
) -> Sequence[EvaluationReport]:
    """Return one report per state. Checks may write into the states."""
    if isinstance(scorer, BaseRubric) and type(scorer).score is BaseRubric.score:
        return await scorer.score_all([Rollout.from_state(state) for state in states], grader)
    options: Mapping[str, Any] = {} if grader is None else {"judge": grader}
    return cast("Sequence[EvaluationReport]", await scorer.score(states, **options))
