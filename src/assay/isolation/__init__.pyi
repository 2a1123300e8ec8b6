from assay.isolation import protocol as protocol
from assay.isolation.pool import Pool as Pool
from assay.isolation.pool import PoolStats as PoolStats
from assay.isolation.pool import shared_pool as shared_pool
from assay.isolation.process import Outcome as Outcome
from assay.isolation.work_budget import WorkBudget as WorkBudget
from assay.isolation.work_budget import current_work_budget as current_work_budget
