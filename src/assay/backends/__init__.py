"""One run by many workers: shards in, the rows that one process would write out, each once.

shards      Shard, shards_of: an input cut into pieces that never change
job         Job: what a worker has to know
work        score_shard: the one function that every engine runs
engine      Engine: whoever has shards scored; processes, on this machine; rays, as tasks of Ray
permits     one gate for the judge calls of all workers
manifest    which shards are done
driver      score_shards: the run
ray_stage   RubricStage: a rubric in a pipeline of Ray Data

The names load when first used.
"""

from typing import TYPE_CHECKING

from assay.lazy import lazily

if TYPE_CHECKING:
    from assay.backends.driver import ShardProgress as ShardProgress
    from assay.backends.driver import score_shards as score_shards
    from assay.backends.engine import Engine as Engine
    from assay.backends.job import given as given
    from assay.backends.processes import Processes as Processes
    from assay.backends.ray_stage import RubricStage as RubricStage
    from assay.backends.rays import RayTasks as RayTasks
    from assay.backends.shards import Shard as Shard
    from assay.backends.shards import shards_of as shards_of

_HOMES = {
    "driver": ("ShardProgress", "score_shards"),
    "engine": ("Engine",),
    "job": ("given",),
    "processes": ("Processes",),
    "ray_stage": ("RubricStage",),
    "rays": ("RayTasks",),
    "shards": ("Shard", "shards_of"),
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Engine",
    "Processes",
    "RayTasks",
    "RubricStage",
    "Shard",
    "ShardProgress",
    "given",
    "score_shards",
    "shards_of",
]

__getattr__ = lazily(__name__, _MODULE_OF)


def __dir__() -> list[str]:
    return __all__
