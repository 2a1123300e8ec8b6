"""RayTasks: shards as tasks of a Ray cluster.

Only `init`, `remote`, `wait`, `get` and `cancel` are used, so any Ray from 2.41 on will do: the trainers
that bring one along pin it each to another version. Ray listens on all interfaces of a machine, and whoever
reaches it can run code there; see docs/scale.md.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from assay.backends.engine import ATTEMPTS, Broken, Stopping
from assay.backends.job import Job
from assay.backends.shards import Shard
from assay.backends.work import Scored, score_shard
from assay.errors import MissingExtraError
from assay.wording import described

PATIENCE = 0.2


@dataclass
class RayTasks:
    """Tasks on the cluster that `address` names, or on the one this process is connected to.

    Without either a Ray is started on this machine, and stopped at the end.
    """

    address: str | None = None
    at_once: int | None = None
    """Tasks under way; twice as many as the cluster has processors unless said otherwise."""
    cpus: float = 1.0
    """Processors that Ray sets aside for a task."""
    name: str = "ray"

    def run(
        self, job: Job, shards: Sequence[Shard], stopping: Stopping
    ) -> Iterator[Scored | Broken]:
        ray = _ray()
        ours = not ray.is_initialized()
        if ours:
            ray.init(address=self.address, log_to_driver=False, include_dashboard=False)
        try:
            yield from self._run(ray, job, shards, stopping)
        finally:
            if ours:
                ray.shutdown()

    def _run(
        self, ray: Any, job: Job, shards: Sequence[Shard], stopping: Stopping
    ) -> Iterator[Scored | Broken]:
        # A dead worker or node is tried again by Ray; what the work itself raises is not.
        task = ray.remote(num_cpus=self.cpus, max_retries=ATTEMPTS - 1)(score_shard)
        told = ray.put(job)
        most = self.at_once or max(2, int(2 * ray.cluster_resources().get("CPU", 1)))
        waiting, running = deque(shards), dict[Any, Shard]()
        try:
            while waiting or running:
                if stopping():
                    waiting.clear()
                while waiting and len(running) < most:
                    shard = waiting.popleft()
                    running[task.remote(told, shard)] = shard
                for ready in ray.wait(list(running), timeout=PATIENCE)[0]:
                    yield _result(ray, ready, running.pop(ready))
        finally:
            for reference in running:
                ray.cancel(reference, force=True)


def _result(ray: Any, ready: Any, shard: Shard) -> Scored | Broken:
    try:
        return ray.get(ready)
    except ray.exceptions.RayTaskError as error:
        return Broken(shard.number, described(error.cause))
    except ray.exceptions.RayError as error:
        return Broken(shard.number, described(error))


def _ray() -> Any:
    try:
        return import_module("ray")
    except ImportError:
        raise MissingExtraError("Scoring on many machines", package="ray", extra="ray") from None
