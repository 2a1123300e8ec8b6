"""score_shards: a run by many workers, with the rows that one process would write, each once.

While it runs, its folder holds

    run.json         what is run
    manifest.jsonl   a line a finished shard: what is not here does not count
    parts/           the rows of a finished shard, under a name that no other attempt has
    scratch/         the rows of shards that are under way

Once every shard is done the parts become one `rollouts.jsonl`, those that failed are listed in
`failures.jsonl` too, and the folder is a run like any other. Parts with errors stay until somebody resumes.
"""

import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from assay.backends.cutting import ROWS
from assay.backends.engine import Broken, Engine, Site, Stopping
from assay.backends.job import Job, Make, Permits, packed
from assay.backends.permits import PermitServer
from assay.backends.plan import Plan
from assay.backends.processes import Processes
from assay.backends.sharded import ShardedRun
from assay.backends.shared import take_in
from assay.backends.watch import ShardWatch
from assay.backends.work import Scored
from assay.models.budgets import Ledger
from assay.runs.folder import Folder, Lock, RunError, RunRefused
from assay.runs.metadata import RunAbout
from assay.runs.pipeline import MOST_AT_ONCE, OnProgress, refuse_too_few
from assay.runs.spending import SpendingLog
from assay.runs.summary import Summary


def score_shards(
    make: Make,
    paths: Sequence[str | Path],
    folder: str | Path,
    *,
    engine: Engine | None = None,
    rows: int = ROWS,
    mapping: Mapping[str, str] | None = None,
    about: RunAbout | None = None,
    resume: bool = False,
    max_concurrent: int | None = None,
    exchanges: bool = False,
    on_progress: OnProgress | None = None,
    stopping: Stopping = lambda: False,
) -> Summary:
    """Score files of rows with many workers, and give what it comes to.

    `make` gives the rubric and its grader, and is called in every worker. `paths` are JSON Lines and
    Parquet files, and folders of such. With `resume` what is done stays done, and what is missing or
    failed is done. Where a model is asked, `max_concurrent` rollouts are under way, over all workers;
    unless that is said, 128 in each. With `exchanges` rows keep what judges were asked and said.

    When `stopping` says True, no new shard is begun and the summary is not `complete`; those under way
    are finished. The limits of endpoints and of a `budget` around this call hold for all workers together.

    Raises `RunError` when a shard could not be scored at all; the others are done and safe.
    """
    refuse_too_few(1 if max_concurrent is None else max_concurrent)
    ledger = Ledger.current()
    if ledger is not None and ledger.is_dry_run:
        raise RunRefused("workers do not rehearse: let one process do it, with `score_rows`")
    place = Folder(Path(folder).absolute())
    place.make()
    lock = Lock(place.lock)
    try:
        plan = Plan.of(make, paths, rows=rows, mapping=mapping or {}, about=about)
        run = ShardedRun(place, plan)
        run.begin(resume=resume)
        if run.left:
            watch = ShardWatch(on_progress, plan.rows, run.rows)
            driver = _Driver(plan, run, watch, exchanges=exchanges)
            driver.work(engine or Processes(), stopping, max_concurrent)
        return run.summed_up()
    finally:
        lock.close()


class _Driver:
    """Has what is left of a run scored."""

    def __init__(self, plan: Plan, run: ShardedRun, watch: ShardWatch, *, exchanges: bool) -> None:
        self._plan = plan
        self._run = run
        self._watch = watch
        self._exchanges = exchanges
        self._ledger = Ledger.current()

    def work(self, engine: Engine, stopping: Stopping, max_concurrent: int | None) -> None:
        broken: list[Broken] = []
        with engine.opened() as site, self._permits(site) as server:
            most = MOST_AT_ONCE if max_concurrent is None else max_concurrent // site.workers
            job = self._job(server, max(1, most))
            with closing(engine.run(job, self._run.left, stopping)) as results:
                for result in results:
                    if isinstance(result, Broken):
                        broken.append(result)
                    elif result is not None:
                        self._take(result)
                    self._watch.tell([] if server is None else server.progress())
        self._watch.tell([], at_once=True)
        self._refuse(broken)

    @contextmanager
    def _permits(self, site: Site) -> Generator[PermitServer | None]:
        """Somebody to ask for permits, where there is something to ask for."""
        if not self._plan.may_ask:
            yield None
            return
        purse = self._purse()
        money = None if purse is None else purse.dollars
        spent = 0.0 if purse is None else purse.spent_before + purse.cost
        rollout = None if purse is None else purse.rollout
        with (
            PermitServer(site.host, money=money, spent=spent, rollout=rollout) as server,
            closing(SpendingLog(Folder.of(self._run.folder).spending, server.purse)),
        ):
            yield server

    def _purse(self) -> Ledger | None:
        """The ledger around this run with the least money left; None where money is not limited."""
        ledgers = () if self._ledger is None else self._ledger.chain()
        limited = (each for each in ledgers if each.dollars is not None)
        return min(limited, key=lambda each: each.left, default=None)

    def _job(self, server: PermitServer | None, max_concurrent: int) -> Job:
        permits = None
        if server is not None:
            ends = None
            if self._ledger is not None and self._ledger.deadline() < float("inf"):
                ends = time.time() + self._ledger.deadline() - time.monotonic()
            permits = Permits(server.address, self._purse() is not None, ends)
        return Job(
            str(self._run.folder),
            self._plan.about.to_dict(),
            packed(self._plan.make),
            self._plan.mapping,
            max_concurrent,
            self._exchanges,
            permits,
        )

    def _take(self, scored: Scored) -> None:
        self._run.take(scored)
        self._watch.count(scored.progress)
        if self._ledger is not None:
            take_in(self._ledger, scored.counts)

    def _refuse(self, broken: Sequence[Broken]) -> None:
        if broken:
            first, shards = broken[0], len(self._plan.shards)
            raise RunError(
                f"{len(broken)} of {shards} shards could not be scored; the first, shard {first.shard}: "
                f"{first.error}. What is done is safe: see to it, and resume"
            )
