"""The folder through which the supervisor passes the rubric and the state of the server to its workers."""

from pathlib import Path

import msgspec

from assay.envs.environment_loader import is_environment
from assay.loading.rubric_reader import is_reference
from assay.server.metrics import ServerStatus


class PublishedRubric(msgspec.Struct, frozen=True):
    """The rubric that is served, and how often its file has changed."""

    name: str  # the path of a file, `module:object`, or an environment
    text: bytes = b""  # the content of the file; empty if Python code makes the rubric
    allow_code: bool = False  # whether the file may name Python functions
    reloads: int = 0  # how often the changed file was loaded
    failures: int = 0  # how often the changed file could not be loaded
    error: str = ""  # why the present content of the file is not served; empty if it is

    @classmethod
    def read(cls, name: str, *, allow_code: bool = False) -> "PublishedRubric":
        """Return the rubric of this name, with the present content of its file.

        Raise FileNotFoundError if the name is that of a file which does not exist.
        """
        if (is_reference(name) and not Path(name).exists()) or is_environment(name):
            return cls(name)
        if not Path(name).is_file():
            raise FileNotFoundError(f"File not found: {name}")
        # Symbolic links are not resolved: Kubernetes updates a file by giving its link a new target.
        path = Path(name).absolute()
        return cls(str(path), path.read_bytes(), allow_code)

    @property
    def file(self) -> Path | None:
        """The file that can change; None if Python code makes the rubric."""
        if is_reference(self.name) or is_environment(self.name):
            return None
        return Path(self.name)


class WorkerCounts(msgspec.Struct, frozen=True):
    """How many workers a server has; their supervisor publishes it."""

    workers: int  # how many should be running
    ready: int = 0  # how many answer requests
    restarts: int = 0  # how many have ended by themselves and were replaced


class ServerFolder:
    """A folder in which the supervisor publishes the rubric and the state of the workers.

    Every worker reads it. prometheus_client keeps the counts of the workers there, too.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._rubric_file = path / "rubric.json"
        self._workers_file = path / "workers.json"

    def publish_rubric(self, rubric: PublishedRubric) -> None:
        """Let the workers serve this rubric from now on."""
        _replace_file(self._rubric_file, msgspec.json.encode(rubric))

    def read_rubric(self) -> PublishedRubric:
        """Return the rubric that was published last."""
        return msgspec.json.decode(self._rubric_file.read_bytes(), type=PublishedRubric)

    def publish_workers(self, counts: WorkerCounts) -> None:
        """Let every worker know the state of all workers, so that each can report it."""
        _replace_file(self._workers_file, msgspec.json.encode(counts))

    def read_status(self) -> ServerStatus:
        """Return the state of all workers and of the rubric file."""
        counts = msgspec.json.decode(self._workers_file.read_bytes(), type=WorkerCounts)
        rubric = self.read_rubric()
        return ServerStatus(
            workers=counts.workers,
            workers_ready=counts.ready,
            restarts=counts.restarts,
            reloads=rubric.reloads,
            reload_failures=rubric.failures,
            reload_error=rubric.error,
        )


def _replace_file(path: Path, content: bytes) -> None:
    """Replace the content of a file at once, so that no process reads only half of it."""
    new_file = path.with_suffix(".new")
    new_file.write_bytes(content)
    new_file.replace(path)
