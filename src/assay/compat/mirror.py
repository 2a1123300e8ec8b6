"""Make the modules of another package importable under ours, so that its programs find every name."""

import json
import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.machinery import ModuleSpec
from pkgutil import get_data
from types import ModuleType
from typing import Any


def mirror(package: str) -> None:
    """Create every module that `names.json` of `package` lists. Its names are loaded at first use.

    A key of `names.json` is the path of a module below the package, with parents before children.
    Its value maps sources to the names that they provide, separated by spaces:

    - A source is one of our modules. It is relative to the package, unless it starts with `assay.`.
    - A source that starts with `!` is the reason why its names are not available.
    - A name `THEIRS=OURS` has the name `OURS` in our module.
    """
    table: dict[str, dict[str, str]] = json.loads(get_data(package, "names.json") or b"")
    for path, listed_names in table.items():
        names_by_source: dict[str, str] = {}
        for source, names in listed_names.items():
            if not source.startswith(("assay.", "!")):
                source = f"{package}.{source}"
            names_by_source[source] = names
        module_name = f"{package}.{path}"
        module = _MirroredModule(module_name, names_by_source)
        sys.modules[module_name] = module
        # The import system sets this attribute only for modules that it loads itself.
        parent_name, _, name_in_parent = module_name.rpartition(".")
        setattr(sys.modules[parent_name], name_in_parent, module)


class _MirroredModule(ModuleType):
    """A module that imports each of its names from one of our modules when it is first used."""

    def __init__(self, module_name: str, names_by_source: Mapping[str, str]) -> None:
        their_name = module_name.removeprefix("assay.compat.")
        super().__init__(module_name, f"The names of `{their_name}`.")
        self.__spec__ = ModuleSpec(module_name, None, is_package=True)
        self.__path__ = []
        self._origins: dict[str, tuple[str, str]] = {}  # their name: (source, our name)
        for source, names in names_by_source.items():
            for listed_name in names.split():
                theirs, _, ours = listed_name.partition("=")
                self._origins[theirs] = (source, ours or theirs)
        self.__all__ = sorted(self._origins)

    def __getattr__(self, name: str) -> Any:
        if name not in self._origins:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        source, our_name = self._origins[name]
        if source.startswith("!"):
            raise ImportError(f"{name} is not available: {source[1:]}")
        value = getattr(import_module(source), our_name)
        setattr(self, name, value)  # so that the next use does not call `__getattr__`
        return value

    def __dir__(self) -> list[str]:
        return self.__all__
