"""Source: a text and the data in it; Place: a spot in that data, which knows its file and line."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from assay.errors import RubricFileError
from assay.loading import lines
from assay.loading.lines import Node
from assay.loading.yaml_text import YamlError, load_yaml, yaml_marks

_FORMATS: Final = {".json": "json", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml"}


@dataclass(frozen=True, slots=True)
class Source:
    """Where data came from. Without a text, lines cannot be told."""

    format: str = ""
    text: str = ""
    path: str | None = None

    def error(self, message: str, path: lines.Path = (), field: str = "") -> RubricFileError:
        """An error that names the file, and the line of a path in it."""
        return RubricFileError(message, path=self.path, line=self._line(path), field=field)

    def unreadable(self, said: str, line: int | None = None) -> RubricFileError:
        """An error about the text itself."""
        message = f"Failed to parse {self.format.upper()}: {said}"
        return RubricFileError(message, path=self.path, line=line)

    def _line(self, path: lines.Path) -> int | None:
        if not path or not self.text:
            return None
        try:
            return lines.line_of(path, self._nodes())
        except YamlError:
            return None

    def _nodes(self) -> Iterator[Node]:
        if self.format == "toml":
            return lines.toml_nodes(self.text)
        marks = lines.json_marks if self.format == "json" else yaml_marks
        return lines.nodes(marks(self.text))

    def refuse_repeated(self) -> None:
        """Raise where a mapping has a key twice."""
        for node in self._nodes():
            if node.repeated:
                said = f"the key {node.key!r:.80} stands twice in one mapping: drop one of them"
                raise self.unreadable(said, node.line)


@dataclass(frozen=True, slots=True)
class Place:
    """Some data, and where it stands."""

    data: Any
    source: Source = Source()
    path: lines.Path = ()

    @property
    def is_mapping(self) -> bool:
        return isinstance(self.data, Mapping)

    def at(self, key: str | int) -> "Place":
        """What stands under a key or at a place of a list."""
        return Place(self.data[key], self.source, (*self.path, key))

    def error(self, message: str, field: str = "") -> RubricFileError:
        """An error about this spot, or about one field of it."""
        return self.source.error(message, (*self.path, field) if field else self.path, field)


def place_of_text(text: str | bytes, format: str, path: str | None = None) -> Place:
    """The data of a text in one of the formats `json`, `yaml` and `toml`."""
    name = path or f"<{format}>"
    source = Source(format, _decoded(text, name), name)
    return Place(_READERS[format](source), source)


def place_of_file(file: Any) -> Place:
    """The data of a file: a path, or an open file that knows its name."""
    if not hasattr(file, "read"):
        if not isinstance(file, str | Path):
            raise RubricFileError(
                f"{file!r:.100} is no file: give a path, or a file opened for reading"
            )
        return _place_of_path(Path(file))
    name = getattr(file, "name", "")
    name = name if isinstance(name, str | Path) else ""
    return place_of_text(file.read(), _format_of(str(name)), str(name))


def _place_of_path(path: Path) -> Place:
    if not path.exists():
        raise FileNotFoundError(f"File not found: {path}")
    if path.is_dir():
        raise RubricFileError(f"{path} is a folder: name the file of a rubric")
    return place_of_text(path.read_bytes(), _format_of(str(path)), str(path))


def _format_of(name: str) -> str:
    suffix = Path(name).suffix.lower()
    if not suffix:
        raise RubricFileError(
            f"Cannot determine file format of {name or 'a file without a name'!r}: "
            f"its name must end in one of {', '.join(_FORMATS)}"
        )
    if suffix not in _FORMATS:
        raise RubricFileError(
            f"Unsupported file format {suffix!r}. Supported formats: {', '.join(_FORMATS)}",
            path=name,
        )
    return _FORMATS[suffix]


def _decoded(text: str | bytes, name: str) -> str:
    if isinstance(text, str):
        return text.removeprefix("\ufeff")
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise RubricFileError(
            f"byte {text[error.start]:#04x} is not UTF-8: save the file as UTF-8",
            path=name,
            line=line,
        ) from None


def _read_json(source: Source) -> Any:
    repeated = False

    def note_repeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal repeated
        mapping = dict(pairs)
        repeated = repeated or len(mapping) < len(pairs)
        return mapping

    try:
        data = json.loads(source.text, object_pairs_hook=note_repeated)
    except json.JSONDecodeError as error:
        raise source.unreadable(f"{error.msg} (column {error.colno})", error.lineno) from None
    except RecursionError:
        raise source.unreadable("it is nested too deep") from None
    except ValueError as error:
        raise source.unreadable(str(error)) from None
    if repeated:
        source.refuse_repeated()
    return data


def _read_yaml(source: Source) -> Any:
    try:
        return load_yaml(source.text)
    except YamlError as error:
        raise source.unreadable(str(error), error.line) from None


def _read_toml(source: Source) -> Any:
    import tomllib

    try:
        return tomllib.loads(source.text)
    except tomllib.TOMLDecodeError as error:
        where = re.search(r" \(at line (\d+), column \d+\)$", str(error))
        said = str(error) if where is None else str(error)[: where.start()]
        raise source.unreadable(said, int(where[1]) if where else None) from None
    except RecursionError:
        raise source.unreadable("it is nested too deep") from None


_READERS: Final[dict[str, Callable[[Source], Any]]] = {
    "json": _read_json,
    "yaml": _read_yaml,
    "toml": _read_toml,
}
