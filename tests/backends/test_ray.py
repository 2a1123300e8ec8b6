"""A real Ray in a network namespace writes the same run as one process."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from assay import Rubric, rows_of
from assay.runs import Run, RunError, score_rows

pytest.importorskip("ray")
pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
UNSHARE = ("unshare", "-rnpf", "--mount-proc", "--kill-child")


@pytest.fixture(scope="module")
def cluster():
    """Start Ray in a namespace that has only the loopback, and return a function that sends it commands."""
    if not shutil.which("unshare") or subprocess.run([*UNSHARE, "true"], check=False).returncode:
        pytest.skip("Ray listens on all interfaces, and no network of its own can be made here")
    # The paths of its sockets must be short, and it must not write to the user's home directory.
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as folder:
        keeper = subprocess.Popen(
            [*UNSHARE, sys.executable, str(HERE / "ray_keeper.py"), folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={"PATH": "/usr/bin:/bin", "HOME": folder, "RAY_DISABLE_IMPORT_WARNING": "1"}
            | {name: value for name, value in os.environ.items() if name == "PYTHONPATH"},
        )
        with keeper:
            assert json.loads(keeper.stdout.readline()) == {"ready": True}

            def send_command(**command):
                print(json.dumps(command), file=keeper.stdin, flush=True)
                return json.loads(keeper.stdout.readline())

            yield send_command
            keeper.stdin.close()


def program_command(program, *arguments):
    return [str(HERE / "ray_programs.py"), program, *map(str, arguments)]


def read_result(answer):
    assert answer["code"] == 0, answer["output"]
    return json.loads(answer["output"].splitlines()[-1])


def slow_check(completion):
    """The check of the Ray program, without the delay."""
    if completion.endswith("7"):
        raise ConnectionError("away")
    return len(completion) / 8


async def test_killed_workers_and_drivers_lose_and_repeat_no_row(
    cluster, write_rows, tmp_path, rows_of_run
):
    """First a worker is killed, then the driver. The resumed run equals that of one process."""
    path, folder = write_rows(60, id=lambda n: n % 25), tmp_path / "run"
    driver = cluster(start=program_command("score", path, folder))["pid"]
    wait_for_rows(folder, 1)
    wait_until(
        lambda: cluster(kill_worker="score_shard")["killed"]
    )  # between two tasks the process has another name
    wait_for_rows(folder, 16)
    cluster(kill=driver)
    assert (folder / "parts").exists()
    resumed = cluster(start=program_command("score", path, folder))["pid"]
    assert read_result(cluster(wait=resumed)) == {"rollouts": 60}
    await score_rows(Rubric([slow_check]), rows_of(path), folder=tmp_path / "single")
    assert rows_of_run(folder) == rows_of_run(tmp_path / "single")
    assert [path.name for path in folder.iterdir()] == ["run.assay"]


def test_the_concurrency_limit_holds_for_all_tasks_together(cluster, write_rows, tmp_path):
    """Three calls at a time, by two tasks with forty rows."""
    driver = cluster(start=program_command("judged", write_rows(40), tmp_path / "run"))["pid"]
    assert read_result(cluster(wait=driver)) == {"scored": 40, "most": 3}


def test_a_rubric_can_be_a_stage_of_a_ray_data_pipeline(cluster, write_rows):
    """Two actors with half a processor each; unscored rows have null."""
    driver = cluster(start=program_command("stage", write_rows(20), "-"))["pid"]
    rows = read_result(cluster(wait=driver))["rows"]
    rewards = {row["completion"]: row["reward"] for row in rows}
    assert rewards["it is 3"] == 7 / 8
    assert sorted(name for name in rewards if rewards[name] is None) == ["it is 17", "it is 7"]
    assert len(rows) == 20


def wait_for_rows(folder, count):
    wait_until(lambda: count_rows(folder) >= count)


def count_rows(folder):
    try:
        return len(Run.open(folder))
    except RunError:
        return 0  # the run is being started


def wait_until(condition):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
