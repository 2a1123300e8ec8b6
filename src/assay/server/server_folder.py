"""The folder that the supervisor shares with its workers: the rubric, the workers' state and the counts."""

from pathlib import Path

import msgspec

from assay.envs.environment_loader import is_environment
from assay.loading.rubric_reader import is_reference
from assay.server.metrics import ServerStatus


class PublishedRubric(msgspec.Struct, frozen=True):
    """The rubric that is served, with the text of its file."""

    name: str  # the path of a file, `module:object`, or an environment
    text: bytes = b""  # of the file
    allow_code: bool = False  # whether the file may name Python functions
    reloads: int = 0
    failures: int = 0  # changes of the file that could not be taken over
    error: str = ""  # why the present content of the file is not served; empty if it is

    @classmethod
    def read(cls, name: str, *, allow_code: bool = False) -> "PublishedRubric":
        """Return the rubric of that name as it is now; raise FileNotFoundError if there is none."""
        if (is_reference(name) and not Path(name).exists()) or is_environment(name):
            return cls(name)
        if not Path(name).is_file():
            raise FileNotFoundError(f"File not found: {name}")
        # Links are not resolved: if a link is exchanged, as Kubernetes does, its new target counts.
        path = Path(name).absolute()
        return cls(str(path), path.read_bytes(), allow_code)

    @property
    def file(self) -> Path | None:
        """The file that can change; None if Python code makes the rubric."""
        if is_reference(self.name) or is_environment(self.name):
            return None
        return Path(self.name)


class WorkerCounts(msgspec.Struct, frozen=True):
    """The worker processes of a server, as its supervisor sees them."""

    workers: int  # that should be running
    ready: int = 0
    restarts: int = 0


class ServerFolder:
    """A folder in which the supervisor publishes the rubric and the state of the workers.

    prometheus_client keeps the counts of every worker there, too.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._rubric_file = path / "rubric.json"
        self._workers_file = path / "workers.json"

    def publish_rubric(self, rubric: PublishedRubric) -> None:
        _replace_file(self._rubric_file, msgspec.json.encode(rubric))

    def read_rubric(self) -> PublishedRubric:
        return msgspec.json.decode(self._rubric_file.read_bytes(), type=PublishedRubric)

    def publish_workers(self, counts: WorkerCounts) -> None:
        _replace_file(self._workers_file, msgspec.json.encode(counts))

    def read_status(self) -> ServerStatus:
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
    """Write a file so that no reader sees only half of it."""
    new = path.with_suffix(".new")
    new.write_bytes(content)
    new.replace(path)
