"""Every fenced example in README and docs, and every doctest, runs and prints what it says."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest
from pytest_examples import CodeExample, EvalExample, find_examples

import assay

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MODULES = sorted(module.name for module in pkgutil.walk_packages(assay.__path__, prefix="assay."))


@pytest.mark.parametrize("example", list(find_examples(*map(str, PAGES))), ids=str)
def test_every_fenced_example_runs(example: CodeExample, eval_example: EvalExample):
    """With the output it shows; `make docs` rewrites it."""
    if example.prefix_tags() != {"python"}:
        pytest.skip("not Python")
    eval_example.set_config(line_length=120, target_version="py311")
    update = eval_example.update_examples
    run = eval_example.run_print_update if update else eval_example.run_print_check
    problem = None
    try:
        run(example)
    except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001
        # Not re-raised: pytest cannot show a traceback through a page of Markdown.
        problem = f"{type(error).__name__}: {error}"
    if problem:
        pytest.fail(f"{example}: {problem}", pytrace=False)


@pytest.mark.parametrize("name", MODULES)
def test_every_docstring_example_runs(name):
    """As a doctest."""
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert result.failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page):
    """Files that pages point to exist."""
    targets = re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8"))
    missing = [t for t in targets if "://" not in t and not (page.parent / t).exists()]
    assert not missing


def test_every_example_program_runs_offline(capsys, monkeypatch):
    """The demo, as `make demo` shows it."""
    demo = ROOT / "examples" / "demo.py"
    scope = {"__name__": "__main__", "__file__": str(demo)}
    exec(compile(demo.read_text(encoding="utf-8"), str(demo), "exec"), scope)
    out = capsys.readouterr().out
    assert "1 of 9 rollouts unscored" in out
    assert "the judge did not answer within 30 s" in out
