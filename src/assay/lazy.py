"""Load what belongs to a package when it is first used: the names of its stub `__init__.pyi`, and its tables."""

import re
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

# One name per import, in brackets where the line would be too long.
_LINE = re.compile(r"^from (\S+) import (?:\(\s+)?\w+ as (\w+)(?:,\s+\))?$", re.MULTILINE)
_EVERY = re.compile(r"^from (\S+) import \*$", re.MULTILINE)


def attach(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return a package's `__getattr__`, `__dir__` and `__all__`, from its stub."""
    module = sys.modules[package]
    [folder, *_] = module.__path__
    loader: Any = module.__loader__  # also where the package is in a zip file
    stub = loader.get_data(f"{folder}/__init__.pyi").decode()
    homes = {name: home for home in _EVERY.findall(stub) for name in import_module(home).__all__}
    homes |= {name: home for home, name in _LINE.findall(stub)}

    names = sorted(name for name, home in homes.items() if home != package)

    def load(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if home == package:  # one of its modules, as in `assay.checks`
            return import_module(f"{package}.{name}")
        value = getattr(import_module(home), name)
        setattr(module, name, value)
        return value

    return load, lambda: names, names


@cache
def table_of(package: str, file: str) -> dict[str, Any]:
    """The table in a TOML file of a package."""
    import tomllib  # which takes its time to load, as the next
    from pkgutil import get_data

    return tomllib.loads((get_data(package, file) or b"").decode())
