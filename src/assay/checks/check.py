"""Define what the built-in checks share: a name, fields that are checked, and a form to stand in a file."""

import re
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from typing import Annotated, Any, ClassVar, TypeAlias, cast, dataclass_transform

from annotated_types import Ge, Gt, MinLen
from pydantic import AllowInfNan, BeforeValidator, Strict, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from assay.errors import RubricError, import_extra
from assay.identity import get_qualified_name
from assay.placeholders import WriteValue
from assay.wording import explain_first_error


def _no_bool(value: object) -> object:
    # To pydantic a bool is a number, and `tolerance: true` would pass for 1.
    if isinstance(value, bool):
        raise PydanticCustomError("float_type", "a bool is not a number")
    return value


Flag: TypeAlias = Annotated[bool, Strict()]
Count: TypeAlias = Annotated[int, Strict(), Ge(0)]
Places: TypeAlias = Annotated[int, Strict(), Ge(1)]
Number: TypeAlias = Annotated[float, AllowInfNan(False), Ge(0), BeforeValidator(_no_bool)]
Seconds: TypeAlias = Annotated[float, AllowInfNan(False), Gt(0), BeforeValidator(_no_bool)]
Text: TypeAlias = Annotated[str, MinLen(1)]
Texts: TypeAlias = Annotated[tuple[Text, ...], MinLen(1)]


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
@dataclass(frozen=True)
class BuiltinCheck:
    """A check with a name and fields: a frozen dataclass, which is equal to its like, and can be pickled."""

    # Its name in rubric files, and of its criterion: the name of the class in snake case.
    name: ClassVar[str] = "builtin_check"
    # Changes the value of a column before it is filled in between other characters of an argument.
    escape_value: ClassVar[WriteValue | None] = None

    def __init_subclass__(cls) -> None:
        cls.name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()
        dataclass(frozen=True)(cls)

    def __post_init__(self) -> None:
        for name in _adapters(type(self)):
            object.__setattr__(self, name, self.read_argument(name, getattr(self, name)))

    @classmethod
    def read_argument(cls, name: str, value: Any) -> Any:
        """Return the value of a field as the check holds it; raise `RubricError` if it is wrong."""
        try:
            return _adapters(cls)[name].validate_python(value)
        except ValidationError as error:
            raise RubricError(f"{cls.name}: {explain_first_error(error, name)[1]}") from None

    @classmethod
    def refuse_excess(cls, arguments: Mapping[str, Any]) -> None:
        """Raise `RubricError` if arguments that come with a row would take much time or memory."""

    @classmethod
    def takes(cls, name: str, value: Any) -> bool:
        """Return True if a field can have this value."""
        try:
            _adapters(cls)[name].validate_python(value)
        except ValidationError:
            return False
        return True

    def spec(self) -> str | dict[str, Any]:
        """Return the form it has in a rubric file; fields at their defaults are left out."""
        given: dict[str, Any] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            # What is not compared changes no answer, so it is not written either.
            if each.compare and (each.default is MISSING or value != each.default):
                value = get_qualified_name(value) if callable(value) else deepcopy(value)
                given[each.name] = (
                    list(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else value
                )
        return self.write_spec(given)

    @classmethod
    def write_spec(cls, arguments: Mapping[str, Any]) -> str | dict[str, Any]:
        """Return the form that a check with these arguments has in a rubric file."""
        if not arguments:
            return cls.name
        lone = cls.lone_field()
        if lone is not None and [*arguments] == [lone] and not isinstance(arguments[lone], dict):
            return {cls.name: arguments[lone]}
        return {cls.name: dict(arguments)}

    @classmethod
    def lone_field(cls) -> str | None:
        """Return the field of a bare value (`max_words: 200`); None for a flag: `exact_match: true` would mislead."""
        first = next(iter(fields(cls)), None)
        return None if first is None or first.type == Flag else first.name

    def __reduce__(self) -> tuple[Any, ...]:
        # Made anew from its fields, so that what it has compiled need not be pickled.
        return type(self), tuple(getattr(self, each.name) for each in fields(self))


@cache
def _adapters(kind: type[BuiltinCheck]) -> dict[str, TypeAdapter[Any]]:
    return {each.name: TypeAdapter[Any](cast("Any", each.type)) for each in fields(kind)}


def compiled(pattern: str, flags: str = "") -> Any:
    """The compiled pattern, or an error that says where it is wrong. Flags are of `i`, `m`, `s`."""
    regex = import_extra("regex", "a regex check")
    chosen = [getattr(regex, letter.upper()) for letter in flags]
    try:
        return regex.compile(pattern, sum(chosen, regex.V0))
    except regex.error as error:
        raise RubricError(f"the pattern {pattern!r} is not a regular expression: {error}") from None
    except (RecursionError, OverflowError):
        raise RubricError(f"the pattern {pattern!r:.100} is too deep or too large") from None


def search(pattern: Any, text: str, seconds: float) -> bool:
    """Whether a compiled pattern occurs in a text; raises `TimeoutError` when that takes too long."""
    try:
        return pattern.search(text, timeout=seconds) is not None
    except TimeoutError:
        told = f"the pattern {pattern.pattern!r:.100} was still searching {len(text):,} characters after {seconds:g} s"
        raise TimeoutError(f"{told}: write it with less backtracking") from None
