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


def attach(package_name: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` for a package that loads its names lazily.

    The names are those that its stub `__init__.pyi` imports, one per line. The module of a name is
    imported when the name is first used.
    """
    package = sys.modules[package_name]
    module_by_name = _read_stub(package)
    # Modules of the package itself, such as `assay.checks`, are not listed.
    exported_names = sorted(
        name for name, module_name in module_by_name.items() if module_name != package_name
    )

    def load(name: str) -> Any:
        module_name = module_by_name.get(name)
        if module_name is None:
            raise AttributeError(f"module {package_name!r} has no attribute {name!r}")
        if module_name == package_name:
            return import_module(f"{package_name}.{name}")
        value = getattr(import_module(module_name), name)
        setattr(package, name, value)  # so that the next use does not call `load` again
        return value

    def list_names() -> list[str]:
        return exported_names

    return load, list_names, exported_names


def _read_stub(package: Any) -> dict[str, str]:
    """Return the names that the stub of a package imports, each with the name of its module."""
    folder = package.__path__[0]
    # The loader can also read a package in a zip file.
    stub = package.__loader__.get_data(f"{folder}/__init__.pyi").decode()
    module_by_name: dict[str, str] = {}
    for module_name in _STAR_IMPORT.findall(stub):
        for name in import_module(module_name).__all__:
            module_by_name[name] = module_name
    for module_name, name in _IMPORT.findall(stub):
        module_by_name[name] = module_name
    return module_by_name


@cache
def read_toml(package: str, file: str) -> dict[str, Any]:
    """Return the content of a TOML file of a package."""
    import tomllib  # imported late, because both modules are slow to load
    from pkgutil import get_data

    return tomllib.loads((get_data(package, file) or b"").decode())
