"""Lock: one process writes a run at a time."""

import errno
import json
import os
import socket
import weakref
from pathlib import Path
from typing import Any, cast

from assay.runs.errors import RunError

try:
    import fcntl
except ImportError:  # Windows has none
    fcntl = None

_UNSUPPORTED = frozenset(
    {errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.ENOSYS, errno.EINVAL}
)


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
    return RunError(
        f"{folder} is being written by {who}{where}: wait until it ends{gone}, or name another folder"
    )


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
