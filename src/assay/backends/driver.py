"""score_shards scores files with many workers, and saves the rows that one process would save."""

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
from assay.backends.shards import ROWS, Shard, files_of, shards_of
from assay.backends.worker import (
    Job,
    Make,
    ShardFailure,
    ShardResult,
    Task,
    make_part_name,
    packed,
)
from assay.models.budgets import Ledger, budget, is_dry_run
from assay.models.model import Usage
from assay.models.retry import Endpoint
from assay.plan import Traits
from assay.runs.journal import Journal
from assay.runs.metadata import RunAbout, files_about
from assay.runs.pipeline import MOST_AT_ONCE, OnProgress, Progress, Stopping, Watch, refuse_too_few
from assay.runs.row_rubrics import RowRubrics
from assay.runs.run_store import RunError, RunRefused, find_run_file
from assay.runs.summary import Summary

ATTEMPTS: Final = 4  # times that a shard is tried whose worker dies

PATIENCE: Final = 0.2  # seconds after which a backend that waits gives the driver a turn

_SUMMED = ("done", "errors", "unscored", "hits", "calls", "tokens", "cost", "unpriced")

# Gives the next task for a worker that is free; None when there is none for now.
TakeTask: TypeAlias = Callable[[], Task | None]

Results: TypeAlias = Generator[ShardResult | ShardFailure | None]
"""What comes of shards, as it comes; None now and then while nothing does."""


class Backend(Protocol):
    """Scores shards in workers, in any order. A worker that dies is replaced, and its shard reported as failed."""

    def opened(self) -> AbstractContextManager[int]:
        """There is somewhere to work inside the block, for so many workers."""
        ...

    def run(self, job: Job, take: TakeTask) -> Results:
        """Have tasks scored until there is none, and none under way. Closed early, workers are ended."""
        ...


