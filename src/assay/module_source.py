"""Read the source of modules without importing them."""

import sys
from collections.abc import Iterator
from contextlib import suppress
from dis import Instruction, get_instructions
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType
from typing import Any

# Instructions that load a variable of a module or of an enclosing function.
_LOADS = frozenset(
    {
        "LOAD_CLASSDEREF",
        "LOAD_DEREF",
        "LOAD_FROM_DICT_OR_DEREF",
        "LOAD_FROM_DICT_OR_GLOBALS",
        "LOAD_GLOBAL",
        "LOAD_NAME",
    }
)
_ATTRIBUTE_READS = frozenset({"LOAD_ATTR", "LOAD_METHOD"})


def find_spec(name: str) -> ModuleSpec | None:
    """Return where a fresh interpreter with our path would find a module; None if nowhere.

    `importlib.util.find_spec` believes what is loaded under the name, and imports the packages
    around a module.
    """
    locations: Any = None
    spec: ModuleSpec | None = None
    steps = name.split(".")
    for depth in range(1, len(steps) + 1):
        prefix = ".".join(steps[:depth])
        specs = (finder.find_spec(prefix, locations) for finder in sys.meta_path)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is None:
            return None
        locations = spec.submodule_search_locations or ()
    return spec


def find_file(name: str) -> str | None:
    """Return the file of a module, imported or not; None if it has none, such as `sys`."""
    module = sys.modules.get(name)
    if module is not None:
        return getattr(module, "__file__", None)
    with suppress(Exception):  # a finder of users may raise anything
        spec = find_spec(name)
        if spec is not None and spec.has_location:
            return spec.origin
    return None


def compile_file(file: str) -> CodeType:
    """Return the code of a Python file. Raises OSError, SyntaxError or ValueError if it has none."""
    return compile(Path(file).read_bytes(), file, "exec", dont_inherit=True)


def list_imports(code: CodeType, package: str) -> set[str]:
    """Return the full names of the modules that code imports while it runs.

    What `from a import b` takes may be a module too, so it gives `a` and `a.b`.
    """
    names: set[str] = set()
    for instructions in _list_instructions(code):
        for index, instruction in enumerate(instructions):
            if instruction.opname == "IMPORT_NAME":
                level, imported = (each.argval for each in instructions[index - 2 : index])
                module = _resolve(instruction.argval, package, level)
                names.add(module)
                names.update(f"{module}.{name}" for name in imported or () if name != "*")
    return names


def _resolve(name: str, package: str, level: int) -> str:
    """Return the full name of a module that is imported from a package by a relative name."""
    if level == 0:
        return name
    parts = package.split(".")
    parents = parts[: len(parts) - level + 1]
    return ".".join([*parents, name] if name else parents)


def list_passed_names(code: CodeType) -> set[str]:
    """Return the names of variables that code does more with than to read an attribute."""
    names: set[str] = set()
    for instructions in _list_instructions(code):
        followers = [*instructions[1:], None]
        for instruction, follower in zip(instructions, followers, strict=True):
            reads_attribute = follower is not None and follower.opname in _ATTRIBUTE_READS
            if instruction.opname in _LOADS and not reads_attribute:
                names.add(instruction.argval)
    return names


def _list_instructions(code: CodeType) -> Iterator[list[Instruction]]:
    """Yield the instructions of code, and of each function inside it."""
    yield [each for each in get_instructions(code) if each.opname != "EXTENDED_ARG"]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _list_instructions(constant)
