"""Many processes write what one writes, whoever is killed on the way."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from assay import Rubric
from assay.backends import Processes, given, score_shards
from assay.runs import Run, RunError, score_rows
from assay.tables import rows_of

pytestmark = pytest.mark.slow


@pytest.fixture
async def alone(maker, tmp_path):
    """A run of the same rows by this process."""

    async def score(path):
        rubric, _ = maker()
        summary = await score_rows(rubric, rows_of(path), folder=tmp_path / "alone")
        return tmp_path / "alone", summary

    return score


async def test_two_workers_write_what_one_writes(maker, table, tmp_path, alone, rows_of_run):
    """Row for row, in the same order, with the same summary."""
    path = table(95)
    folder, expected = await alone(path)
    seen = []
    found = score_shards(
        maker, [path], tmp_path / "many", engine=Processes(2), rows=10, on_progress=seen.append
    )
    assert rows_of_run(tmp_path / "many") == rows_of_run(folder)
    assert [row.key for row in Run.open(tmp_path / "many").rows()] == [(str(n), 0) for n in range(95)]
    assert found.to_dict() == expected.to_dict()
    assert Run.open(tmp_path / "many").summary() == found
    assert (seen[-1].shards_done, seen[-1].rows_done) == (10, 95)


def test_failures_stand_in_a_file_of_their_own(maker, table, tmp_path):
    """Completions 7, 17, … fail."""
    score_shards(maker, [table(20)], tmp_path / "run", engine=Processes(1), rows=10)
    lines = (tmp_path / "run" / "failures" / "part-000000.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {
            "example": "7",
            "sample": 0,
            "errors": {"fails_at_times": "ConnectionError: the judge is down"},
        }
    ]


def test_a_rubric_made_here_travels_too(table, tmp_path):
    """With cloudpickle, as it is."""
    rubric = Rubric([lambda completion: "1" in completion])
    found = score_shards(given(rubric), [table(20)], tmp_path / "run", engine=Processes(1))
    assert found.score.mean == pytest.approx(11 / 20)


def test_a_shard_that_kills_its_workers_is_given_up(table, tmp_path):
    """The others are done, and safe."""

    def deadly(completion):
        if completion == "it is 13":
            os.kill(os.getpid(), signal.SIGKILL)
        return 1.0

    with pytest.raises(RunError, match=r"1 of 3 shards .* shard 1: 4 workers died of it, the last by SIGKILL"):
        score_shards(
            given(Rubric([deadly])), [table(30)], tmp_path / "run", engine=Processes(2), rows=10
        )
    assert len(list((tmp_path / "run" / "parts").glob("part-*.jsonl"))) == 2


def test_a_bad_line_stops_its_shard_alone(maker, tmp_path):
    path = tmp_path / "rows.jsonl"
    good = json.dumps({"completion": "it is 1", "answer": 1})
    path.write_text("\n".join([good] * 10 + ["{"] + [good] * 9) + "\n")
    with pytest.raises(RunError, match=r"shard 1: .*row 10 is no JSON"):
        score_shards(maker, [path], tmp_path / "run", engine=Processes(1), rows=10)


def test_another_rubric_cannot_go_on(maker, table, tmp_path):
    path = table(20)
    stopped = iter([False, False, True])
    score_shards(
        maker, [path], tmp_path / "run", engine=Processes(1), rows=5,
        stopping=lambda: next(stopped, True),
    )  # fmt: skip
    with pytest.raises(RunError, match="holds another run"):
        score_shards(given(Rubric([lambda completion: 1])), [path], tmp_path / "run", resume=True, rows=5)
    with pytest.raises(RunError, match="holds a run already"):
        score_shards(maker, [path], tmp_path / "run", rows=5)


def test_stopped_and_resumed_it_is_the_same_run(maker, table, tmp_path, rows_of_run):
    path = table(60)
    whole = score_shards(maker, [path], tmp_path / "whole", engine=Processes(1), rows=5)
    seen = []
    first = score_shards(
        maker, [path], tmp_path / "run", engine=Processes(1), rows=5,
        on_progress=seen.append, stopping=lambda: len(seen) > 3,
    )  # fmt: skip
    assert not first.complete
    assert 0 < first.rollouts < 60
    again = score_shards(maker, [path], tmp_path / "run", engine=Processes(2), rows=5, resume=True)
    assert again.complete
    assert rows_of_run(tmp_path / "run") == rows_of_run(tmp_path / "whole")
    assert again == whole


DRIVER = """
    import sys
    from tests_backends_rubric import make
    from assay.backends import Processes, score_shards

    if __name__ == "__main__":
        score_shards(make, [sys.argv[1]], sys.argv[2], engine=Processes(2), rows=4, resume=True)
"""

RUBRIC = """
    import time
    from assay import Rubric

    def slow(completion):
        time.sleep(0.01)
        return len(completion) / 10

    def make():
        return Rubric([slow]), None
"""


def test_workers_and_driver_killed_at_random_lose_and_double_nothing(table, tmp_path, rows_of_run):
    """SIGKILL to a worker, then to the driver, again and again; the last run finishes."""
    (tmp_path / "driver.py").write_text(textwrap.dedent(DRIVER))
    (tmp_path / "tests_backends_rubric.py").write_text(textwrap.dedent(RUBRIC))
    path, folder = table(80), tmp_path / "run"
    command = [sys.executable, str(tmp_path / "driver.py"), str(path), str(folder)]
    for round_ in range(5):
        driver = subprocess.Popen(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)})
        parts = folder / "parts"
        before = len(list(parts.glob("part-*"))) if parts.exists() else 0
        while driver.poll() is None and len(list(parts.glob("part-*")) if parts.exists() else []) <= before:
            time.sleep(0.02)
        for child in _children(driver.pid)[: 1 + round_ % 2]:
            os.kill(child, signal.SIGKILL)
        driver.kill()
        driver.wait()
        if (folder / "rollouts.jsonl").exists():
            break
    subprocess.run(command, cwd=tmp_path, check=True, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    rows = rows_of_run(folder)
    assert sorted(rows) == sorted((str(n), 0) for n in range(80))
    assert len((folder / "rollouts.jsonl").read_text().splitlines()) == 80
    assert all(reward == len(fields["completion"]) / 10 for fields, reward, _ in rows.values())
    assert not (folder / "scratch").exists()


def _children(pid):
    listed = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(line) for line in listed.stdout.split()]
