"""Load the names and data files of a package when they are first used."""

import re
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

# `from module import name as name`; the name stands in brackets if the line would be too long.
_IMPORT = re.compile(r"^from (\S+) import (?:\(\s+)?\w+ as (\w+)(?:,\s+\))?$", re.MULTILINE)
_STAR_IMPORT = re.compile(r"^from (\S+) import \*$", re.MULTILINE)


def attach(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package, from its stub `__init__.pyi`.

    The stub imports one name per line. `__getattr__` imports the module of a name when the name is
    first used.
    """
    module = sys.modules[package]
    modules = _read_stub(module)
    names = sorted(name for name, source in modules.items() if source != package)

    def load(name: str) -> Any:
        source = modules.get(name)
        if source is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if source == package:  # the name is a module of the package, as in `assay.checks`
            return import_module(f"{package}.{name}")
        value = getattr(import_module(source), name)
        setattr(module, name, value)
        return value

    def list_names() -> list[str]:
        return names

    return load, list_names, names


def _read_stub(package: Any) -> dict[str, str]:
    """Return the names in the stub of a package, with the module from which each is imported."""
    folder = package.__path__[0]
    # The loader can also read a package in a zip file.
    stub = package.__loader__.get_data(f"{folder}/__init__.pyi").decode()
    modules: dict[str, str] = {}
    for source in _STAR_IMPORT.findall(stub):
        modules.update(dict.fromkeys(import_module(source).__all__, source))
    for source, name in _IMPORT.findall(stub):
        modules[name] = source
    return modules


@cache
def read_toml(package: str, file: str) -> dict[str, Any]:
    """Return the content of a TOML file of a package."""
    import tomllib  # imported late, because both modules are slow to load
    from pkgutil import get_data

    return tomllib.loads((get_data(package, file) or b"").decode())
