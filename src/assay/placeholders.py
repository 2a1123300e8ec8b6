"""Fill placeholders such as `{column}` or `{info.city}` in a text with the values of a row.

Requirements, arguments of checks and prompts all use this syntax:

- `{refund_days}` is the value of the column `refund_days`, and `{info.city}` is the entry `city` of
  the column `info`. Only entries of mappings and lists can be named, never attributes.
- `{{refund_days}}` is the text `{refund_days}`, and `{{{refund_days}}}` is the value in braces.
- All other braces are ordinary characters: `{"a": 1}`, `[a-z]{3}`, `{}`, `\\frac{1}{2}`. In a text
  that has a placeholder and doubles all other braces, as Python's `str.format` requires, these
  stand for single braces: `Returns {{"city": ...}} for {city}`.
- An argument of a LaTeX command is not a placeholder, even if it is a name: `\\frac{a}{b}`,
  `\\text{answer}`. Neither is a subscript or superscript of a single character: `x_{i}`, `2^{n}`.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from string import Formatter
from typing import Any, cast

from assay.errors import ColumnError
from assay.wording import format_value, suggest_word

_PATH = r"[^\W\d]\w*(?:\.\w+)*"
_TOKEN = re.compile(
    rf"""
      (?P<command>\\[A-Za-z]+\*?(?:\[[^\[\]{{}}]*\])?(?={{))  # a LaTeX command with arguments
    | \\[\\{{}}]                                              # a backslash, or an escaped brace
    | {{{{{{(?P<in_braces>{_PATH})}}}}}}
    | {{{{(?P<escaped>{_PATH})}}}}
    | (?P<script>[_^]{{[^\W_]}})                               # x_{{i}}, 2^{{n}}
    | {{(?P<path>{_PATH})}}
    | (?P<brace>[{{}}])
    """,
    re.VERBOSE,
)
_MAX_LISTED_COLUMNS = 30  # in an error message
# Characters of all values that are filled into one text. A text may name a column many times.
MAX_FILLED_LENGTH = 10_000_000

# Writes the value of a placeholder, which was converted to a text.
WriteValue = Callable[[str], str]


@dataclass(frozen=True)
class Placeholder:
    """A place in a template where the value of a column is filled in."""

    path: str

    def find_value(self, row: Mapping[str, Any]) -> Any:
        """Return the value in a row; raise `ColumnError` if the row has none."""
        return find_column(row, self.path, is_placeholder=True)


@dataclass(frozen=True)
class Template:
    """A text with placeholders, parsed once and filled for every row.

    >>> template = parse_template("The refund period is {refund_days} days")
    >>> template.paths
    ('refund_days',)
    >>> template.fill({"refund_days": 30})
    'The refund period is 30 days'
    """

    text: str  # as it was written
    parts: tuple[str | Placeholder, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        """The columns that are filled in, each once, in the order in which they occur."""
        paths = [part.path for part in self.parts if isinstance(part, Placeholder)]
        return tuple(dict.fromkeys(paths))

    def fill(
        self,
        row: Mapping[str, Any],
        *,
        write_value: WriteValue | None = None,
        allow_empty: bool = False,
    ) -> str:
        """Return the text with the values of a row.

        `write_value` changes every value before it is filled in, for example to escape it. Raises
        `ColumnError` if the row has no such column or no value in it; with `allow_empty`, an empty
        text is a value.
        """
        texts: list[str] = []
        length = 0
        for part in self.parts:
            if isinstance(part, str):
                texts.append(part)
                continue
            text = format_column(part.find_value(row))
            if not text.strip() and not allow_empty:
                raise empty_column_error(part.path)
            length += len(text)
            if length > MAX_FILLED_LENGTH:
                raise too_long_error()
            if write_value is not None:
                text = write_value(text)
            texts.append(text)
        return "".join(texts)

    def fill_value(self, row: Mapping[str, Any], *, write_value: WriteValue | None = None) -> Any:
        """Return the value of a row itself, such as a number, if the text is only a placeholder.

        Any other text is filled as by `fill`.
        """
        if len(self.parts) == 1 and isinstance(self.parts[0], Placeholder):
            value = self.parts[0].find_value(row)
            if isinstance(value, str) and not value.strip():
                raise empty_column_error(self.parts[0].path)
            return value
        return self.fill(row, write_value=write_value)


@lru_cache(maxsize=4096)
def parse_template(text: str) -> Template:
    """Return the template that a text describes. Every text is one."""
    parts: list[str | Placeholder] = []
    literal: list[str] = []
    has_latex = False
    # For every open brace: whether it opened an argument of a LaTeX command.
    open_braces: list[bool] = []
    # Where an argument of a LaTeX command would start: after the command or its last argument.
    argument_start = -1
    end = 0

    def add_placeholder(path: str) -> None:
        text_before = "".join(literal)
        if text_before:
            parts.append(text_before)
        literal.clear()
        parts.append(Placeholder(path))

    position = 0
    while match := _TOKEN.search(text, position):
        literal.append(text[end : match.start()])
        token = match.group()
        is_argument = match.start() == argument_start
        path = match["path"]
        position = end = match.end()
        if match["command"]:
            literal.append(token)
            argument_start = end
        elif match["in_braces"]:
            literal.append("{")
            add_placeholder(match["in_braces"])
            literal.append("}")
        elif match["escaped"]:
            literal.append("{" + match["escaped"] + "}")
        elif (path and is_argument) or match["script"]:
            has_latex = True
            literal.append(token)
            if is_argument:
                argument_start = end
        elif path:
            add_placeholder(path)
        elif token == "{":
            open_braces.append(is_argument)
            literal.append(token)
        elif token == "}":
            closes_argument = bool(open_braces) and open_braces.pop()
            literal.append(token)
            if closes_argument:
                argument_start = end
        else:
            literal.append(token)
    literal.append(text[end:])
    last_text = "".join(literal)
    if last_text or not parts:
        parts.append(last_text)
    has_placeholder = any(isinstance(part, Placeholder) for part in parts)
    if has_placeholder and not has_latex:
        parts = _parse_format_string(text) or parts
    return Template(text, tuple(parts))


def _parse_format_string(text: str) -> list[str | Placeholder] | None:
    """Return the parts of a text in which all braces but those of placeholders are doubled.

    Returns None if there is a single brace, or one with anything but a column in it.
    """
    parts: list[str | Placeholder] = []
    try:
        for literal, field, format_spec, conversion in Formatter().parse(text):
            if literal:
                parts.append(literal)
            if field is None:
                continue
            if format_spec or conversion or not re.fullmatch(_PATH, field):
                return None
            parts.append(Placeholder(field))
    except ValueError:
        return None
    return parts


def has_placeholders(value: object) -> bool:
    """Return True if a text, or a text inside lists and mappings, has a placeholder.

    An escaped one counts too, since the text would change when it is filled.
    """
    if isinstance(value, str):
        if "{" not in value:
            return False
        return parse_template(value).parts != (value,)
    if isinstance(value, Mapping):
        return any(map(has_placeholders, cast("Mapping[object, object]", value).values()))
    if isinstance(value, list | tuple):
        return any(map(has_placeholders, cast("Sequence[object]", value)))
    return False


def list_paths(value: object) -> tuple[str, ...]:
    """Return the columns that a text, or texts inside lists and mappings, are filled with."""
    paths: list[str] = []
    if isinstance(value, str):
        paths.extend(parse_template(value).paths)
    elif isinstance(value, Mapping):
        for entry in cast("Mapping[object, object]", value).values():
            paths.extend(list_paths(entry))
    elif isinstance(value, list | tuple):
        for entry in cast("Sequence[object]", value):
            paths.extend(list_paths(entry))
    return tuple(dict.fromkeys(paths))


def fill_values(
    value: Any, row: Mapping[str, Any], *, write_value: WriteValue | None = None
) -> Any:
    """Return a copy of a value in which all texts are filled, also inside lists and mappings.

    A text that is only a placeholder becomes the value of the column itself, such as a number.
    """
    if isinstance(value, str):
        return parse_template(value).fill_value(row, write_value=write_value)
    if isinstance(value, Mapping):
        mapping = cast("Mapping[Any, Any]", value)
        return {
            key: fill_values(entry, row, write_value=write_value) for key, entry in mapping.items()
        }
    if isinstance(value, list | tuple):
        entries = cast("Sequence[Any]", value)
        filled = [fill_values(entry, row, write_value=write_value) for entry in entries]
        return tuple(filled) if isinstance(value, tuple) else filled
    return value


def find_column(
    row: Mapping[str, Any],
    path: str,
    *,
    allow_empty: bool = False,
    is_placeholder: bool = False,
) -> Any:
    """Return the value of a column, or with dots of an entry inside it.

    A column whose name contains the dots takes precedence. Raises `ColumnError` if there is no such
    column or entry, or, without `allow_empty`, if it is empty (None or NaN). Braces in a text may
    have been meant literally, which the error about a placeholder says.
    """
    if path in row:
        value = row[path]
    else:
        name, *keys = path.split(".")
        if name not in row:
            raise _unknown_column_error(row, path, is_placeholder)
        value = row[name]
        for depth, key in enumerate(keys, start=1):
            if value is None and allow_empty:
                return None
            value = _find_entry(value, key, ".".join([name, *keys[: depth - 1]]))
    if value is None or (isinstance(value, float) and math.isnan(value)):
        if not allow_empty:
            raise empty_column_error(path)
        return None
    return value


def _find_entry(value: Any, key: str, parent: str) -> Any:
    """Return one entry of a mapping or a list; raise `ColumnError` if there is none.

    Attributes are not looked at: a column must not give access to the objects of this process.
    """
    if isinstance(value, Mapping):
        entries = cast("Mapping[Any, Any]", value)
        if key in entries:
            return entries[key]
        raise ColumnError(
            f"{parent!r} has no entry {key!r} (entries: {_list_names(entries)}): correct the name"
        )
    if isinstance(value, list | tuple) and key.isdecimal():
        items = cast("Sequence[Any]", value)
        if int(key) < len(items):
            return items[int(key)]
        raise ColumnError(
            f"{parent!r} has {len(items)} entries, so there is no {key!r}: the first is 0"
        )
    raise ColumnError(
        f"{parent!r} is {format_value(cast('object', value))}, which has no entry {key!r}: "
        "use a dot only for entries of a mapping or a list"
    )


def _unknown_column_error(row: Mapping[str, Any], path: str, is_placeholder: bool) -> ColumnError:
    """Return the error for a column that a row does not have, with the columns that there are."""
    return ColumnError(f"the row has {describe_unknown_column(row, path, is_placeholder)}")


def describe_unknown_column(row: Mapping[str, Any], path: str, is_placeholder: bool) -> str:
    """Return the end of a sentence about rows that have no such column: what they have, and what to do."""
    name = path.partition(".")[0]
    suggestion = suggest_word(name, map(str, row))
    if not suggestion.startswith("did you mean"):
        suggestion = "correct the name, or add the column"
        if is_placeholder:
            suggestion = f"correct the name, or for literal braces write {{{{{path}}}}}"
    return f"no column {name!r} (columns: {_list_names(row) or 'none'}): {suggestion}"


def empty_column_error(path: str) -> ColumnError:
    """Return the error for a column that has no value in a row."""
    return ColumnError(f"the row has no value in column {path!r}: fill it in, or remove the row")


def too_long_error() -> ColumnError:
    """Return the error for columns whose values are too long for one text."""
    return ColumnError(
        f"the values of the row that are filled in have more than {MAX_FILLED_LENGTH:,} characters "
        "together: shorten them, or name them less often"
    )


def _list_names(names: Iterable[object]) -> str:
    """Return names for a message; of many, the first."""
    listed = sorted(map(str, names))
    text = ", ".join(listed[:_MAX_LISTED_COLUMNS])
    if len(listed) > _MAX_LISTED_COLUMNS:
        text += ", …"
    return text


def format_column(value: Any) -> str:
    """Return a value of a row as text.

    A text stays as it is, and a whole number has no decimal places: data frames make 30 to 30.0 if
    another row of the column is empty. Anything else is written as JSON.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return json.dumps(value, ensure_ascii=False, default=str)