def score_shards(
    make: Make,
    paths: Sequence[str | Path],
    folder: str | Path,
    *,
    backend: Backend | None = None,
    rows: int = ROWS,
    mapping: Mapping[str, str] | None = None,
    about: RunAbout | None = None,
    resume: bool = False,
    max_concurrent: int | None = None,
    judge_log: bool = False,
    on_progress: OnProgress | None = None,
    stopping: Stopping = lambda: False,
) -> Summary:
    """Score files of rows with many workers, and give what it comes to.

    `make` gives the rubric and its grader, and is called in every worker. `paths` are JSON Lines and
    Parquet files, and folders of such. With `resume` what is done stays done, and what is missing or
    failed is done. Where a model is asked, `max_concurrent` rollouts are under way, over all workers;
    unless that is said, 128 in each. With `judge_log` rows keep what judges were asked and said.

    When `stopping` says True, no new shard is begun and the summary is not `complete`; those under way
    are finished. The limits of endpoints and of a `budget` around this call hold for all workers together.

    Raises `RunError` when a shard could not be scored at all; the others are done and safe.
    """
    refuse_too_few(1 if max_concurrent is None else max_concurrent)
    if is_dry_run():
        raise RunRefused("a dry run has no workers: let one process do it, with `score_rows`")
    backend = backend or backends.Processes()
    folder = Path(folder).absolute()
    if find_run_file(folder).parent != folder:
        raise RunRefused(f"{folder} is a file, and a run of many workers needs a folder: name one")
    rubric, grader = make()
    shared: Any = rubric.rubric if isinstance(rubric, RowRubrics) else rubric
    traits = Traits(waits=True) if shared is None else Traits.of(shared)
    about = about or RunAbout.of(
        "score", config={"map": dict(mapping or {})}, data=files_about(files_of(paths))
    )
    about = about.completed(rubric, grader)
    shards = shards_of(paths, rows=rows, mapping=mapping)
    with Journal.open(folder, about, resume=resume, is_begun=has_parts(folder)) as journal:
        run = ShardedRun(journal, shards, next(iter(traits.compares), ""))
        unfinished = run.find_unfinished()
        if unfinished:
            may_ask = traits.waits or grader is not None
            with backend.opened() as workers, budget() as ledger:
                # A worker needs a call at least, so an endpoint that takes fewer at once has fewer workers.
                workers = (
                    min(workers, Endpoint.least_concurrency() or workers) if may_ask else workers
                )
                ends = time.time() + ledger.deadline - time.monotonic()
                most = MOST_AT_ONCE if max_concurrent is None else max(1, max_concurrent // workers)
                job = Job(
                    str(folder),
                    journal.about.to_dict(),
                    packed(make),
                    mapping or {},
                    max_concurrent=most,
                    workers=workers,
                    judge_log=judge_log,
                    may_ask=may_ask,
                    ends=ends,
                )
                _Driver(run, unfinished, job, stopping, on_progress, ledger).work(backend)
        return run.finish()


class _Driver(Watch):
    """Hands out what is left of a run, and counts what comes back."""

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
        # Of a shard that is gone on with, its worker counts the rows that are kept.
        to_do = {shard.number for shard in unfinished}
        self.kept = sum(shard.rows for shard in run.shards if shard.number not in to_do)
        self._run = run
        self._job = job
        self._stopping = stopping
        self._left = deque(unfinished)
        self._free = set(range(job.workers))  # the slots without a task
        self._given: dict[int, Task] = {}  # the tasks under way, by shard
        self._deaths: Counter[int] = Counter()  # how many workers died of a shard
        limited = (each for each in ledger.chain() if each.dollars is not None)
        # The ledger around this run with the fewest dollars left; None where they are not limited.
        self._budget = min(limited, key=lambda each: each.left, default=None)
        # Dollars that a rollout is known to cost; None until one has been paid for.
        self._rollout = self._budget.rollout if self._budget else None
        self._is_short = (
            False  # whether the last worker that came back had too few dollars for its shard
        )

    def work(self, backend: Backend) -> None:
        broken: list[ShardFailure] = []
        with closing(backend.run(self._job, self._next)) as results:
            for result in results:
                if self._stopping():
                    self._left.clear()
                if result is not None:
                    broken += self._hear(result)
                self.tell()
        self.tell(at_once=True)
        if broken:
            told = f"{len(broken)} of {len(self._run.shards)} shards could not be scored; the first, shard {broken[0].shard}"
            raise RunError(
                f"{told}: {broken[0].error}. What is done is safe: see to it, and resume"
            )

    def _next(self) -> Task | None:
        if self._stopping():
            self._left.clear()
        if not self._left or not self._free:
            return None
        dollars, rollout = None, None
        if self._budget is not None:
            dollars = max(
                0.0, self._budget.left - sum(task.dollars or 0.0 for task in self._given.values())
            )
            rollout = self._rollout
            shares = min(len(self._free), int(dollars // rollout)) if rollout else len(self._free)
            if self._is_short or not shares:
                # What others do not need comes back with them; handed out in crumbs it would buy nothing.
                if self._given:
                    return None
                shares = 1
            dollars /= shares
        shard, slot = self._left.popleft(), min(self._free)
        self._free.remove(slot)
        task = Task(shard, make_part_name(shard), slot, dollars, rollout)
        self._given[shard.number] = task
        return task

    def _hear(self, result: ShardResult | ShardFailure) -> Sequence[ShardFailure]:
        """Count what came of a task; the failure when the shard is given up."""
        task = self._given.pop(result.shard)
        self._free.add(task.slot)
        if isinstance(result, ShardResult):
            self._run.take(result)
            self.fresh += result.progress.done
            self.errors += result.progress.errors
            self.unscored += result.progress.unscored
            self._rollout = max(self._rollout or 0.0, result.dearest or 0.0) or None
            self._is_short = result.counts["errors"].get("BudgetExceeded", 0) > 0
            self.ledger.count(**result.counts)
            return ()
        # Its calls were answered and cost, though it did not end.
        spent = self._run.merge_unfinished(self._run.parts / task.part)
        usage = Usage(prompt=spent.prompt, completion=spent.completion)
        self.ledger.count(
            calls=spent.calls,
            hits=spent.hits,
            cost=spent.cost or 0.0,
            unpriced=spent.unpriced,
            usage=usage,
        )
        if not result.died:
            return (result,)
        self._deaths[result.shard] += 1
        if self._deaths[result.shard] < ATTEMPTS:
            self._left.appendleft(task.shard)
            return ()
        return (
            ShardFailure(result.shard, f"{ATTEMPTS} workers died of it, the last {result.error}"),
        )

    def now(self) -> Progress:
        """How far it is, with what workers have written down of the shards under way."""
        each = [super().now()]
        for task in self._given.values():
            path = self._run.parts / task.part / "progress.json"
            with suppress(
                OSError, ValueError
            ):  # it has only begun, or is being written this moment
                each.append(Progress(**json.loads(path.read_bytes())))
        return replace(
            each[0], **{name: sum(getattr(one, name) for one in each) for name in _SUMMED}
        )
