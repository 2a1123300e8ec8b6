"""WriterLock is held by the one process that writes a run."""

import fcntl
import json
import os
import socket
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from assay.runs.run_errors import RunError, RunInUseError


class WriterLock:
    """Held by the process that writes a run. The system releases it when that process ends."""

    def __init__(self, path: Path) -> None:
        """Lock the run with this file. Raise `RunError`, which names the process that has it."""
        self._path = _lock_path(path)
        self._descriptor: int | None = None
        try:
            while self._descriptor is None:
                self._descriptor = self._try_lock(path)
        except OSError as error:
            raise RunError(
                f"{self._path} cannot be locked ({error.strerror}): make the folder writable, or "
                "name a folder on another file system"
            ) from None
        _held_locks.add(self)

    def _try_lock(self, path: Path) -> int | None:
        """Return the open and locked file; None if its last holder deleted it meanwhile."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, 0o644)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RunInUseError(
                    f"{path.parent} is being written by {self._describe_holder()}: wait until it "
                    "ends, or name another folder"
                ) from None
            if not self._is_file_of(descriptor):
                os.close(descriptor)
                return None
            holder = {"pid": os.getpid(), "host": socket.gethostname()}
            os.ftruncate(descriptor, 0)
            os.write(descriptor, json.dumps(holder).encode())
        except BaseException:
            with suppress(OSError):
                os.close(descriptor)
            raise
        return descriptor

    def _is_file_of(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(self._path.stat(), os.fstat(descriptor))
        except FileNotFoundError:
            return False

    def _describe_holder(self) -> str:
        holder = _read_holder(self._path)
        if "pid" not in holder:
            return "another process"
        if holder.get("host") == socket.gethostname():
            return f"process {holder['pid']}"
        return f"process {holder['pid']} on {holder.get('host')}"

    def release(self) -> None:
        if self._descriptor is not None:
            self._path.unlink(missing_ok=True)
            with suppress(OSError):
                # Unlocks it also for a child that was forked a moment ago.
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            self.forget()

    def forget(self) -> None:
        """Close the file without releasing the lock: in a forked child it is the parent's."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    @staticmethod
    def is_held(path: Path) -> bool:
        """Return whether a process of this machine holds the lock, without trying to take it."""
        holder = _read_holder(_lock_path(path))
        pid = holder.get("pid")
        if not isinstance(pid, int) or holder.get("host") != socket.gethostname():
            return False
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except OSError:
            return True  # it runs, as another user
        return True


_held_locks: "weakref.WeakSet[WriterLock]" = weakref.WeakSet()


def _forget_locks_of_parent() -> None:
    for lock in list(_held_locks):
        lock.forget()


os.register_at_fork(after_in_child=_forget_locks_of_parent)


def _lock_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


def _read_holder(path: Path) -> dict[str, Any]:
    """Return the process that a lock file names; nothing if it names none."""
    try:
        holder: object = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return cast("dict[str, Any]", holder) if isinstance(holder, dict) else {}
