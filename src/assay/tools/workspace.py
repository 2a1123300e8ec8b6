"""Tools for the files below a folder: a model may list, read and search them, but nothing outside it."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from string import Formatter
from typing import Annotated, Any, Final

from pydantic import Field

from assay.tools import as_output
from assay.tools.contained_folder import ContainedFolder, OpenEntry, OutsideError
from assay.types import State
from assay.wording import format_count, format_value

LONGEST: Final = 20_000  # characters of one reply
MAX_LISTED, MAX_FOUND, MAX_VISITED = (
    500,
    100,
    20_000,
)  # maximum files and lines of one reply, and files visited for it
MAX_READ, MAX_SEARCHED = (
    4_000_000,
    64_000_000,
)  # maximum bytes read of one file, and in one search
NO_FIELDS = State()
_Path = Annotated[str, Field(description="A file or folder, relative to the workspace.")]


@dataclass(frozen=True)
class Workspace:
    """Read-only access to the files below a folder: its `tools` are `list_files`, `read_file`, `search_files` and `show_file`.

    Columns of a rollout may name the folder: `Workspace("results/{task_id}")`. Links that lead out of it, devices and
    pipes are refused, and the size of replies is limited.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> _ = Path(folder, "a.py").write_text("x = 1\\ny = 2")
    >>> Workspace(folder).list_files(), Workspace(folder).search_files("y =")
    ('a.py (11 bytes)', 'a.py:2: y = 2')
    """

    root: str | Path

    def __post_init__(self) -> None:
        if "{" not in str(self.root):
            with self.open_folder(NO_FIELDS):
                pass

    @property
    def tools(self) -> tuple[Any, ...]:
        return self.list_files, self.read_file, self.search_files, self.show_file

    def open_folder(self, fields: State) -> ContainedFolder:
        """Open the folder of a rollout; raises a ValueError if there is none.

        Links before the folder are followed. The folder itself, and the parts of its path that
        columns name, must not be links, because the agent could have created them.
        """
        columns = [name for _, name, _, _ in Formatter().parse(str(self.root)) if name is not None]
        values = {name: str(fields.get(name, "")) for name in columns}
        for name, value in values.items():
            # A name, not a path: a row must not choose a folder outside the intended ones.
            if value in (".", "..") or not re.fullmatch(r"[^/\\\0]+", value):
                raise ValueError(
                    f"the workspace is {self.root}, and {name} is {format_value(value)}: give a name there"
                )
        path = Path(str(self.root).format(**values) if values else self.root)
        fixed_parts = None
        if values:
            template_parts = Path(self.root).absolute().parts
            fixed_parts = [("{" in part) for part in template_parts].index(True)
        try:
            return ContainedFolder(path, fixed_parts)
        except (OSError, RuntimeError, ValueError):
            advice = "name one that is there, and no link"
            raise ValueError(f"the workspace {str(path)!r} is not a folder: {advice}") from None

    def list_files(self, path: _Path = ".", state: State = NO_FIELDS) -> str:
        """Lists the files below a folder of the workspace, with their sizes."""
        with self.open_folder(state) as folder:
            found = islice(_files(folder, path), MAX_LISTED + 1)
            lines = [f"{name} ({size:,} bytes)" for name, size in found]
        return _bounded(lines, MAX_LISTED) or "(there are no files)"

    def read_file(
        self,
        path: _Path,
        first_line: Annotated[int, Field(description="The first line to read.", ge=1)] = 1,
        last_line: Annotated[
            int | None, Field(description="The last line to read; leave it out for all.")
        ] = None,
        state: State = NO_FIELDS,
    ) -> str:
        """Reads lines of a text file, with their numbers; a long file in several calls."""
        with self.open_folder(state) as folder:
            held, size = _read(folder, path)
        if b"\0" in held:
            raise ValueError(
                f"{format_value(path)} is not text: it holds {size:,} bytes of another kind; see show_file"
            )
        lines = held.decode("utf-8", "replace").split("\n")
        chosen = lines[first_line - 1 : last_line]
        if not chosen:
            return (
                f"(none of these lines is there: the file has {format_count(len(lines), 'line')})"
            )
        text = "\n".join(
            f"{number}\t{line}" for number, line in enumerate(chosen, start=first_line)
        )
        if len(text) > LONGEST:
            place = first_line + text.count("\n", 0, LONGEST)
            text = f"{text[:LONGEST]}\n(cut off after {LONGEST:,} characters, in line {place}: read on there)"
        return (
            text
            if len(held) == size
            else f"{text}\n(of {size:,} bytes the first {MAX_READ:,} can be read)"
        )

    def search_files(
        self,
        text: Annotated[
            str, Field(description="Words to look for, as they stand in a line.", min_length=1)
        ],
        path: _Path = ".",
        state: State = NO_FIELDS,
    ) -> str:
        """Finds the lines that contain a text, ignoring case, in the files below a folder of the workspace."""
        with self.open_folder(state) as folder:
            found = _search(folder, path, text.casefold())
        return _bounded(found, MAX_FOUND) or "(no line holds it)"

    def show_file(self, path: _Path, state: State = NO_FIELDS) -> bytes:
        """Shows an image of the workspace: PNG, JPEG, WebP or GIF."""
        with self.open_folder(state) as folder:
            held, size = _read(folder, path)
        if len(held) < size:
            raise ValueError(
                f"{format_value(path)} has {size:,} bytes, and {MAX_READ:,} is the most that is shown"
            )
        return held


def _bounded(lines: list[str], most: int) -> str:
    """Return the lines that fit into one reply, and whether there are more."""
    text = "\n".join(lines[:most])
    is_whole = len(lines) <= most and len(text) <= LONGEST
    if not is_whole:
        text = f"{text[:LONGEST]}\n(there is more: ask for less, or about a folder below)"
    return as_output(text)


def _search(folder: ContainedFolder, path: str, wanted: str) -> list[str]:
    """Return the lines that hold a text in lower case, with their file and number."""
    found: list[str] = []
    left = MAX_SEARCHED
    for name, size in _files(folder, path):
        left -= min(size, MAX_READ)
        if left < 0:
            found.append("(not all files were searched: search a folder below)")
        if left < 0 or len(found) > MAX_FOUND:
            break
        try:
            held, _ = _read(folder, name, follows_links=False)
        except (OSError, ValueError) as error:
            found.append(f"{name}: cannot be read ({error})")
            continue
        words = "" if b"\0" in held else held.decode("utf-8", "replace")
        if wanted not in words.casefold():
            continue
        for number, line in enumerate(words.split("\n"), start=1):
            place = line.casefold().find(wanted)
            if place >= 0 and len(found) <= MAX_FOUND:
                found.append(f"{name}:{number}: {line[max(0, place - 100) : place + 300]}")
    return found


def _open(folder: ContainedFolder, path: str, *, follows_links: bool = True) -> OpenEntry:
    """Open a path; raises a ValueError unless it exists inside the workspace."""
    try:
        return folder.open(path, follows_links=follows_links)
    except OutsideError:
        raise ValueError(
            f"{format_value(path)} is outside of the workspace, and is not read"
        ) from None
    except PermissionError:
        raise ValueError(f"{format_value(path)} cannot be read: permission denied") from None
    except (OSError, ValueError):  # including a loop of links, and a null byte
        raise ValueError(
            f"there is no {format_value(path)} in the workspace: see list_files"
        ) from None


def _read(folder: ContainedFolder, path: str, *, follows_links: bool = True) -> tuple[bytes, int]:
    """Return the bytes of a regular file, up to the limit, and its size."""
    content = _open(folder, path, follows_links=follows_links).read_and_close(MAX_READ)
    if content is None:
        raise ValueError(
            f"{format_value(path)} is not a regular file: list a folder with list_files"
        )
    return content


def _files(folder: ContainedFolder, path: str) -> Iterator[tuple[str, int]]:
    """Return the regular files below a folder, sorted by name, with their sizes. Links are not followed."""
    start = _open(folder, path)
    os.close(start.descriptor)
    visited = 0
    waiting = [start.name]
    while waiting:
        try:
            entry = folder.open(waiting.pop(), follows_links=False)
        except (OSError, ValueError):
            continue  # it has been deleted in the meantime
        try:
            if entry.is_regular_file:
                yield entry.name, os.fstat(entry.descriptor).st_size
            if not entry.is_folder:
                continue
            with os.scandir(entry.descriptor) as entries:
                inside = sorted(islice(entries, MAX_VISITED), key=lambda each: each.name)
            kept = [
                each.name if entry.name == "." else f"{entry.name}/{each.name}"
                for each in inside
                if each.is_file(follow_symlinks=False) or each.is_dir(follow_symlinks=False)
            ]
        finally:
            os.close(entry.descriptor)
        visited += len(inside)
        if visited >= MAX_VISITED:
            raise ValueError(
                f"{MAX_VISITED:,} entries or more are below {format_value(path)}: name a folder below"
            )
        waiting += reversed(kept)
