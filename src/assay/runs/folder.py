"""Folder names the files of a run, writes them whole, reads their lines, and locks them for one process."""

import errno
import fcntl
import json
import os
import socket
import weakref
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, cast

from assay.runs.run_store import RunError, RunRefused


class Folder:
    """A folder that holds a run, or will."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.run_json = self.path / "run.json"  # what was run
        self.rollouts = self.path / "rollouts.jsonl"  # A line a finished rollout
        self.summary_json = self.path / "summary.json"
        self.spending = self.path / "spending.jsonl"  # what every sitting has spent
        self.lock = self.path / "run.lock"  # held by the process that writes; holds its id

    @property
    def has_rows(self) -> bool:
        """Whether something was begun that must not be written over."""
        return self.rollouts.is_file() and self.rollouts.stat().st_size > 0

    def make(self) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            is_file = isinstance(error, FileExistsError | NotADirectoryError)
            why = (
                "is a file, and a run is a folder"
                if is_file
                else f"cannot be made ({error.strerror})"
            )
            raise RunRefused(f"{self.path} {why}: name another") from None

    def read_run(self) -> dict[str, Any]:
        """What run.json holds. Raises `RunError` when that is no run."""
        try:
            data: object = json.loads(self.run_json.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            why = f"{self.path} holds no run, for it has no run.json: name the folder of a run"
            if not self.path.exists():
                why = f"there is no folder {self.path}: name the folder of a run"
            elif not self.path.is_dir():
                why = f"{self.path} is a file, and a run is a folder: name the folder"
            raise RunError(why) from None
        except (OSError, ValueError) as error:
            raise RunError(f"{self.run_json} cannot be read ({error}): restore it") from None
        if not isinstance(data, dict):
            raise RunError(f"{self.run_json} is no JSON object: restore it")
        return cast("dict[str, Any]", data)


def refuse_to_resume(path: Path, differences: Sequence[str], *, resume: bool) -> None:
    """Raise `RunRefused` unless a run that is there is to be gone on with, and is the one that is meant."""
    if not resume:
        raise RunRefused(
            f"{path} holds a run already: go on with it by resuming, or name another folder"
        )
    if differences:
        told = f"{path} holds another run, which cannot be gone on with: {'; '.join(differences)}"
        raise RunRefused(f"{told}. Give what it was started with, or name another folder")


@contextmanager
def whole_file(path: Path, mode: str = "wb") -> Generator[IO[Any]]:
    """Write a file whole or not at all: a reader sees the old one or the new one."""
    new = path.with_name(f".{path.name}.new")
    try:
        with new.open(mode, encoding=None if "b" in mode else "utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def write_json(path: Path, data: object) -> None:
    """Write a file as `whole_file` does, in ASCII where UTF-8 cannot hold what the data holds."""
    text = json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False)
    try:
        raw = text.encode()
    except UnicodeEncodeError:
        raw = json.dumps(data, indent=1, allow_nan=False).encode()
    try:
        with whole_file(path) as file:
            file.write(raw + b"\n")
    except OSError as error:
        raise RunError(
            f"{path} cannot be written ({error.strerror}): see to that, and go on"
        ) from None
    # A new name lasts through a power cut only when its folder is on the disk, which not every system can do.
    with suppress(OSError):
        place = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(place)
        finally:
            os.close(place)


_UNSUPPORTED = frozenset(
    {errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.ENOSYS, errno.EINVAL}
)


class Lock:
    """Held while it is open. The system lets go of it when the process ends, however it ends.

    Where the file system has no such locks, the id in the file counts: a process that is gone holds nothing.
    """

    def __init__(self, path: Path) -> None:
        """Raises `RunError`, which names the process, when another one holds it."""
        self._path = path
        mine = {"pid": os.getpid(), "host": socket.gethostname()}
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise RunError(f"{path} cannot be opened ({error.strerror}): see to that") from None
        try:
            self._take(mine)
            self._write(json.dumps(mine))
        except BaseException as error:
            os.close(self._file)
            if isinstance(error, OSError):
                raise RunError(f"{path} cannot be locked ({error.strerror}): see to that") from None
            raise
        self._is_open = True
        _OPEN.add(self)

    def close(self) -> None:
        """Let go."""
        if self._is_open:
            self._write("")
            with suppress(OSError):  # also for a child that was forked this very moment
                fcntl.flock(self._file, fcntl.LOCK_UN)
            self.forget()

    def forget(self) -> None:
        """In a forked child: the lock is the parent's, and must not outlive it here."""
        if self._is_open:
            self._is_open = False
            os.close(self._file)

    def _take(self, mine: Mapping[str, Any]) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise self._held() from None
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            holder = _holder(self._path)
            is_here = holder.get("host") == mine["host"]
            if (
                holder.get("pid") is not None
                and holder != mine
                and (not is_here or is_held(self._path))
            ):
                raise self._held(or_else=f", or delete {self._path} if it is gone") from None

    def _held(self, or_else: str = "") -> RunError:
        holder = _holder(self._path)
        pid, host = holder.get("pid"), holder.get("host")
        who = "another process" if pid is None else f"process {pid}"
        where = f" on {host}" if host and host != socket.gethostname() else ""
        told = f"{self._path.parent} is being written by {who}{where}"
        return RunError(f"{told}: wait until it ends{or_else}, or name another folder")

    def _write(self, holder: str) -> None:
        os.ftruncate(self._file, 0)
        os.lseek(self._file, 0, os.SEEK_SET)
        os.write(self._file, holder.encode())


def _holder(path: Path) -> dict[str, Any]:
    """What a lock says of the process that holds it; nothing when none does."""
    try:
        holder: object = json.loads(path.read_bytes() or b"{}")
    except (OSError, ValueError):
        return {}
    return cast("dict[str, Any]", holder) if isinstance(holder, dict) else {}


def is_held(path: Path) -> bool:
    """Whether a process of this machine holds the lock, as far as the file tells. Takes nothing."""
    pid = _holder(path).get("pid")
    return isinstance(pid, int) and is_running(pid)


def is_running(pid: int) -> bool:
    """Whether this machine has a process with that id, which may be another user's."""
    try:
        os.kill(pid, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)
    return True


_OPEN: "weakref.WeakSet[Lock]" = weakref.WeakSet()

os.register_at_fork(after_in_child=lambda: [lock.forget() for lock in list(_OPEN)])


_BLOCK = 1 << 16


def whole_lines(path: Path) -> int:
    """The bytes of a file up to the end of its last whole line."""
    try:
        with path.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            while end > 0:
                start = max(0, end - _BLOCK)
                file.seek(start)
                found = file.read(end - start).rfind(b"\n")
                if found >= 0:
                    return start + found + 1
                end = start
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise RunError(f"{path} cannot be read ({error.strerror})") from None
    return 0


def numbered_lines(
    path: Path, end: int, *, start: int = 0, number: int = 0
) -> Iterator[tuple[str, int, bytes]]:
    """The lines between two bytes, from line `number` on: `file:line` for errors, where each begins, and itself."""
    if end <= start:
        return
    with path.open("rb") as file:
        file.seek(start)
        place = start
        for line in file:
            number += 1
            yield f"{path}:{number}", place, line
            place += len(line)
            if place >= end:
                return
