"""Folder names the files of a run, writes them whole, reads their lines, and locks them for one process."""

import errno
import json
import os
import socket
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from assay.errors import AssayError
from assay.runs.metadata import FORMAT, RunAbout


class RunError(AssayError):
    """A run's folder cannot be read, written or gone on with; the message says what to do."""


class RunRefused(RunError, ValueError):  # noqa: N818 - named as `Refused` is
    """What was given makes no run: a folder, rows or settings that do not fit it or each other."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder that holds a run, or will."""

    path: Path

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> "Folder":
        return cls(Path(path))

    @property
    def run_json(self) -> Path:
        """What was run."""
        return self.path / "run.json"

    @property
    def rollouts(self) -> Path:
        """A line a finished rollout."""
        return self.path / "rollouts.jsonl"

    @property
    def summary_json(self) -> Path:
        return self.path / "summary.json"

    @property
    def spending(self) -> Path:
        """What every sitting has spent."""
        return self.path / "spending.jsonl"

    @property
    def lock(self) -> Path:
        """Held by the process that writes; holds its id."""
        return self.path / "run.lock"

    @property
    def has_rows(self) -> bool:
        """Whether something was begun that must not be written over."""
        return self.rollouts.is_file() and self.rollouts.stat().st_size > 0

    def make(self) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise RunRefused(f"{self.path} is a file, and a run is a folder: name another") from None
        except OSError as error:
            raise RunRefused(f"{self.path} cannot be made ({error.strerror}): name another") from None

    def about(self) -> RunAbout:
        """What run.json says."""
        data = self._read(self.run_json)
        if data.get("format") != FORMAT:
            raise RunError(
                f"{self.run_json} has the format {data.get('format')!r}, and this version reads "
                f"{FORMAT!r}: use the version of assay that wrote it"
            )
        try:
            return RunAbout.from_dict(data)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise RunError(f"{self.run_json} cannot be read ({error}): restore it") from error

    def write_about(self, about: RunAbout) -> None:
        write_json(self.run_json, about.to_dict())

    def _read(self, path: Path) -> dict[str, Any]:
        try:
            data: object = json.loads(path.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            raise RunError(self._why_none()) from None
        except (OSError, ValueError) as error:
            raise RunError(f"{path} cannot be read ({error}): restore it") from None
        if not isinstance(data, dict):
            raise RunError(f"{path} is no JSON object: restore it")
        return cast("dict[str, Any]", data)

    def _why_none(self) -> str:
        if not self.path.exists():
            return f"there is no folder {self.path}: name the folder of a run"
        if not self.path.is_dir():
            return f"{self.path} is a file, and a run is a folder: name the folder"
        return f"{self.path} holds no run, for it has no run.json: name the folder of a run"


def write_json(path: Path, data: object) -> None:
    """Write a file whole or not at all: a reader sees the old one or the new one."""
    text = json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False)
    try:
        raw = text.encode()
    except UnicodeEncodeError:
        raw = json.dumps(data, indent=1, allow_nan=False).encode()
    new = path.with_name(f"{path.name}.new")
    try:
        with new.open("wb") as file:
            file.write(raw + b"\n")
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as error:
        raise RunError(f"{path} cannot be written ({error.strerror}): see to that, and go on") from None
    _sync_folder(path.parent)


def _sync_folder(path: Path) -> None:
    """Make a new name last through a power cut, where the system can."""
    try:
        place = os.open(path, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(place)
    except OSError:
        return
    finally:
        os.close(place)


try:
    import fcntl
except ImportError:  # Windows has none
    fcntl = None

_UNSUPPORTED = frozenset({errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.ENOSYS, errno.EINVAL})


class Lock:
    """Held while it is open. The system lets go of it when the process ends, however it ends.

    Where the file system has no such locks, the id in the file counts: a process that is gone holds
    nothing.
    """

    def __init__(self, path: Path) -> None:
        """Raises `RunError`, which names the process, when another one holds it."""
        self._path = path
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o644)
        except OSError as error:
            raise RunError(f"{path} cannot be opened ({error.strerror}): see to that") from None
        try:
            self._by_system = self._locked()
            if not self._by_system:
                self._refuse_living()
            self._write({"pid": os.getpid(), "host": socket.gethostname()})
        except OSError as error:
            os.close(self._file)
            raise RunError(f"{path} cannot be written ({error.strerror}): see to that") from None
        except BaseException:
            os.close(self._file)
            raise
        self._is_open = True
        _OPEN.add(self)

    def close(self) -> None:
        """Let go."""
        if self._is_open:
            self._is_open = False
            self._write(None)
            if fcntl is not None and self._by_system:
                # Also for a child that was forked this very moment.
                fcntl.flock(self._file, fcntl.LOCK_UN)
            os.close(self._file)

    def forget(self) -> None:
        """In a forked child: the lock is the parent's, and must not outlive it here."""
        if self._is_open:
            self._is_open = False
            os.close(self._file)

    def _locked(self) -> bool:
        """Whether the system locked it; False where it cannot."""
        if fcntl is None:
            return False
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _held(self._path.parent, self._holder()) from None
        except OSError as error:
            if error.errno in _UNSUPPORTED:
                return False
            raise RunError(f"{self._path} cannot be locked ({error.strerror})") from None
        return True

    def _refuse_living(self) -> None:
        holder = self._holder()
        pid, host = holder.get("pid"), holder.get("host")
        if pid is None or (pid == os.getpid() and host == socket.gethostname()):
            return
        if host != socket.gethostname() or _lives(pid):
            raise _held(self._path.parent, holder, file=self._path)

    def _holder(self) -> dict[str, Any]:
        try:
            os.lseek(self._file, 0, os.SEEK_SET)
            holder: object = json.loads(os.read(self._file, 1000) or b"{}")
        except (OSError, ValueError):
            return {}
        return cast("dict[str, Any]", holder) if isinstance(holder, dict) else {}

    def _write(self, holder: dict[str, Any] | None) -> None:
        os.ftruncate(self._file, 0)
        if holder is not None:
            os.lseek(self._file, 0, os.SEEK_SET)
            os.write(self._file, json.dumps(holder).encode())


def is_held(path: Path) -> bool:
    """Whether a process of this machine holds the lock, as far as the file tells. Takes nothing."""
    try:
        holder: object = json.loads(path.read_bytes() or b"{}")
    except (OSError, ValueError):
        return False
    pid = cast("dict[str, Any]", holder).get("pid") if isinstance(holder, dict) else None
    return isinstance(pid, int) and _lives(pid)


def _held(folder: Path, holder: dict[str, Any], file: Path | None = None) -> RunError:
    pid, host = holder.get("pid"), holder.get("host")
    who = "another process" if pid is None else f"process {pid}"
    where = f" on {host}" if host and host != socket.gethostname() else ""
    gone = f", or delete {file} if it is gone" if file is not None else ""
    return RunError(f"{folder} is being written by {who}{where}: wait until it ends{gone}, or name another folder")


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


_OPEN: "weakref.WeakSet[Lock]" = weakref.WeakSet()


def _forget_all() -> None:
    for lock in list(_OPEN):
        lock.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


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


def numbered_lines(path: Path, end: int, *, start: int = 0, number: int = 0) -> Iterator[tuple[str, int, bytes]]:
    """The lines up to a byte: `file:line` for errors, the byte where each begins, and itself.

    `start` is where to begin, after so many lines as `number` says.
    """
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
