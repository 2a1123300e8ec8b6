"""RayTasks scores shards as tasks of a Ray cluster; RubricStage scores batches of a Ray Data pipeline.

Only `init`, `remote`, `wait`, `get` and `cancel` of Ray are used, so any version from 2.41 on works.
Trainers that include Ray pin different versions of it.
"""

import logging
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast

from assay.backends.driver import WAIT_SECONDS, Results, TakeTask
from assay.backends.worker import Job, Make, ShardFailure, ShardResult, Task, score_shard
from assay.concurrency import run_sync
from assay.errors import RubricError, import_extra
from assay.graders.grader import grader_of
from assay.models.retry import Endpoint
from assay.wording import describe_error


@dataclass(frozen=True)
class RayTasks:
    """Tasks on the cluster at `address`, or on the one that this process is connected to.

    Without either, Ray is started on this machine, and stopped at the end.
    """

    address: str | None = None
    workers: int | None = None  # tasks at once; by default as many as the cluster has processors

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise RubricError(f"workers is {self.workers}: give 1 or more")

    @contextmanager
    def open_workers(self) -> Generator[int]:
        """Connect to the cluster, or start Ray, inside the block; yield how many tasks may run."""
        ray = _import_ray()
        starts_ray = not ray.is_initialized()
        if starts_ray:
            options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.WARNING}
            if self.address is None:  # Ray is started on this machine
                options |= {"num_cpus": self.workers, "include_dashboard": False}
            ray.init(address=self.address, **options)
        try:
            if self.workers is not None:
                yield self.workers
            else:
                yield max(1, int(ray.cluster_resources().get("CPU", 1)))
        finally:
            if starts_ray:
                ray.shutdown()

    def run(self, job: Job, take_task: TakeTask) -> Results:
        """Yield the results of tasks until there are none left, or None when nothing has happened.

        Each task of the driver becomes one task of Ray.
        """
        ray = _import_ray()
        # Ray must not retry a task whose worker died. The driver does so, after it has saved what
        # the worker had scored and spent.
        remote_score_shard = ray.remote(num_cpus=1, max_retries=0)(score_shard)
        job_reference = ray.put(job)  # sends the job only once to each machine
        running: dict[Any, Task] = {}  # by Ray's reference to the result
        try:
            while True:
                while (task := take_task()) is not None:
                    reference = remote_score_shard.remote(job_reference, task)
                    running[reference] = task
                if not running:
                    return
                finished, _ = ray.wait(list(running), timeout=WAIT_SECONDS)
                for reference in finished:
                    task = running.pop(reference)
                    yield _get_result(ray, reference, task.shard.number)
                if not finished:
                    yield None
        finally:
            for reference in running:
                ray.cancel(reference, force=True)


def _get_result(ray: Any, reference: Any, shard_number: int) -> ShardResult | ShardFailure:
    """Return what a task of Ray has returned, or why it failed."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:  # `score_shard` raised an error
        return ShardFailure(shard_number, describe_error(error.cause))
    except ray.exceptions.RayError as error:  # the worker died, or its machine was lost
        return ShardFailure(shard_number, f"by {describe_error(error)}", died=True)


def _import_ray() -> Any:
    """Return the module `ray`; if it is not installed, the error names the extra to install."""
    return import_extra("ray", "Scoring on many machines")


class RubricStage:
    """Scores batches of a Ray Data pipeline, and adds their scores as columns.

    Use it as `dataset.map_batches(RubricStage, fn_constructor_args=(make,), batch_format="pyarrow")`.
    It adds the columns `reward` and `score`, which are null if a row is unscored, and `errors`, as
    text. `make` returns the rubric and its judge, and is called once in every actor. Leave some
    processors of the cluster to the reading of data: give each actor `num_cpus=0.5`.
    """

    def __init__(self, make: Make, actors: int = 1) -> None:
        """The limits of endpoints are divided by `actors`, so that they hold for all together."""
        self._rubric, judge = make()
        grader = grader_of(judge)
        self._options = {} if grader is None else {"judge": grader}
        self._actors = actors

    def __call__(self, batch: Any) -> Any:
        """Return the batch with its new columns.

        A batch is an Arrow table, or a mapping of arrays, which is what Ray passes by default.
        """
        if isinstance(batch, Mapping):
            arrays = cast("Mapping[str, Any]", batch)  # by the name of the column
            columns = [array.tolist() for array in arrays.values()]
            rows = [dict(zip(arrays, cells, strict=True)) for cells in zip(*columns, strict=True)]
            return {**arrays, **self._score(rows)}
        arrow = import_module("pyarrow")
        # Without an explicit type, a column with nothing but nulls would get the type `null`.
        types = {"reward": arrow.float64(), "score": arrow.float64(), "errors": arrow.string()}
        for name, values in self._score(batch.to_pylist()).items():
            column = arrow.array(values, types[name])
            position = batch.schema.get_field_index(name)
            if position < 0:  # the batch has no such column yet
                batch = batch.append_column(name, column)
            else:
                batch = batch.set_column(position, name, column)
        return batch

    def _score(self, rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
        """Score rows, and return the new columns by name."""
        # An actor does not know its own number, so each takes the last share of the limits, which
        # is never larger than the others.
        with Endpoint.share(self._actors - 1, self._actors):
            reports = run_sync(self._rubric.score(rows, **self._options))
        return {
            "reward": [report.raw_score for report in reports],
            "score": [report.score for report in reports],
            "errors": [
                "; ".join((report.errors | report.why_unscored).values()) for report in reports
            ],
        }
