"""The kinds of value a check may be given."""

from typing import Annotated, TypeAlias

from annotated_types import Ge, Gt, MinLen
from pydantic import AllowInfNan, BeforeValidator, Strict
from pydantic_core import PydanticCustomError


def _no_bool(value: object) -> object:
    # To pydantic a bool is a number, and `tolerance: true` would pass for 1.
    if isinstance(value, bool):
        raise PydanticCustomError("float_type", "a bool is no number")
    return value


Flag: TypeAlias = Annotated[bool, Strict()]
Count: TypeAlias = Annotated[int, Strict(), Ge(0)]
Places: TypeAlias = Annotated[int, Strict(), Ge(1)]
Number: TypeAlias = Annotated[float, AllowInfNan(False), Ge(0), BeforeValidator(_no_bool)]
Seconds: TypeAlias = Annotated[float, AllowInfNan(False), Gt(0), BeforeValidator(_no_bool)]
Text: TypeAlias = Annotated[str, MinLen(1)]
Texts: TypeAlias = Annotated[tuple[Text, ...], MinLen(1)]
