"""The quick start of `rubric`, as its page prints it, with a key alone; run as a program of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from assay.testing import ModelServer

QUICK_START = """
import asyncio
from assay.compat.rubric import Rubric, default_per_criterion_generate_fn
from assay.compat.rubric.autograders import PerCriterionGrader

async def main():
    rubric = Rubric.from_dict([
        {"weight": 10.0, "requirement": "Response mentions Paris"},
        {"weight": 5.0, "requirement": "Response is concise"}
    ])

    grader = PerCriterionGrader(generate_fn=default_per_criterion_generate_fn)
    result = await rubric.grade("Paris is the capital of France.", autograder=grader)
    print(f"Score: {result.score}")

asyncio.run(main())
"""

KEYS = {
    "GEMINI_API_KEY": ("GOOGLE_GEMINI_BASE_URL", "", "/v1beta/openai/chat/completions"),
    "OPENAI_API_KEY": ("OPENAI_BASE_URL", "/v1", "/v1/chat/completions"),
    "ANTHROPIC_API_KEY": ("ANTHROPIC_BASE_URL", "", "/v1/messages"),
}


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A program with these variables and no key or address of the machine that the test runs on."""
    strange = ("_API_KEY", "_BASE_URL")
    usual = {n: v for n, v in os.environ.items() if not n.endswith(strange) and n[:6] != "ASSAY_"}
    return subprocess.run(
        [sys.executable, *arguments], env=usual | variables, capture_output=True, text=True
    )


@pytest.mark.parametrize("variable", KEYS)
def test_the_quick_start_runs_with_a_key_alone(tmp_path: Path, variable: str) -> None:
    """The provider of the key is asked, at its address, with that key."""
    base, path, posted = KEYS[variable]
    program = tmp_path / "quick_start.py"
    program.write_text(QUICK_START)
    with ModelServer("MET") as server:
        done = run(str(program), **{variable: "s3cret-key", base: server.host + path})
        asked = server.requests
    assert (done.stdout, done.returncode) == ("Score: 1.0\n", 0), done.stderr
    assert [call.path for call in asked] == [posted] * 2
    assert "s3cret-key" in str(asked[0].headers)


def test_the_quick_start_without_a_key_names_what_to_set(tmp_path: Path) -> None:
    """The key that `rubric` takes, or our own variable."""
    program = tmp_path / "quick_start.py"
    program.write_text(QUICK_START)
    done = run(str(program))
    assert done.returncode == 1
    assert "set GEMINI_API_KEY, as for rubric; or set ASSAY_JUDGE to" in done.stderr


def test_the_command_line_names_the_one_thing_to_set(tmp_path: Path) -> None:
    """A key is in the environment, and no judge is named and none is on this machine."""
    (tmp_path / "rubric.yaml").write_text("- requirement: Holds\n  weight: 1\n")
    grade = ("-m", "assay", "grade", "--text", "x", "-r", str(tmp_path / "rubric.yaml"))
    done = run(*grade, OPENAI_API_KEY="k", ASSAY_MODELS=str(tmp_path), XDG_CACHE_HOME=str(tmp_path))
    assert done.returncode == 2
    assert "OPENAI_API_KEY is set, so --judge openai/gpt-5-mini would do" in done.stderr
