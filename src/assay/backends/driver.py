"""score_shards scores files with many workers, and saves each row once, as one process would.

The driver hands shards to the workers of a backend and merges what they finish into the run. See
`sharded_run` for the folder of such a run.
"""

import json
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

from assay import backends
from assay.backends.sharded_run import ShardedRun, has_parts
from assay.backends.shards import DEFAULT_SHARD_ROWS, Shard, list_files, shards_of
from assay.backends.worker import (
    Job,
    Make,
    ShardFailure,
    ShardResult,
    Task,
    make_part_name,
    pickle_make,
)
from assay.graders.grader import grader_of
from assay.models.budgets import Ledger, budget, is_dry_run
from assay.models.model import Usage
from assay.models.retry import Endpoint
from assay.plan import Traits
from assay.runs.journal import Journal
from assay.runs.metadata import RunAbout, files_about
from assay.runs.pipeline import (
    MAX_CONCURRENT,
    OnProgress,
    Progress,
    Stopping,
    Watch,
    refuse_too_few,
)
from assay.runs.row_rubrics import RowRubrics
from assay.runs.run_errors import RunError, RunRefused
from assay.runs.run_schema import find_run_file
from assay.runs.summary import Summary

MOST_ATTEMPTS: Final = 4  # how often a shard is tried if its workers die
WAIT_SECONDS: Final = 0.2  # how long a backend waits before it gives the driver a turn

# The fields of the progress of workers that are added up.
_SUMMED_FIELDS: Final = (
    "done",
    "errors",
    "unscored",
    "hits",
    "calls",
    "tokens",
    "cost",
    "unpriced",
)

# Returns the next task for a free worker; None if there is none for now.
TakeTask: TypeAlias = Callable[[], Task | None]
# The results of shards in any order, with None from time to time while there is none.
Results: TypeAlias = Generator[ShardResult | ShardFailure | None]


class Backend(Protocol):
    """Scores shards in workers, in any order.

    A worker that dies is replaced, and its shard is reported as failed.
    """

    def open_workers(self) -> AbstractContextManager[int]:
        """Make workers available inside the block; yield how many there are."""
        ...

    def run(self, job: Job, take_task: TakeTask) -> Results:
        """Score tasks until there are no more and none is running. Closing it ends the workers."""
        ...


