"""Score a stream of rows, and save each row as soon as it is finished.

`Feed` reads the rows and finds the rubric of each, `Pipeline` scores them, and `Sink` saves them.
Rows that must be scored together are a unit: a single row, or all rollouts of an example if the
rubric compares them with each other.
"""

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
        """The seconds that are left at the pace of this session; None if that is not known yet."""
        rows_of_session = self.done - self.kept
        if self.total is None or not rows_of_session:
            return None
        rows_left = max(0, self.total - self.done)
        seconds_per_row = self.seconds / rows_of_session
        return rows_left * seconds_per_row

    def describe(self, noun: str) -> str:
        """Say in one line how far the run is, what it has spent, and how much time is left.

        `noun` says what is counted.

        >>> Progress(30, total=40, calls=30, tokens=900, seconds=60).describe("rollouts")
        '30 of 40 rollouts, 30 calls, 900 tokens, about 0:00:20 left'
        """
        count = f"{self.done:,}"
        if self.total is not None:
            count += f" of {self.total:,}"
        parts = [f"{count} {noun}"]
        if self.errors:
            parts.append(format_count(self.errors, "error"))
        if self.hits:  # replies of models
            parts.append(f"{self.hits:,} from the cache")
        if self.calls:
            parts.append(format_count(self.calls, "call"))
            parts.append(format_count(self.tokens, "token"))
        if self.cost:
            at_least = " at least" if self.unpriced else ""  # some calls have no known price
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
    """Counts finished rows, and reports the progress of a run to a callback.

    The code that finishes rows adds them to the counts here.
    """

    def __init__(
        self,
        on_progress: OnProgress | None,
        total: int | None,
        ledger: Ledger,
        *,
        every: float = EVERY_SECONDS,
    ) -> None:
        """Report to `on_progress`; by default, show a progress bar in a notebook.

        `total` is the number of rows, None if it is not known. The ledger counts the calls of
        models. `every` is the least number of seconds between two reports.
        """
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
        """Report the progress every second inside the block, even while no row finishes."""
        if self._on_progress is None:
            yield
            return
        loop = asyncio.get_running_loop()

        def tick() -> None:
            """Report now, and again in a second."""
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
        # For each model, the number of calls without a reply, and the age of the oldest.
        open_calls: dict[str, tuple[int, float]] = {}
        for call in list(ledger.open_calls):  # the oldest first
            count, age = open_calls.get(call.model, (0, now - call.start))
            open_calls[call.model] = (count + 1, age)
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
        """Report the progress, unless the last report was a moment ago; with `at_once` always."""
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
    """Gives each row of an input its key, which is an example and the number of a sample of it.

    Rows are numbered in order: the first row with the id `a` is sample 0 of `a`, the second is
    sample 1.
    """

    def __init__(self, first: int = 0) -> None:
        """`first` is the number of the first row."""
        self.rows = first  # the number of the next row
        # Whether the first row has an id, and whether it has a sample. All other rows must agree.
        self._first_has: tuple[bool, bool] | None = None
        self._seen = SeenTexts()  # examples, or their keys if rows have samples
        self._repeats: dict[str, int] = {}  # how often each example came again

    def number_row(self, row: Mapping[str, Any]) -> Key:
        """Return the key of the next row: its example, and its sample or the next free number.

        Without an id, the example is the number of the row. Raise `RunRefused` if an earlier row has
        the same key, or if only some rows have an id or a sample.
        """
        example = row.get("example_id")
        if example is None:
            example = row.get("id")
        sample = row.get("sample")
        if sample is not None:
            sample = read_own_sample(sample)
        number = self.rows
        self.rows += 1
        self._refuse_mixed_rows(number, has_id=example is not None, has_sample=sample is not None)
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
        """Return how often an example came before, and count it once more."""
        if self._seen.add(example):  # it is new, as most examples are
            return 0
        sample = self._repeats.get(example, 0) + 1
        self._repeats[example] = sample
        return sample

    def _refuse_mixed_rows(self, number: int, *, has_id: bool, has_sample: bool) -> None:
        """Raise `RunRefused` if a row has an id or a sample and the rows before it have none.

        Also raise it if the row has none and they have one. `number` is that of the row.
        """
        if self._first_has is None:
            self._first_has = (has_id, has_sample)
        first_has_id, first_has_sample = self._first_has
        if has_id is not first_has_id:
            field = "id"
            has_field = has_id
        elif has_sample is not first_has_sample:
            field = "sample"
            has_field = has_sample
        else:
            return
        if has_field:
            difference = f"row {number} has its own `{field}`, but the rows before it have none"
        else:
            difference = f"row {number} has no `{field}`, but the rows before it have one"
        raise RunRefused(f"{difference}: give it to every row or to none")


