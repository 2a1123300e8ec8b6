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
    """A lock on a file beside the run, held by the one process that writes the run.

    The file names that process. The system releases the lock when the process ends, even if it is
    killed.
    """

    def __init__(self, path: Path) -> None:
        """Lock the run in the file `path`.

        Raise `RunInUseError`, which names the process that holds the lock, or another `RunError` if
        the lock file cannot be made.
        """
        self._path = _find_lock_file(path)
        self._descriptor: int | None = None  # of the open lock file while the lock is held
        try:
            while self._descriptor is None:  # again if the lock file was deleted in between
                self._descriptor = self._try_lock(path)
        except OSError as error:
            raise RunError(
                f"{self._path} cannot be locked ({error.strerror}): make the folder writable, or "
                "name a folder on another file system"
            ) from None
        _held_locks.add(self)

    def _try_lock(self, path: Path) -> int | None:
        """Open and lock the lock file, write into it who holds it, and return its descriptor.

        Return None if the last holder deleted the file between opening and locking: then other
        processes do not see this lock. Raise `RunInUseError` if another process holds it.
        """
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
            if not self._still_exists(descriptor):
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

    def _still_exists(self, descriptor: int) -> bool:
        """Return whether the open file is still the one at the path of the lock file."""
        try:
            return os.path.samestat(self._path.stat(), os.fstat(descriptor))
        except FileNotFoundError:
            return False

    def _describe_holder(self) -> str:
        """Return which process holds the lock, for a message."""
        holder = _read_holder(self._path)
        if "pid" not in holder:
            return "another process"
        if holder.get("host") == socket.gethostname():
            return f"process {holder['pid']}"
        return f"process {holder['pid']} on {holder.get('host')}"

    def release(self) -> None:
        """Release the lock, and delete its file."""
        if self._descriptor is not None:
            self._path.unlink(missing_ok=True)
            with suppress(OSError):
                # A child that was forked a moment ago may still share the open file. Closing it here
                # would not unlock it then.
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            self.forget()

    def forget(self) -> None:
        """Close the lock file, but leave the lock to the parent process.

        A forked child calls this, since it inherits the open file.
        """
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    @staticmethod
    def is_held(path: Path) -> bool:
        """Return whether a process of this machine is writing the run in the file `path`.

        This only looks at the lock file: to try the lock would make a writer fail that starts now.
        """
        holder = _read_holder(_find_lock_file(path))
        pid = holder.get("pid")
        if not isinstance(pid, int) or holder.get("host") != socket.gethostname():
            return False
        try:
            os.kill(pid, 0)  # sends no signal, but fails if there is no such process
        except ProcessLookupError:
            return False
        except OSError:  # the process belongs to another user
            return True
        return True


_held_locks: "weakref.WeakSet[WriterLock]" = weakref.WeakSet()


def _forget_locks_of_parent() -> None:
    for lock in list(_held_locks):
        lock.forget()


os.register_at_fork(after_in_child=_forget_locks_of_parent)


def _find_lock_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


def _read_holder(path: Path) -> dict[str, Any]:
    """Return the `pid` and the `host` of the process that a lock file names; empty if none."""
    try:
        holder: object = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return cast("dict[str, Any]", holder) if isinstance(holder, dict) else {}
