"""Worker processes: several, replaced when they die, and ended with their supervisor."""

import http.client
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from assay import Rollout
from assay.server import RemoteRubric, Settings, serve
from assay.server.settings import SettingsError

pytestmark = pytest.mark.slow

WAITS = '- {check: "steered:when_told"}'


def is_gone(pid):
    return not Path(f"/proc/{pid}").exists()


def test_a_server_is_ready_when_all_of_its_workers_are(start, until):
    """Not while one of two is being replaced; what comes meanwhile is scored all the same."""
    server = start(workers=2)
    assert server.ready() | {"rubric": ""} == {
        "ready": True,
        "workers": 2,
        "workers_ready": 2,
        "draining": False,
        "rubric": "",
        "reload_failed": False,
    }
    first, second = server.workers()
    os.kill(first, signal.SIGKILL)
    until(lambda: server.ask("/ready", method="GET").status == 503)
    assert server.score("4").data["items"][0]["reward"] == 3.5
    until(lambda: server.ready()["ready"])
    assert second in server.workers()
    assert first not in server.workers()
    assert server.metrics()["assay_worker_restarts_total"] == 1
    assert f"worker {first} ended with exit code -9" in server.stop()


def test_a_worker_killed_in_the_middle_breaks_its_requests_alone(start, until, tmp_path):
    """The client sees a broken connection; `RemoteRubric` asks again, and gets its answer."""
    server = start(WAITS)
    [worker] = server.workers()
    with ThreadPoolExecutor(2) as pool:
        plain = pool.submit(server.score, str(tmp_path / "plain"))
        remote = RemoteRubric(server.url)
        patient = pool.submit(remote.score_rollout_sync, completion=str(tmp_path / "patient"))
        until(lambda: len(list(tmp_path.glob(f"*.began-{worker}"))) == 2)
        os.kill(worker, signal.SIGKILL)
        assert isinstance(plain.exception(), OSError | http.client.HTTPException)
        (tmp_path / "patient").touch()
        assert patient.result() == {"when_told": 1.0, "reward": 1.0}


def test_with_every_worker_dead_connections_wait_for_the_next(start):
    """The socket is the supervisor's, so nobody is turned away."""
    server = start()
    [worker] = server.workers()
    os.kill(worker, signal.SIGKILL)
    assert server.score("4").data["items"][0]["reward"] == 3.5


@pytest.mark.parametrize(("workers", "delay"), [(1, 0.0), (1, 0.5), (2, 0.2)])
def test_workers_killed_while_they_start_are_replaced_at_once(start, until, workers, delay):
    """All workers are killed, and then each replacement is, before it is ready. Then there is an answer.

    Starting takes a second on an idle machine. uvicorn's own supervisor took 32 s here.
    """
    server = start(workers=workers)
    killed = set(server.workers())
    for worker in killed:
        os.kill(worker, signal.SIGKILL)
    starting = until(lambda: set(server.workers()) - killed)
    time.sleep(delay)
    for worker in starting:
        os.kill(worker, signal.SIGKILL)
    began = time.monotonic()
    assert server.score("4").data["items"][0]["reward"] == 3.5
    assert time.monotonic() - began < 10  # on a machine that does much else


async def test_requests_are_answered_while_workers_are_killed(start):
    """Six workers are killed during 600 requests; `RemoteRubric` gets the right answer to each."""
    server = start(workers=2)
    over = threading.Event()
    kills = []

    def kill_now_and_then():
        while not over.wait(0.3) and len(kills) < 6:
            worker = server.workers()[len(kills) % 2 - 1]
            os.kill(worker, signal.SIGKILL)
            kills.append(worker)

    remote = RemoteRubric(server.url, batch_size=1, at_once=4)
    rollouts = [Rollout(completion="4" if n % 2 else "5 5 5 5", answer="4") for n in range(60)]
    rewards = []
    with ThreadPoolExecutor(1) as pool:
        killing = pool.submit(kill_now_and_then)
        while not killing.done():
            rewards += [report.raw_score for report in await remote.score(rollouts)]
        over.set()
        killing.result()
    assert len(kills) == 6
    assert rewards == [0.0, 3.5] * (len(rewards) // 2)


def test_a_server_whose_workers_cannot_start_ends_with_an_error(rubric_file, running_kind):
    """The rubric can be made in the supervisor, and not in its workers."""
    server = running_kind(rubric_file(), where="steered:made_by_the_supervisor_alone", workers=2)
    output = server.stop()
    assert server.process.returncode == 1
    assert "a worker could not start (exit code 1)" in output
    assert "no license here" in output
    assert server.url == ""


def test_a_worker_that_hangs_is_killed(start, until):
    """A check that never returns holds up its whole process; at the deadline and a while, that ends."""
    server = start('- {check: "steered:hangs"}', bounds={"item_seconds": 0.1})
    [worker] = server.workers()
    with pytest.raises((OSError, http.client.HTTPException)):
        server.score("hang")
    until(lambda: is_gone(worker))
    assert server.score("4").data["items"][0]["reward"] == 1.0
    assert 'steered.py", line' in server.stop()  # the traceback names the check


def test_workers_end_when_their_supervisor_is_gone(start, until):
    """However it went."""
    server = start(workers=2)
    workers = server.workers()
    server.process.kill()
    until(lambda: all(map(is_gone, workers)))


def test_a_rubric_that_cannot_be_read_is_said_at_once(rubric_file, running_kind):
    """And the server does not start."""
    server = running_kind(rubric_file("- {check: exakt_match}"), workers=2)
    said = server.stop()
    assert server.process.returncode == 1
    assert "there is no built-in check 'exakt_match'" in said
    assert server.url == ""


def test_a_rubric_may_be_made_by_python_code(rubric_file, running_kind):
    """A function that makes one, named by its module."""
    server = running_kind(rubric_file(), where="steered:made")
    assert server.score("4").data["items"] == [{"reward": 1.0, "score": 1.0}]
    assert server.ask("/v1/rubric", method="GET").data["name"] == "made"
    server.stop()


def test_a_port_that_is_taken_is_said_at_once(server):
    """With what to do."""
    with pytest.raises(SettingsError, match="is in use: name another"):
        serve(str(server.rubric), Settings(port=urlsplit(server.url).port))
