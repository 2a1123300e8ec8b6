"""Every fenced example in README and docs, and every doctest, runs and prints what it says."""

import doctest
import importlib
import inspect
import pkgutil
import re
import runpy
import sys
from functools import partial
from pathlib import Path

import hypothesis
import pytest
from pytest_examples import CodeExample, EvalExample, find_examples

import assay
from assay.runs import Run

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MODULES = sorted(module.name for module in pkgutil.walk_packages(assay.__path__, prefix="assay."))


@pytest.fixture(autouse=True, scope="module")
def _patience():
    """A busy machine draws random rubrics slowly, which says nothing about the example that does."""
    hypothesis.settings.register_profile(
        "pages", suppress_health_check=[hypothesis.HealthCheck.too_slow]
    )
    hypothesis.settings.load_profile("pages")
    yield
    hypothesis.settings.load_profile("default")


@pytest.fixture
def _frames_without_source(monkeypatch):
    """For every print of an example, pytest-examples would read the source of each frame on the stack."""
    monkeypatch.setattr(inspect, "stack", partial(inspect.stack, context=0))


@pytest.mark.usefixtures("_frames_without_source")
@pytest.mark.parametrize("example", list(find_examples(*map(str, PAGES))), ids=str)
def test_every_fenced_example_runs(example: CodeExample, eval_example: EvalExample):
    """With the output it shows; `make examples` rewrites it."""
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page):
    """Files that pages point to exist."""
    targets = re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8"))
    missing = [t for t in targets if "://" not in t and not (page.parent / t).exists()]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_words_of_a_page_are_those_of_the_field(page):
    """A part that acts is named, and no sentence says `somebody`."""
    prose = re.sub(
        r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    assert (
        re.findall(r"(?i)\b(?:some|no|any|every)body\b|\bwho(?:so)?ever\b|\brehears\w*", prose)
        == []
    )


PRINTED = {
    "demo": [
        "is unscored and in no mean",
        "answered 529 five times",
        "0.43 to 0.72",
        "assay view demo-run",
    ],
    "rewards": ["1.300 +0.513", "1.059 +0.272"],
    "math_reward": ["1.2 +", "UNMET: no boxed answer", "MET: "],
    "filter": ["kept: '```python", "dropped: 0.25", "set aside: {'passes_tests': \"TypeError"],
    "own_grader": ["MET Paris - 2 of 3 judges", "UNMET Lyon - 2 of 3 judges", "score 0.667"],
}


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "examples").glob("*.py")))
def test_every_example_program_runs_offline(name, capsys, monkeypatch, tmp_path):
    """And prints what it is there to show."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [name])
    runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")
    out = capsys.readouterr().out
    assert [words for words in PRINTED[name] if words not in out] == []


def test_the_demo_removes_no_run_that_the_caller_names(capsys, monkeypatch, tmp_path):
    """It says in a sentence that the folder holds a run, and leaves it as it is."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["demo", "--out", "mine"])
    program = str(ROOT / "examples" / "demo.py")
    runpy.run_path(program, run_name="__main__")
    kept = list(Run.open("mine").rows())
    with pytest.raises(SystemExit, match="mine holds a run already"):
        runpy.run_path(program, run_name="__main__")
    assert list(Run.open("mine").rows()) == kept
