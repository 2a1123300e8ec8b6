"""Names of a package that are loaded when first used, so that importing the package costs nothing."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazily(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A module's `__getattr__`: the name from the module of the package that is its home, kept there.

    >>> lazily("assay", {"Score": "report"})("Score").__module__
    'assay.report'
    """

    def found(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return found
