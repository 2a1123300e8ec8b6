"""`assay eval ENV` asks a model through an environment, also one written for verifiers, and `assay serve ENV` takes its rubric."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from assay.runs import Run
from assay.testing import ModelServer

SOURCE = Path(__file__).parents[1] / "compat" / "environments" / "user_simulation.py"
SAID = {"Sell me a pen.": ["deal"], "Sell me a car.": ["a", "b", "c"]}


def answer(messages):
    return SAID[messages[0]["content"]][sum(m["role"] == "assistant" for m in messages)]


@pytest.fixture
def assay(tmp_path):
    """Runs a command beside a folder with an environment, in a process of its own."""
    folder = tmp_path / "environments" / "sell-it"
    folder.mkdir(parents=True)
    (folder / "sell_it.py").write_text(SOURCE.read_text(encoding="utf-8"), encoding="utf-8")

    def run(*arguments, as_verifiers="1", **more):
        environment = {**os.environ, "ASSAY_AS_VERIFIERS": as_verifiers, "ASSAY_CACHE": str(tmp_path / "cache"), **more}
        command = [sys.executable, "-m", "assay", *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    return run


@pytest.mark.parametrize(("name", "path"), [("environments/sell-it", ""), ("owner/sell-it", "environments/sell-it")])
def test_an_environment_is_evaluated_into_an_ordinary_run(assay, tmp_path, name, path):
    """From a folder or an installed package, with its arguments."""
    paths = (
        os.pathsep.join([str(tmp_path / path), os.environ.get("PYTHONPATH", "")])
        if path
        else os.environ.get("PYTHONPATH", "")
    )
    with ModelServer(answer) as server:
        ended = assay("eval", name, "-m", server.model, "-o", "run", "--env-args", '{"max_turns": 2}', PYTHONPATH=paths)
    assert ended.returncode == 0, ended.stderr
    rows = list(Run.open(tmp_path / "run").rows())
    assert [row.reward for row in rows] == [1.5, 1.0]
    assert [row.fields["stop_condition"] for row in rows] == ["sold", "max_turns_reached"]
    assert [line.name for line in rows[0].report.lines] == ["turns_left", "num_turns"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["environments/sell-it", "--env-args", '{"turns": 1}'], "got an unexpected keyword argument 'turns'"),
        (["environments/sell-it", "--env-args", "[1]"], "'[1]' is no object"),
        (["environments/sell-it", "--env-args", "{"], "'{' is no JSON"),
        (["environments/sell-it", "-r", "rubric.yaml"], "--rubric is for a data set"),
        (["no-such-env"], "there is no environment 'no-such-env': no module no_such_env is there"),
        (["environments"], "environments has no function load_environment()"),
        (["questions.jsonl"], "Missing option '-r'"),
        (["questions.jsonl", "-r", "rubric.yaml", "--env-args", '{"a": 1}'], "--env-args is for an environment"),
    ],
)
def test_what_is_wrong_is_said(assay, arguments, told):
    """In a sentence, as bad usage."""
    ended = assay("eval", *arguments, "-m", "openai/none")
    assert ended.returncode == 2
    assert told in ended.stderr


def test_an_environment_for_verifiers_says_what_it_needs(assay):
    """Where the variable is not set."""
    ended = assay("eval", "environments/sell-it", "-m", "openai/none", as_verifiers="0")
    assert ended.returncode == 2
    assert "it imports verifiers, which is not installed: to run it on assay, set ASSAY_AS_VERIFIERS=1" in ended.stderr


def test_the_rubric_of_an_environment_is_served(assay):
    """As that of a file."""
    ended = assay("serve", "environments/sell-it", "--dry-run")
    assert ended.returncode == 0, ended.stderr
    assert "[turns_left +0.5, num_turns +0]> would be served" in ended.stderr
