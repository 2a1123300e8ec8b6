"""The processes of assay search less often for garbage; a process that imports assay does not."""

import json
import subprocess
import sys
import textwrap
from urllib.request import Request, urlopen

import pytest

from assay.garbage import NEW_OBJECTS

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path):
    """A folder with rows, and a rubric whose only criterion returns the threshold that is in force."""
    (tmp_path / "threshold.py").write_text(
        textwrap.dedent("""
        import gc

        from assay import Rubric

        def threshold(completion):
            return float(gc.get_threshold()[0])

        rubric = Rubric([threshold])
        """)
    )
    lines = [json.dumps({"completion": str(number)}) + "\n" for number in range(3)]
    (tmp_path / "rows.jsonl").write_text("".join(lines))
    return tmp_path


def run_python(folder, *arguments):
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("options", [[], ["--backend", "processes", "--workers", "1"]])
def test_a_command_and_its_workers_do(folder, options):
    command = ["score", "rows.jsonl", "-r", "threshold:rubric", "-o", "run", "-q", *options]
    run_python(folder, "-m", "assay", *command)
    shown = run_python(folder, "-m", "assay", "show", "run", "-f", "jsonl", "--columns", "reward")
    assert [json.loads(line)["reward"] for line in shown.splitlines()] == [NEW_OBJECTS] * 3


def test_a_process_that_imports_assay_does_not(folder):
    script = "import gc, assay, threshold; print(gc.get_threshold()[0])"
    assert int(run_python(folder, "-c", script)) == int(
        run_python(folder, "-c", "import gc; print(gc.get_threshold()[0])")
    )


SERVE = """
from assay.server import Settings, serve
serve("threshold:rubric", Settings(port=0), started=lambda url: print(url, flush=True))
"""


def test_a_server_does(folder):
    command = [sys.executable, "-c", SERVE]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as server:
        url = server.stdout.readline().strip()
        request = Request(
            f"{url}/v1/score",
            json.dumps({"rollouts": [{"completion": "1"}]}).encode(),
            {"Content-Type": "application/json"},
        )
        try:
            with urlopen(request, timeout=30) as response:
                assert json.load(response)["items"][0]["reward"] == NEW_OBJECTS
        finally:
            server.terminate()
