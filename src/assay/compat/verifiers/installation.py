"""install makes this package what `import verifiers` finds, so that environments written for that run as they are."""

import os
import sys
from typing import Any

from assay import envs

OURS = "assay.compat.verifiers"
THEIRS = "verifiers"
VARIABLE = "ASSAY_AS_VERIFIERS"


def install() -> None:
    """Let `import verifiers as vf` find `assay.compat.verifiers` in this process. Call it before the first such import.

    Raises an `ImportError` when verifiers itself is imported already: its classes and ours must not meet.
    """
    there = sys.modules.get(THEIRS)
    if there is not None and there is not sys.modules[OURS]:
        raise ImportError("verifiers itself is imported already: call install() before anything that imports it")
    for name, module in [*sys.modules.items()]:
        if name == OURS or name.startswith(f"{OURS}."):
            sys.modules[name.replace(OURS, THEIRS, 1)] = module


def install_if_asked() -> None:
    """`install`, where the variable `ASSAY_AS_VERIFIERS` is set to anything but 0."""
    if os.environ.get(VARIABLE, "0") not in ("", "0"):
        install()


def load_environment(env_id: str, **env_args: Any) -> Any:
    """As ours. What `load_environment` of the package raises is raised as it is."""
    environment: Any = envs.load_environment(env_id, **env_args)
    environment.env_id = environment.env_id or env_id
    environment.env_args = getattr(environment, "env_args", None) or env_args
    return environment
