"""The output and the errors of `assay serve`."""

import os
import signal
import subprocess
import sys

import pytest

from assay.server import Settings
from assay.server.settings import SettingsError

PROGRAM = "import sys; from assay.cli.serve import command; sys.exit(command.main(sys.argv[1:], 'assay serve'))"


def start_command(*arguments, **environment):
    inherited = {name: value for name, value in os.environ.items() if name != "ASSAY_SERVER_KEY"}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=inherited | environment,
    )


@pytest.mark.slow
def test_the_command_prints_its_url_and_stops_on_ctrl_c(rubric_file, send_request):
    """The exit code is 0, since the user asked it to stop."""
    process = start_command(rubric_file(), "--port", 0, "--workers", 2)
    line = process.stderr.readline()
    assert line.startswith("serving ")
    assert line.endswith(" with 2 workers\n")
    url = line.split()[3]
    body = {"rollouts": [{"completion": "4", "answer": "4"}]}
    assert send_request(url, "/v1/score", body).data["items"][0]["reward"] == 3.5
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == 0


@pytest.mark.slow
def test_the_key_is_read_from_the_environment(rubric_file, send_request):
    """There is no option for it, because others can read the command line."""
    process = start_command(rubric_file(), "--port", 0, ASSAY_SERVER_KEY="s3cret")
    url = process.stderr.readline().split()[3]
    assert send_request(url, "/v1/rubric", method="GET").status == 401
    process.terminate()
    process.communicate(timeout=60)
    assert (
        "--key "
        not in subprocess.run(
            [sys.executable, "-c", PROGRAM, "--help"], capture_output=True, text=True, check=True
        ).stdout
    )


@pytest.mark.slow
def test_a_dry_run_prints_the_rubric_and_the_url_without_serving(rubric_file):
    process = start_command(rubric_file(), "--dry-run")
    _, standard_error = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "<Rubric arithmetic" in standard_error
    assert "would be served on http://127.0.0.1:8000" in standard_error


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
def test_invalid_options_are_refused_before_anything_is_started(rubric_file, options, words):
    process = start_command(rubric_file(), *options)
    _, standard_error = process.communicate(timeout=60)
    assert process.returncode != 0
    assert words in standard_error


@pytest.mark.parametrize("file", ["nowhere/signs.jsonl", "."])
def test_a_monitor_file_that_cannot_be_written_is_refused_at_startup(tmp_path, file):
    """It must not fail hours into a training run, when the first warning is written."""
    with pytest.raises(SettingsError, match="name a file in a folder that exists"):
        Settings(monitor=str(tmp_path / file))
    assert Settings(monitor=str(tmp_path / "signs.jsonl")).monitor
