"""`assay eval ENV` asks a model through an environment, also one written for verifiers, and `assay serve ENV` takes its rubric."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from assay.cli import main
from assay.runs import Run
from assay.testing import ModelServer

SOURCE = Path(__file__).parents[1] / "compat" / "environments" / "user_simulation.py"
SAID = {"Sell me a pen.": ["deal"], "Sell me a car.": ["a", "b", "c"]}


def answer(messages):
    return SAID[messages[0]["content"]][sum(m["role"] == "assistant" for m in messages)]


@pytest.fixture
def assay(tmp_path, monkeypatch, capsys):
    """Runs a command beside a folder with an environment."""
    folder = tmp_path / "environments" / "sell-it"
    folder.mkdir(parents=True)
    (folder / "sell_it.py").write_text(SOURCE.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)

    def run(*arguments, as_verifiers="1"):
        monkeypatch.setenv("ASSAY_AS_VERIFIERS", as_verifiers)
        code = main(list(arguments))
        return SimpleNamespace(code=code, err=capsys.readouterr().err)

    yield run
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ("verifiers", "sell_it", "environments"):
            del sys.modules[name]


@pytest.mark.parametrize(("name", "path"), [("environments/sell-it", ""), ("owner/sell-it", "environments/sell-it")])
def test_an_environment_is_evaluated_into_an_ordinary_run(assay, tmp_path, name, path):
    """From a folder or an installed package, with its arguments."""
    sys.path.insert(0, str(tmp_path / path))
    with ModelServer(answer) as server:
        ended = assay("eval", name, "-m", server.model, "-o", "run", "--env-args", '{"max_turns": 2}')
    assert ended.code == 0, ended.err
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
        (["environments"], "there is no environment 'environments': no module environments is there"),
        (["questions.jsonl"], "Missing option '-r'"),
        (["questions.jsonl", "-r", "rubric.yaml", "--env-args", '{"a": 1}'], "--env-args is for an environment"),
    ],
)
def test_what_is_wrong_is_said(assay, arguments, told):
    """In a sentence, as bad usage."""
    ended = assay("eval", *arguments, "-m", "openai/none")
    assert ended.code == 2
    assert told in ended.err


def test_an_environment_for_verifiers_says_what_it_needs(assay):
    """Where the variable is not set."""
    ended = assay("eval", "environments/sell-it", "-m", "openai/none", as_verifiers="0")
    assert ended.code == 2
    assert "it imports verifiers, which is not installed: to run it on assay, set ASSAY_AS_VERIFIERS=1" in ended.err


def test_the_rubric_of_an_environment_is_served(assay):
    """As that of a file."""
    ended = assay("serve", "environments/sell-it", "--dry-run")
    assert ended.code == 0, ended.err
    assert "[turns_left +0.5, num_turns +0]> would be served" in ended.err


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("raise RuntimeError('boom')", "cannot be imported: RuntimeError: boom"),
        ("import nosuch_package", "cannot be imported: ModuleNotFoundError: No module named 'nosuch_package'"),
        ("def load_environment():\n    raise KeyError('HF_TOKEN')", "load_environment() of"),
    ],
)
def test_an_environment_that_fails_says_so_in_a_sentence(assay, tmp_path, code, told, request):
    """Its code is not ours, and a stack trace would look like our fault."""
    path = tmp_path / f"failing_{abs(hash(request.node.name))}.py"
    path.write_text(code)
    done = assay("eval", str(path), "-m", "http://127.0.0.1:9/v1#m")
    assert done.code == 2
    assert told in done.err
    assert "Traceback" not in done.err
