"""RayTasks score shards as tasks of a Ray cluster; a RubricStage scores the batches of a Ray Data pipeline."""
# Only `init`, `remote`, `wait`, `get` and `cancel` are used, so any Ray from 2.41 on will do: the trainers that bring one
# along pin it each to another version.

import logging
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast

from assay.backends.driver import PATIENCE, Results, TakeTask
from assay.backends.worker import Job, Make, ShardFailure, ShardResult, Task, score_shard
from assay.concurrency import run_sync
from assay.errors import RubricError, import_extra
from assay.models.retry import Endpoint
from assay.wording import describe_error


@dataclass(frozen=True)
class RayTasks:
    """Tasks on the cluster that `address` names, or on the one this process is connected to.

    Without either a Ray is started on this machine, and stopped at the end.
    """

    address: str | None = None
    workers: int | None = (
        None  # tasks under way at once; as many as the cluster has processors unless said otherwise
    )

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise RubricError(f"{self.workers} workers score nothing: give 1 or more")

    @contextmanager
    def opened(self) -> Generator[int]:
        ray = _ray()
        is_ours = not ray.is_initialized()
        if is_ours:
            options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.WARNING}
            if self.address is None:
                options |= {"num_cpus": self.workers, "include_dashboard": False}
            ray.init(address=self.address, **options)
        try:
            yield self.workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        finally:
            if is_ours:
                ray.shutdown()

    def run(self, job: Job, take: TakeTask) -> Results:
        ray = _ray()
        # The driver tries again what a worker died of, for it counts what that has spent.
        remote = ray.remote(num_cpus=1, max_retries=0)(score_shard)
        told = ray.put(job)
        running: dict[Any, Task] = {}
        try:
            while True:
                while (task := take()) is not None:
                    running[remote.remote(told, task)] = task
                if not running:
                    return
                ready, _ = ray.wait(list(running), timeout=PATIENCE)
                for reference in ready:
                    yield _result(ray, reference, running.pop(reference).shard.number)
                if not ready:
                    yield None
        finally:
            for reference in running:
                ray.cancel(reference, force=True)


def _result(ray: Any, reference: Any, shard: int) -> ShardResult | ShardFailure:
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        return ShardFailure(shard, describe_error(error.cause))
    except ray.exceptions.RayError as error:
        return ShardFailure(shard, f"by {describe_error(error)}", died=True)


def _ray() -> Any:
    return import_extra("ray", "Scoring on many machines")


class RubricStage:
    """For `dataset.map_batches(RubricStage, fn_constructor_args=(make,), batch_format="pyarrow", …)`.

    It adds the columns `reward` and `score`, which are null where a row is unscored, and `errors`, as
    text. `make` gives the rubric and its grader, and is called once in every actor. Give the actors less
    than the processors of the cluster, or there is none left to read with: `num_cpus=0.5` will do.
    """

    def __init__(self, make: Make, actors: int = 1) -> None:
        """Limits of endpoints are divided by `actors`, where they are to hold for so many together."""
        self._rubric, grader = make()
        self._options = {} if grader is None else {"autograder": grader}
        self._actors = actors

    def __call__(self, batch: Any) -> Any:
        """The batch with its columns: a table of Arrow, or a mapping of arrays as Ray gives unless told."""
        if isinstance(batch, Mapping):
            arrays = cast("Mapping[str, Any]", batch)
            values = zip(*(array.tolist() for array in arrays.values()), strict=True)
            return {
                **arrays,
                **self._columns([dict(zip(arrays, row, strict=True)) for row in values]),
            }
        arrow = import_module("pyarrow")
        types = {"reward": arrow.float64(), "score": arrow.float64(), "errors": arrow.string()}
        for name, values in self._columns(batch.to_pylist()).items():
            # With its type, or a batch in which all is null would have a column of another one.
            column = arrow.array(values, types[name])
            place = batch.schema.get_field_index(name)
            batch = (
                batch.append_column(name, column)
                if place < 0
                else batch.set_column(place, name, column)
            )
        return batch

    def _columns(self, rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
        # An actor does not know its number, so each takes the smallest share.
        with Endpoint.share(self._actors - 1, self._actors):
            reports = run_sync(self._rubric.score(rows, **self._options))
        return {
            "reward": [report.raw_score for report in reports],
            "score": [report.score for report in reports],
            "errors": [
                "; ".join((report.errors | report.why_unscored).values()) for report in reports
            ],
        }
