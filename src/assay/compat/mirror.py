"""mirror makes the modules of another package out of a table, so that its programs find names where they look."""

import json
import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.machinery import ModuleSpec
from pkgutil import get_data
from types import ModuleType
from typing import Any


def mirror(package: str) -> None:
    """Make importable every module that `names.json` of a package lists; its names load when they are first used.

    By the path of a module below the package it has names, by the module of ours, or of the package, that has them.
    Parents come first. `THEIRS=OURS` is a name that ours spells otherwise, and `!...` says why names are not there.
    """
    table: dict[str, dict[str, str]] = json.loads(get_data(package, "names.json") or b"")
    for path, homes in table.items():
        name = f"{package}.{path}"
        found = {
            home if home.startswith(("assay.", "!")) else f"{package}.{home}": n
            for home, n in homes.items()
        }
        module = _Mirror(name, found)
        sys.modules[name] = module
        parent, _, stem = name.rpartition(".")
        # The import system binds only what it has loaded itself.
        setattr(sys.modules[parent], stem, module)


class _Mirror(ModuleType):
    def __init__(self, name: str, homes: Mapping[str, str]) -> None:
        super().__init__(
            name, f"`{name.removeprefix('assay.compat.')}`, as its programs import it."
        )
        self.__spec__ = ModuleSpec(name, None, is_package=True)
        self.__path__ = []
        pairs = [
            (home, *listed.partition("=")[::2])
            for home, names in homes.items()
            for listed in names.split()
        ]
        self._found_at = {theirs: (home, ours or theirs) for home, theirs, ours in pairs}
        self.__all__ = sorted(self._found_at)

    def __getattr__(self, name: str) -> Any:
        if name not in self._found_at:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        home, ours = self._found_at[name]
        if home.startswith("!"):
            raise ImportError(f"{name} is not there: {home[1:]}")
        value = getattr(import_module(home), ours)
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return self.__all__
