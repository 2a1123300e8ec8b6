"""Read JSON, YAML and TOML texts into data, and know where in the text each value stands.

YAML is read by the rules of version 1.2: PyYAML's parser hands out events, and the data is put together here, since its
loaders read `no` as false and `1e-6` as a text, let a key stand twice, and crash on deep nesting.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, cast

from assay.errors import RubricError, RubricFileError
from assay.wording import did_you_mean, short_repr

# The keys and places that lead to a value, such as `("criteria", 3, "weight")`.
KeyPath: TypeAlias = tuple[str | int, ...]

MOST_DEPTH: Final = 200  # how deep lists and mappings may be nested
MOST_REPEATED: Final = (
    1_000_000  # values that the aliases of a text may add up to: nested aliases grow without bound
)
HALF: Final = re.compile(
    r"[\ud800-\udfff]"
)  # half of a character, a lone surrogate, which UTF-8 cannot hold
_FORMATS: Final = {".json": "json", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml"}


class Position(NamedTuple):
    """Where a value stands in a text. TOML tells the line alone."""

    line: int  # of its key, or of itself in a list; from 1
    start: int = 0  # its first character
    end: int = 0  # the character after its last
    key_start: int | None = None  # where its key begins; None for an entry of a list
    in_brackets: bool = True  # whether the mapping or list around it is written in brackets
    style: str = ""  # the quotation mark, block sign or tag of a text; empty for a plain one
    is_shared: bool = (
        False  # whether it is an alias, or has an anchor that other places repeat it by
    )


_Read: TypeAlias = tuple[
    Any, Mapping[KeyPath, Position]
]  # the data of a text, and where each value stands


@dataclass(frozen=True)
class Document:
    """The text that data came from. Without a text, lines cannot be told."""

    format: str = ""
    text: str = ""
    path: str | None = None
    # Where every value stands. What an alias repeats has no positions of its own.
    positions: Mapping[KeyPath, Position] = field(
        default_factory=dict[KeyPath, Position], repr=False
    )

    def line(self, path: KeyPath) -> int | None:
        """The line of a path, or of as much of it as is there; None when nothing of it is."""
        while path and path not in self.positions:
            path = path[:-1]
        return self.positions[path].line if path else None


_NOWHERE: Final = Document()


@dataclass(frozen=True, slots=True)
class Node:
    """Some data, and where it stands."""

    data: Any
    document: Document = _NOWHERE
    path: KeyPath = ()

    @property
    def is_mapping(self) -> bool:
        return isinstance(self.data, Mapping)

    def at(self, key: str | int) -> "Node":
        return Node(self.data[key], self.document, (*self.path, key))

    def error(self, message: str, field: str = "") -> RubricFileError:
        """An error about this, or about one field of it, with file and line."""
        line = self.document.line((*self.path, field) if field else self.path)
        return RubricFileError(message, path=self.document.path, line=line, field=field)

    def refuse_unknown(self, known: tuple[str, ...], label: str = "") -> None:
        """Raise when it has a field that is none of these."""
        for key in self.data:
            if key not in known:
                raise self.error(
                    f"{label}{short_repr(key)} is no field: {did_you_mean(key, known)}", str(key)
                )


def read_text(text: str | bytes, format: str, path: str | None = None) -> Node:
    name = path or f"<{format}>"
    if isinstance(text, bytes):
        try:
            text = text.decode()
        except UnicodeDecodeError as error:
            said, line = (
                f"byte {text[error.start]:#04x} is not UTF-8",
                text.count(b"\n", 0, error.start) + 1,
            )
            raise RubricFileError(f"{said}: save the file as UTF-8", path=name, line=line) from None
    text = text.removeprefix("\ufeff")
    try:
        data, positions = _READERS[format](text)
        return Node(data, Document(format, text, name, positions))
    except DocumentError as error:
        said, line = str(error), error.line
    except RecursionError:
        said, line = "it is nested too deep", None
    raise RubricFileError(f"Failed to parse {format.upper()}: {said}", path=name, line=line)


def read_file(file: Any) -> Node:
    """The data of a file: a path, or an open file that knows its name."""
    if hasattr(file, "read"):
        name = getattr(file, "name", "")
        name = str(name) if isinstance(name, str | Path) else ""
        return read_text(file.read(), _format_of(name), name)
    if not isinstance(file, str | Path):
        raise RubricFileError(
            f"{file!r:.100} is no file: give a path, or a file opened for reading"
        )
    path = Path(file)
    if not path.exists():
        raise FileNotFoundError(f"File not found: {path}")
    if path.is_dir():
        raise RubricFileError(f"{path} is a folder: name the file of a rubric")
    return read_text(path.read_bytes(), _format_of(str(path)), str(path))


def _format_of(name: str) -> str:
    suffix, known = Path(name).suffix.lower(), ", ".join(_FORMATS)
    if not suffix:
        said = f"Cannot determine file format of {name or 'a file without a name'!r}"
        raise RubricFileError(f"{said}: its name must end in one of {known}")
    if suffix not in _FORMATS:
        raise RubricFileError(
            f"Unsupported file format {suffix!r}. Supported formats: {known}", path=name
        )
    return _FORMATS[suffix]


class DocumentError(RubricError):
    """A text that we cannot take, and the line where that shows."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


