"""YAML in and out: safe, by the rules of YAML 1.2, and with a limit on what a text may unfold to."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from assay.errors import RubricError
from assay.loading.lines import Mark

MOST_REPEATED = 1_000_000
"""Values that the aliases of a text may add up to: nested aliases grow without bound."""

_FLOAT = (
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
_CORE = (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", [*"tTfF"]),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)|0x[0-9a-fA-F]+", [*"-+0123456789"]),
    ("float", _FLOAT, [*"-+.0123456789"]),
    ("merge", r"<<", ["<"]),
)
"""What a plain word is, by YAML 1.2: `yes` and `no` are texts, and `1e-6` is a number."""


class YamlProblem(RubricError):
    """A YAML text that we do not take, and the line where that shows."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


def load_yaml(text: str) -> Any:
    """The data of a YAML text. `marks` must have been looked at before."""
    import yaml

    try:
        return yaml.load(text, Loader=_loader())
    except yaml.YAMLError as error:
        raise _problem(error) from None


def yaml_marks(text: str) -> Iterator[Mark]:
    """The marks of a YAML text; raises `YamlProblem` where it is wrong or its aliases run wild."""
    import yaml

    kinds = {
        yaml.MappingStartEvent: "mapping",
        yaml.SequenceStartEvent: "list",
        yaml.ScalarEvent: "value",
        yaml.AliasEvent: "value",
        yaml.MappingEndEvent: "end",
        yaml.SequenceEndEvent: "end",
    }
    aliases = _Aliases()
    try:
        for event in yaml.parse(text, Loader=_loader()):
            kind: Any = kinds.get(type(event))
            if kind is not None:
                line = event.start_mark.line + 1
                aliases.count(kind, event, line)
                yield Mark(kind, getattr(event, "value", ""), line)
    except yaml.YAMLError as error:
        raise _problem(error) from None


class _Aliases:
    """Counts what a text comes to when every alias is written out."""

    def __init__(self) -> None:
        self._total = self._repeated = 0
        self._opened: list[tuple[str | None, int]] = []
        self._sizes: dict[str, int] = {}

    def count(self, kind: str, event: Any, line: int) -> None:
        if kind == "end":
            anchor, before = self._opened.pop()
            self._note(anchor, self._total - before)
            return
        anchor: str | None = event.anchor
        size = 1
        if kind != "value":
            self._opened.append((anchor, self._total))
        elif not hasattr(event, "value"):
            size = self._size_of(anchor or "", line)
        else:
            self._note(anchor, 1)
        self._total += size

    def _note(self, anchor: str | None, size: int) -> None:
        if anchor is not None:
            self._sizes[anchor] = size

    def _size_of(self, alias: str, line: int) -> int:
        if alias in [anchor for anchor, _ in self._opened]:
            raise YamlProblem(f"*{alias} stands inside what it names, without end", line)
        size = self._sizes.get(alias, 1)
        self._repeated += size
        if self._repeated > MOST_REPEATED:
            raise YamlProblem(
                f"its aliases unfold to more than {MOST_REPEATED:,} values: write them out", line
            )
        return size


def dump_yaml(data: object) -> str:
    """Data as a YAML text, in the order it has."""
    import yaml

    text: str = yaml.dump(data, Dumper=_dumper(), sort_keys=False, allow_unicode=True, width=100)
    return text


def _problem(error: Any) -> YamlProblem:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    said = getattr(error, "problem", None) or str(error)
    return YamlProblem(f"{said}".replace("\n", " "), None if mark is None else mark.line + 1)


@cache
def _loader() -> Any:
    import yaml

    # Ten times as fast as the Python one, where it is installed.
    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loader: Any = type("Loader", (base,), {"yaml_implicit_resolvers": {}})
    for name, pattern, first in _CORE:
        word = re.compile(f"^(?:{pattern})$")
        loader.add_implicit_resolver(f"tag:yaml.org,2002:{name}", word, first)
    return loader


@cache
def _dumper() -> Any:
    import yaml

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
    return dumper
