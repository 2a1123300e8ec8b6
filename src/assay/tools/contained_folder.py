"""Open files below a folder by descriptor, so that no link leads out of it.

A path that is checked first and opened later may be another file by then: a folder on the way may
have been swapped for a link. So every part of a path is opened in the folder before it, without
following links. A link is read, and followed in the same way.
"""

import os
import stat
from collections import deque
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from assay.wording import format_value

_MAX_LINKS: Final = 40  # as in Linux
_MAX_DEPTH: Final = 200  # folders in one path; all are kept open until the last one is opened
# Without O_NONBLOCK, opening a pipe without a writer would block forever.
_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class OpenEntry(NamedTuple):
    """A file or folder that is open for reading. The caller that opens it closes its descriptor."""

    descriptor: int
    name: str  # its path in the folder, without links

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(os.fstat(self.descriptor).st_mode)

    @property
    def is_regular_file(self) -> bool:
        return stat.S_ISREG(os.fstat(self.descriptor).st_mode)

    def read_and_close(self, limit: int) -> tuple[bytes, int] | None:
        """Return up to `limit` bytes of a regular file, and its size; None for anything else."""
        if not self.is_regular_file:
            os.close(self.descriptor)
            return None
        with os.fdopen(self.descriptor, "rb") as file:
            return file.read(limit), os.fstat(self.descriptor).st_size


class OutsideError(ValueError):
    """A path leads out of the folder."""


class ContainedFolder:
    """An open folder, and the files below it.

    >>> with ContainedFolder(Path("/")) as folder:
    ...     entry = folder.open(".")
    ...     print(entry.is_folder)
    ...     os.close(entry.descriptor)
    True
    """

    def __init__(self, path: Path, fixed_parts: int | None = None) -> None:
        """Open the folder at a path, whose first `fixed_parts` parts may be links; the rest may not.

        By default, only the last part may not be one. Raises `OSError` if there is no such folder.
        """
        parts = path.absolute().parts
        if fixed_parts is None:
            fixed_parts = len(parts) - 1
        fixed_path = Path(*parts[: max(1, fixed_parts)]).resolve(strict=True)
        self.path = fixed_path.joinpath(*parts[max(1, fixed_parts) :])
        descriptor = os.open(fixed_path, _FLAGS | os.O_DIRECTORY)
        for name in parts[max(1, fixed_parts) :]:
            parent = descriptor
            try:
                descriptor = os.open(name, _FLAGS | os.O_DIRECTORY, dir_fd=parent)
            finally:
                os.close(parent)
        self._descriptor = descriptor

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        os.close(self._descriptor)

    def open(self, path: str, *, follows_links: bool = True) -> OpenEntry:
        """Open a file or folder by its path, which may be absolute.

        Raises `OutsideError` if it is outside the folder, and `OSError` or `ValueError` if it cannot
        be opened.
        """
        names = self._split(path)
        descriptors = [os.dup(self._descriptor)]  # of the parent folders
        path_names: list[str] = []  # of the same folders, without this one
        link_count = 0
        try:
            while names:
                name = names.popleft()
                if name == "..":
                    if not path_names:
                        raise OutsideError(f"{format_value(path)} is outside of the folder")
                    path_names.pop()
                    os.close(descriptors.pop())
                    continue
                if len(descriptors) > _MAX_DEPTH:
                    raise ValueError(f"{format_value(path)} is nested too deep")
                link = _read_link(name, descriptors[-1]) if follows_links else None
                if link is None:
                    descriptors.append(os.open(name, _FLAGS, dir_fd=descriptors[-1]))
                    path_names.append(name)
                    continue
                link_count += 1
                if link_count > _MAX_LINKS:
                    raise ValueError(f"{format_value(path)} has too many links")
                if link.startswith("/"):
                    for descriptor in descriptors[1:]:
                        os.close(descriptor)
                    del descriptors[1:]
                    path_names.clear()
                names.extendleft(reversed(self._split(link)))
            return OpenEntry(descriptors.pop(), "/".join(path_names) or ".")
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _split(self, path: str) -> deque[str]:
        """Return the parts of a path below this folder, without empty parts and dots."""
        if path.startswith("/"):
            # Lexically, because the meaning of `..` depends on links.
            parts = [part for part in path.split("/") if part not in ("", ".")]
            own_parts = list(self.path.parts[1:])
            if parts[: len(own_parts)] != own_parts:
                raise OutsideError(f"{format_value(path)} is outside of the folder")
            return deque(parts[len(own_parts) :])
        return deque(part for part in path.split("/") if part not in ("", "."))


def _read_link(name: str, folder: int) -> str | None:
    """Return the target of a link; None for anything else, which is opened without following links."""
    with suppress(OSError):
        return os.readlink(name, dir_fd=folder)
    return None
