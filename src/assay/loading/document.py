"""Read JSON, YAML and TOML texts as data, and record the position of each value in the text.

YAML is read by the rules of version 1.2. PyYAML supplies the parser events, and the data are built
here, because PyYAML's loaders read `no` as false and `1e-6` as a text, accept a key twice in one
mapping, and crash on deep nesting.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, cast

from assay.errors import RubricError, RubricFileError
from assay.loading.yaml_mistakes import explain_yaml_error, quote
from assay.wording import format_value, suggest_path, suggest_word

# The keys and indices that lead to a value, such as `("criteria", 3, "weight")`.
KeyPath: TypeAlias = tuple[str | int, ...]

# How deep lists and mappings may be nested.
MAX_DEPTH: Final = 200
# How many values the aliases of a text may expand to: nested aliases grow exponentially.
MAX_REPEATED: Final = 1_000_000
# A lone surrogate: half of a character, which UTF-8 cannot store.
LONE_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
# A text that begins and ends with a typographic quotation mark. Written without other quotes, it is
# usually a mistake, so some fields of a rubric refuse it.
CURLY_QUOTES: Final = re.compile(
    "[\u201c\u201d\u201e\u2018\u2019\xab\xbb].*[\u201c\u201d\u2018\u2019\xab\xbb]", re.DOTALL
)

# Spreadsheets with a rubric, which have a row for each criterion.
SHEET_SUFFIXES: Final = (".csv", ".tsv", ".xlsx")

_FORMATS: Final = {".json": "json", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml"}


def read_file(file: Any) -> Node:
    """Return the data of a file: a path, or an open file that has a name.

    A spreadsheet can only be given by its path.
    """
    if hasattr(file, "read"):
        name = getattr(file, "name", "")
        if not isinstance(name, str | Path):
            name = ""
        return read_text(file.read(), _find_format(str(name)), str(name))
    if not isinstance(file, str | Path):
        raise RubricFileError(
            f"{file!r:.100} is not a file: give a path, or a file opened for reading"
        )
    path = Path(file)
    if not path.exists():
        raise FileNotFoundError(f"File not found: {path}{suggest_path(path)}")
    if path.is_dir():
        raise RubricFileError(f"{path} is a folder: name the file of a rubric")
    if path.suffix.lower() in SHEET_SUFFIXES:
        from assay.loading.sheet import read_sheet  # few rubrics are spreadsheets

        return read_sheet(path)
    return read_text(path.read_bytes(), _find_format(str(path)), str(path))


def _find_format(name: str) -> str:
    """Return the format of a file by the end of its name."""
    suffix = Path(name).suffix.lower()
    supported = ", ".join(_FORMATS)
    if not suffix:
        raise RubricFileError(
            f"Cannot determine file format of {name or 'a file without a name'!r}: "
            f"its name must end in one of {supported}"
        )
    if suffix not in _FORMATS:
        raise RubricFileError(
            f"Unsupported file format {suffix!r}. Supported formats: {supported}", path=name
        )
    return _FORMATS[suffix]


def read_text(text: str | bytes, format: str, path: str | None = None) -> Node:
    """Return the data of a text in the format `json`, `yaml` or `toml`.

    `path` is named in errors. Raises `RubricFileError` for a text that cannot be read.
    """
    name = path or f"<{format}>"
    if isinstance(text, bytes):
        text = _decode(text, name)
    text = text.removeprefix("\ufeff")  # a byte order mark
    try:
        data, positions = _READERS[format](text)
    except DocumentError as error:
        raise RubricFileError(
            f"Failed to parse {format.upper()}: {error}", path=name, line=error.line
        ) from None
    except RecursionError:
        raise RubricFileError(
            f"Failed to parse {format.upper()}: it is nested too deep", path=name
        ) from None
    return Node(data, Document(format, text, name, positions))


def _decode(data: bytes, name: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise RubricFileError(
            f"byte {data[error.start]:#04x} is not UTF-8: save the file as UTF-8",
            path=name,
            line=line,
        ) from None


class Position(NamedTuple):
    """Where a value is in its text. For TOML, only the line is known."""

    # The line of its key, or of the value itself in a list; from 1.
    line: int
    # The index of its first character, and of the character after its last.
    start: int = 0
    end: int = 0
    # The index of the first character of its key; None for an entry of a list.
    key_start: int | None = None
    # Whether the mapping or list around it is written in brackets.
    in_brackets: bool = True
    # The quotation mark, block indicator or tag of a text; empty for a plain text.
    style: str = ""
    # Whether it is an alias, or has an anchor to which aliases may refer.
    is_shared: bool = False


@dataclass(frozen=True)
class Document:
    """The text from which data were read. For data without a text, lines are unknown."""

    format: str = ""
    text: str = ""
    path: str | None = None
    # The position of every value, except those that are repeated by an alias.
    positions: Mapping[KeyPath, Position] = field(
        default_factory=dict[KeyPath, Position], repr=False
    )

    def line(self, path: KeyPath) -> int | None:
        """Return the line of a value, or of the closest value around it; None if unknown."""
        while path and path not in self.positions:
            path = path[:-1]
        return self.positions[path].line if path else None


_NO_DOCUMENT: Final = Document()


@dataclass(frozen=True, slots=True)
class Node:
    """Some data, with their document and their path in it."""

    data: Any
    document: Document = _NO_DOCUMENT
    path: KeyPath = ()

    @property
    def is_mapping(self) -> bool:
        return isinstance(self.data, Mapping)

    @property
    def is_list(self) -> bool:
        return isinstance(self.data, list)

    def at(self, key: str | int) -> Node:
        """Return the node of one entry."""
        return Node(self.data[key], self.document, (*self.path, key))

    def items(self) -> list[Node]:
        """Return the nodes of the entries of a list."""
        return [self.at(index) for index in range(len(self.data))]

    def error(self, message: str, field: str = "") -> RubricFileError:
        """Return an error about these data, or about one field of them, with file and line."""
        path = (*self.path, field) if field else self.path
        return RubricFileError(
            message, path=self.document.path, line=self.document.line(path), field=field
        )

    def refuse_unknown(self, known: tuple[str, ...], label: str = "") -> None:
        """Raise an error if the data have a field that is not among `known`."""
        for key in self.data:
            if key not in known:
                raise self.error(
                    f"{label}unknown field {format_value(key)}: {suggest_word(key, known)}",
                    str(key),
                )


class DocumentError(RubricError):
    """A text cannot be read; `line` is the line of the problem, if it is known."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


