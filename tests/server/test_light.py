"""What the server needs is loaded by the server alone."""

import subprocess
import sys

import pytest

NEEDED = {"msgspec", "prometheus_client", "starlette", "uvicorn"}


def loaded_by(statement):
    code = f"import sys\n{statement}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.slow
@pytest.mark.parametrize(
    "statement",
    [
        "import assay.server",
        "from assay.server import RemoteRubric; RemoteRubric('http://127.0.0.1:8000')",
        "from assay.server import Bounds, JudgeSettings, Settings, ServerRefused",
    ],
)
def test_a_client_needs_none_of_it(statement):
    """Neither by importing the package nor by making a remote rubric."""
    assert not loaded_by(statement) & NEEDED


@pytest.mark.slow
@pytest.mark.parametrize("package", sorted(NEEDED))
def test_what_is_missing_is_named_with_what_to_install(package):
    """As for every extra."""
    code = (
        f"import sys\nsys.modules[{package!r}] = None\n"
        "try:\n    from assay.server import RewardServer\n"
        "except ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert f"needs the package {package!r}" in done.stdout
    assert "[server]'" in done.stdout