def _read_json(text: str) -> _Read:
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise DocumentError(f"{error.msg} (column {error.colno})", error.lineno) from None
    except ValueError as error:
        raise DocumentError(str(error)) from None
    return data, _Reader(_json_pieces(text)).positions


def _read_yaml(text: str) -> _Read:
    reader = _Reader(_yaml_pieces(text))
    return reader.root, reader.positions


def _read_toml(text: str) -> _Read:
    import tomllib

    try:
        return tomllib.loads(text), _toml_positions(text)
    except tomllib.TOMLDecodeError as error:
        where = re.search(r" \(at line (\d+), column \d+\)$", str(error))
        said = str(error) if where is None else str(error)[: where.start()]
        raise DocumentError(said, int(where[1]) if where else None) from None


_READERS: Final[dict[str, Callable[[str], _Read]]] = {
    "json": _read_json,
    "yaml": _read_yaml,
    "toml": _read_toml,
}


class _Piece(NamedTuple):
    """One step through a text: a mapping or list begins, the innermost ends, or a value stands."""

    kind: str  # `mapping`, `list`, `end`, `value` or `alias`
    text: str  # the value as it is written, without quotation marks; the name of an alias
    line: int
    start: int
    end: int
    value: Any = None  # what it stands for
    in_brackets: bool = True
    style: str = ""
    anchor: str | None = None


