"""The errors of runs, whose messages say what to do."""

import sqlite3
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from assay.errors import AssayError
from assay.runs.run_schema import FILE_NAME


class RunError(AssayError):
    """A run cannot be read, written or resumed; the message says what to do."""


class RunRefused(RunError, ValueError):  # noqa: N818 - named as `Refused` is
    """A folder, rows or settings do not fit the run, or do not fit each other."""


class RunInUseError(RunError):
    """Another process is writing the run."""


@contextmanager
def explain_errors(path: Path, count_saved: Callable[[], int] | None = None) -> Generator[None]:
    """Turn errors of SQLite about the file `path` into a `RunError` that says what to do.

    `count_saved` returns the number of saved rollouts, for the message about a full disk.
    """
    try:
        yield
    except sqlite3.ProgrammingError:  # a mistake in this package, not a problem of the file
        raise
    except sqlite3.DatabaseError as error:
        raise RunError(_explain(error, path, count_saved)) from error


def _explain(
    error: sqlite3.DatabaseError, path: Path, count_saved: Callable[[], int] | None
) -> str:
    """Return the message for an error of SQLite: what is wrong with the file, and what to do."""
    code = getattr(error, "sqlite_errorcode", None)
    # SQLite puts the kind of error in the low byte of the code, and details in the others.
    kind = None if code is None else code & 0xFF
    if kind in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        saved_note = ""
        if count_saved is not None:
            # Counting may fail for the same reason; then the number is left out.
            with suppress(RunError, sqlite3.Error):
                saved_note = f"; {count_saved():,} rollouts are saved"
        return (
            f"{path} cannot be written ({error}){saved_note}: free some space or repair the disk, and "
            "resume the run"
        )
    if kind in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return f"{path} is locked by another program ({error}): close it, and try again"
    if kind in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY):
        return (
            f"{path} cannot be opened ({error}): check the permissions of the file and its folder, "
            "or copy the run to a folder that you can write to"
        )
    return explain_damage(path, str(error))


def explain_damage(path: Path, problem: str) -> str:
    """Return the message for a damaged file of a run; `problem` says what is wrong with it."""
    run = path.parent if path.name == FILE_NAME else path
    return (
        f"{path} is damaged ({problem}): `assay show {run} --recover FOLDER` copies what can be "
        "read into a new run, which can then be resumed"
    )


def explain_missing_run(path: Path) -> str:
    """Return the message for a path at which there is no run."""
    if not path.exists():
        return f"there is no run {path}: name the folder of a run"
    if _has_old_layout(path):
        return _OLD_LAYOUT_MESSAGE.format(path)
    if path.is_dir():
        return f"{path} has no {FILE_NAME}, so it is not a run: name the folder of a run"
    return f"{path} is not a run: name the folder of a run, or its {FILE_NAME}"


_OLD_LAYOUT_MESSAGE = (
    "{} was written by an earlier version of assay, which saved a run as JSON files; this version "
    "cannot read it: score the data again into another folder"
)


def _has_old_layout(folder: Path) -> bool:
    """Return whether a folder holds a run as JSON files, which earlier versions wrote."""
    return (folder / "run.json").is_file() and not (folder / FILE_NAME).exists()


def refuse_old_layout(folder: Path) -> None:
    """Raise `RunRefused` if a folder holds a run in the layout of an earlier version."""
    if _has_old_layout(folder):
        raise RunRefused(_OLD_LAYOUT_MESSAGE.format(folder))