def score_shards(
    make: Make,
    paths: Sequence[str | Path],
    folder: str | Path,
    *,
    backend: Backend | None = None,
    rows: int = DEFAULT_SHARD_ROWS,
    mapping: Mapping[str, str] | None = None,
    about: RunAbout | None = None,
    resume: bool = False,
    allow_changes: bool = False,
    max_concurrent: int | None = None,
    save_requests: bool = False,
    on_progress: OnProgress | None = None,
    stopping: Stopping = lambda: False,
) -> Summary:
    """Score files of rows with many workers, and return the summary.

    `make` returns the rubric and its judge, and is called in every worker. `paths` are JSON Lines
    and Parquet files, and folders of such files. With `resume`, the rows that are missing or failed
    in the run are scored. `allow_changes` is that of `score_rows`. If a model is asked,
    `max_concurrent` rollouts are in progress over all workers; by default 128 in each worker. With
    `save_requests`, rows keep the exact requests to judges and the replies.

    Once `stopping` returns True, no new shard is started, those in progress are finished, and the
    summary is not `complete`. The limits of endpoints and of a `budget` around this call hold for
    all workers together.

    Raise `RunError` if a shard could not be scored at all; the others are done and saved.
    """
    refuse_too_few(1 if max_concurrent is None else max_concurrent)
    if is_dry_run():
        raise RunRefused("a dry run has no workers: use one process, with `score_rows`")
    folder = Path(folder).absolute()
    if find_run_file(folder).parent != folder:
        raise RunRefused(f"{folder} is a file, and a run of many workers needs a folder: name one")
    rubric, judge = make()
    grader = grader_of(judge)
    traits = _find_traits(rubric)
    if about is None:
        data = files_about(list_files(paths))
        about = RunAbout.of("score", config={"map": dict(mapping or {})}, data=data)
    about = about.completed(rubric, grader)
    shards = shards_of(paths, rows=rows, mapping=mapping)
    with Journal.open(
        folder,
        about,
        resume=resume,
        allow_changes=allow_changes,
        has_parts=has_parts(folder),
    ) as journal:
        criterion_that_compares = traits.compares[0] if traits.compares else ""
        run = ShardedRun(journal, shards, criterion_that_compares)
        unfinished = run.find_unfinished()
        if not unfinished:
            return run.finish()
        backend = backend or backends.Processes()
        may_ask = traits.waits or grader is not None
        with backend.open_workers() as worker_count, budget() as ledger:
            if may_ask:
                # Each worker needs at least one call at a time.
                worker_count = min(worker_count, Endpoint.least_concurrency() or worker_count)
            rollouts_per_worker = MAX_CONCURRENT
            if max_concurrent is not None:
                rollouts_per_worker = max(1, max_concurrent // worker_count)
            job = Job(
                folder=str(folder),
                about=journal.about.to_dict(),
                make=pickle_make(make),
                mapping=mapping or {},
                max_concurrent=rollouts_per_worker,
                workers=worker_count,
                save_requests=save_requests,
                may_ask=may_ask,
                deadline=time.time() + ledger.deadline - time.monotonic(),
            )
            _Driver(run, unfinished, job, stopping, on_progress, ledger).score(backend)
        return run.finish()


def _find_traits(rubric: Any) -> Traits:
    """Return the traits of the rubric of all rows; rubrics that rows bring may ask models."""
    if isinstance(rubric, RowRubrics):
        rubric = rubric.rubric
    if rubric is None:
        return Traits(waits=True)
    return Traits.of(rubric)


class _Driver(Watch):
    """Hands shards to workers, and counts what comes back."""

    def __init__(
        self,
        run: ShardedRun,
        unfinished: Sequence[Shard],
        job: Job,
        stopping: Stopping,
        on_progress: OnProgress | None,
        ledger: Ledger,
    ) -> None:
        super().__init__(on_progress, sum(shard.rows for shard in run.shards), ledger)
        # Rows that are saved already. In unfinished shards, the workers count them.
        unfinished_numbers = {shard.number for shard in unfinished}
        finished = [shard for shard in run.shards if shard.number not in unfinished_numbers]
        self.kept = sum(shard.rows for shard in finished)
        self._run = run
        self._job = job
        self._stopping = stopping
        self._waiting = deque(unfinished)
        self._free_slots = set(range(job.workers))
        self._running: dict[int, Task] = {}  # by the number of the shard
        self._deaths: Counter[int] = Counter()  # how many workers died, by shard
        self._budget = _BudgetShares(ledger)

    def score(self, backend: Backend) -> None:
        """Score all shards. Raise `RunError` if some could not be scored."""
        failures: list[ShardFailure] = []
        with closing(backend.run(self._job, self._take_task)) as results:
            for result in results:
                if self._stopping():
                    self._waiting.clear()
                if isinstance(result, ShardResult):
                    self._take_result(result)
                elif result is not None:
                    failures += self._handle_failure(result)
                self.report()
        self.report(at_once=True)
        if failures:
            first = failures[0]
            raise RunError(
                f"{len(failures)} of {len(self._run.shards)} shards could not be scored; the first, "
                f"shard {first.shard}: {first.error}. What is done is saved: fix the cause, and "
                "resume the run"
            )

    def _take_task(self) -> Task | None:
        """Return the next task; None if there is none, or no slot or money for it."""
        if self._stopping():
            self._waiting.clear()
        if not self._waiting or not self._free_slots:
            return None
        dollars = None
        if self._budget.is_limited:
            dollars = self._budget.find_share(list(self._running.values()), len(self._free_slots))
            if dollars is None:
                return None
        shard = self._waiting.popleft()
        slot = min(self._free_slots)
        self._free_slots.remove(slot)
        task = Task(
            shard=shard,
            part=make_part_name(shard),
            slot=slot,
            dollars=dollars,
            rollout_cost=self._budget.rollout_cost,
        )
        self._running[shard.number] = task
        return task

    def _take_result(self, result: ShardResult) -> None:
        """Merge a finished shard into the run, and count its rows and calls."""
        self._end_task(result.shard)
        self._run.take(result)
        self.fresh += result.progress.done
        self.errors += result.progress.errors
        self.unscored += result.progress.unscored
        self._budget.note_costs(result)
        self.ledger.count(**result.counts)

    def _handle_failure(self, failure: ShardFailure) -> list[ShardFailure]:
        """Keep what a failed attempt has done. Return the failure if the shard is given up."""
        task = self._end_task(failure.shard)
        # Its calls were answered and cost something, although it did not finish.
        spent = self._run.merge_unfinished(self._run.parts / task.part)
        self.ledger.count(
            calls=spent.calls,
            hits=spent.hits,
            cost=spent.cost or 0.0,
            unpriced=spent.unpriced,
            usage=Usage(prompt=spent.prompt, completion=spent.completion),
        )
        if not failure.died:
            return [failure]
        self._deaths[failure.shard] += 1
        if self._deaths[failure.shard] < MOST_ATTEMPTS:
            self._waiting.appendleft(task.shard)
            return []
        error = f"{MOST_ATTEMPTS} workers died while scoring it, the last {failure.error}"
        return [ShardFailure(failure.shard, error)]

    def _end_task(self, shard: int) -> Task:
        task = self._running.pop(shard)
        self._free_slots.add(task.slot)
        return task

    def now(self) -> Progress:
        """Return the progress, with what workers have noted about the shards in progress."""
        own = super().now()
        all_progress = [own]
        for task in self._running.values():
            path = self._run.parts / task.part / "progress.json"
            # The worker may not have written it yet, or may be writing it at this moment.
            with suppress(OSError, ValueError):
                all_progress.append(Progress(**json.loads(path.read_bytes())))
        sums = {
            name: sum(getattr(progress, name) for progress in all_progress)
            for name in _SUMMED_FIELDS
        }
        return replace(own, **sums)


class _BudgetShares:
    """Divides the dollars that are left among the shards in progress."""

    def __init__(self, ledger: Ledger) -> None:
        limited = [each for each in ledger.chain() if each.dollars is not None]
        # Of the budgets around the run, the one with the fewest dollars left.
        self._ledger = min(limited, key=lambda each: each.left, default=None)
        # Dollars that a rollout is known to cost; None until one has been paid for.
        self.rollout_cost = None if self._ledger is None else self._ledger.rollout
        # Whether the last shard that was finished had too few dollars.
        self._was_too_small = False

    @property
    def is_limited(self) -> bool:
        return self._ledger is not None

    def find_share(self, running: Sequence[Task], free_slots: int) -> float | None:
        """Return what the next task may spend; None if it has to wait for others to finish.

        A share is at least what a rollout costs. What the running tasks do not need comes back, so
        it is better to wait than to hand out shares that buy nothing.
        """
        assert self._ledger is not None
        promised = sum(task.dollars or 0.0 for task in running)
        dollars = max(0.0, self._ledger.left - promised)
        shares = free_slots
        if self.rollout_cost:
            shares = min(free_slots, int(dollars // self.rollout_cost))
        if self._was_too_small or not shares:
            if running:
                return None
            shares = 1
        return dollars / shares

    def note_costs(self, result: ShardResult) -> None:
        """Note what a rollout of a finished shard cost, and whether its share was enough."""
        self.rollout_cost = max(self.rollout_cost or 0.0, result.rollout_cost or 0.0) or None
        self._was_too_small = result.counts["errors"].get("BudgetExceeded", 0) > 0
