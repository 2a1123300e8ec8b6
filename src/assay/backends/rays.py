"""RayTasks: shards as tasks of a Ray cluster.

Only `init`, `remote`, `wait`, `get` and `cancel` are used, so any Ray from 2.41 on will do: the trainers
that bring one along pin it each to another version. Ray listens on all interfaces of a machine, and whoever
reaches it can run code there; see docs/scale.md.
"""

import logging
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from assay.backends.engine import ATTEMPTS, PATIENCE, Broken, Results, Site, Stopping
from assay.backends.job import Job
from assay.backends.shards import Shard
from assay.backends.work import Scored, score_shard
from assay.errors import MissingExtraError, RubricError
from assay.wording import described


@dataclass(frozen=True)
class RayTasks:
    """Tasks on the cluster that `address` names, or on the one this process is connected to.

    Without either a Ray is started on this machine, and stopped at the end.
    """

    address: str | None = None
    workers: int | None = None
    """Tasks under way at once; as many as the cluster has processors unless said otherwise."""
    host: str | None = None
    """The address at which tasks reach this process; the one that Ray knows unless said otherwise."""

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise RubricError(f"{self.workers} workers score nothing: give 1 or more")

    @contextmanager
    def opened(self) -> Generator[Site]:
        ray = _ray()
        ours = not ray.is_initialized()
        if ours:
            self._connect(ray)
        try:
            yield Site(self.host or ray.util.get_node_ip_address(), self._most(ray))
        finally:
            if ours:
                ray.shutdown()

    def _connect(self, ray: Any) -> None:
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.WARNING}
        if self.address is None:
            options |= {"num_cpus": self.workers, "include_dashboard": False}
        ray.init(address=self.address, **options)

    def _most(self, ray: Any) -> int:
        return self.workers or max(1, int(ray.cluster_resources().get("CPU", 1)))

    def run(self, job: Job, shards: Sequence[Shard], stopping: Stopping) -> Results:
        ray = _ray()
        # A dead worker or node is tried again by Ray; what the work itself raises is not.
        task = ray.remote(num_cpus=1, max_retries=ATTEMPTS - 1)(score_shard)
        told = ray.put(job)
        waiting, running = deque(shards), dict[Any, Shard]()
        try:
            while waiting or running:
                if stopping():
                    waiting.clear()
                free = self._most(ray) - len(running)
                for shard in [waiting.popleft() for _ in range(min(free, len(waiting)))]:
                    running[task.remote(told, shard)] = shard
                ready: list[Any] = []
                if running:
                    ready, _ = ray.wait(list(running), timeout=PATIENCE)
                for reference in ready:
                    yield _result(ray, reference, running.pop(reference))
                if not ready:
                    yield None
        finally:
            for reference in running:
                ray.cancel(reference, force=True)


def _result(ray: Any, reference: Any, shard: Shard) -> Scored | Broken:
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        return Broken(shard.number, described(error.cause))
    except ray.exceptions.RayError as error:
        return Broken(shard.number, described(error))


def _ray() -> Any:
    try:
        return import_module("ray")
    except ImportError:
        raise MissingExtraError("Scoring on many machines", package="ray", extra="ray") from None
