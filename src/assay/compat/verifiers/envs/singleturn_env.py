"""`verifiers.envs.singleturn_env`."""

from assay import envs
from assay.compat.verifiers.envs.multiturn_env import MultiTurnEnv


class SingleTurnEnv(MultiTurnEnv, envs.SingleTurnEnv):
    """Ours, under their name and with their keywords."""
