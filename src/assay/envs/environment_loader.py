"""Load an environment from an installed package, a folder or a file with the function `load_environment`."""

import inspect
import os
import sys
import tomllib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from assay.envs.base_env import Environment
from assay.errors import AssayError
from assay.wording import describe_error, format_value

FUNCTION = "load_environment"
# If this variable is set, and not to 0, `import verifiers` finds `assay.compat.verifiers`.
AS_VERIFIERS = "ASSAY_AS_VERIFIERS"
_VERIFIERS_ADVICE = (
    f"to run it on assay, set {AS_VERIFIERS}=1 or call assay.compat.verifiers.install() before"
)


class EnvironmentLoadError(AssayError, ValueError):
    """There is no environment under a name, or it cannot be loaded."""


def is_environment(name: str) -> bool:
    """Return whether a name is that of a folder, a Python file or a package, not of a data file."""
    path = Path(name)
    if path.is_dir() or path.suffix == ".py":
        return True
    # A name with an extension is that of a file, even if there is none: it may be misspelled.
    looks_like_file = path.exists() or path.suffix != ""
    is_address = ":" in name
    is_standard_input = name == "-"
    return not looks_like_file and not is_address and not is_standard_input


def load_environment(name: str, **arguments: Any) -> Environment:
    """Load an environment by calling its function `load_environment` with the arguments.

    `name` is an installed package, also as `owner/name`, or a folder or a Python file. For a folder
    `my-env`, or one whose pyproject.toml has that name, the function is in `my_env.py` or in a
    package `my_env`, in the folder or in its `src`, or in its `__init__.py`. If its code raises an
    error, that is the cause of the `EnvironmentLoadError`.
    """
    load = _import_function(name)
    try:  # before the call, since a TypeError inside it has other causes
        inspect.signature(load).bind(**arguments)
    except TypeError as error:
        raise EnvironmentLoadError(
            f"{FUNCTION}() of {name} cannot be called with {arguments}: {error}"
        ) from None
    try:
        environment: Any = load(**arguments)
    except (Exception, SystemExit) as error:
        raise EnvironmentLoadError(
            f"{FUNCTION}() of {name} failed: {describe_error(error)}"
        ) from error
    if not isinstance(environment, Environment):
        raise EnvironmentLoadError(
            f"{FUNCTION}() of {name} returned {format_value(environment)}, which is not an "
            f"environment of assay: {_VERIFIERS_ADVICE}, if it was written for verifiers"
        )
    environment.env_id = environment.env_id or name
    # An environment may set this too. All arguments are recorded by a run.
    environment.env_args = {**environment.env_args, **arguments}
    return environment


def _import_function(name: str) -> Callable[..., Any]:
    """Return the function `load_environment` of an environment."""
    path = Path(name)
    folder, module = _find_module(path)
    if path.exists() and str(folder.resolve()) not in sys.path:
        sys.path.insert(0, str(folder.resolve()))  # for the other modules of the environment
    if os.environ.get(AS_VERIFIERS, "0") not in ("", "0"):
        # Imported by name, since it belongs to a layer above this one.
        import_module("assay.compat.verifiers.installation").install()
    try:
        function = getattr(import_module(module), FUNCTION, None)
    except ModuleNotFoundError as error:
        if error.name == "verifiers":
            problem = f"it imports verifiers, which is not installed: {_VERIFIERS_ADVICE}"
        elif error.name == module:
            problem = f"there is no module {module}, neither in a folder of that name nor installed"
        else:
            raise EnvironmentLoadError(
                f"{name} cannot be imported: {describe_error(error)}"
            ) from error
        raise EnvironmentLoadError(f"there is no environment {name!r}: {problem}") from None
    except (Exception, SystemExit) as error:
        raise EnvironmentLoadError(f"{name} cannot be imported: {describe_error(error)}") from error
    if not callable(function):
        raise EnvironmentLoadError(f"{name} has no function {FUNCTION}(): it is not an environment")
    return function


def _find_module(path: Path) -> tuple[Path, str]:
    """Return the folder to import an environment from, and the name of its module there."""
    names = [path.resolve().stem]
    project_name = _read_project_name(path)
    if project_name is not None:
        names.append(project_name)
    modules = [name.replace("-", "_").replace(".", "_") for name in names]
    # A folder with the module in it, or in its `src`.
    for folder in (path, path / "src"):
        for module in modules:
            is_file = (folder / f"{module}.py").is_file()
            is_package = (folder / module / "__init__.py").is_file()
            if is_file or is_package:
                return folder, module
    # A file, a folder that is a package itself, or a package that is installed.
    is_package = (path / "__init__.py").is_file()
    folder = path if path.is_dir() and not is_package else path.parent
    return folder, modules[0]


def _read_project_name(folder: Path) -> str | None:
    """Return the name of the project in the pyproject.toml of a folder; None if it has none."""
    try:
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
        return project["project"]["name"]
    except (OSError, ValueError, KeyError):
        return None
