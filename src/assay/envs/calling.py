"""Call a method that somebody else wrote: with the arguments it names, and awaited if need be."""

import inspect
from collections.abc import Callable
from functools import lru_cache
from typing import Any


async def awaited(value: Any) -> Any:
    """The value, waited for when it is not there yet."""
    return await value if inspect.isawaitable(value) else value


async def called(method: Callable[..., Any], **known: Any) -> Any:
    """What a method returns, given those of the known arguments that it takes.

    So `is_completed(messages, state)`, `is_completed(state)` and one with `**kwargs` all do.
    """
    function = getattr(method, "__func__", method)
    names = _names(function)
    given = known if names is None else {name: known[name] for name in names if name in known}
    return await awaited(method(**given))


@lru_cache(maxsize=1024)
def _names(function: Callable[..., Any]) -> tuple[str, ...] | None:
    """The names of the arguments that a function takes; None when it takes any."""
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return tuple(parameter.name for parameter in parameters)
