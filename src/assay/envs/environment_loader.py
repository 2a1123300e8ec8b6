"""load_environment loads the environment of an installed package, or of a folder or file, by its `load_environment`."""

import inspect
import os
import sys
import tomllib
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from assay.envs.base_env import Environment
from assay.errors import AssayError
from assay.wording import describe_error, format_value

FUNCTION = "load_environment"
# The variable that, set to anything but 0, has `import verifiers` in an environment find `assay.compat.verifiers`.
AS_VERIFIERS = "ASSAY_AS_VERIFIERS"
_ON_ASSAY = (
    f"to run it on assay, set {AS_VERIFIERS}=1 or call assay.compat.verifiers.install() before"
)


class EnvironmentLoadError(AssayError, ValueError):
    """There is no environment under a name, or it cannot be loaded."""


def is_environment(name: str) -> bool:
    """Whether a name is that of a folder, a Python file or a package, and not of another file."""
    path = Path(name)
    return (
        path.is_dir()
        or path.suffix == ".py"
        or not (path.exists() or path.suffix or ":" in name or name == "-")
    )


def load_environment(name: str, **arguments: Any) -> Environment:
    """Load an environment: `name` is an installed package, also as `owner/name`, or a folder or Python file.

    A folder `my-env`, or whose pyproject.toml has that name, has its function in `my_env.py`, in a package of that name,
    there or in `src`, or in its own `__init__.py`. The arguments go to the function as they are. Whatever its code raises
    is an `EnvironmentLoadError` with that as its cause.
    """
    where = Path(name)
    home, module = _found_at(where)
    if where.exists() and str(home.resolve()) not in sys.path:
        sys.path.insert(0, str(home.resolve()))  # its other modules stand beside it
    if os.environ.get(AS_VERIFIERS, "0") not in ("", "0"):
        # By name: what mirrors other packages stands above, and nothing else here needs it.
        import_module("assay.compat.verifiers.installation").install()
    try:
        load = getattr(import_module(module), FUNCTION, None)
    except ModuleNotFoundError as error:
        if error.name not in (module, "verifiers"):
            raise EnvironmentLoadError(
                f"{name} cannot be imported: {describe_error(error)}"
            ) from error
        why = f"no module {module} is there, in a folder of that name or installed"
        why = (
            f"it imports verifiers, which is not installed: {_ON_ASSAY}"
            if error.name == "verifiers"
            else why
        )
        raise EnvironmentLoadError(f"there is no environment {name!r}: {why}") from None
    except (Exception, SystemExit) as error:
        raise EnvironmentLoadError(f"{name} cannot be imported: {describe_error(error)}") from error
    if not callable(load):
        raise EnvironmentLoadError(f"{name} has no function {FUNCTION}(): it is not an environment")
    try:
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
        gave = f"{FUNCTION}() of {name} gave {format_value(environment)}, which is not an environment of assay"
        raise EnvironmentLoadError(f"{gave}: {_ON_ASSAY}, if it was written for verifiers")
    environment.env_id = environment.env_id or name
    # An environment may note some arguments itself. All that were passed are part of a run's identity.
    environment.env_args = {**environment.env_args, **arguments}
    return environment


def _found_at(where: Path) -> tuple[Path, str]:
    """The folder to import from, and the module there."""
    names = [where.resolve().stem]
    with suppress(
        OSError, ValueError, KeyError
    ):  # without a name in a project, that of the folder counts
        names.append(
            tomllib.loads((where / "pyproject.toml").read_text(encoding="utf-8"))["project"]["name"]
        )
    modules = [name.replace("-", "_").replace(".", "_") for name in names]
    places = [(home, module) for home in (where, where / "src") for module in modules]
    found = [
        p
        for p in places
        if p[0].joinpath(f"{p[1]}.py").is_file() or p[0].joinpath(p[1], "__init__.py").is_file()
    ]
    is_package = (where / "__init__.py").is_file()
    return (
        found[0]
        if found
        else (where if where.is_dir() and not is_package else where.parent, modules[0])
    )
