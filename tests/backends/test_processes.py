"""Many processes write the same run as one, even if some of them are killed."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from assay import Rubric
from assay.backends import Processes, given, score_shards
from assay.runs import Run, RunError

pytestmark = pytest.mark.slow


async def test_two_workers_write_the_run_of_one_process(
    write_rows, tmp_path, score_in_one_process, rows_of_run
):
    """Row for row, with the same summary; the rubric is made here and sent to the workers."""
    path = write_rows(95, id=lambda n: n % 30)
    rubric = Rubric([lambda completion: "1" in completion], [0.5])
    folder, expected = await score_in_one_process(path, rubric)
    summary = score_shards(given(rubric), [path], tmp_path / "many", backend=Processes(2), rows=20)
    assert rows_of_run(tmp_path / "many") == rows_of_run(folder)
    assert summary == expected


def test_a_shard_that_kills_its_workers_is_given_up(write_rows, tmp_path, monkeypatch):
    """The other shards are finished and saved."""
    monkeypatch.setattr("assay.backends.driver.MAX_ATTEMPTS", 2)

    def deadly(completion):
        if completion == "it is 13":
            os.kill(os.getpid(), signal.SIGKILL)
        return 1.0

    backend = Processes(2)
    with pytest.raises(
        RunError,
        match=r"1 of 3 shards .* shard 1: 2 workers died while scoring it, the last by SIGKILL",
    ):
        score_shards(
            given(Rubric([deadly])), [write_rows(30)], tmp_path / "run", backend=backend, rows=10
        )
    saved = {row.fields["completion"] for row in Run.open(tmp_path / "run").rows()}
    assert saved >= {f"it is {n}" for n in [*range(10), *range(20, 30)]}
    assert "it is 13" not in saved


def test_workers_that_cannot_start_end_the_run(write_rows, tmp_path):
    """A script that starts workers on import would start them forever."""
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        "from assay import Rubric\n"
        "from assay.backends import given, score_shards\n"
        "score_shards(given(Rubric([])), [sys.argv[1]], sys.argv[2])\n"
    )
    completed = subprocess.run(
        [sys.executable, str(script), str(write_rows(3)), str(tmp_path / "run")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 1
    assert "under `if __name__ ==" in completed.stderr.splitlines()[-1]


def test_0_workers_are_refused():
    with pytest.raises(ValueError, match="workers is 0: give 1 or more"):
        Processes(0)


DRIVER = """
    import sys, time
    from assay import Rubric
    from assay.backends import Processes, score_shards

    def slow(completion):
        time.sleep(0.01)
        return len(completion) / 8

    def make():
        return Rubric([slow]), None

    if __name__ == "__main__":
        score_shards(make, [sys.argv[1]], sys.argv[2], backend=Processes(2), rows=4, resume=True)
"""


def test_killed_workers_and_drivers_lose_and_repeat_no_row(write_rows, tmp_path, rows_of_run):
    """First a worker is killed, then the driver. Its workers end with it, and the run is resumed."""
    (tmp_path / "driver.py").write_text(textwrap.dedent(DRIVER))
    path, folder = write_rows(80, id=lambda n: n // 2), tmp_path / "run"
    command = [sys.executable, str(tmp_path / "driver.py"), str(path), str(folder)]
    driver = subprocess.Popen(command)
    wait_for_rows(driver, folder, 8)
    os.kill(list_workers(driver)[0], signal.SIGKILL)
    wait_for_rows(driver, folder, 20)
    orphans = list_workers(driver)
    driver.kill()
    driver.wait()
    wait_until(lambda: not any(map(is_running, orphans)))
    assert (folder / "parts").exists()
    subprocess.run(command, check=True)
    rows = rows_of_run(folder)
    assert sorted(rows) == sorted((str(n // 2), n % 2) for n in range(80))
    assert all(reward == len(fields["completion"]) / 8 for fields, reward, _ in rows.values())
    assert [path.name for path in folder.iterdir()] == ["run.assay"]


def wait_for_rows(driver, folder, count):
    wait_until(lambda: count_rows(folder) >= count)
    assert driver.poll() is None


def count_rows(folder):
    try:
        return len(Run.open(folder))
    except RunError:
        return 0  # the run is being started


def wait_until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_running(pid):
    """Return whether a process is running; a zombie is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def list_workers(driver):
    """Return the child processes of the driver, without the resource tracker."""
    process = subprocess.run(
        ["pgrep", "-P", str(driver.pid), "-f", "spawn_main"], capture_output=True
    )
    return [int(line) for line in process.stdout.split()]
