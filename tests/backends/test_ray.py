"""A real Ray, in a network of its own, gives the run that one process gives."""

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
APART = ("unshare", "-rnpf", "--mount-proc", "--kill-child")


@pytest.fixture(scope="module")
def cluster():
    """What runs programs beside a Ray, in a namespace that has only the loopback."""
    if not shutil.which("unshare") or subprocess.run([*APART, "true"], check=False).returncode:
        pytest.skip("Ray listens on all interfaces, and no network of its own can be made here")
    # Paths of its sockets may not be long, and what it leaves in a home is not for ours.
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as folder:
        keeper = subprocess.Popen(
            [*APART, sys.executable, str(HERE / "ray_keeper.py"), folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={"PATH": "/usr/bin:/bin", "HOME": folder, "RAY_DISABLE_IMPORT_WARNING": "1"}
            | {name: value for name, value in os.environ.items() if name == "PYTHONPATH"},
        )
        with keeper:
            assert json.loads(keeper.stdout.readline()) == {"ready": True}

            def ask(**what):
                print(json.dumps(what), file=keeper.stdin, flush=True)
                return json.loads(keeper.stdout.readline())

            yield ask
            keeper.stdin.close()


def program(kind, *arguments):
    return [str(HERE / "ray_programs.py"), kind, *map(str, arguments)]


def found(answer):
    assert answer["code"] == 0, answer["said"]
    return json.loads(answer["said"].splitlines()[-1])


def slow(completion):
    """What the program checks, without the wait."""
    if completion.endswith("7"):
        raise ConnectionError("away")
    return len(completion) / 8


async def test_workers_and_driver_killed_lose_and_double_nothing(
    cluster, table, tmp_path, rows_of_run
):
    """SIGKILL to a worker, then to the driver; another one goes on. Row for row as one process."""
    path, folder = table(60, id=lambda n: n % 25), tmp_path / "run"
    driver = cluster(start=program("score", path, folder))["pid"]
    wait_for_rows(folder, 1)
    wait_until(
        lambda: cluster(kill_worker="score_shard")["killed"]
    )  # between two tasks it has another name
    wait_for_rows(folder, 16)
    cluster(kill=driver)
    assert (folder / "parts").exists()
    again = cluster(start=program("score", path, folder))["pid"]
    assert found(cluster(wait=again)) == {"rollouts": 60}
    await score_rows(Rubric([slow]), rows_of(path), folder=tmp_path / "alone")
    assert rows_of_run(folder) == rows_of_run(tmp_path / "alone")
    assert [path.name for path in folder.iterdir()] == ["run.assay"]


def test_a_limit_is_one_for_all_tasks(cluster, table, tmp_path):
    """Three calls at once, though two tasks have forty rows to ask for."""
    driver = cluster(start=program("judged", table(40), tmp_path / "run"))["pid"]
    assert found(cluster(wait=driver)) == {"scored": 40, "most": 3}


def test_a_rubric_is_a_stage_of_a_pipeline(cluster, table):
    """Two actors of half a processor each; unscored is null."""
    driver = cluster(start=program("stage", table(20), "-"))["pid"]
    rows = found(cluster(wait=driver))["rows"]
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


def wait_until(holds):
    ends = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.01)
