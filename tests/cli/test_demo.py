"""`assay demo`: a scripted judge, example answers to score, and the page."""

import json
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from assay import PerCriterionGrader, Rubric
from assay.cli import main
from assay.cli.scripted_judge import answer_by_script
from assay.runs import Run
from assay.testing import ModelServer


def test_the_demo_scores_answers_and_serves_the_page(tmp_path: Path, cache_folder: Path) -> None:
    """The run names the scripted judge; Ctrl-C ends everything."""
    command = [sys.executable, "-m", "assay", "demo", "--no-open", "--port", "0"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        page = ""
        lines: list[str] = []
        for line in process.stdout:
            lines.append(line)
            found = re.fullmatch(r"(http://127.0.0.1:\d+/) \(press Ctrl-C to stop\)\n", line)
            if found is not None:
                page = found[1]
                break
        with urllib.request.urlopen(f"{page}api/runs", timeout=60) as reply:
            assert len(json.load(reply)) == 1
        process.send_signal(signal.SIGINT)
        process.stdout.read()
    assert process.returncode in (0, 130)
    assert re.match(r"scripted judge at http://127.0.0.1:\d+/v1#scripted-judge ", lines[0])
    run = Run.open(tmp_path / "demo" / "run")
    assert (run.about.judge or "").partition("#")[2].startswith("scripted-judge")
    scores = {row.example: row.score for row in run.rows()}
    assert len(scores) == 8
    assert None not in scores.values()
    assert (scores["parcel"], scores["invoice"]) == (1.0, 0.0)


def test_an_existing_run_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo" / "run").mkdir(parents=True)
    assert main(["demo"]) == 2
    assert "look at it with assay view demo, or name another folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("requirement", "text", "score"),
    [
        ("Thanks the customer", "Thank you so much for asking about it yet again.", 1.0),
        ("Thanks the customer, without sarcasm", "Thank you so much for asking.", 0.0),
        ("Thanks the customer, without sarcasm", "Thank you.", 1.0),
        ("Names the refund period", "The refund takes 30 days.", 1.0),
        ("Names the refund period", "It takes 30 days.", 0.0),
    ],
)
def test_the_scripted_judge_looks_for_words(requirement: str, text: str, score: float) -> None:
    with ModelServer(answer_by_script) as server:
        rubric = Rubric.from_dict([{"requirement": requirement}])
        report = rubric.grade_sync(text, PerCriterionGrader(server.model))
        assert report.score == score
        assert report.lines[0].reason.startswith("Scripted judge: the response ")


def test_the_scripted_judge_answers_scales() -> None:
    with ModelServer(answer_by_script) as server:
        rubric = Rubric.from_dict([{"requirement": "Thanks", "choices": ["no", "a bit", "yes"]}])
        grader = PerCriterionGrader(server.model)
        assert rubric.grade_sync("Thank you.", grader).score == 1.0
        assert rubric.grade_sync("No.", grader).score == 0.0


def test_a_port_that_is_in_use_is_an_error(cache_folder: Path, capsys: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["demo", "--port", str(port), "--no-open"]) == 1
    assert (
        f"port {port} is in use, perhaps by another demo: stop that, or" in capsys.readouterr().err
    )
