"""`verifiers.envs.multiturn_env`."""

from assay import envs
from assay.compat.verifiers.envs.environment import Environment


class MultiTurnEnv(Environment, envs.MultiTurnEnv):
    """Ours, under their name and with their keywords."""
