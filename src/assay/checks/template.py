"""Fill the arguments of built-in checks with the columns of each row."""

import json
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, fields
from inspect import Signature, signature
from typing import Any, cast

from assay.check_function import CheckFunction, WrapFunction
from assay.checks.check import BuiltinCheck
from assay.placeholders import (
    MAX_FILLED_LENGTH,
    fill_values,
    format_column,
    has_placeholders,
    list_paths,
    too_long_error,
)
from assay.reasoning import Thinking
from assay.rollout import Rollout


@dataclass(frozen=True)
class CheckTemplate:
    """A built-in check with placeholders such as `{order_number}` in its arguments.

    >>> from assay.checks import check_of
    >>> template = check_of({"contains": "order {order_number}"})
    >>> template.fill({"order_number": "A-17"})
    Contains(value='order A-17', ignore_case=False, any_of=False)
    """

    kind: type[BuiltinCheck]
    arguments: Mapping[str, Any] = field(hash=False)  # as they were written, with placeholders

    def __post_init__(self) -> None:
        # What `inspect.signature` returns: the parameters of the check itself, without `self`.
        parameters = list(signature(self.kind.__call__).parameters.values())[1:]
        object.__setattr__(self, "__signature__", Signature(parameters))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.kind, self.arguments)

    @classmethod
    def of(cls, check: BuiltinCheck) -> "CheckTemplate | None":
        """Return the template that a check with placeholders in its arguments is; None without any."""
        arguments: dict[str, Any] = {}
        for each in fields(check):
            value = getattr(check, each.name)
            if value != each.default:
                arguments[each.name] = value
        if not has_placeholders(arguments):
            return None
        return cls(type(check), arguments)

    @property
    def name(self) -> str:
        """The name of the check in rubric files, and of its criterion."""
        return self.kind.name

    @property
    def predicate(self) -> Any:
        """The function of the caller that the check holds, as for a check without placeholders."""
        return self.arguments.get("predicate")

    @property
    def paths(self) -> tuple[str, ...]:
        """The columns that the arguments are filled with."""
        return list_paths(self.arguments)

    def spec(self) -> str | dict[str, Any]:
        """Return the form that the check has in a rubric file."""
        return self.kind.write_spec(self.arguments)

    def fill_arguments(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments for a row.

        Raises `ColumnError` if it lacks a column, or if its values are too long together.
        """
        escape_value = self.kind.escape_value
        filled_length = 0

        def write_value(text: str) -> str:
            nonlocal filled_length
            filled_length += len(text)
            if filled_length > MAX_FILLED_LENGTH:
                raise too_long_error()
            return text if escape_value is None else escape_value(text)

        return cast("dict[str, Any]", fill_values(self.arguments, row, write_value=write_value))

    def fill(self, row: Mapping[str, Any]) -> BuiltinCheck:
        """Return the check for a row. Raise `ColumnError` if the row lacks a column."""
        return self.build(self.fill_arguments(row))

    def build(self, arguments: Mapping[str, Any]) -> BuiltinCheck:
        """Return the check with arguments that are filled in.

        A table may hold a number as text, or an order number as a number: a value of a column that
        the check refuses is converted to the type that it takes.
        """
        read: dict[str, Any] = {}
        for name, value in arguments.items():
            is_filled = has_placeholders(self.arguments[name])
            read[name] = self._convert(name, value) if is_filled else value
        return self.kind(**read)

    def _convert(self, name: str, value: Any) -> Any:
        """Return the first form of a value that the check takes; the value itself if it takes none."""
        for candidate in _list_forms(value):
            if self.kind.takes(name, candidate):
                return candidate
        return value

    def __call__(self, *arguments: Any, **columns: Any) -> Any:
        """Check a completion; columns that only the placeholders name are given by keyword too."""
        check: Any = self.fill(columns)
        names = signature(check).parameters
        keywords = {name: value for name, value in columns.items() if name in names}
        return check(*arguments, **keywords)


def _list_forms(value: Any) -> Iterator[Any]:
    """Yield a value of a column as it is, as text, and what its text means as JSON."""
    yield value
    if isinstance(value, list | tuple):
        yield [format_column(entry) for entry in cast("list[Any]", value)]
    elif isinstance(value, str):
        try:
            yield json.loads(value)
        except ValueError:
            return
    elif isinstance(value, float) and value.is_integer():
        yield int(value)
        yield format_column(value)
    else:
        yield format_column(value)


def make_check(
    kind: type[BuiltinCheck], arguments: Mapping[str, Any]
) -> BuiltinCheck | CheckTemplate:
    """Return a check with these arguments, or its template if they have placeholders.

    The arguments of a template that have none are checked at once.
    """
    if not has_placeholders(arguments):
        return kind(**arguments)
    for name, value in arguments.items():
        if not has_placeholders(value):
            kind.read_argument(name, value)
    return CheckTemplate(kind, dict(arguments))


class TemplateFunction(CheckFunction):
    """A check whose arguments are filled with the columns of the rollout before it is called."""

    def __init__(
        self, template: CheckTemplate, name: str, thinking: Thinking | None = None
    ) -> None:
        super().__init__(template, name, thinking)
        self._template = template
        self._wrap: WrapFunction | None = None
        # Called with the filled arguments, by the name of the check; raises if they are too large.
        self.refuse_excess: Callable[[object], None] | None = None

    def wrap(self, make_function: WrapFunction, *, is_async: bool) -> None:
        self._wrap = make_function
        self.is_async = is_async

    def call(self, rollout: Rollout, class_objects: Mapping[str, Any]) -> Any:
        """Fill the arguments of the check, and call it about one rollout.

        Raises `ColumnError` if the rollout lacks a column.
        """
        arguments = self._template.fill_arguments(rollout.columns)
        if self.refuse_excess is not None:
            self.refuse_excess({self._template.name: arguments})
        else:
            self._template.kind.refuse_excess(arguments)
        check: Any = self._template.build(arguments)
        if self._wrap is not None:
            check = self._wrap(check)
        # The parameters of the filled check are the same, so its signature is not read again.
        filled = copy(self)
        filled.function = check
        return CheckFunction.call(filled, rollout, class_objects)
