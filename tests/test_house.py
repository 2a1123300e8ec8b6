"""The shape of the code base: how large it is, how far a call travels, and that one name means one thing."""

import ast
import importlib
import importlib.util
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "assay"
MODULES = sorted(SOURCE.rglob("*.py"))


@pytest.fixture(scope="module")
def trace():
    """What `tools/trace.py` counts."""
    command = [sys.executable, str(ROOT / "tools" / "trace.py"), "--json"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.parametrize(
    ("path", "most"), [("one judged criterion over HTTP", 31), ("assay score on one row", 59)]
)
def test_a_call_crosses_few_modules(trace, path, most):
    """So that it can be followed with a finger."""
    modules = trace["paths"][path]["modules"]
    assert len(modules) <= most, modules


@pytest.mark.parametrize(
    ("path", "most"), [("one judged criterion over HTTP", 20), ("score_group", 9)]
)
def test_a_call_is_not_deep(trace, path, most):
    """Frames of ours on one stack, so that a traceback can be read."""
    assert trace["paths"][path]["stack"] <= most


def test_the_page_of_the_architecture_names_the_modules_that_are_crossed(trace):
    """`python tools/trace.py --page` writes it anew."""
    text = (ROOT / "docs" / "concepts" / "architecture.md").read_text()
    tables = re.findall(r"<!-- path: (.*?) -->\n((?:\|.*\n)*)", text)
    written = {
        name: sorted(re.findall(r"^\| `([\w.]+)`", table, re.MULTILINE)) for name, table in tables
    }
    assert written == {name: sorted(found["modules"]) for name, found in trace["paths"].items()}


def test_no_two_modules_share_a_name():
    """Commands apart, whose files are named as the user types them."""
    stems = Counter(
        path.stem
        for path in MODULES
        if path.parent.name != "cli" and not path.stem.startswith("__")
    )
    assert [stem for stem, count in stems.items() if count > 1] == []


def test_no_two_public_classes_share_a_name():
    """`assay.compat` apart, which mirrors the names of other packages."""
    names: Counter[str] = Counter()
    for path in MODULES:
        if "compat" not in path.parts:
            tree = ast.parse(path.read_text())
            names.update(
                node.name
                for node in tree.body
                if isinstance(node, ast.ClassDef) and node.name[0] != "_"
            )
    assert [name for name, count in names.items() if count > 1] == []


def test_a_module_begins_with_a_sentence():
    """Its first line says what it does."""
    first = {
        path: (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n\n")[0]
        for path in MODULES
    }
    wrong = {
        str(path.relative_to(SOURCE)): line
        for path, line in first.items()
        if not (re.match(r"[\w`]", line) and re.search(r"[.:]`?$", line) and len(line.split()) >= 4)
    }
    assert wrong == {}


@pytest.mark.parametrize("word", ["somebody", "nobody", "whoever", "everybody", "rehears"])
def test_the_words_are_those_of_the_field(word):
    """A part that acts is named, and a thing has the name that the field gives it."""
    found = [str(path.relative_to(SOURCE)) for path in MODULES if word in path.read_text().lower()]
    assert found == []


@pytest.mark.slow
def test_benchmarks_tools_and_examples_import_names_that_exist():
    """No test runs all of them, and a name that goes would be missed when they are."""
    wrong: list[str] = []
    for path in (
        path
        for folder in ("benchmarks", "tools", "examples")
        for path in (ROOT / folder).glob("*.py")
    ):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.ImportFrom)
                and (node.module or "").partition(".")[0] == "assay"
            ):
                module = importlib.import_module(str(node.module))
                for name in (alias.name for alias in node.names):
                    if (
                        not hasattr(module, name)
                        and importlib.util.find_spec(f"{node.module}.{name}") is None
                    ):
                        wrong.append(f"{path.name}: {node.module}.{name}")
    assert wrong == []