_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|[\[\]{}]|[^\s,:\[\]{}"]++', re.DOTALL)
_JSON_KINDS: Final = {"{": "mapping", "[": "list", "}": "end", "]": "end"}


def _json_pieces(text: str) -> Iterator[_Piece]:
    line, counted = 1, 0
    for token in _JSON_TOKEN.finditer(text):
        sign, (start, end) = token[0], token.span()
        line += text.count("\n", counted, start)
        counted = start
        value = json.loads(sign) if sign[0] == '"' else sign
        yield _Piece(_JSON_KINDS.get(sign, "value"), value, line, start, end, value, True, sign[0])


_YAML_KINDS: Final = {
    "MappingStartEvent": "mapping",
    "SequenceStartEvent": "list",
    "ScalarEvent": "value",
    "AliasEvent": "alias",
    "MappingEndEvent": "end",
    "SequenceEndEvent": "end",
}


def _yaml_pieces(text: str) -> Iterator[_Piece]:
    yaml: Any = import_module("yaml")
    ended = False
    try:
        # Ten times as fast as the Python one, where it is installed.
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            mark, kind, tag = (
                event.start_mark,
                _YAML_KINDS.get(type(event).__name__),
                getattr(event, "tag", None),
            )
            line, end, anchor = mark.line + 1, event.end_mark.index, getattr(event, "anchor", None)
            if tag not in _TAGS:
                raise DocumentError(f"the tag {tag!r:.80} is not read: drop it", line)
            if ended and isinstance(event, yaml.DocumentStartEvent):
                raise DocumentError("a second document begins: keep one to a file", line)
            ended = ended or isinstance(event, yaml.DocumentEndEvent)
            if kind == "value":
                style = event.style or tag or ""
                yield _Piece(
                    kind, event.value, line, mark.index, end, _scalar(event), True, style, anchor
                )
            elif kind is not None:
                in_brackets = bool(getattr(event, "flow_style", True))
                yield _Piece(
                    kind, anchor or "", line, mark.index, end, None, in_brackets, "", anchor
                )
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        said = getattr(error, "problem", None) or " ".join(str(error).split())
        raise DocumentError(said, None if mark is None else mark.line + 1) from None


_FLOAT = r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
_WORDS: Final = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_IS_INT: Final = re.compile(r"[-+]?[0-9]{1,1000}|0x[0-9a-fA-F]{1,1000}").fullmatch
_IS_FLOAT: Final = re.compile(_FLOAT).fullmatch
_TAGS: Final = (None, "!", *(f"tag:yaml.org,2002:{name}" for name in ("str", "map", "seq")))


def _scalar(event: Any) -> Any:
    """What a value stands for: with quotes, or the tag `!!str`, a text."""
    text: str = event.value
    if event.tag is not None or not event.implicit[0]:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "-+.0123456789":
        return text
    if _IS_INT(text):
        return int(text, 16 if text.startswith("0x") else 10)
    return float(re.sub(r"\.(?=[inIN])", "", text)) if _IS_FLOAT(text) else text


class _Reader:
    """Puts data together from pieces, notes where each value stands, and counts what aliases unfold to."""

    def __init__(self, pieces: Iterator[_Piece]) -> None:
        self.positions: dict[KeyPath, Position] = {}
        self._pieces = pieces
        self._opened: list[str | None] = []  # the anchors of what is still being read
        self._named: dict[
            str, tuple[Any, int]
        ] = {}  # the value of each anchor, and how many values it holds
        self._total = self._repeated = 0
        first = next(pieces, None)
        self.root = None if first is None else self._read(first, ())[0]
        next(pieces, None)  # a second document would be refused here

    def _read(self, piece: _Piece, path: KeyPath) -> tuple[Any, int]:
        if piece.kind == "alias":
            return self._alias_value(piece), piece.end
        before, value, end = self._total, piece.value, piece.end
        self._total += 1
        if piece.kind != "value":
            self._opened.append(piece.anchor)
            if len(self._opened) > MOST_DEPTH:
                raise DocumentError(f"it is nested more than {MOST_DEPTH} deep", piece.line)
            value = dict[Any, Any]() if piece.kind == "mapping" else list[Any]()
            end = self._fill(value, piece, path)
            self._opened.pop()
        if piece.anchor:
            self._named[piece.anchor] = (value, self._total - before)
        return value, end

    def _fill(self, held: Any, around: _Piece, path: KeyPath) -> int:
        """Read all that is in a list or mapping, and return where it ends."""
        last, merged = around.end, list[tuple[Any, int]]()
        for piece in self._pieces:
            if piece.kind == "end":
                for value, line in merged:
                    for mapping in cast("list[Any]", value if isinstance(value, list) else [value]):
                        if not isinstance(mapping, dict):
                            raise DocumentError("<< takes a mapping, or a list of them", line)
                        held.update({**mapping, **held})
                # A block ends with its last value, whatever blank lines follow.
                return piece.end if around.in_brackets else last
            key, name, step = None, None, len(held)
            if around.kind == "mapping":
                key, step = piece, piece.text
                name, last = self._read(piece, path)
                if isinstance(name, list | dict):
                    raise DocumentError("a key is a list or a mapping: give a word", key.line)
                if name in held:
                    said = f"the key {name!r:.80} stands twice in one mapping: drop one of them"
                    raise DocumentError(said, key.line)
                piece = next(self._pieces)
            inner = (*path, step)
            value, end = self._read(piece, inner)
            last = max(last, end)
            line, key_start = (piece.line, None) if key is None else (key.line, key.start)
            here = Position(
                line,
                piece.start,
                end,
                key_start,
                around.in_brackets,
                piece.style,
                bool(piece.anchor),
            )
            self.positions.setdefault(inner, here)
            if key is None:
                held.append(value)
            elif key.text == "<<" and not key.style and key.kind == "value":
                # What stands under `<<` is merged into the mapping; quoted, it is a key like any other.
                merged.append((value, piece.line))
            else:
                held[name] = value
        return last

    def _alias_value(self, piece: _Piece) -> Any:
        alias = piece.text
        if alias in self._opened:
            raise DocumentError(f"*{alias} stands inside what it names, without end", piece.line)
        if alias not in self._named:
            raise DocumentError(f"*{alias} names nothing above it", piece.line)
        value, size = self._named[alias]
        self._total += size
        self._repeated += size
        if self._repeated > MOST_REPEATED:
            raise DocumentError(
                f"its aliases unfold to more than {MOST_REPEATED:,} values: write them out",
                piece.line,
            )
        return value


_TABLE = re.compile(r"\s*\[(\[)?\s*([^\[\]#]+?)\s*\]")
_KEY = re.compile(r"\s*([\w\"'.-]+)\s*=")
_LONG_TEXT = re.compile(r'"""(?:[^\\]|\\.)*?"""|\'\'\'.*?\'\'\'', re.DOTALL)


def _toml_positions(text: str) -> dict[KeyPath, Position]:
    """The lines of tables and keys, as far as a scan by line can tell them: `tomllib` tells none."""
    table: KeyPath = ()
    counts: dict[KeyPath, int] = {}
    positions: dict[KeyPath, Position] = {}
    blanked = _LONG_TEXT.sub(lambda found: '""' + "\n" * found[0].count("\n"), text)
    for number, row in enumerate(blanked.split("\n"), start=1):
        header, key = _TABLE.match(row), _KEY.match(row)
        if header is not None:
            path = table = _table_path(header, counts)
        elif key is not None:
            path = (*table, *(part.strip("\"'") for part in key[1].split(".")))
        else:
            continue
        for depth in range(1, len(path) + 1):
            positions.setdefault(path[:depth], Position(number))
    return positions


def _table_path(header: re.Match[str], counts: dict[KeyPath, int]) -> KeyPath:
    """The path of a table; a table of a list gets the next place in it."""
    name: KeyPath = ()
    path: KeyPath = ()
    for part in header[2].split("."):
        name = (*path, part.strip(" \t\"'"))
        path = (*name, counts[name]) if name in counts else name
    if header[1]:
        counts[name] = counts.get(name, -1) + 1
        path = (*name, counts[name])
    return path


def dump_yaml(data: object) -> str:
    """Data as a YAML text; raises for the half characters that only JSON can write."""
    if HALF.search(json.dumps(data, ensure_ascii=False)):
        raise RubricError("a text holds a lone surrogate, which YAML cannot write: use to_json")
    yaml: Any = import_module("yaml")

    def represent(dumper: Any, text: str) -> Any:
        # Left plain, a NEL would be read back as an ordinary line break.
        return dumper.represent_scalar(
            "tag:yaml.org,2002:str", text, style='"' if "\x85" in text else None
        )

    dumper: Any = type("Dumper", (yaml.SafeDumper,), {})
    dumper.add_representer(str, represent)
    # Texts that only YAML 1.2 takes for numbers need quotes too.
    dumper.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(f"^(?:{_FLOAT})$"), [*"-+.0123456789"]
    )
    return yaml.dump(data, Dumper=dumper, sort_keys=False, allow_unicode=True, width=100)
