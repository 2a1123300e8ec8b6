"""YAML in and out: by the rules of YAML 1.2, in one pass that no text can make recurse or run away.

The parser is PyYAML's, which hands out events; the data is put together here. Its own loaders read
`no` as false and `1e-6` as a text, let a key stand twice, and crash on deep nesting.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any, Final, cast

from assay.errors import RubricError
from assay.loading.lines import Mark

MOST_DEPTH: Final = 200
"""How deep lists and mappings may be nested."""

MOST_REPEATED: Final = 1_000_000
"""Values that the aliases of a text may add up to: nested aliases grow without bound."""

_FLOAT = (
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
_WORDS: Final = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_IS_INT: Final = re.compile(r"[-+]?[0-9]{1,1000}").fullmatch
_IS_HEX: Final = re.compile(r"0x[0-9a-fA-F]{1,1000}").fullmatch
_IS_FLOAT: Final = re.compile(_FLOAT).fullmatch
_TAGS: Final = (None, "!", *(f"tag:yaml.org,2002:{name}" for name in ("str", "map", "seq")))


class YamlError(RubricError):
    """A YAML text that we cannot take, and the line where that shows."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


def load_yaml(text: str) -> Any:
    """The data of a YAML text; raises `YamlError`."""
    tree = _Tree()
    for kind, event, line in _events(text):
        tree.take(kind, event, line)
    return tree.root


def yaml_marks(text: str) -> Iterator[Mark]:
    """The marks of a YAML text."""
    for kind, event, line in _events(text):
        yield Mark(kind, getattr(event, "value", ""), line)


def dump_yaml(data: object) -> str:
    """Data as a YAML text, in the order it has."""
    yaml: Any = import_module("yaml")
    return yaml.dump(data, Dumper=_dumper(), sort_keys=False, allow_unicode=True, width=100)


def _events(text: str) -> Iterator[tuple[Any, Any, int]]:
    yaml: Any = import_module("yaml")
    kinds = {
        yaml.MappingStartEvent: "mapping",
        yaml.SequenceStartEvent: "list",
        yaml.ScalarEvent: "value",
        yaml.AliasEvent: "value",
        yaml.MappingEndEvent: "end",
        yaml.SequenceEndEvent: "end",
    }
    ended = False
    try:
        # Ten times as fast as the Python one, where it is installed.
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            line = event.start_mark.line + 1
            if ended and isinstance(event, yaml.DocumentStartEvent):
                raise YamlError("a second document begins: keep one to a file", line)
            ended = ended or isinstance(event, yaml.DocumentEndEvent)
            if type(event) in kinds:
                yield kinds[type(event)], event, line
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        said = getattr(error, "problem", None) or " ".join(str(error).split())
        raise YamlError(said, None if mark is None else mark.line + 1) from None


MERGE: Final = object()
"""The key `<<`: what stands under it is merged into the mapping."""


@dataclass
class _Open:
    """A list or mapping that is still being read."""

    held: Any
    is_mapping: bool
    anchor: str | None
    before: int
    """Values read before it began, for its size."""
    key: Any = None
    at_key: bool = True
    merged: list[tuple[Any, int]] = field(default_factory=list[tuple[Any, int]])
    """What stands under `<<`, and on which line."""


class _Tree:
    """Puts data together from events, and counts what it comes to with every alias written out."""

    def __init__(self) -> None:
        self.root: Any = None
        self._opened: list[_Open] = []
        self._named: dict[str, tuple[Any, int]] = {}
        self._total = self._repeated = 0

    def take(self, kind: str, event: Any, line: int) -> None:
        if kind == "end":
            self._close()
        elif kind != "value":
            self._open(kind == "mapping", event, line)
        elif hasattr(event, "value"):
            value = _scalar(event, line)
            if value == "<<" and event.implicit[0] and self._is_at_key:
                value = MERGE  # quoted, it is a key like any other
            self._add(value, 1, line)
            if event.anchor:
                self._named[event.anchor] = (value, 1)
        else:
            self._add(*self._aliased(event.anchor, line), line)

    @property
    def _is_at_key(self) -> bool:
        return bool(self._opened) and self._opened[-1].is_mapping and self._opened[-1].at_key

    def _add(self, value: Any, size: int, line: int) -> None:
        self._total += size
        if not self._opened:
            self.root = value
            return
        top = self._opened[-1]
        if not top.is_mapping:
            top.held.append(value)
            return
        if top.at_key:
            _refuse_key(value, top.held, line)
            top.key = value
        elif top.key is MERGE:
            top.merged.append((value, line))
        else:
            top.held[top.key] = value
        top.at_key = not top.at_key

    def _open(self, is_mapping: bool, event: Any, line: int) -> None:
        _refuse_tag(event, line)
        opened = _Open({} if is_mapping else [], is_mapping, event.anchor, self._total)
        self._add(opened.held, 1, line)
        self._opened.append(opened)
        if len(self._opened) > MOST_DEPTH:
            raise YamlError(f"it is nested more than {MOST_DEPTH} deep", line)

    def _close(self) -> None:
        closed = self._opened.pop()
        for value, line in closed.merged:
            mappings = cast("list[Any]", value if isinstance(value, list) else [value])
            for mapping in mappings:
                if not isinstance(mapping, dict):
                    raise YamlError("<< takes a mapping, or a list of them", line)
                closed.held.update({**mapping, **closed.held})
        if closed.anchor:
            self._named[closed.anchor] = (closed.held, self._total - closed.before)

    def _aliased(self, alias: str, line: int) -> tuple[Any, int]:
        if alias in [opened.anchor for opened in self._opened]:
            raise YamlError(f"*{alias} stands inside what it names, without end", line)
        if alias not in self._named:
            raise YamlError(f"*{alias} names nothing above it", line)
        value, size = self._named[alias]
        self._repeated += size
        if self._repeated > MOST_REPEATED:
            raise YamlError(
                f"its aliases unfold to more than {MOST_REPEATED:,} values: write them out", line
            )
        return value, size


def _refuse_key(value: Any, mapping: dict[Any, Any], line: int) -> None:
    if isinstance(value, list | dict):
        raise YamlError("a key is a list or a mapping: give a word", line)
    if value in mapping:
        raise YamlError(
            f"the key {value!r:.80} stands twice in one mapping: drop one of them", line
        )


def _refuse_tag(event: Any, line: int) -> None:
    if event.tag not in _TAGS:
        raise YamlError(f"the tag {event.tag!r:.80} is not read: drop it", line)


def _scalar(event: Any, line: int) -> Any:
    """What a value stands for: with quotes, or the tag `!!str`, a text."""
    _refuse_tag(event, line)
    text: str = event.value
    if event.tag is not None or not event.implicit[0]:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "-+.0123456789":
        return text
    if _IS_INT(text):
        return int(text)
    if _IS_HEX(text):
        return int(text, 16)
    return float(re.sub(r"\.(?=[inIN])", "", text)) if _IS_FLOAT(text) else text


@cache
def _dumper() -> Any:
    yaml: Any = import_module("yaml")

    def represent(dumper: Any, text: str) -> Any:
        # Left plain, a NEL would be read back as an ordinary line break.
        style = '"' if "\x85" in text else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    dumper: Any = type("Dumper", (yaml.SafeDumper,), {})
    dumper.add_representer(str, represent)
    # Texts that only YAML 1.2 takes for numbers need quotes too.
    dumper.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(f"^(?:{_FLOAT})$"), [*"-+.0123456789"]
    )
    return dumper
