"""`assay list` and `assay view`: list the runs in a folder, and open their page."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from assay import PerCriterionGrader, Rubric
from assay.cli import main
from assay.runs import score_rows
from assay.testing import ModelServer


def is_polite(completion: str) -> bool:
    if completion == "break":
        raise ConnectionError("the judge is down")
    return "please" in completion


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    """Two runs: one with scores 1 and 0, and one in a subfolder with an unscored row."""
    rubric = Rubric([is_polite], name="manners")
    rows = [{"completion": "please"}, {"completion": "now"}]
    await score_rows(rubric, rows, folder=tmp_path / "runs" / "before")
    await score_rows(rubric, [{"completion": "break"}], folder=tmp_path / "runs" / "later" / "day")
    return tmp_path / "runs"


def test_a_folder_of_runs_is_listed_with_scores_and_errors(folder: Path, capsys: Any) -> None:
    assert main(["list", str(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{folder}: 2 runs"
    assert lines[2].split()[:3] == ["run", "date", "rubric"]
    before = next(line for line in lines if line.startswith("before"))
    later = next(line for line in lines if line.startswith("later/day"))
    assert "manners" in before
    assert "0.5" in before
    assert "1, 1 unscored" in later


def test_a_run_file_is_listed_too(folder: Path, capsys: Any) -> None:
    """It was copied, or named when it was started."""
    (folder / "before" / "run.assay").rename(folder / "tuesday.assay")
    assert main(["list", str(folder)]) == 0
    out = capsys.readouterr().out
    assert f"{folder}: 2 runs" in out
    assert "tuesday.assay" in out
    assert main(["show", str(folder / "tuesday.assay")]) == 0
    assert "2 rollouts" in capsys.readouterr().out


def test_the_list_as_json_contains_every_value(folder: Path, capsys: Any) -> None:
    assert main(["list", str(folder), "-f", "json"]) == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    by_name = {run["name"]: run for run in runs}
    assert by_name["before"]["score"]["mean"] == 0.5
    assert by_name["before"]["errors"] == 0
    assert by_name["later/day"]["errors"] == 1
    assert by_name["later/day"]["score"]["mean"] is None
    assert len(by_name["before"]["rubric_version"]) > 8


def test_a_folder_without_runs_is_refused(tmp_path: Path, capsys: Any) -> None:
    for command in ("list", "view"):
        assert main([command, str(tmp_path)]) == 2
        assert "holds no run" in capsys.readouterr().err
    assert main(["list", str(tmp_path / "runs")]) == 2
    assert "there is no run" in capsys.readouterr().err


async def test_the_list_shows_the_judge(tmp_path: Path, capsys: Any) -> None:
    with ModelServer("MET") as server:
        rubric = Rubric([{"requirement": "Is polite"}], judge=PerCriterionGrader(server.model))
        await score_rows(rubric, [{"completion": "please"}], folder=tmp_path / "run")
        assert main(["list", str(tmp_path)]) == 0
        assert f" {server.model} " in capsys.readouterr().out


class ViewProcess:
    """`assay view` in a process that ends with the `with` block."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        self.arguments = arguments
        names = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
        kept = {name: value for name, value in os.environ.items() if name not in names}
        self.environment = {**kept, **environment}

    def __enter__(self) -> "ViewProcess":
        self.process = subprocess.Popen(
            [sys.executable, "-m", "assay", "view", *self.arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().split(" ")[0]
        return self

    def __exit__(self, *exception: object) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=30)

    @property
    def port(self) -> int:
        return int(self.address.rstrip("/").rpartition(":")[2])


def test_a_second_page_takes_the_next_free_port(folder: Path) -> None:
    with ViewProcess(str(folder)) as first, ViewProcess(str(folder)) as second:
        assert first.port != second.port


def test_a_port_that_is_in_use_is_an_error(folder: Path, capsys: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert main(["view", str(folder), "--port", port, "--no-open"]) == 1
    assert f"port {port} is in use: name another" in capsys.readouterr().err


def test_an_invalid_port_is_a_usage_error(folder: Path, capsys: Any) -> None:
    assert main(["view", str(folder), "--port", "70000"]) == 2
    assert "give a number from 0 to 65535" in capsys.readouterr().err


@pytest.fixture
def fake_browser(tmp_path: Path) -> Path:
    """A program that stands in for a browser: it writes the URL that it gets to a pipe."""
    os.mkfifo(tmp_path / "opened")
    program = tmp_path / "browser"
    program.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/opened\n')
    program.chmod(0o755)
    return program


def test_the_page_is_opened_in_the_browser(folder: Path, fake_browser: Path) -> None:
    with ViewProcess(str(folder), BROWSER=f"{fake_browser} %s") as view:
        assert (fake_browser.parent / "opened").read_text().strip() == view.address


def test_no_browser_is_opened_without_a_display() -> None:
    """A text browser would take over the terminal in which the URL is printed."""
    code = "from assay.viewer.page_server import has_display; print(has_display())"
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME")}
    for extra, shown in (({}, "False"), ({"DISPLAY": ":0"}, "True")):
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            env={**kept, **extra},
            check=True,
        )
        if sys.platform == "linux":
            assert done.stdout.strip() == shown
