"""The rubric that an option names: a file, or an object of a Python module."""

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from assay.cli.options import Rubrics
from assay.errors import AssayError, RubricError
from assay.loading.document import read_file
from assay.loading.rubric_reader import is_reference
from assay.rubric import Rubric, rubric_at
from assay.wording import described, did_you_mean, short_repr


def rubric_of(rubrics: Rubrics) -> Rubric:
    """The rubric that is named. A file goes before a module of the same name."""
    name = rubrics.rubric or ""
    if not is_reference(name) or Path(name).is_file():
        return _rubric_in(name, allow_code=rubrics.allow_code)
    module, _, path = name.partition(":")
    return _made(_found(_imported(module), path, name), name)


def _rubric_in(path: str, *, allow_code: bool) -> Rubric:
    """The rubric in a file, or the group of rubrics."""
    if allow_code:
        _look_here_too()
    return rubric_at(read_file(path), allow_code=allow_code)


def _look_here_too() -> None:
    """Have modules of the current folder found, as `python -m` would find them."""
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)


def _imported(name: str) -> ModuleType:
    _look_here_too()
    try:
        return import_module(name)
    except Exception as error:
        # Importing a module runs it, so anything may be raised.
        raise RubricError(f"the module {name} cannot be imported: {described(error)}") from error


def _found(module: ModuleType, path: str, reference: str) -> Any:
    found: Any = module
    for step in path.split("."):
        if not hasattr(found, step):
            known = [name for name in dir(found) if not name.startswith("_")]
            said = did_you_mean(step, known) if known else "it has none at all"
            raise RubricError(f"{reference}: there is no {step!r} in it: {said}")
        found = getattr(found, step)
    return found


def _made(found: Any, reference: str) -> Rubric:
    """A rubric as it is, what a function makes of nothing, or a list of criteria as a rubric."""
    if callable(found) and not isinstance(found, Rubric):
        try:
            found = found()
        except AssayError:
            raise
        except Exception as error:
            # Somebody else's function.
            raise RubricError(
                f"{reference} could not be called without arguments to make a rubric: "
                f"{described(error)}; put a single check in a list"
            ) from error
    if isinstance(found, list | tuple):
        return Rubric(found)  # pyright: ignore[reportUnknownArgumentType]
    if not isinstance(found, Rubric):
        raise RubricError(
            f"{reference} is {short_repr(found)}: name a Rubric, a function that makes one, or a list of criteria"
        )
    return found
