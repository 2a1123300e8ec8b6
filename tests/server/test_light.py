"""The dependencies of the server are imported only by the server."""

import subprocess
import sys

import pytest

SERVER_PACKAGES = {"msgspec", "prometheus_client", "starlette", "uvicorn"}


def modules_loaded_by(statement):
    code = f"import sys\n{statement}\nprint(*sys.modules)"
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return set(process.stdout.split())


@pytest.mark.slow
@pytest.mark.parametrize(
    "statement",
    [
        "import assay.server",
        "from assay.server import RemoteRubric; RemoteRubric('http://127.0.0.1:8000')",
        "from assay.server import Bounds, JudgeSettings, Settings, ServerRefused",
    ],
)
def test_a_client_does_not_import_the_packages_of_the_server(statement):
    """Neither importing the package nor making a remote rubric does."""
    assert not modules_loaded_by(statement) & SERVER_PACKAGES


@pytest.mark.slow
@pytest.mark.parametrize("package", sorted(SERVER_PACKAGES))
def test_the_error_for_a_missing_package_names_the_extra_to_install(package):
    code = (
        f"import sys\nsys.modules[{package!r}] = None\n"
        "try:\n    from assay.server import RewardServer\n"
        "except ImportError as error:\n    print(error)"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert f"needs the package {package!r}" in process.stdout
    assert "[server]'" in process.stdout
