"""Backends score one run with many workers, and write the rows that one process would write, each once.

driver       score_shards: hands out shards; Backend: what has them scored
shards       Shard: a piece of the input, and how files are cut into them
worker       score_shard: what every worker does with a shard
sharded_run  the folder of a run in shards, and how its parts become one run
processes    Processes: workers on this machine
ray_tasks    RayTasks: workers of a Ray cluster; RubricStage: a rubric in a pipeline of Ray Data

The names load when first used.
"""

from assay.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
