"""Files may name functions, when the caller says so."""

import sys
from functools import partial

import pytest

from assay import Parser, Rubric, RubricError, RubricFileError
from assay.checks import Contains


def shows_work(completion):
    """A check of this module."""
    return "because" in completion


def best_line(lines):
    """An aggregation of this module."""
    return max(line.value for line in lines)


class Checks:
    """A home for checks."""

    @staticmethod
    def is_short(completion):
        return len(completion) < 5


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    """pytest gives test modules a name of its own; files need one that can be imported."""
    module = sys.modules[__name__]
    monkeypatch.setitem(sys.modules, "own_checks", module)
    for thing in (shows_work, best_line, Checks.is_short):
        monkeypatch.setattr(thing, "__module__", "own_checks")


def test_a_function_is_named_by_module_and_path():
    """And read back as the same one."""
    rubric = Rubric([shows_work, Checks.is_short, Contains("a")], aggregation=best_line)
    data = rubric.to_dict()
    assert data == {
        "aggregation": "own_checks:best_line",
        "criteria": [
            {"check": "own_checks:shows_work"},
            {"check": "own_checks:Checks.is_short"},
            {"check": {"contains": "a"}},
        ],
    }
    again = Rubric.from_dict(data, allow_code=True)
    assert again.criteria == rubric.criteria
    assert again.content_hash == rubric.content_hash
    assert again.grade_sync("because").score == 1.0


@pytest.mark.parametrize(
    "load", [Rubric.from_dict, lambda data: Rubric.from_dict({"rubric": data})]
)
def test_code_runs_only_when_it_is_allowed(load):
    """Nothing is imported before that."""
    assert "antigravity" not in sys.modules
    with pytest.raises(RubricFileError, match="if you trust this file, give --allow-code"):
        load([{"check": "antigravity:fly"}])
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("no_such_module:f", "cannot be imported: ModuleNotFoundError: No module named"),
        ("own_checks:nothing", "there is no 'nothing' in it"),
        ("own_checks:shows_work.nothing", "there is no 'nothing' in it"),
        ("own_checks:pytestmark_", "there is no 'pytestmark_' in it"),
        ("sys:version", "which cannot be called"),
        ("own_checks:", "no built-in check 'own_checks:'"),
        ("a b:c", "no built-in check 'a b:c'"),
    ],
)
def test_a_function_that_is_not_there(reference, said):
    """The file is told, with the line."""
    with pytest.raises(RubricFileError) as caught:
        Rubric.from_yaml(f"- check: '{reference}'", allow_code=True)
    assert said in str(caught.value)
    assert (caught.value.line, caught.value.field) == (1, "check")


def test_a_function_with_a_wrong_signature_is_an_error_of_the_file(monkeypatch):
    """It names what nothing supplies."""

    def wrong(reward):
        return reward

    monkeypatch.setattr(sys.modules["own_checks"], "wrong", wrong, raising=False)
    with pytest.raises(RubricFileError, match=r"<yaml>:2: .*takes 'reward'"):
        Rubric.from_yaml("- requirement: A\n- check: own_checks:wrong", allow_code=True)


@pytest.mark.parametrize(
    "check",
    [
        lambda completion: 1.0,
        Parser().format_score,
        partial(shows_work),
        Rubric([lambda completion: 1.0]),
    ],
    ids=["lambda", "method", "partial", "rubric with a lambda"],
)
def test_what_has_no_name_cannot_be_written(check):
    """But it can be hashed."""
    rubric = Rubric([{"check": check, "name": "x"}])
    with pytest.raises(RubricError, match="cannot be written to a file"):
        rubric.to_dict()
    assert len(rubric.content_hash) == 64


def test_a_function_of_the_program_itself_cannot_be_written(monkeypatch):
    """In another program `__main__` is something else."""
    monkeypatch.setattr(shows_work, "__module__", "__main__")
    monkeypatch.setattr(sys.modules["__main__"], "shows_work", shows_work, raising=False)
    with pytest.raises(RubricError, match="cannot be written"):
        Rubric([shows_work]).to_dict()
