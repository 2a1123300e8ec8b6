"""`assay score --only-failed` and `--watch`: scoring the same rows again."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from assay.cli import main
from assay.runs import Run
from assay.testing import Fault

ROWS = [{"completion": text} for text in ("Paris", "Rome", "Paris!")]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache_folder: Path) -> None:
    monkeypatch.chdir(tmp_path)


class TestOnlyFailed:
    def make_run(self, serve: Any, write_file: Any) -> Any:
        """Make a run of three rows without ids in which the judge failed for the second."""
        server = serve(
            lambda system, user: "MET" if "Paris" in user else "UNMET",
            faults=[None, Fault.truncated()],
        )
        rows = write_file("rows.jsonl", ROWS)
        rubric = write_file(
            "rubric.json", [{"requirement": "Names it"}, {"check": {"max_words": 3}}]
        )
        command = ["score", rows, "-r", rubric, "--judge", server.model, "-o", "run", "-q"]
        assert main([*command, "--no-cache", "--concurrency", "1"]) == 1
        return server

    def test_failed_rows_are_scored_again_in_the_same_run(
        self, serve: Any, write_file: Any, capsys: Any
    ) -> None:
        server = self.make_run(serve, write_file)
        assert [row.score for row in Run.open("run").rows()] == [1.0, None, 1.0]
        asked = len(server.requests)
        Path("rows.jsonl").unlink()  # the run has all that is needed
        Path("rubric.json").unlink()
        again = ["score", "--only-failed", "run", "--judge", server.model, "--no-cache"]
        assert main(again) == 0
        assert len(server.requests) == asked + 1
        rows = list(Run.open("run").rows())
        assert [row.score for row in rows] == [1.0, 0.5, 1.0]
        assert [dict(row.fields) for row in rows] == ROWS
        capsys.readouterr()
        assert main(again) == 0
        assert "nothing failed in run" in capsys.readouterr().err
        assert len(server.requests) == asked + 1

    def test_another_judge_needs_another_run(
        self, serve: Any, write_file: Any, capsys: Any
    ) -> None:
        self.make_run(serve, write_file)
        other = serve("MET", name="other")
        capsys.readouterr()
        assert main(["score", "--only-failed", "run", "--judge", other.model]) == 2
        assert "judge was " in capsys.readouterr().err

    def test_only_failed_needs_a_run(self, write_file: Any, capsys: Any) -> None:
        rows = write_file("rows.jsonl", ROWS)
        assert main(["score", "--only-failed", rows, "-r", write_file("r.json", [])]) == 2
        rubric = write_file("rubric.json", [{"check": {"contains": "Paris"}}])
        assert main(["score", "--only-failed", rows, "-r", rubric]) == 2
        assert "is not a run: name its folder" in capsys.readouterr().err


def replace_file(path: Path, data: Any) -> None:
    """Replace a file atomically, as editors do."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps(data))
    new.replace(path)


def test_watching_scores_again_after_every_change(write_file: Any, tmp_path: Path) -> None:
    """A rubric that is invalid for a moment does not end it."""
    rows = write_file("rows.jsonl", ROWS)
    rubric = Path(write_file("rubric.json", [{"check": {"contains": "Paris"}}]))
    command = [sys.executable, "-m", "assay", "score", rows, "-r", str(rubric), "--watch"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stderr.readline().startswith("watching ")
        replace_file(rubric, [{"check": {"contians": "Rome"}}])
        assert "there is no built-in check 'contians'" in process.stderr.readline()
        assert process.stderr.readline().startswith("watching ")
        replace_file(rubric, [{"check": {"contains": "Rome"}}])
        assert process.stderr.readline().startswith("watching ")
        process.send_signal(signal.SIGINT)
        shown = process.stdout.read()
    assert process.returncode == 0
    assert "contains   +1      0.667" in shown
    assert "contains   +1      0.333" in shown
