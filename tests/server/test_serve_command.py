"""`assay serve`: what it says, and what it refuses."""

import os
import signal
import subprocess
import sys

import pytest

from assay.server import Settings
from assay.server.settings import SettingsError

PROGRAM = "import sys; from assay.cli.serve import command; sys.exit(command.main(sys.argv[1:], 'assay serve'))"


def run(*arguments, **environment):
    kept = {name: value for name, value in os.environ.items() if name != "ASSAY_SERVER_KEY"}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=kept | environment,
    )


@pytest.mark.slow
def test_it_says_where_it_serves_and_ends_on_ctrl_c(rubric_file, asking):
    """With exit code 0, since it was told to end."""
    process = run(rubric_file(), "--port", 0, "--workers", 2)
    line = process.stderr.readline()
    assert line.startswith("serving ")
    assert line.endswith(" with 2 workers\n")
    url = line.split()[3]
    body = {"rollouts": [{"completion": "4", "answer": "4"}]}
    assert asking(url, "/v1/score", body).data["items"][0]["reward"] == 3.5
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == 0


@pytest.mark.slow
def test_the_key_comes_from_the_environment(rubric_file, asking):
    """And never from the command line, where others can read it."""
    process = run(rubric_file(), "--port", 0, ASSAY_SERVER_KEY="s3cret")
    url = process.stderr.readline().split()[3]
    assert asking(url, "/v1/rubric", method="GET").status == 401
    process.terminate()
    process.communicate(timeout=60)
    assert (
        "--key "
        not in subprocess.run(
            [sys.executable, "-c", PROGRAM, "--help"], capture_output=True, text=True, check=True
        ).stdout
    )


@pytest.mark.slow
def test_everything_can_be_looked_at_without_serving(rubric_file):
    """With --dry-run."""
    process = run(rubric_file(), "--dry-run")
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "<Rubric arithmetic" in said
    assert "would be served on http://127.0.0.1:8000" in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--host", "0.0.0.0"], "no key is set: set ASSAY_SERVER_KEY"),
        (["--port", "70000"], "port is 70000"),
        (["--workers", "0"], "is not a whole number of 1 or more"),
        (["--item-seconds", "0"], "seconds above 0"),
        (["--unscored", "half"], "'half' is not one of"),
        (["--max-calls", "1", "--workers", "2"], "which 2 workers cannot share"),
        (["--key-file", "/no/such/file"], "No such file"),
    ],
)
def test_what_cannot_be_meant_is_refused(rubric_file, options, words):
    """Before anything is started."""
    process = run(rubric_file(), *options)
    _, said = process.communicate(timeout=60)
    assert process.returncode != 0
    assert words in said


@pytest.mark.parametrize("file", ["nowhere/signs.jsonl", "."])
def test_a_monitor_that_cannot_write_is_refused_at_the_start(tmp_path, file):
    """And not when the first signs are to be written, hours into a training."""
    with pytest.raises(SettingsError, match="name a file in a folder that exists"):
        Settings(monitor=str(tmp_path / file))
    assert Settings(monitor=str(tmp_path / "signs.jsonl")).monitor
