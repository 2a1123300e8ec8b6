"""Environments written for verifiers run unmodified, and give row by row what verifiers 0.1.14 gave.

`environments/` has them, each with the script of its model, and beside each what verifiers gave (`record.py` records it).
"""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from assay import compat
from assay.compat.verifiers import install

HERE = Path(__file__).parent / "environments"
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "migrate.md"
FAILED = "| an environment's generation failed |"
KEPT = {
    "empty_reply": "| an empty reply of the model under test |",
    "failed_environment": FAILED,
    "failed_model": FAILED,
    "few_shot_before_a_prompt": "| `few_shot` with a `prompt` column |",
    "format_of_plain_text": "| the format reward of a text without tags, or with an unclosed tag |",
    "group_function_raises": "| a reward function raises |",
    "hash_answers": "| `extract_hash_answer` of a text without `####`",
    "odd_functions": "| a reward function names an unknown argument |",
    "own_client": FAILED,
    "odd_returns": "| a reward function returns None |",
    "parser_of_the_environment": "| `parser=` forgotten on the rubric of an environment |",
    "raising_reward": "| a reward function raises |",
    "shared_group": "| one `RubricGroup` in several environments |",
    "several_matches": "| several matches of a tag |",
    "tool_stop_errors": FAILED,
    "unfinished_thought": "| an unfinished `<think>` |",
}
"""Environments in which ours differs, with the words of the table in docs/how-to/migrate.md that say how."""


def _harness():
    spec = importlib.util.spec_from_file_location("compat_harness", HERE / "harness.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


harness = _harness()


@pytest.fixture
def installed(monkeypatch):
    """`import verifiers` finds ours, and games are those of `packages/`, until the test is over."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(harness.PACKAGES)
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "")
    install()
    yield
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ("verifiers", "textarena", "reasoning_gym"):
            del sys.modules[name]


def recorded(name):
    return json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))


def as_saved(rows):
    return json.loads(json.dumps(rows))


@pytest.mark.parametrize("name", harness.NAMES)
async def test_an_environment_gives_what_it_gave_there(installed, monkeypatch, name):
    """With `compat.strict = False`, bit by bit: rewards, metrics, messages, stop conditions and kinds of error."""
    monkeypatch.setattr(compat, "strict", False)
    assert as_saved(await harness.rows_of(name)) == recorded(name)


@pytest.mark.parametrize("name", harness.NAMES)
async def test_what_is_kept_differs_and_stands_in_the_table(installed, name):
    """By default too, but for what is documented."""
    same = as_saved(await harness.rows_of(name)) == recorded(name)
    assert same is (name not in KEPT)
    assert KEPT.get(name, "") in PAGE.read_text(encoding="utf-8")
