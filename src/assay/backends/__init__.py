"""One run by many workers: shards in, the rows that one process would write out, each once.

driver      score_shards: the run
plan        Plan: what is decided first; shards, pieces of the input; cutting, how they are made
job         Job: what a worker has to know; work, score_shard: the one function that every engine runs
engine      Engine: whoever has shards scored; processes, on this machine; rays, as tasks of Ray
manifest    Manifest: which shards are done; sharded, a run's folder meanwhile; joining, parts into a run
permits     PermitServer: one gate and one purse for all workers; client and shared, a worker's side
watch       ShardWatch: how far it is
ray_stage   RubricStage: a rubric in a pipeline of Ray Data

The names load when first used.
"""

from typing import TYPE_CHECKING

from assay.lazy import lazily

if TYPE_CHECKING:
    from assay.backends.cutting import shards_of as shards_of
    from assay.backends.driver import score_shards as score_shards
    from assay.backends.engine import Engine as Engine
    from assay.backends.job import given as given
    from assay.backends.permits import PermitServer as PermitServer
    from assay.backends.processes import Processes as Processes
    from assay.backends.ray_stage import RubricStage as RubricStage
    from assay.backends.rays import RayTasks as RayTasks
    from assay.backends.shards import Shard as Shard

_HOMES = {
    "cutting": ("shards_of",),
    "driver": ("score_shards",),
    "engine": ("Engine",),
    "job": ("given",),
    "permits": ("PermitServer",),
    "processes": ("Processes",),
    "ray_stage": ("RubricStage",),
    "rays": ("RayTasks",),
    "shards": ("Shard",),
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Engine",
    "PermitServer",
    "Processes",
    "RayTasks",
    "RubricStage",
    "Shard",
    "given",
    "score_shards",
    "shards_of",
]

__getattr__ = lazily(__name__, _MODULE_OF)


def __dir__() -> list[str]:
    return __all__
