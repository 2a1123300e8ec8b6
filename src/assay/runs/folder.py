"""Folder: the files of a run, where they are, and how they are written."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from assay.runs.about import FORMAT, RunAbout
from assay.runs.errors import RunError, RunRefused


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
            raise RunRefused(
                f"{self.path} is a file, and a run is a folder: name another"
            ) from None
        except OSError as error:
            raise RunRefused(
                f"{self.path} cannot be made ({error.strerror}): name another"
            ) from None

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
        raise RunError(
            f"{path} cannot be written ({error.strerror}): see to that, and go on"
        ) from None
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
