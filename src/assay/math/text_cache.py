"""Cache functions of answers without keeping whole completions in memory."""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, Final, ParamSpec, TypeVar

MAX_CACHED_LENGTH: Final = 1000  # the texts of a full cache take at most 65 MB

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def cache_short_texts(
    size: int,
) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Return a decorator that caches the last `size` results of a function.

    Results for texts of over 1,000 characters are not cached, since they would fill the memory.
    """

    def decorate(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        """Return the function with a cache for calls in which all texts are short."""
        call_cached: Any = lru_cache(maxsize=size)(function)

        @wraps(function)
        def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
            for argument in args:
                if isinstance(argument, str) and len(argument) > MAX_CACHED_LENGTH:
                    return function(*args, **kwargs)
            return call_cached(*args, **kwargs)

        return call

    return decorate
