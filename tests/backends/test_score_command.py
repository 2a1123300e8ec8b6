"""`assay score --backend`: the command with many workers."""

import io
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from assay.cli import main
from assay.runs import Run
from assay.runs.run_file import RunFile
from assay.runs.run_schema import is_run
from assay.testing import ModelServer

RUBRIC = [{"name": "has_one", "check": {"contains": "1"}}]
HELD = """
import time
from pathlib import Path

def held(completion):
    while not completion.endswith("0") and not Path("go").exists():
        time.sleep(0.01)
    return len(completion) / 8

rubric = [held]
"""


@pytest.fixture
def score(tmp_path, monkeypatch, capsys):
    """Runs the command in a folder of its own, with a rubric."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    Path("rubric.json").write_text(json.dumps(RUBRIC))

    def run(*arguments):
        code = main(["score", *map(str, arguments)])
        said = capsys.readouterr()
        return SimpleNamespace(code=code, out=said.out, err=said.err)

    return run


MANY = ("-r", "rubric.json", "-o", "run", "--backend", "processes", "--workers", "2")


@pytest.mark.slow
def test_the_table_is_that_of_one_process(score, table, tmp_path):
    """Two files in a folder, four shards; 11 and 1 of each have a 1 in them."""
    (tmp_path / "data").mkdir()
    table(20, "data/a.jsonl")
    table(20, "data/b.jsonl")
    alone = score("data", "-r", "rubric.json", "-o", "alone", "-f", "csv")
    many = score("data", *MANY, "--shard-rows", "10", "-f", "csv")
    assert (many.code, many.err) == (0, "")
    assert many.out == alone.out
    assert Run.open("run").summary() == Run.open("alone").summary()
    assert Run.open("run").summary().score.mean == 22 / 40
    again = score("data", "-r", "rubric.json", "-o", "run", "--resume")
    assert again.code == 0


@pytest.mark.slow
def test_workers_judge_as_the_options_say(score, table):
    """Twelve calls; afterwards their verdicts are in the cache, for anybody."""
    Path("judged.json").write_text(json.dumps([{"requirement": "Is it so?"}]))
    with ModelServer("MET") as judge:
        arguments = (table(12), "-r", "judged.json", "--judge", judge.model, "--shard-rows", "3")
        done = score(*arguments, "-o", "run", "--save-requests", *MANY[4:6], "--workers", "1")
        assert (done.code, judge.calls) == (0, 12)
        run = Run.open("run")
        assert run.about.resolved == ("test-2026-01-01",)
        assert all(len(row.calls) == 1 for row in run.rows())
        assert score(*arguments[:5], "-o", "again").code == 0
        assert judge.calls == 12


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["rows.jsonl", "-r", "rubric.json", "--backend", "processes"], "needs a folder"),
        (["rows.jsonl", *MANY, "--limit", "3"], "--limit works only in one process"),
        (["rows.jsonl", "-r", "rubric.json", "--workers", "2"], "--workers needs --backend"),
        (["rows.jsonl", *MANY, "--ray-address", "x"], "--ray-address needs --backend ray"),
        (["rows.csv", *MANY], "other files cannot be cut into shards"),
        (["alone", *MANY], "alone is a run, which is scored in one process"),
        (["rows.jsonl", *MANY[2:]], "--rubric is missing"),
        (
            ["rows.jsonl", "-r", "judged.json", "--judge", "local", *MANY[2:]],
            "every worker would load the model 'local'",
        ),
        (["-", *MANY], "there is no file"),
        (
            ["rows.jsonl", *MANY[:3], "shards", "--resume"],
            "is a sharded run: resume it with --backend",
        ),
    ],
)
def test_what_cannot_be_is_refused(score, table, monkeypatch, arguments, why):
    """In a sentence, and as a mistake in what was typed."""
    table(3)
    Path("rows.csv").write_text("completion\n1\n")
    Path("judged.json").write_text(json.dumps([{"requirement": "Is it so?"}]))
    Path("shards/parts").mkdir(parents=True)
    assert score("rows.jsonl", "-r", "rubric.json", "-o", "alone").code == 0
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b'{"completion": "1"}\n')))
    done = score(*arguments)
    assert done.code == 2
    assert why in done.err


def test_several_files_are_one_table_without_workers_too(score, table):
    table(2, "a.jsonl")
    table(3, "b.jsonl")
    assert score("a.jsonl", "b.jsonl", "-r", "rubric.json", "-o", "run").code == 0
    assert [row.key[0] for row in Run.open("run").rows()] == ["0", "1", "2", "3", "4"]


@pytest.mark.slow
def test_ctrl_c_once_finishes_what_is_begun_and_twice_stops(table, tmp_path):
    """Either way it says how to go on, and going on makes it whole."""
    (tmp_path / "held.py").write_text(HELD)
    table(40, id=lambda n: f"q{n}")
    typed = "score rows.jsonl -r held:rubric -o run --backend processes --workers 2 --shard-rows 10"
    command = [sys.executable, "-m", "assay", *shlex.split(typed)]
    code, said = interrupted(command, tmp_path, times=1)
    assert code == 130
    assert f"continue with: assay {typed} --resume" in said
    assert "finishing what has started" in said
    done = len(Run.open(tmp_path / "run"))
    assert done in (10, 20)  # the shards that workers had begun by then, and no more of the four
    code, said = interrupted([*command, "--resume"], tmp_path, times=2)
    assert code == 130
    assert f"stopped at once; continue with: assay {typed} --resume" in said
    (tmp_path / "go").touch()
    subprocess.run([*command, "--resume", "-q"], cwd=tmp_path, check=True, capture_output=True)
    assert len(Run.open(tmp_path / "run")) == 40


def interrupted(command, folder, times):
    """Press Ctrl-C, to all processes as a terminal does, once a shard has a row; the others wait for `go`.

    What is pressed once lets them go on afterwards, so that however slow the machine is, no shard ends before.
    """
    process = subprocess.Popen(
        command,
        cwd=folder,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    with process:
        wait_for_rows(process, folder / "run" / "parts")
        os.killpg(process.pid, signal.SIGINT)
        said = process.stderr.readline()
        if times > 1:
            os.killpg(process.pid, signal.SIGINT)
        else:
            (folder / "go").touch()
        said += process.stderr.read()
    (folder / "go").unlink(missing_ok=True)
    return process.returncode, said


def wait_for_rows(process, parts):
    ends = time.monotonic() + 60
    while not any(RunFile(part).holds_work for part in parts.glob("*-*") if is_run(part)):
        assert process.poll() is None
        assert time.monotonic() < ends
        time.sleep(0.01)
