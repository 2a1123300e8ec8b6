"""`verifiers.envs`."""

from assay.compat.verifiers.envs.environment import Environment
from assay.compat.verifiers.envs.multiturn_env import MultiTurnEnv
from assay.compat.verifiers.envs.singleturn_env import SingleTurnEnv
from assay.compat.verifiers.envs.tool_env import ToolEnv

__all__ = ["Environment", "MultiTurnEnv", "SingleTurnEnv", "ToolEnv"]
