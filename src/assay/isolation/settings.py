"""Settings: what a new process must know before it can work, and the command that starts it."""

import json
import sys
from dataclasses import asdict, dataclass
from typing import Any

from assay.isolation.clock import ClockKind


@dataclass(frozen=True, slots=True)
class Settings:
    """What the template and every worker are told."""

    preload: tuple[str, ...] = ()
    """Modules to import before any work."""
    memory: int | None = None
    """Bytes that a worker may take beyond what it has once its function is loaded."""
    clock: ClockKind = "wall"

    @classmethod
    def given(cls) -> "tuple[int, Settings]":
        """What this process was started with: a file descriptor, and the settings."""
        said: dict[str, Any] = json.loads(sys.argv[2])
        settings = cls(tuple(said["preload"]), said["memory"], said["clock"])
        return int(sys.argv[1]), settings

    def command(self, module: str, fd: int) -> list[str]:
        """How to start a fresh interpreter that runs `main` of a module, with our import path."""
        # Not `-m`: the interpreter might find this package only by the path we have now.
        code = (
            "import json, sys; sys.path[:] = json.loads(sys.argv[2])['path']; "
            f"from {module} import main; main()"
        )
        path = [entry for entry in sys.path if isinstance(entry, str)]  # pyright: ignore[reportUnnecessaryIsInstance]
        said = json.dumps({**asdict(self), "path": path})
        return [sys.executable, *_interpreter_flags(), "-c", code, str(fd), said]


def _interpreter_flags() -> list[str]:
    import subprocess

    flags: Any = getattr(subprocess, "_args_from_interpreter_flags", list)
    return flags()
