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

from assay.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
