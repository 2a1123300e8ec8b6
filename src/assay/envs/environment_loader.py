"""load_environment loads the environment of an installed package, or of a folder or file, by its `load_environment`."""

import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from assay.envs.base_env import Environment
from assay.errors import AssayError
from assay.wording import short_repr

FUNCTION = "load_environment"


class EnvironmentLoadError(AssayError, ValueError):
    """There is no environment under a name, or it cannot be loaded."""


def load_environment(name: str, **arguments: Any) -> Environment:
    """Load an environment: `name` is an installed package, also as `owner/name`, or a folder or Python file.

    A folder `my-env` has its function in `my_env.py`, in a package of that name, or in its own `__init__.py`. The
    arguments go to the function as they are; what it raises is raised.
    """
    where = Path(name)
    module = _module_at(where) if where.suffix == ".py" or where.is_dir() else _installed(name)
    load = getattr(module, FUNCTION, None)
    if not callable(load):
        raise EnvironmentLoadError(f"{name} has no function {FUNCTION}(): it is no environment")
    environment = load(**arguments)
    if not isinstance(environment, Environment):
        raise EnvironmentLoadError(
            f"{FUNCTION}() of {name} gave {short_repr(environment)}, which is no environment of assay: for one that "
            "was written for verifiers, set ASSAY_AS_VERIFIERS=1 or call assay.compat.verifiers.install() before"
        )
    return environment


def _installed(name: str) -> ModuleType:
    module = name.rpartition("/")[2].replace("-", "_")
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name == "verifiers":
            raise EnvironmentLoadError(_NEEDS_VERIFIERS.format(name)) from error
        if error.name != module:
            raise
        raise EnvironmentLoadError(
            f"there is no environment {name!r}: no folder or file is called so, and no installed package {module!r}"
        ) from None


_NEEDS_VERIFIERS = (
    "{} imports verifiers, which is not installed: set ASSAY_AS_VERIFIERS=1, or call "
    "assay.compat.verifiers.install() before, to run it on assay"
)


def _module_at(where: Path) -> ModuleType:
    stem = where.resolve().stem.replace("-", "_") if where.suffix == ".py" else where.resolve().name.replace("-", "_")
    places = [where] if where.suffix == ".py" else [where / f"{stem}.py", where / stem / "__init__.py"]
    places = places if where.suffix == ".py" else [*places, where / "__init__.py"]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        tried = ", ".join(place.name if place.parent == where else f"{stem}/__init__.py" for place in places)
        raise EnvironmentLoadError(f"{where} has none of {tried}: an environment has {FUNCTION}() in one of them")
    # Its other modules stand beside it.
    root = str(found.resolve().parent if found.name != "__init__.py" else found.resolve().parent.parent)
    if root not in sys.path:
        sys.path.insert(0, root)
    spec = spec_from_file_location(stem, found)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[stem] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except ModuleNotFoundError as error:
        del sys.modules[stem]
        if error.name != "verifiers":
            raise
        raise EnvironmentLoadError(_NEEDS_VERIFIERS.format(where)) from error
    return module
