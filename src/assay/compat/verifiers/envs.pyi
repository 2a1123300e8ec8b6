from assay.compat.verifiers.environments import Environment as Environment
from assay.compat.verifiers.environments import MultiTurnEnv as MultiTurnEnv
from assay.compat.verifiers.environments import SingleTurnEnv as SingleTurnEnv
from assay.compat.verifiers.environments import ToolEnv as ToolEnv
