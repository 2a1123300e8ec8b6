"""`verifiers.utils.async_utils`."""

import inspect
from collections.abc import Callable
from typing import Any


async def maybe_await(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What `func` returns, awaited when that is needed."""
    result = func(*args, **kwargs)
    return await result if inspect.isawaitable(result) else result
