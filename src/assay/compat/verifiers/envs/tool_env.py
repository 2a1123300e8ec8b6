"""`verifiers.envs.tool_env`."""

from collections.abc import Callable
from typing import Any

from assay import envs
from assay.compat.verifiers.envs.multiturn_env import MultiTurnEnv


class ToolEnv(MultiTurnEnv, envs.ToolEnv):
    """Ours, under their name and with their keywords."""

    error_formatter: Callable[[Exception], str] | None = None

    def said_of(self, error: Exception) -> str:
        """What a model is told when a tool raises: in the words of `error_formatter` if there is one."""
        given: Any = self.error_formatter
        return super().said_of(error) if given is None else given(error)
