"""Functions that a rubric file names as `package.module:function`."""

import re
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from assay.errors import RubricError

REFERENCE: Final = r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$"


def is_reference(text: str) -> bool:
    """Whether a text names a function, rather than something built in."""
    return re.search(REFERENCE, text) is not None


def function_of(reference: str, *, allow_code: bool) -> Callable[..., Any]:
    """The function that a file names; raises unless the caller has said that files may run code."""
    if not allow_code:
        raise RubricError(
            f"{reference!r} names code: pass allow_code=True if you trust this file (--allow-code)"
        )
    module, _, path = reference.partition(":")
    try:
        # Importing a module runs it, so anything may be raised.
        found: Any = import_module(module)
        for step in path.split("."):
            found = getattr(found, step)
    except Exception as error:
        raise RubricError(
            f"{reference!r} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    if not callable(found):
        raise RubricError(f"{reference!r} is {found!r:.80}, which cannot be called")
    return found
