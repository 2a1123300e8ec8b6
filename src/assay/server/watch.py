"""Watch: a rubric file that is looked at again and again, and never taken over half-written."""

import errno
import signal
import sys
from pathlib import Path
from typing import Any, NamedTuple

if sys.platform == "linux":
    import fcntl
else:
    fcntl = None


class Stamp(NamedTuple):
    """What tells one state of a file from another."""

    modified: int
    size: int
    inode: int


class Watch:
    """A file, and what it was like when it was last taken over."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known = self._stamp()
        self._seen: Stamp | None = None

    def changed(self, *, at_once: bool = False) -> bytes | None:
        """The file's text when it is another and is left alone; None when not, or not yet.

        A change is taken up when two looks find the same, and nobody has the file open for writing;
        `at_once` trusts the first look.
        """
        stamp = self._stamp()
        if stamp is None or stamp == self._known:
            self._seen = None
            return None
        if stamp != self._seen and not at_once:
            self._seen = stamp
            return None
        if _is_being_written(self._path):
            return None
        return self._read(stamp)

    def _read(self, stamp: Stamp) -> bytes | None:
        try:
            text = self._path.read_bytes()
        except OSError:
            return None
        if self._stamp() != stamp or len(text) != stamp.size:
            return None
        self._known, self._seen = stamp, None
        return text

    def _stamp(self) -> Stamp | None:
        try:
            found = self._path.stat()
        except OSError:
            return None  # between two names, as many editors save
        return Stamp(found.st_mtime_ns, found.st_size, found.st_ino)


def _is_being_written(path: Path) -> bool:
    """Whether somebody has the file open for writing, where the system can tell: a lease is refused."""
    if fcntl is None:
        return False
    system: Any = fcntl
    try:
        with path.open("rb") as file:
            # Whoever opens it meanwhile has us told by this signal, and it must not be a deadly one.
            system.fcntl(file, system.F_SETSIG, signal.SIGURG)
            system.fcntl(file, system.F_SETLEASE, system.F_RDLCK)
            system.fcntl(file, system.F_SETLEASE, system.F_UNLCK)
    except OSError as error:
        return error.errno == errno.EAGAIN
    return False
