"""Load the rubric that is served, and load it again when its file changes."""

import errno
import io
import os
import signal
import threading
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
from prometheus_client import multiprocess

from assay import cache, models
from assay.envs.environment_loader import is_environment, load_environment
from assay.graders import Grader
from assay.loading.document import read_file
from assay.loading.rubric_reader import is_reference
from assay.plan import Traits
from assay.redaction import get_logger, redact
from assay.rubric import Rubric, rubric_at, rubric_in_python
from assay.runs.folder import is_running
from assay.server.metrics import ServerStatus
from assay.server.settings import Judge
from assay.wording import describe_error

logger = get_logger("assay.server")


class Published(msgspec.Struct, frozen=True):
    """The rubric that is served, with the text of its file; the supervisor lets its workers know by this."""

    where: str  # a file, `module:object`, or an environment
    text: bytes = b""
    allow_code: bool = False
    reloads: int = 0
    failures: int = 0
    error: str = ""  # why the file as it is now is not what is served

    @classmethod
    def at(cls, where: str, *, allow_code: bool = False) -> "Published":
        """The rubric of that name, read now."""
        if (is_reference(where) and not Path(where).exists()) or is_environment(where):
            return cls(where)
        if not Path(where).is_file():
            raise FileNotFoundError(f"File not found: {where}")
        # Not resolved: where a link is exchanged, as Kubernetes does, its new target counts.
        path = Path(where).absolute()
        return cls(str(path), path.read_bytes(), allow_code)

    @property
    def file(self) -> Path | None:
        """The file that can change; None where Python code makes the rubric."""
        return None if is_reference(self.where) or is_environment(self.where) else Path(self.where)


class RubricLoader:
    """Loads rubrics. The judge is made once, when a rubric first asks for one."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._cache: Any = None

    def rubric(self, source: Published) -> Rubric:
        """The rubric, ready to score; raises when anything about it is wrong."""
        if source.file is None:
            at = source.where
            rubric = (
                rubric_in_python(at)
                if is_reference(at)
                else load_environment(at).scoring or Rubric()
            )
        else:
            file: Any = io.BytesIO(source.text)
            file.name = source.where  # for what is said about it
            rubric = rubric_at(read_file(file), allow_code=source.allow_code)
        rubric.show(self._judge.shows or None, thinking=self._judge.thinking)
        if self._judge.parser is not None:
            rubric.use_parser(self._judge.parser)
        if rubric.autograder is None and Traits.of(rubric).asks:
            rubric.autograder = self._grader
        return rubric

    @cached_property
    def _grader(self) -> Grader:
        judge = self._judge
        if judge.cache is not None:
            self._cache = cache.VerdictCache(judge.cache)
        named = judge.model if judge.model is not None else models.default_model()
        return judge.grader_around(models.model_of(named, cache=self._cache))

    def close(self) -> None:
        if self._cache is not None:
            self._cache.close()


class ServerFolder:
    """The folder by which the supervisor and the workers of one server know of each other: the supervisor publishes the
    rubric there, each worker leaves a mark with its process id, and prometheus_client keeps the counts of each."""

    def __init__(self, path: Path, workers: int) -> None:
        self.path, self._workers, self._file = path, workers, path / "published.json"

    def publish(self, published: Published) -> None:
        """Let all workers know, at once: a file is replaced, so that no worker reads half of one."""
        new = self._file.with_suffix(".new")
        new.write_bytes(msgspec.json.encode(published))
        new.replace(self._file)

    def published(self) -> Published:
        return msgspec.json.decode(self._file.read_bytes(), type=Published)

    def mark_worker(self) -> bool:
        """Note that this process takes requests, and say whether it does so in the place of another."""
        earlier = self._marks()
        for pid in earlier:
            if not is_running(pid):  # its gauges no longer count
                multiprocess.mark_process_dead(pid, str(self.path))  # pyright: ignore[reportUnknownMemberType]
        (self.path / f"worker-{os.getpid()}").touch()
        return len(earlier) >= self._workers

    def status(self) -> ServerStatus:
        marks, workers, published = self._marks(), self._workers, self.published()
        ready, restarts = min(workers, sum(map(is_running, marks))), max(0, len(marks) - workers)
        return ServerStatus(
            workers, ready, restarts, published.reloads, published.failures, published.error
        )

    def _marks(self) -> list[int]:
        return [int(mark.name.partition("-")[2]) for mark in self.path.glob("worker-*")]


def follow_file(folder: ServerFolder, loader: RubricLoader, stop: threading.Event) -> None:
    """Publish the rubric file of a server whenever it changes; what is wrong with it where it makes no rubric."""
    from watchfiles import watch

    published = folder.published()
    file, seen = published.file, published.text
    if file is None:
        return
    is_pending = True  # it may have changed before it was watched
    # The folder is watched, since most editors replace the file. A timeout is a look at what is pending.
    for changes in watch(
        file.parent,
        watch_filter=None,
        recursive=False,
        step=50,
        debounce=400,
        rust_timeout=500,
        yield_on_timeout=True,
        stop_event=stop,
        raise_interrupt=False,
    ):
        is_pending = is_pending or bool(changes)
        if not is_pending or _is_being_written(file):
            continue
        try:
            text = file.read_bytes()
        except OSError:
            continue  # between two names, as many editors save
        is_pending = False
        if text != seen:
            seen = text
            published = _taken_over(published, text, loader)
            folder.publish(published)


def _taken_over(published: Published, text: bytes, loader: RubricLoader) -> Published:
    """What to publish when the file holds another text."""
    changed = msgspec.structs.replace(published, text=text, reloads=published.reloads + 1, error="")
    try:
        loader.rubric(changed)
    except Exception as error:  # noqa: BLE001 - a rubric file may run anything
        said = redact(str(error)) or describe_error(error)
        logger.error("the rubric file changed and cannot be used: %s", said)
        return msgspec.structs.replace(published, failures=published.failures + 1, error=said)
    if text == published.text:  # a mistake was taken back
        return msgspec.structs.replace(published, error="")
    logger.warning("the rubric file changed: the new rubric is served")
    return changed


def _is_being_written(path: Path) -> bool:
    """Whether a process has the file open for writing, where the system can tell: a lease is refused."""
    system: Any = import_module("fcntl")
    if not hasattr(system, "F_SETLEASE"):  # Linux alone has it
        return False
    try:
        with path.open("rb") as file:
            # A process that opens it meanwhile has us told by this signal, and it must not be a deadly one.
            system.fcntl(file, system.F_SETSIG, signal.SIGURG)
            system.fcntl(file, system.F_SETLEASE, system.F_RDLCK)
            system.fcntl(file, system.F_SETLEASE, system.F_UNLCK)
    except OSError as error:
        return error.errno == errno.EAGAIN
    return False