def read_own_sample(value: object) -> int | None:
    """Return the sample number in the column `sample` of a row; None if it holds something else.

    Raise `RunRefused` if the number is too large.
    """
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
    """Takes finished rows: saves them in a journal, if there is one, and calls `on_row` for each."""

    def __init__(
        self,
        journal: Journal | None,
        on_row: OnRow | None,
        watch: Watch,
        *,
        pass_rule: PassRule = DEFAULT_PASS_RULE,
        unique_examples: bool = False,
    ) -> None:
        """`watch` counts the rows. Without a journal, the rows are only counted for a summary.

        `unique_examples` says that each example comes only once.
        """
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
        """Return the fields of rows as JSON, as they are now. A check may change them later.

        The list is empty if they are not needed, because rows are neither saved nor passed on.
        """
        if self._journal is None and self._on_row is None:
            return []
        return [serialize_fields(row.fields) for row in rows]

    def save(self, rows: Sequence[Row], fields: Sequence[SerializedFields]) -> None:
        """Save finished rows, count them, and pass them to the callback.

        `fields` are what `serialize_fields` returned for the rows before they were scored.
        """
        for index, (_, altered_names) in enumerate(fields):
            if altered_names:
                row = rows[index]
                row.update(altered=(*row.altered, *altered_names))
        if self._journal is not None:
            self._journal.write_all(rows, fields)
        watch = self._watch
        watch.fresh += len(rows)
        for row in rows:
            if self._journal is None:  # a journal counts the rows itself
                self._tally.add(row)
            if row.errors:
                watch.errors += 1
            if not row.scored:
                watch.unscored += 1
            if self._on_row is not None:
                self._on_row(row)
        watch.report()

    def finish(self, *, complete: bool) -> Summary:
        """Save the summary of the run, if it is saved, and return it.

        `complete` is False if the run was stopped, and so can be resumed.
        """
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
    """Open the run in a folder, and yield a sink that saves rows there.

    Without a folder nothing is saved. `about` describes the run, and `resume` and `allow_changes`
    are those of `score_rows`. `unique_examples` says that each example comes only once. Inside the
    block, the progress is reported every second.
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
    """A row that is waiting to be scored, and the rubric that scores it."""

    row: Row  # without its results; its `error` says why there is nothing to score
    scorer: Any = None  # the rubric; None if there is nothing to score
    traits: Traits = _NO_TRAITS  # of the rubric, such as whether it waits for a model
    # Whether the row is saved already, and is here only for others to be compared with.
    is_done: bool = False
    # What checks read and write; None for a copy of the row's fields.
    state: dict[str, Any] | None = None
    columns: Sequence[str] = ()  # names in the state that are saved too, as scoring leaves them


@dataclass
class Feed:
    """Reads rows, and yields them in units that are scored together, with the rubric of each row.

    A unit is a single row, or all rollouts of an example if the rubric compares them.
    """

    _rows: Iterable[Mapping[str, Any]]
    _rubrics: RowRubrics
    _is_finished: Callable[[Row], bool]  # says whether an earlier session has saved a row
    _numbering: Numbering = field(default_factory=Numbering)
    _seen_examples: SeenTexts = field(default_factory=SeenTexts)  # only those that are compared
    # Why reading stopped early. The rows before it are scored; the caller raises it afterwards.
    error: AssayError | None = None

    def units(self) -> Iterator[list[Pending]]:
        """Yield the units in the order of the rows, without those that are finished.

        A unit is a single row, or all rollouts of an example, which must be adjacent, if the rubric
        compares them. A row that cannot be read ends this, and becomes `self.error`.
        """
        group: list[Pending] = []  # the unit of rollouts to compare that is being collected
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
                is_compared = bool(pending.traits.comparing_criteria)
                belongs_to_group = is_compared and group and example == group[0].row.example
                if group and not belongs_to_group:
                    yield from skip_finished(group)
                    group = []
                if is_compared:
                    if not group:
                        self._refuse_scattered_rollouts(pending)
                    group.append(pending)
                elif not pending.is_done:
                    yield [pending]
            yield from skip_finished(group)
        except AssayError as error:
            self.error = error

    def prepare(self, row: Row) -> Pending:
        """Return a row with the rubric that scores it.

        If its rubric cannot be read, or it has no completion, the row gets an error and no rubric.
        """
        is_done = self._is_finished(row)
        fields = row.fields
        try:
            scorer, traits = self._rubrics.of(fields)
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
        if row.error is not None:
            scorer = None
        return Pending(row, scorer, traits, is_done)

    def _refuse_scattered_rollouts(self, first: Pending) -> None:
        """Raise `RunRefused` if `first`, the first rollout of a group, cannot begin one.

        The rollouts of an example can be compared only if they name it and are adjacent, so that
        one group has all of them.
        """
        example = first.row.example
        fields = first.row.fields
        if fields.get("example_id") is None and fields.get("id") is None:
            problem = f"row {example} does not name its example: give every row an `example_id`"
        elif not self._seen_examples.add(example):  # an earlier group was of this example
            problem = f"those of {example!r} are not adjacent: sort the rows by example"
        else:
            return
        raise RunRefused(
            f"criterion {first.traits.comparing_criteria[0]!r} compares the rollouts of an example, "
            f"and {problem}"
        )


def skip_finished(group: list[Pending]) -> Iterator[list[Pending]]:
    """Yield the group, unless it is empty or all its rows were saved in an earlier session."""
    are_all_done = all(pending.is_done for pending in group)
    if not are_all_done:
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
    if about is None:
        about = RunAbout.of("score", data=data_about(rows))
    about = about.completed(rubrics, grader)
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
    """Scores units of rows, and hands the finished rows to a sink, which saves them.

    A unit holds the rows that are scored by one call: one row, or rollouts that are compared.
    """

    def __init__(
        self, sink: Sink, grader: Grader | None, max_concurrent: int, *, save_requests: bool = False
    ) -> None:
        """`grader` answers the judged criteria instead of the graders of rubrics, if it is given.

        Of the units that wait for a model, up to `max_concurrent` are scored concurrently.
        """
        self._sink = sink
        self._save_requests = save_requests
        self._grader = grader
        self._free_slots = asyncio.Semaphore(max_concurrent)  # of units that wait for a model
        self._chunk_size = 1  # rows that wait for nothing and are scored together

    async def run(self, units: Iterator[list[Pending]], stopping: Stopping | None) -> bool:
        """Score all units. Return whether `stopping` ended that early, by returning True.

        Units that wait for a model, and groups, are scored concurrently in tasks. All other rows
        are collected, and scored in chunks, one chunk at a time.
        """
        is_stopped = False
        chunk: list[Pending] = []
        try:
            async with asyncio.TaskGroup() as tasks:
                for unit in units:
                    needs_task = unit[0].traits.waits or len(unit) > 1
                    if needs_task:
                        await self._free_slots.acquire()
                    # `stopping` is called after waiting for a slot, since its answer may have changed
                    # meanwhile, and not while a chunk is being filled: its rows count as begun.
                    if not chunk and stopping is not None and stopping():
                        is_stopped = True
                        break
                    if needs_task:
                        tasks.create_task(self._score_and_free_slot(unit))
                        continue
                    chunk += unit
                    if len(chunk) >= self._chunk_size:
                        await self._score_chunk(chunk)
                        chunk = []
                if chunk:
                    await self._score_chunk(chunk)
        except BaseExceptionGroup as errors:  # from the task group
            raise errors.exceptions[0] from None
        return is_stopped

    async def _score_and_free_slot(self, unit: Sequence[Pending]) -> None:
        try:
            await self.score(unit)
        finally:
            self._free_slots.release()

    async def score(self, unit: Sequence[Pending]) -> list[Row]:
        """Score the rows of a unit together, and save them with what that cost.

        Return the rows that were saved: those of an earlier session are only compared with.
        """
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
        # The ledger counts all calls. `calls_by_row` has the calls about each single row, and
        # `shared_calls` logs those about the unit as a whole, such as a ranking of its rows.
        with (
            budget() as ledger,
            log_calls(wanted=self._save_requests) as shared_calls,
            attribute_calls(states, is_logged=self._save_requests) as calls_by_row,
        ):
            async with rollout_spending():
                reports = await self.make_reports(unit)
        seconds = time.perf_counter() - start
        scored_count = sum(pending.scorer is not None for pending in to_save)
        seconds_per_row = round(seconds / max(1, scored_count), 6)
        spendings = _divide_spending(unit, Spending.of(ledger), calls_by_row)
        for pending, report, row_calls, spent in zip(
            unit, reports, calls_by_row, spendings, strict=True
        ):
            if pending.is_done:
                continue
            row = pending.row
            is_scored = pending.scorer is not None
            changes: dict[str, Any] = {
                "report": report,
                "timing": {**row.timing, "scoring": seconds_per_row if is_scored else 0.0},
            }
            state = pending.state or {}
            columns = {name: state[name] for name in pending.columns if state.get(name)}
            if columns:
                changes["fields"] = {**row.fields, **columns}
            if is_scored:
                changes["spent"] = row.spent + spent
                calls = [call._asdict() for call in (*row_calls.calls, *shared_calls)]
                changes["calls"] = (*row.calls, *calls)
                shared_calls = []  # they are saved once, with the first row
            row.update(**changes)
        rows = [pending.row for pending in to_save]
        self._sink.save(rows, fields or self._sink.serialize_fields(rows))
        return rows

    async def _score_chunk(self, chunk: Sequence[Pending]) -> None:
        """Score and save rows that wait for nothing, and choose the size of the next chunk.

        A chunk should take `CHUNK_SECONDS`: a kill of the process loses at most one chunk.
        """
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
        await asyncio.sleep(0)  # lets other tasks run

    async def make_reports(self, unit: Sequence[Pending]) -> Sequence[EvaluationReport]:
        """Return one report per row. Rows with the same rubric are scored by one call.

        A row without a rubric has nothing to score, and gets an empty report.
        """
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


def _divide_spending(
    unit: Sequence[Pending], total: Spending, calls_by_row: Sequence[RolloutCalls]
) -> list[Spending]:
    """Return what scoring has cost for each row of a unit, which has cost `total`.

    That is the cost of the calls about the row, and a share of the cost of calls about the unit as
    a whole. Only rows that were scored now have a share.
    """
    spendings = [_add_up_ledgers(row_calls) for row_calls in calls_by_row]
    shared = total - sum(spendings, start=NOTHING)
    if not shared.calls and not shared.hits:
        shared = NOTHING  # what is left of the cost is a rounding error
    scored_indices = [
        index
        for index, pending in enumerate(unit)
        if pending.scorer is not None and not pending.is_done
    ]
    shares = shared.shares(len(scored_indices))
    for index, share in zip(scored_indices, shares, strict=True):
        spendings[index] += share
    return spendings


def _add_up_ledgers(row_calls: RolloutCalls) -> Spending:
    """Return what the calls about one row have cost."""
    total = NOTHING
    for ledger in row_calls.ledgers:
        total += Spending.of(ledger)
    return total


async def score_states(
    scorer: Any, states: list[dict[str, Any]], grader: Grader | None
) -> Sequence[EvaluationReport]:
    """Return one report per state of a rollout. Checks may write into the states.

    `scorer` is a rubric, or any other object with a method `score`. A `grader` replaces its own.
    """
    # `score` of a rubric does the same, after checks of its arguments that are not needed here.
    if isinstance(scorer, BaseRubric) and type(scorer).score is BaseRubric.score:
        return await scorer.score_all([Rollout.from_state(state) for state in states], grader)
    options: Mapping[str, Any] = {} if grader is None else {"judge": grader}
    return cast("Sequence[EvaluationReport]", await scorer.score(states, **options))
