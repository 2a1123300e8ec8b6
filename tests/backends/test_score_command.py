"""`assay score --backend`: the command with several workers."""

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
CHECK_THAT_WAITS = """
import time
from pathlib import Path

def wait_for_go(completion):
    while not completion.endswith("0") and not Path("go").exists():
        time.sleep(0.01)
    return len(completion) / 8

rubric = [wait_for_go]
"""


@pytest.fixture
def score(tmp_path, monkeypatch, capsys):
    """Run the command in an empty folder with a rubric file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    Path("rubric.json").write_text(json.dumps(RUBRIC))

    def run(*arguments):
        code = main(["score", *map(str, arguments)])
        captured = capsys.readouterr()
        return SimpleNamespace(code=code, out=captured.out, err=captured.err)

    return run


TWO_WORKERS = ("-r", "rubric.json", "-o", "run", "--backend", "processes", "--workers", "2")


@pytest.mark.slow
def test_the_output_equals_that_of_one_process(score, write_rows, tmp_path):
    """Two files in a folder, four shards; 11 completions of each file contain a 1."""
    (tmp_path / "data").mkdir()
    write_rows(20, "data/a.jsonl")
    write_rows(20, "data/b.jsonl")
    single = score("data", "-r", "rubric.json", "-o", "alone", "-f", "csv")
    sharded = score("data", *TWO_WORKERS, "--shard-rows", "10", "-f", "csv")
    assert (sharded.code, sharded.err) == (0, "")
    assert sharded.out == single.out
    assert Run.open("run").summary() == Run.open("alone").summary()
    assert Run.open("run").summary().score.mean == 22 / 40
    resumed = score("data", "-r", "rubric.json", "-o", "run", "--resume")
    assert resumed.code == 0


@pytest.mark.slow
def test_workers_use_the_judge_options_of_the_command(score, write_rows):
    """Twelve calls, whose verdicts are in the cache afterwards."""
    Path("judged.json").write_text(json.dumps([{"requirement": "Is it so?"}]))
    with ModelServer("MET") as judge:
        arguments = (
            write_rows(12),
            "-r",
            "judged.json",
            "--judge",
            judge.model,
            "--shard-rows",
            "3",
        )
        completed = score(
            *arguments, "-o", "run", "--save-requests", *TWO_WORKERS[4:6], "--workers", "1"
        )
        assert (completed.code, judge.calls) == (0, 12)
        run = Run.open("run")
        assert run.about.resolved == ("test-2026-01-01",)
        assert all(len(row.calls) == 1 for row in run.rows())
        assert score(*arguments[:5], "-o", "again").code == 0
        assert judge.calls == 12


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["rows.jsonl", "-r", "rubric.json", "--backend", "processes"], "needs a folder"),
        (["rows.jsonl", *TWO_WORKERS, "--limit", "3"], "--limit works only in one process"),
        (["rows.jsonl", "-r", "rubric.json", "--workers", "2"], "--workers needs --backend"),
        (["rows.jsonl", *TWO_WORKERS, "--ray-address", "x"], "--ray-address needs --backend ray"),
        (["rows.csv", *TWO_WORKERS], "other files cannot be cut into shards"),
        (["alone", *TWO_WORKERS], "alone is a run, which is scored in one process"),
        (["rows.jsonl", *TWO_WORKERS[2:]], "--rubric is missing"),
        (
            ["rows.jsonl", "-r", "judged.json", "--judge", "local", *TWO_WORKERS[2:]],
            "every worker would load the model 'local'",
        ),
        (["-", *TWO_WORKERS], "there is no file"),
        (
            ["rows.jsonl", *TWO_WORKERS[:3], "shards", "--resume"],
            "is a sharded run: resume it with --backend",
        ),
    ],
)
def test_options_that_cannot_be_combined_are_refused(
    score, write_rows, monkeypatch, arguments, why
):
    """As a usage error."""
    write_rows(3)
    Path("rows.csv").write_text("completion\n1\n")
    Path("judged.json").write_text(json.dumps([{"requirement": "Is it so?"}]))
    Path("shards/parts").mkdir(parents=True)
    assert score("rows.jsonl", "-r", "rubric.json", "-o", "alone").code == 0
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b'{"completion": "1"}\n')))
    completed = score(*arguments)
    assert completed.code == 2
    assert why in completed.err


def test_several_files_are_one_table_without_workers(score, write_rows):
    write_rows(2, "a.jsonl")
    write_rows(3, "b.jsonl")
    assert score("a.jsonl", "b.jsonl", "-r", "rubric.json", "-o", "run").code == 0
    assert [row.key[0] for row in Run.open("run").rows()] == ["0", "1", "2", "3", "4"]


@pytest.mark.slow
def test_ctrl_c_finishes_started_shards_and_a_second_one_stops_immediately(write_rows, tmp_path):
    """Either way the command prints how to resume, and resuming completes the run."""
    (tmp_path / "waiting.py").write_text(CHECK_THAT_WAITS)
    write_rows(40, id=lambda n: f"q{n}")
    arguments = (
        "score rows.jsonl -r waiting:rubric -o run --backend processes --workers 2 --shard-rows 10"
    )
    command = [sys.executable, "-m", "assay", *shlex.split(arguments)]
    code, error_output = interrupt(command, tmp_path, times=1)
    assert code == 130
    assert f"continue with: assay {arguments} --resume" in error_output
    assert "finishing what has started" in error_output
    row_count = len(Run.open(tmp_path / "run"))
    assert row_count in (10, 20)  # the shards that workers had started by then, and no others
    code, error_output = interrupt([*command, "--resume"], tmp_path, times=2)
    assert code == 130
    assert f"stopped at once; continue with: assay {arguments} --resume" in error_output
    (tmp_path / "go").touch()
    subprocess.run([*command, "--resume", "-q"], cwd=tmp_path, check=True, capture_output=True)
    assert len(Run.open(tmp_path / "run")) == 40


def interrupt(command, folder, times):
    """Press Ctrl-C, for all processes as a terminal does, once a shard has a row; other rows wait for `go`.

    After a single Ctrl-C they may continue, so that even on a slow machine no shard ends earlier.
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
        error_output = process.stderr.readline()
        if times > 1:
            os.killpg(process.pid, signal.SIGINT)
        else:
            (folder / "go").touch()
        error_output += process.stderr.read()
    (folder / "go").unlink(missing_ok=True)
    return process.returncode, error_output


def wait_for_rows(process, parts):
    deadline = time.monotonic() + 60
    while not any(RunFile(part).holds_work for part in parts.glob("*-*") if is_run(part)):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
