"""Data and files as `rubric` reads them. Its tests know these messages."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, TypeAlias, cast

import yaml
from pydantic import ValidationError

from assay.compat.rubric.types import Criterion
from assay.errors import RubricError

Source: TypeAlias = str | Path

_FIELDS = ("weight", "requirement")
_LOADERS: dict[str, Callable[[Any], Any]] = {".json": json.loads, ".yaml": yaml.safe_load, ".yml": yaml.safe_load}


def criteria(data: Any) -> list[Criterion]:
    """The criteria in a list, in sections, or under `rubric` or `sections`; titles are lost."""
    entries = [entry for place, item in enumerate(_items(data)) for entry in _flat(place, item)]
    if not entries:
        raise RubricError("No criteria found")
    return [_criterion(place, entry) for place, entry in enumerate(entries)]


def _items(data: Any) -> list[Any]:
    if isinstance(data, Mapping) and "rubric" in data:
        data = cast("Any", data["rubric"])
    if isinstance(data, Mapping):
        if "sections" not in data:
            raise RubricError("Invalid rubric format. Dict must contain either 'sections' or 'rubric' key")
        data = cast("Any", data["sections"])
    if not isinstance(data, list):
        raise RubricError(f"Invalid rubric format. Expected a list, got {type(data).__name__}")
    return cast("list[Any]", data)


def _flat(place: int, item: Any) -> list[Any]:
    if not isinstance(item, Mapping):
        raise RubricError(f"Invalid item at index {place}: expected a dictionary, got {type(item).__name__}")
    if "criteria" not in item:
        return [item]
    section = cast("Any", item["criteria"])
    if not isinstance(section, list):
        raise RubricError(f"Invalid section at index {place}: 'criteria' must be a list, got {type(section).__name__}")
    return cast("list[Any]", section)


def _criterion(place: int, entry: Any) -> Criterion:
    if not isinstance(entry, Mapping):
        raise RubricError(f"Invalid criterion at index {place}: expected a dictionary, got {type(entry).__name__}")
    fields = cast("Mapping[str, Any]", entry)
    try:
        return Criterion(**{name: fields[name] for name in _FIELDS if name in fields})
    except ValidationError as error:
        details = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise RubricError(f"Invalid criterion at index {place}: {details}") from error


def parsed(text: Any, suffix: str, where: str) -> Any:
    """The data in a JSON or YAML text."""
    try:
        return _LOADERS[suffix](text)
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        kind = "JSON" if suffix == ".json" else "YAML"
        raise RubricError(f"Failed to parse {kind} {where}: {error}") from error


def read(source: Source | IO[Any]) -> Any:
    """The data in a file, by the ending of its name."""
    if isinstance(source, str | Path):
        path = Path(source)
        if not path.exists():
            raise FileNotFoundError(f"File not found: {source}")
        suffix = _suffix(path, "file")
        return parsed(path.read_text(encoding="utf-8"), suffix, f"file {source}")
    if not hasattr(source, "read"):
        raise RubricError(f"Invalid source type: expected a path or an open file, got {type(source).__name__}")
    name = getattr(source, "name", "")
    if not isinstance(name, str) or not Path(name).suffix:
        raise RubricError("Cannot determine file format from file object: give one whose 'name' has an ending")
    return parsed(source.read(), _suffix(Path(name), "file object"), "from file object")


def _suffix(path: Path, what: str) -> str:
    suffix = path.suffix.lower()
    if suffix not in _LOADERS:
        raise RubricError(
            f"Unsupported file format {suffix!r} for {what}: {path}\nSupported formats: {', '.join(_LOADERS)}"
        )
    return suffix
