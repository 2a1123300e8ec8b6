"""`import assay` stays light, and what is optional stays optional."""

import subprocess
import sys

import pytest

HEAVY = [
    "sympy",
    "math_verify",
    "latex2sympy2_extended",
    "flint",
    "openai",
    "datasets",
    "pyarrow",
    "ray",
    "starlette",
]
OPTIONAL = [
    "rich",
    "aiohttp",
    "yarl",
    "orjson",
    "regex",
    "rapidfuzz",
    "jsonschema",
    "hypothesis",
    "cloudpickle",
]


def loaded_by(statement):
    """The modules that a fresh interpreter has after a statement."""
    code = f"import sys\n{statement}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_import_assay_loads_nothing_to_speak_of():
    """Names load when they are used."""
    modules = loaded_by("import assay")
    assert not modules & {*HEAVY, *OPTIONAL, "pydantic", "yaml", "asyncio"}


@pytest.mark.parametrize(
    "statement",
    ["from assay import *", "import assay.compat.verifiers", "import assay.compat.rubric"],
)
def test_the_whole_core_loads_no_heavy_or_optional_package(statement):
    """Everything public, and both mirrors."""
    assert not loaded_by(statement) & {*HEAVY, *OPTIONAL}


def test_looking_at_runs_needs_no_statistics(tmp_path):
    """Where numpy and scipy are not installed a report is written, and only a comparison says what it lacks."""
    code = """
import asyncio, sys
sys.modules["numpy"] = sys.modules["scipy"] = None  # as if they were not installed
from assay import Rubric
from assay.cli import main
from assay.runs import score_rows
from assay.viewer.viewed_runs import ViewedRuns
for name in ("one", "two"):
    rows = [{"completion": "a"}, {"completion": "b"}]
    asyncio.run(score_rows(Rubric.from_dict([{"check": {"contains": "a"}}]), rows, folder=name))
assert main(["report", "one", "two", "-o", "page.html"]) == 0
import assay.viewer.page_server
shelf = ViewedRuns(["one", "two"])
shelf.compare(*shelf.runs)
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (tmp_path / "page.html").exists(), done.stderr
    assert done.stderr.strip().endswith("[cli]'")
