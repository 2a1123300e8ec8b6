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