# The data of a text, and the position of every value.
_DataAndPositions: TypeAlias = tuple[Any, Mapping[KeyPath, Position]]


def _read_json(text: str) -> _DataAndPositions:
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise DocumentError(f"{error.msg} (column {error.colno})", error.lineno) from None
    except ValueError as error:
        raise DocumentError(str(error)) from None
    # Only the positions are needed, and the errors about keys that appear twice.
    builder = _Builder(_scan_json(text))
    return data, builder.positions


def _read_yaml(text: str) -> _DataAndPositions:
    builder = _Builder(_scan_yaml(text))
    return builder.root, builder.positions


def _read_toml(text: str) -> _DataAndPositions:
    import tomllib

    try:
        return tomllib.loads(text), _find_toml_positions(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        location = re.search(r" \(at line (\d+), column \d+\)$", message)
        if location is None:
            raise DocumentError(message) from None
        raise DocumentError(message[: location.start()], int(location[1])) from None


_READERS: Final[dict[str, Callable[[str], _DataAndPositions]]] = {
    "json": _read_json,
    "yaml": _read_yaml,
    "toml": _read_toml,
}


class _Token(NamedTuple):
    """One step through a text: a mapping or list begins, the innermost ends, or a value."""

    # `mapping`, `list`, `end`, `value` or `alias`.
    kind: str
    # A value as it is written, without quotation marks; the name of an alias.
    text: str
    line: int
    start: int
    end: int
    # The value as data.
    value: Any = None
    # Whether a mapping or list is written in brackets.
    in_brackets: bool = True
    style: str = ""
    anchor: str | None = None


_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|[\[\]{}]|[^\s,:\[\]{}"]++', re.DOTALL)
_JSON_KINDS: Final = {"{": "mapping", "[": "list", "}": "end", "]": "end"}


def _scan_json(text: str) -> Iterator[_Token]:
    """Yield the tokens of a valid JSON text."""
    line = 1
    counted_until = 0  # the line breaks before this index are counted
    for match in _JSON_TOKEN.finditer(text):
        start, end = match.span()
        line += text.count("\n", counted_until, start)
        counted_until = start
        source = match[0]
        first_character = source[0]
        value = json.loads(source) if first_character == '"' else source
        yield _Token(
            kind=_JSON_KINDS.get(source, "value"),
            text=value,
            line=line,
            start=start,
            end=end,
            value=value,
            style=first_character,
        )


_YAML_KINDS: Final = {
    "MappingStartEvent": "mapping",
    "SequenceStartEvent": "list",
    "ScalarEvent": "value",
    "AliasEvent": "alias",
    "MappingEndEvent": "end",
    "SequenceEndEvent": "end",
}
_YAML_TAGS: Final = (
    None,
    "!",
    "tag:yaml.org,2002:str",
    "tag:yaml.org,2002:map",
    "tag:yaml.org,2002:seq",
)


def _scan_yaml(text: str) -> Iterator[_Token]:
    """Yield the tokens of a YAML text; raise `DocumentError` where it is wrong."""
    yaml: Any = import_module("yaml")
    # The parser in C is ten times as fast, but not always installed.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    has_ended = False
    try:
        for event in yaml.parse(text, Loader=loader):
            line = event.start_mark.line + 1
            tag = getattr(event, "tag", None)
            if tag not in _YAML_TAGS:
                raise DocumentError(f"the tag {tag!r:.80} is not supported: remove it", line)
            if isinstance(event, yaml.DocumentEndEvent):
                has_ended = True
            elif isinstance(event, yaml.DocumentStartEvent) and has_ended:
                raise DocumentError("a second document begins: keep one per file", line)
            kind = _YAML_KINDS.get(type(event).__name__)
            if kind is None:
                continue
            anchor = getattr(event, "anchor", None)
            is_value = kind == "value"
            yield _Token(
                kind=kind,
                text=event.value if is_value else anchor or "",
                line=line,
                start=event.start_mark.index,
                end=event.end_mark.index,
                value=_read_scalar(event) if is_value else None,
                in_brackets=bool(getattr(event, "flow_style", True)),
                style=(event.style or tag or "") if is_value else "",
                anchor=anchor,
            )
    except yaml.YAMLError as error:
        raise _make_yaml_error(error, text) from None


def _make_yaml_error(error: Any, text: str) -> DocumentError:
    """Return an error of PyYAML with its line, in the terms of someone who writes a rubric."""
    message = getattr(error, "problem", None) or " ".join(str(error).split())
    mark = getattr(error, "problem_mark", None)
    context_mark = getattr(error, "context_mark", None)
    is_in_quotes = "quoted scalar" in (getattr(error, "context", None) or "")
    if is_in_quotes and "end of stream" in message and context_mark is not None:
        return DocumentError(
            "a quotation mark is not closed: add the second one",
            context_mark.line + 1,
        )
    mark = mark or context_mark
    if mark is None:
        return DocumentError(message)
    line = mark.line + 1
    return DocumentError(explain_yaml_error(message, text, line), line)


_YAML_FLOAT = (
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
_FLOAT: Final = re.compile(_YAML_FLOAT)
_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,1000}|0x[0-9a-fA-F]{1,1000}")
_NUMBER_STARTS: Final = "-+.0123456789"
_CONSTANTS: Final[Mapping[str, bool | None]] = {
    "": None,
    "~": None,
    "null": None,
    "Null": None,
    "NULL": None,
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}


def _read_scalar(event: Any) -> Any:
    """Return the value of a YAML scalar. In quotes, or with the tag `!!str`, it is a text."""
    text: str = event.value
    is_plain = event.implicit[0]
    if event.tag is not None or not is_plain:
        return text
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in _NUMBER_STARTS:
        return text
    if _INTEGER.fullmatch(text):
        return int(text, 16 if text.startswith("0x") else 10)
    if _FLOAT.fullmatch(text):
        return float(re.sub(r"\.(?=[inIN])", "", text))  # Python writes `.inf` as `inf`
    return text


class _Builder:
    """Builds data from tokens, with the position of each value."""

    def __init__(self, tokens: Iterator[_Token]) -> None:
        self.positions: dict[KeyPath, Position] = {}
        self._tokens = tokens
        # The anchors of the mappings and lists that are being read; None for those without one.
        self._open_anchors: list[str | None] = []
        # The value of each anchor, and the number of values in it.
        self._anchored: dict[str, tuple[Any, int]] = {}
        # The number of values so far, and how many of them were repeated by aliases.
        self._value_count = 0
        self._repeated_count = 0
        first = next(tokens, None)
        self.root: Any = None
        if first is not None:
            self.root, _ = self._read_value(first, ())
        next(tokens, None)  # raises if a second document follows

    def _read_value(self, token: _Token, path: KeyPath) -> tuple[Any, int]:
        """Return the value that begins with this token, and the index at which it ends."""
        if token.kind == "alias":
            return self._resolve_alias(token), token.end
        count_before = self._value_count
        self._value_count += 1
        if token.kind == "value":
            value, end = token.value, token.end
        else:
            self._open_anchors.append(token.anchor)
            if len(self._open_anchors) > MAX_DEPTH:
                raise DocumentError(f"it is nested more than {MAX_DEPTH} deep", token.line)
            if token.kind == "mapping":
                value, end = self._read_mapping(token, path)
            else:
                value, end = self._read_list(token, path)
            self._open_anchors.pop()
        if token.anchor:
            self._anchored[token.anchor] = (value, self._value_count - count_before)
        return value, end

    def _read_list(self, opening: _Token, path: KeyPath) -> tuple[list[Any], int]:
        """Return the list that begins with this token, and the index at which it ends."""
        items: list[Any] = []
        last_end = opening.end
        for token in self._tokens:
            if token.kind == "end":
                # Without brackets, a list ends with its last item: blank lines may follow it.
                return items, token.end if opening.in_brackets else last_end
            item_path = (*path, len(items))
            item, last_end = self._read_value(token, item_path)
            items.append(item)
            position = Position(
                line=token.line,
                start=token.start,
                end=last_end,
                in_brackets=opening.in_brackets,
                style=token.style,
                is_shared=bool(token.anchor),
            )
            self.positions.setdefault(item_path, position)
        return items, last_end

    def _read_mapping(self, opening: _Token, path: KeyPath) -> tuple[dict[Any, Any], int]:
        """Return the mapping that begins with this token, and the index at which it ends."""
        mapping: dict[Any, Any] = {}
        merges: list[tuple[Any, int]] = []  # the values of `<<`, and their lines
        last_end = opening.end
        for key in self._tokens:
            if key.kind == "end":
                for merged, line in merges:
                    _merge(mapping, merged, line)
                return mapping, key.end if opening.in_brackets else last_end
            name, _ = self._read_value(key, path)
            if isinstance(name, list | dict):
                raise DocumentError("a key is a list or a mapping: give a word", key.line)
            if name in mapping:
                raise DocumentError(
                    f"the key {name!r:.80} appears twice in one mapping: remove one of them",
                    key.line,
                )
            token = next(self._tokens)
            if mapping and _is_rest_of_value(key, token):
                raise _make_comma_error(mapping, key)
            value_path = (*path, key.text)
            value, last_end = self._read_value(token, value_path)
            position = Position(
                line=key.line,
                start=token.start,
                end=last_end,
                key_start=key.start,
                in_brackets=opening.in_brackets,
                style=token.style,
                is_shared=bool(token.anchor),
            )
            self.positions.setdefault(value_path, position)
            # In quotes, `<<` is a key like any other.
            if key.kind == "value" and key.text == "<<" and not key.style:
                merges.append((value, token.line))
            else:
                mapping[name] = value
        return mapping, last_end

    def _resolve_alias(self, token: _Token) -> Any:
        """Return the value that an alias repeats, and count its values."""
        alias = token.text
        if alias in self._open_anchors:
            raise DocumentError(f"*{alias} is inside the value that it repeats", token.line)
        if alias not in self._anchored:
            raise DocumentError(
                f"*{alias} repeats what &{alias} names, and nothing above has that name: "
                "put a text that begins with * in quotes",
                token.line,
            )
        value, size = self._anchored[alias]
        self._value_count += size
        self._repeated_count += size
        if self._repeated_count > MAX_REPEATED:
            raise DocumentError(
                f"its aliases expand to more than {MAX_REPEATED:,} values: write them out",
                token.line,
            )
        return value


def _is_rest_of_value(key: _Token, value: _Token) -> bool:
    """Return True for what follows a comma in braces without a colon: `Rome` in {a: Paris, Rome}."""
    if key.kind != "value" or key.style or value.kind != "value" or value.style:
        return False
    return value.text == "" and value.start == key.end


def _make_comma_error(mapping: dict[Any, Any], key: _Token) -> DocumentError:
    """Return the error for a comma inside of the last value of a mapping in braces."""
    last_key, last_value = list(mapping.items())[-1]
    advice = f"put it in quotes, {last_key}: {quote(f'{last_value}, {key.text}')}"
    if isinstance(last_value, int) and key.text.isdecimal():
        advice = f"write {last_key}: {last_value}.{key.text}"
    return DocumentError(f"a comma is inside the value of {last_key!r:.80}: {advice}", key.line)


def _merge(mapping: dict[Any, Any], merged: Any, line: int) -> None:
    """Add the entries under `<<`, a mapping or a list of them, for keys that are not there yet."""
    sources = cast("list[Any]", merged) if isinstance(merged, list) else [merged]
    for source in sources:
        if not isinstance(source, dict):
            raise DocumentError("<< takes a mapping, or a list of them", line)
        for key, value in cast("dict[Any, Any]", source).items():
            mapping.setdefault(key, value)


_TOML_TABLE = re.compile(r"\s*\[(\[)?\s*([^\[\]#]+?)\s*\]")
_TOML_KEY = re.compile(r"\s*([\w\"'.-]+)\s*=")
_TOML_LONG_TEXT = re.compile(r'"""(?:[^\\]|\\.)*?"""|\'\'\'.*?\'\'\'', re.DOTALL)


def _find_toml_positions(text: str) -> dict[KeyPath, Position]:
    """Return the lines of tables and keys, found line by line, because `tomllib` has none."""
    positions: dict[KeyPath, Position] = {}
    table: KeyPath = ()  # the table that the current line is in
    last_indices: dict[KeyPath, int] = {}  # of each list of tables
    # Texts over several lines may contain anything, so only their line breaks are kept.
    without_texts = _TOML_LONG_TEXT.sub(lambda match: '""' + "\n" * match[0].count("\n"), text)
    for line_number, line in enumerate(without_texts.split("\n"), start=1):
        table_match = _TOML_TABLE.match(line)
        key_match = _TOML_KEY.match(line)
        if table_match is not None:
            table = _find_table_path(table_match, last_indices)
            path = table
        elif key_match is not None:
            keys = [key.strip("\"'") for key in key_match[1].split(".")]
            path = (*table, *keys)
        else:
            continue
        for length in range(1, len(path) + 1):
            positions.setdefault(path[:length], Position(line_number))
    return positions


def _find_table_path(table_match: re.Match[str], last_indices: dict[KeyPath, int]) -> KeyPath:
    """Return the path of a table, given the header that names it.

    `[a.b]` has the path `("a", "b")`, the second `[[a]]` has `("a", 1)`, and a `[a.b]` after it
    has `("a", 1, "b")`. `last_indices` holds the index of the last table of each list.
    """
    is_in_list = table_match[1] is not None
    name: KeyPath = ()
    path: KeyPath = ()
    for key in table_match[2].split("."):
        name = (*path, key.strip(" \t\"'"))
        path = (*name, last_indices[name]) if name in last_indices else name
    if is_in_list:
        last_indices[name] = last_indices.get(name, -1) + 1
        path = (*name, last_indices[name])
    return path


def dump_yaml(data: object) -> str:
    """Return data as a YAML text; raise `RubricError` for lone surrogates, which need JSON."""
    if LONE_SURROGATE.search(json.dumps(data, ensure_ascii=False)):
        raise RubricError("a text holds a lone surrogate, which YAML cannot write: use to_json")
    yaml: Any = import_module("yaml")

    def represent_text(dumper: Any, text: str) -> Any:
        # Without quotes, a NEL character would be read back as an ordinary line break, and a text in
        # typographic quotation marks would be refused.
        style = '"' if "\x85" in text or CURLY_QUOTES.fullmatch(text) else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    dumper: Any = type("Dumper", (yaml.SafeDumper,), {})
    dumper.add_representer(str, represent_text)
    # PyYAML follows YAML 1.1, so it would not quote texts that are numbers only in YAML 1.2.
    dumper.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(f"^(?:{_YAML_FLOAT})$"), list(_NUMBER_STARTS)
    )
    return yaml.dump(data, Dumper=dumper, sort_keys=False, allow_unicode=True, width=100)
