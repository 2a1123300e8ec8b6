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
from assay.backends.sharded_run import ShardedRun, has_attempts
from assay.backends.shards import DEFAULT_SHARD_ROWS, Shard, list_files, shards_of
from assay.backends.worker import (
    PROGRESS_FILE,
    Job,
    Make,
    ShardFailure,
    ShardResult,
    Task,
    make_attempt_name,
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

MAX_ATTEMPTS: Final = 4  # how often a shard is tried if its workers die
WAIT_SECONDS: Final = 0.2  # how long a backend waits before it gives the driver a turn

# The fields of `Progress` that are summed over the driver and its workers.
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
        """Yield the results of all tasks that `take_task` returns.

        It ends when `take_task` returns None while no task is running. Closing the generator ends
        the workers.
        """
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
    and Parquet files, and folders of such files. `rows` is the size of a shard. `mapping` renames
    columns, as in `rows_of`. With `resume`, the rows that are missing or failed in the run are
    scored. `allow_changes` is that of `score_rows`. If a model is asked, `max_concurrent` rollouts
    are in progress over all workers; by default 128 in each worker. With `save_requests`, rows keep
    the exact requests to judges and the replies.

    Once `stopping` returns True, no new shard is started, those in progress are finished, and the
    summary is not `complete`. The limits of endpoints and of a `budget` around this call hold for
    all workers together.

    Raise `RunError` if a shard could not be scored at all; the others are done and saved.
    """
    refuse_too_few(1 if max_concurrent is None else max_concurrent)
    if is_dry_run():
        raise RunRefused("a dry run has no workers: use one process, with `score_rows`")
    folder = Path(folder).absolute()
    # A path that ends like the file of a run names that file.
    if find_run_file(folder).parent != folder:
        raise RunRefused(f"{folder} is a file, and a run of many workers needs a folder: name one")
    rubric, judge = make()
    grader = grader_of(judge)
    traits = _find_traits(rubric)
    if about is None:
        data = files_about(list_files(paths))
        about = RunAbout.of("score", config={"map": dict(mapping or {})}, data=data)
    about = about.completed(rubric, grader)  # adds the rubric and the judge
    shards = shards_of(paths, rows=rows, mapping=mapping)
    with Journal.open(
        folder,
        about,
        resume=resume,
        allow_changes=allow_changes,
        # A run that was killed early may have saved rows only in the folders of its attempts.
        has_parts=has_attempts(folder),
    ) as journal:
        comparing_criterion = traits.comparing_criteria[0] if traits.comparing_criteria else None
        run = ShardedRun(journal, shards, comparing_criterion)
        unfinished = run.find_unfinished()
        if not unfinished:
            return run.finish()
        backend = backend or backends.Processes()
        may_ask_models = traits.waits or grader is not None
        # This ledger sets no limit. It counts for all workers, and a budget around it applies.
        with backend.open_workers() as worker_count, budget() as ledger:
            concurrency_limit = Endpoint.least_concurrency()
            if may_ask_models and concurrency_limit is not None:
                # Workers divide the limit, and each needs at least one call at a time.
                worker_count = min(worker_count, concurrency_limit)
            rollouts_per_worker = MAX_CONCURRENT
            if max_concurrent is not None:
                rollouts_per_worker = max(1, max_concurrent // worker_count)
            seconds_left = ledger.deadline - time.monotonic()
            job = Job(
                folder=str(folder),
                about=journal.about.to_dict(),
                pickled_make=pickle_make(make),
                mapping=mapping or {},
                max_concurrent=rollouts_per_worker,
                workers=worker_count,
                save_requests=save_requests,
                may_ask_models=may_ask_models,
                deadline=time.time() + seconds_left,
            )
            driver = _Driver(
                run=run,
                unfinished=unfinished,
                job=job,
                stopping=stopping,
                on_progress=on_progress,
                ledger=ledger,
            )
            driver.score(backend)
        return run.finish()


def _find_traits(rubric: Any) -> Traits:
    """Return what scoring with a rubric needs, such as whether it waits for models."""
    if isinstance(rubric, RowRubrics):
        rubric = rubric.rubric  # the rubric of rows that have none of their own
    if rubric is None:
        # Every row has a rubric of its own, which is not read yet: expect that it asks models.
        return Traits(waits=True)
    return Traits.of(rubric)


class _Driver(Watch):
    """Hands shards to workers, merges their results into the run, and reports the progress."""

    def __init__(
        self,
        *,
        run: ShardedRun,
        unfinished: Sequence[Shard],
        job: Job,
        stopping: Stopping,
        on_progress: OnProgress | None,
        ledger: Ledger,
    ) -> None:
        row_count = sum(shard.rows for shard in run.shards)
        super().__init__(on_progress, row_count, ledger)
        # Rows that earlier sessions saved. In unfinished shards, the workers count them.
        unfinished_numbers = {shard.number for shard in unfinished}
        finished = [shard for shard in run.shards if shard.number not in unfinished_numbers]
        self.kept = sum(shard.rows for shard in finished)
        self._run = run
        self._job = job
        self._stopping = stopping
        self._waiting = deque(unfinished)  # shards that no task scores yet
        # Each running task has a slot of its own: its share of the limits of endpoints.
        self._free_slots = set(range(job.workers))
        self._running: dict[int, Task] = {}  # by the number of the shard
        self._deaths: Counter[int] = Counter()  # how many workers died, by shard number
        self._budget = _BudgetShares(ledger)

    def score(self, backend: Backend) -> None:
        """Score shards until all are done, or until the user stops the run.

        Raise `RunError` if some could not be scored.
        """
        failures: list[ShardFailure] = []
        with closing(backend.run(self._job, self._take_task)) as results:
            for result in results:
                if self._stopping():
                    self._waiting.clear()  # those that are running are finished
                # The backend yields None from time to time, so that progress is reported.
                if isinstance(result, ShardResult):
                    self._take_result(result)
                elif isinstance(result, ShardFailure):
                    final_failure = self._handle_failure(result)
                    if final_failure is not None:
                        failures.append(final_failure)
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
        """Start the next task, and return it; None if there is none, or no slot or money for it."""
        if self._stopping():
            self._waiting.clear()
        if not self._waiting or not self._free_slots:
            return None
        dollars = None
        if self._budget.is_limited:
            running = list(self._running.values())
            dollars = self._budget.find_share(running, free_slots=len(self._free_slots))
            if dollars is None:
                return None
        shard = self._waiting.popleft()
        slot = min(self._free_slots)
        self._free_slots.remove(slot)
        task = Task(
            shard=shard,
            attempt=make_attempt_name(shard),
            slot=slot,
            dollars=dollars,
            rollout_cost=self._budget.rollout_cost,
        )
        self._running[shard.number] = task
        return task

    def _take_result(self, result: ShardResult) -> None:
        """Merge a finished shard into the run, and count its rows and calls."""
        self._end_task(result.shard)
        self._run.merge_finished(result)
        self.fresh += result.progress.done  # rows that are finished in this session
        self.errors += result.progress.errors
        self.unscored += result.progress.unscored
        self._budget.note_costs(result)
        self.ledger.count(**result.counts)

    def _handle_failure(self, failure: ShardFailure) -> ShardFailure | None:
        """Save what a failed attempt has done, and try the shard again if its worker died.

        Return the failure to report if the shard is given up; None if it is tried again.
        """
        task = self._end_task(failure.shard)
        # Its calls were answered and cost something, although it did not finish.
        spent = self._run.merge_unfinished(self._run.attempts / task.attempt)
        self.ledger.count(
            calls=spent.calls,
            hits=spent.hits,
            cost=spent.cost or 0.0,
            unpriced=spent.unpriced,
            usage=Usage(prompt=spent.prompt, completion=spent.completion),
        )
        if not failure.died:
            return failure
        self._deaths[failure.shard] += 1
        if self._deaths[failure.shard] < MAX_ATTEMPTS:
            self._waiting.appendleft(task.shard)
            return None
        error = f"{MAX_ATTEMPTS} workers died while scoring it, the last {failure.error}"
        return ShardFailure(failure.shard, error)

    def _end_task(self, shard_number: int) -> Task:
        """Free the slot of the task that scored a shard, and return the task."""
        task = self._running.pop(shard_number)
        self._free_slots.add(task.slot)
        return task

    def now(self) -> Progress:
        """Return the progress of the run, including the shards that workers are scoring now."""
        finished_shards = super().now()
        all_progress = [finished_shards]
        for task in self._running.values():
            path = self._run.attempts / task.attempt / PROGRESS_FILE
            # The worker may not have written it yet, or may be writing it at this moment.
            with suppress(OSError, ValueError):
                all_progress.append(Progress(**json.loads(path.read_bytes())))
        sums: dict[str, Any] = {}
        for name in _SUMMED_FIELDS:
            sums[name] = sum(getattr(progress, name) for progress in all_progress)
        return replace(finished_shards, **sums)


class _BudgetShares:
    """Divides the dollars that are left among the tasks that are running.

    Workers cannot see the spending of each other, so each may spend only the share that its task
    was promised.
    """

    def __init__(self, ledger: Ledger) -> None:
        # This ledger and those around it, as far as they have a limit in dollars.
        self._ledgers = [outer for outer in ledger.self_and_outer() if outer.dollars is not None]
        # The dollars that one rollout costs; None if that is not known yet.
        costs = [limited.rollout for limited in self._ledgers if limited.rollout]
        self.rollout_cost = max(costs, default=None)
        # Whether the share of the shard that finished last was too small to score all its rows.
        self._last_share_was_too_small = False

    @property
    def is_limited(self) -> bool:
        """Whether there is a budget in dollars at all."""
        return bool(self._ledgers)

    def find_share(self, running: Sequence[Task], *, free_slots: int) -> float | None:
        """Return the dollars that the next task may spend; None if it has to wait.

        The dollars that are not promised to a running task are divided among the free slots, or
        among fewer if a share would not pay for one rollout. If not even one rollout can be paid
        for, the task waits for the running ones, which return what they did not spend. It waits too
        if the last share was not enough, since another one like it would not be either. If none is
        running, it gets all that is left.
        """
        dollars_left = min(limited.left for limited in self._ledgers)
        promised = sum(task.dollars or 0.0 for task in running)
        dollars = max(0.0, dollars_left - promised)
        share_count = free_slots
        if self.rollout_cost:  # neither unknown nor 0
            affordable_rollouts = int(dollars // self.rollout_cost)
            share_count = min(free_slots, affordable_rollouts)
        if self._last_share_was_too_small or share_count == 0:
            if running:
                return None
            share_count = 1
        return dollars / share_count

    def note_costs(self, result: ShardResult) -> None:
        """Note what a rollout of a finished shard cost, and whether its share was enough."""
        if result.rollout_cost:
            self.rollout_cost = max(self.rollout_cost or 0.0, result.rollout_cost)
        self._last_share_was_too_small = result.counts["errors"].get("BudgetExceeded", 0) > 0
