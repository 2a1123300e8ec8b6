from assay.backends.driver import Backend as Backend
from assay.backends.driver import score_shards as score_shards
from assay.backends.processes import Processes as Processes
from assay.backends.ray_tasks import RayTasks as RayTasks
from assay.backends.ray_tasks import RubricStage as RubricStage
from assay.backends.shards import Shard as Shard
from assay.backends.shards import shards_of as shards_of
from assay.backends.worker import given as given
