"""`assay show RUN --recover FOLDER` copies the readable part of a damaged run."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from assay.cli import main
from assay.runs import Run
from assay.runs.run_file import RunFile

RUBRIC = [{"check": {"contains": "7"}}]


@pytest.fixture
def damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of 300 rows in the folder `run`, with garbage in the middle of its file."""
    monkeypatch.chdir(tmp_path)
    Path("rubric.json").write_text(json.dumps(RUBRIC))
    rows = [{"id": f"e{n}", "completion": f"text {n} " * 40} for n in range(300)]
    Path("rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert main(["score", "rows.jsonl", "-r", "rubric.json", "-o", "run", "-q"]) == 0
    shutil.copytree("run", "whole")
    path = Path("run/run.assay")
    data = bytearray(path.read_bytes())
    start = data.index(b'"example":"e150"') // 4096 * 4096
    data[start : start + 8192] = b"\xff" * 8192
    path.write_bytes(bytes(data))
    return path


def test_readable_rows_are_copied_and_the_others_scored_again(damaged: Path, capsys: Any) -> None:
    with pytest.raises(Exception, match="is damaged"):
        list(Run.open("run").rows())
    assert main(["show", "run", "--rows"]) == 1
    assert "`assay show run --recover FOLDER`" in capsys.readouterr().err
    before = damaged.read_bytes()
    assert main(["show", "run", "--recover", "new"]) == 0
    assert damaged.read_bytes() == before
    saved = len(Run.open("new"))
    assert 250 < saved < 300
    said = capsys.readouterr().err
    assert f"recovered {saved} rollouts in new; {300 - saved} could not be read" in said
    assert main(["score", "rows.jsonl", "-r", "rubric.json", "-o", "new", "--resume", "-q"]) == 0
    assert list(Run.open("new").rows()) == list(Run.open("whole").rows())
    assert RunFile("new").select("PRAGMA integrity_check") == [("ok",)]


def test_an_existing_run_is_not_overwritten(damaged: Path, capsys: Any) -> None:
    assert main(["show", "run", "--recover", "whole"]) == 2
    assert "whole already holds a run" in capsys.readouterr().err


def test_a_failed_recovery_leaves_no_files(damaged: Path, capsys: Any) -> None:
    damaged.write_bytes(b"\xff" * 8192)
    assert main(["show", "run", "--recover", "new"]) == 1
    assert "is damaged" in capsys.readouterr().err
    assert list(Path("new").iterdir()) == []


def test_damaged_metadata_are_an_error_of_the_damaged_run(damaged: Path, capsys: Any) -> None:
    """Not of the new one, although they are JSON."""
    with closing(sqlite3.connect(damaged)) as connection, connection:
        connection.execute("UPDATE run SET about = '{}'")
    assert main(["show", "run", "--recover", "new"]) == 1
    error = capsys.readouterr().err
    assert "run/run.assay is damaged (its metadata: " in error
    assert "new/run.assay" not in error
    assert list(Path("new").iterdir()) == []
