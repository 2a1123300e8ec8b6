"""The Makefile: what `make demo` and `make test` install, by what make says that it would do."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make here")


@pytest.fixture
def would_install(tmp_path):
    """What `make TARGET` would install in a folder where the targets of `marks` were made."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)

    def installs(target, *marks):
        (tmp_path / ".venv").mkdir(exist_ok=True)
        for mark in marks:
            (tmp_path / ".venv" / mark).touch()
        command = ["make", "-n", target]
        environment = {k: v for k, v in os.environ.items() if k != "MAKEFLAGS"}
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        )
        return [line for line in done.stdout.splitlines() if "pip install" in line]

    return installs


def test_the_demo_installs_only_what_it_needs(would_install):
    """No model and no tools of ours: one installation, of the extra `demo`."""
    [line] = would_install("demo")
    assert '".[demo]"' in line


def test_the_demo_does_not_pass_for_the_environment_of_the_tests(would_install):
    """After `make demo`, `make test` still installs everything."""
    assert any('".[dev]"' in line for line in would_install("test", ".demo"))


def test_the_environment_of_the_tests_has_the_demo(would_install):
    """After `make test` has made both marks, `make demo` installs nothing."""
    assert would_install("demo", ".demo", ".installed") == []


def test_the_site_installs_only_what_it_needs(would_install):
    """One installation, of the extra `docs`, and none where the tests' environment is."""
    [line] = would_install("docs")
    assert '".[docs]"' in line
    assert would_install("docs", ".demo", ".docs", ".installed") == []
