"""The tools that a rewrite is checked by: they load, and they see a difference."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[1] / "tools"


def run(tool, *arguments):
    command = [sys.executable, str(TOOLS / tool), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=200)


@pytest.mark.slow
def test_a_recording_is_equal_to_itself_and_not_to_another(tmp_path):
    """All public names that it asks are there; one changed number is found, and shown."""
    for name in ("first", "second"):
        done = run("record.py", tmp_path / name, "tables", "doors")
        assert done.returncode == 0, done.stderr
    same = run("record.py", "compare", tmp_path / "first", tmp_path / "second")
    assert same.returncode == 0, same.stdout
    changed = tmp_path / "second" / "doors" / "advantages.jsonl"
    changed.write_text(changed.read_text().replace("1.09", "1.08"))
    other = run("record.py", "compare", tmp_path / "first", tmp_path / "second")
    assert other.returncode == 1
    assert "doors/advantages.jsonl: " in other.stdout


def test_a_change_that_no_test_could_make_is_refused():
    """The runner of mutants names what is not there."""
    done = run("mutate.py", "src/assay/nosuch.py")
    assert "nosuch.py is not there" in done.stderr
