"""`assay eval ENV` and `assay serve ENV`, also with environments written for verifiers."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from urllib.request import Request, urlopen

import pytest

from assay.cli import main
from assay.runs import Run
from assay.testing import ModelServer, tool_call

SOURCE = Path(__file__).parents[1] / "compat" / "environments" / "user_simulation.py"
SAID = {"Sell me a pen.": ["deal"], "Sell me a car.": ["a", "b", "c"]}


def answer(messages):
    return SAID[messages[0]["content"]][sum(m["role"] == "assistant" for m in messages)]


@pytest.fixture
def assay(tmp_path, monkeypatch, capsys):
    """Run a command in a folder that contains an environment."""
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
        printed = capsys.readouterr()
        return SimpleNamespace(code=code, out=printed.out, err=printed.err)

    yield run
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ("verifiers", "sell_it", "environments", "game", "my_game"):
            del sys.modules[name]


@pytest.mark.parametrize(
    ("name", "path"), [("environments/sell-it", ""), ("owner/sell-it", "environments/sell-it")]
)
def test_evaluating_an_environment_writes_an_ordinary_run(assay, tmp_path, name, path):
    """From a folder or an installed package, with its arguments."""
    sys.path.insert(0, str(tmp_path / path))
    with ModelServer(answer) as server:
        ended = assay(
            "eval", name, "-m", server.model, "-o", "run", "--env-args", '{"max_turns": 2}'
        )
    assert ended.code == 0, ended.err
    rows = list(Run.open(tmp_path / "run").rows())
    assert [row.reward for row in rows] == [1.5, 1.0]
    assert [row.fields["stop_condition"] for row in rows] == ["sold", "max_turns_reached"]
    assert [line.name for line in rows[0].report.lines] == ["turns_left", "num_turns"]


def test_a_dry_run_says_that_it_counts_only_the_first_turn(assay):
    with ModelServer(answer) as server:
        arguments = ("eval", "environments/sell-it", "-m", server.model, "--dry-run", "--env-args")
        several = assay(*arguments, '{"max_turns": 2}')
        one = assay(*arguments, '{"max_turns": 1}')
        unlimited = assay(*arguments, '{"max_turns": -1}')
        assert server.calls == 0
    assert "may ask the model up to 2 times in a rollout" in several.err
    assert "may ask the model any number of times" in unlimited.err
    assert "in a rollout" not in one.err


def test_a_run_is_resumed_only_with_the_same_arguments_of_its_environment(assay):
    """They are part of the identity of the run, which shows them."""
    arguments = ["eval", "environments/sell-it", "-o", "run", "-q", "--env-args"]
    with ModelServer(answer) as server:
        arguments[2:2] = ["-m", server.model]
        assert assay(*arguments, '{"max_turns": 2}').code == 0
        other = assay(*arguments, '{"max_turns": 3}', "--resume")
        assert other.code == 2
        assert "env_args was {'max_turns': 2}, and is {'max_turns': 3}" in other.err
        assert assay(*arguments, '{"max_turns": 2}', "--resume").code == 0
    shown = assay("show", "run").out
    assert 'environment environments/sell-it; with {"max_turns": 2}' in shown


def test_pass_at_k_uses_the_threshold_of_the_environment(assay):
    """A reward of 0.5, as in verifiers: rollouts of the first question get 1.5, of the other 1.0."""
    with ModelServer(answer) as server:
        arguments = ["-m", server.model, "--samples", "2", "-o", "run"]
        ended = assay("eval", "environments/sell-it", *arguments)
    assert "k, reward ≥ 0.5" in ended.out
    assert Run.open("run").summary().passes[2].any == 1.0
    assert Run.open("run").work_out().pass_measure == "reward"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["environments/sell-it", "--env-args", '{"turns": 1}'],
            "got an unexpected keyword argument 'turns'",
        ),
        (["environments/sell-it", "--env-args", "[1]"], "'[1]' is not a JSON object"),
        (["environments/sell-it", "--env-args", "{"], "'{' is not valid JSON"),
        (["environments/sell-it", "-r", "rubric.yaml"], "--rubric is only for data sets"),
        (["no-such-env"], "there is no environment 'no-such-env': there is no module no_such_env"),
        (
            ["environments"],
            "there is no environment 'environments': there is no module environments",
        ),
        (
            ["questions.jsonl", "-r", "rubric.yaml", "--env-args", '{"a": 1}'],
            "--env-args is only for environments",
        ),
    ],
)
def test_invalid_arguments_are_refused(assay, arguments, message):
    """As a usage error."""
    ended = assay("eval", *arguments, "-m", "openai/none")
    assert ended.code == 2
    assert message in ended.err


def test_an_environment_for_verifiers_asks_for_its_variable(assay):
    """If the variable is not set."""
    ended = assay("eval", "environments/sell-it", "-m", "openai/none", as_verifiers="0")
    assert ended.code == 2
    assert (
        "it imports verifiers, which is not installed: to run it on assay, set ASSAY_AS_VERIFIERS=1"
        in ended.err
    )


def test_the_rubric_of_an_environment_can_be_served(assay):
    """Like a rubric from a file."""
    ended = assay("serve", "environments/sell-it", "--dry-run")
    assert ended.code == 0, ended.err
    assert "[turns_left +0.5, num_turns +0]> would be served" in ended.err


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("raise RuntimeError('boom')", "cannot be imported: RuntimeError: boom"),
        (
            "import nosuch_package",
            "cannot be imported: ModuleNotFoundError: No module named 'nosuch_package'",
        ),
        ("def load_environment():\n    raise KeyError('HF_TOKEN')", "load_environment() of"),
        ("raise SystemExit('no key')", "cannot be imported: SystemExit: no key"),
        ("def load_environment():\n    raise SystemExit(3)", "failed: SystemExit: 3"),
    ],
)
def test_an_error_in_the_code_of_an_environment_is_one_message(
    assay, tmp_path, code, message, request
):
    """A stack trace would look like a fault of assay."""
    path = tmp_path / f"failing_{abs(hash(request.node.name))}.py"
    path.write_text(code)
    done = assay("eval", str(path), "-m", "http://127.0.0.1:9/v1#m")
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err


PROJECT = '[project]\nname = "{}"\n'


@pytest.mark.parametrize(
    ("project", "path"),
    [
        ("", "game/__init__.py"),
        ("", "game/game.py"),
        ("", "game/game/__init__.py"),
        ("", "game/src/game/__init__.py"),
        (PROJECT.format("my-game"), "game/my_game.py"),
        (PROJECT.format("my.game"), "game/my_game/__init__.py"),
        (PROJECT.format("my-game"), "game/src/my_game/__init__.py"),
        (PROJECT.format("my-game"), "game/game.py"),
        ("no toml", "game/game.py"),
    ],
)
def test_the_module_of_a_folder_may_be_in_the_usual_places(assay, tmp_path, project, path):
    """Named like the folder or the project, in the folder or in a package."""
    file = tmp_path / path
    file.parent.mkdir(parents=True)
    file.write_text(SOURCE.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "game" / "pyproject.toml").write_text(project)
    for name in ("game", "my_game"):
        sys.modules.pop(name, None)
    with ModelServer(answer) as server:
        ended = assay("eval", "game", "-m", server.model, "-o", "run", "--limit", "1")
    assert ended.code == 0, ended.err


TOOLS = SOURCE.parent / "tools.py"
CALLS = {
    "Sum and list?": [
        [tool_call("add", a=2, b=3), tool_call("look_up", key="x")],
        [tool_call("listed", n=2)],
        "done",
    ],
    "No tool?": ["none"],
}


def start_command(folder, *arguments):
    """Start the command in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "assay", *arguments],
        cwd=folder,
        env=os.environ | {"ASSAY_AS_VERIFIERS": "1", "ASSAY_CACHE": str(folder / "cache")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_a_server_gives_the_same_rewards_as_an_evaluation(tmp_path):
    """For the same rollouts, whose messages it gets as plain JSON."""
    (tmp_path / "calling.py").write_text(TOOLS.read_text(encoding="utf-8"), encoding="utf-8")

    def reply(messages):
        return CALLS[messages[0]["content"]][sum(m["role"] == "assistant" for m in messages)]

    with ModelServer(reply) as server:
        evaluation = start_command(tmp_path, "eval", "calling.py", "-m", server.model, "-o", "run")
        _, said = evaluation.communicate(timeout=120)
        assert evaluation.returncode == 0, said
    rows = list(Run.open(tmp_path / "run").rows())
    assert [row.reward for row in rows] == [1.5, 1.0]
    serving = start_command(tmp_path, "serve", "calling.py", "--port", "0")
    try:
        url = serving.stderr.readline().split()[3]
        named = ("prompt", "completion", "answer", "info")
        body = {
            "rollouts": [{name: row.fields[name] for name in named} for row in rows],
            "report": True,
        }
        sent = Request(
            f"{url}/v1/score", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urlopen(sent, timeout=60) as answered:
            items = json.load(answered)["items"]
    finally:
        serving.send_signal(signal.SIGINT)
        serving.communicate(timeout=60)
    assert [item["reward"] for item in items] == [1.5, 1.0]
    assert [item.get("errors") for item in items] == [None, None]
    values = [{line["name"]: line["value"] for line in item["report"]["report"]} for item in items]
    assert values == [{line.name: line.value for line in row.report.lines} for row in rows]


@pytest.mark.slow
def test_an_interrupted_evaluation_can_be_resumed(tmp_path):
    """Saved replies are not generated again."""
    source = SOURCE.read_text(encoding="utf-8")
    rows = [{"question": f"Sell me {number}.", "answer": "deal"} for number in range(8)]
    (tmp_path / "selling.py").write_text(f"{source}\n\nROWS[:] = {rows!r}\n", encoding="utf-8")
    asked = []

    def reply(messages):
        asked.append(messages[0]["content"])
        if len(asked) == 5:
            interrupted.send_signal(signal.SIGINT)
        return "deal" if len(messages) > 1 else "a pen"

    with ModelServer(reply) as server:
        command = ("eval", "selling.py", "-m", server.model, "-o", "run", "--concurrency", "1")
        interrupted = start_command(tmp_path, *command)
        _, said = interrupted.communicate(timeout=120)
        assert interrupted.returncode == 130, said
        assert "finishing what has started" in said
        kept = len(list(Run.open(tmp_path / "run").rows()))
        assert 0 < kept < 8
        resumed = start_command(tmp_path, *command, "--resume")
        _, said = resumed.communicate(timeout=120)
        assert resumed.returncode == 0, said
    assert [row.reward for row in Run.open(tmp_path / "run").rows()] == [1.0] * 8
    assert sorted(asked) == sorted([row["question"] for row in rows] * 2)
