"""Worker processes are replaced when they die, and end with their supervisor."""

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


def test_a_server_is_ready_only_while_all_its_workers_are(start_server, wait_until):
    """While one of two workers is being replaced it is not ready, but requests are still scored."""
    server = start_server(workers=2)
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
    wait_until(lambda: server.request("/ready", method="GET").status == 503)
    assert server.score("4").data["items"][0]["reward"] == 3.5
    wait_until(lambda: server.ready()["ready"])
    assert second in server.workers()
    assert first not in server.workers()
    assert server.metrics()["assay_worker_restarts_total"] == 1
    assert f"worker {first} ended with exit code -9" in server.stop()


def test_a_killed_worker_breaks_only_its_own_requests(start_server, wait_until, tmp_path):
    """A plain client sees a broken connection; `RemoteRubric` retries and gets its answer."""
    server = start_server(WAITS)
    [worker] = server.workers()
    with ThreadPoolExecutor(2) as pool:
        plain_request = pool.submit(server.score, str(tmp_path / "plain"))
        remote = RemoteRubric(server.url)
        retried_request = pool.submit(
            remote.score_rollout_sync, completion=str(tmp_path / "patient")
        )
        wait_until(lambda: len(list(tmp_path.glob(f"*.began-{worker}"))) == 2)
        os.kill(worker, signal.SIGKILL)
        assert isinstance(plain_request.exception(), OSError | http.client.HTTPException)
        (tmp_path / "patient").touch()
        assert retried_request.result() == {"when_told": 1.0, "reward": 1.0}


def test_connections_wait_for_a_new_worker_if_all_are_dead(start_server):
    """The supervisor owns the socket, so no connection is refused."""
    server = start_server()
    [worker] = server.workers()
    os.kill(worker, signal.SIGKILL)
    assert server.score("4").data["items"][0]["reward"] == 3.5


@pytest.mark.parametrize(("workers", "delay"), [(1, 0.0), (1, 0.5), (2, 0.2)])
def test_workers_killed_while_they_start_are_replaced_immediately(
    start_server, wait_until, workers, delay
):
    """All workers are killed, and so are their replacements before they are ready. Then a request is answered.

    Starting takes a second on an idle machine. uvicorn's own supervisor took 32 s here.
    """
    server = start_server(workers=workers)
    killed = set(server.workers())
    for worker in killed:
        os.kill(worker, signal.SIGKILL)
    starting = wait_until(lambda: set(server.workers()) - killed)
    time.sleep(delay)
    for worker in starting:
        os.kill(worker, signal.SIGKILL)
    start = time.monotonic()
    assert server.score("4").data["items"][0]["reward"] == 3.5
    assert time.monotonic() - start < 10  # generous, for a busy machine


async def test_requests_are_answered_while_workers_are_killed(start_server):
    """Six workers are killed during 600 requests; `RemoteRubric` gets the right answer to each."""
    server = start_server(workers=2)
    stop = threading.Event()
    kills = []

    def kill_six_workers():
        while not stop.wait(0.3) and len(kills) < 6:
            worker = server.workers()[len(kills) % 2 - 1]
            os.kill(worker, signal.SIGKILL)
            kills.append(worker)

    remote = RemoteRubric(server.url, batch_size=1, at_once=4)
    rollouts = [Rollout(completion="4" if n % 2 else "5 5 5 5", answer="4") for n in range(60)]
    rewards = []
    with ThreadPoolExecutor(1) as pool:
        killing = pool.submit(kill_six_workers)
        while not killing.done():
            rewards += [report.raw_score for report in await remote.score(rollouts)]
        stop.set()
        killing.result()
    assert len(kills) == 6
    assert rewards == [0.0, 3.5] * (len(rewards) // 2)


def test_a_server_whose_workers_cannot_start_ends_with_an_error(rubric_file, server_process_class):
    """The rubric can be made in the supervisor, but not in its workers."""
    server = server_process_class(
        rubric_file(), where="steered:made_by_the_supervisor_alone", workers=2
    )
    output = server.stop()
    assert server.process.returncode == 1
    assert "a worker could not start (exit code 1)" in output
    assert "no license here" in output
    assert server.url == ""


def test_a_worker_that_hangs_is_killed(start_server, wait_until):
    """A check that never returns blocks its whole process, which is killed shortly after the deadline."""
    server = start_server('- {check: "steered:hangs"}', bounds={"item_seconds": 0.1})
    [worker] = server.workers()
    with pytest.raises((OSError, http.client.HTTPException)):
        server.score("hang")
    wait_until(lambda: is_gone(worker))
    assert server.score("4").data["items"][0]["reward"] == 1.0
    assert 'steered.py", line' in server.stop()  # the traceback names the check


def test_workers_end_when_their_supervisor_is_killed(start_server, wait_until):
    server = start_server(workers=2)
    workers = server.workers()
    server.process.kill()
    wait_until(lambda: all(map(is_gone, workers)))


def test_an_invalid_rubric_stops_the_server_at_startup(rubric_file, server_process_class):
    server = server_process_class(rubric_file("- {check: exakt_match}"), workers=2)
    standard_error = server.stop()
    assert server.process.returncode == 1
    assert "there is no built-in check 'exakt_match'" in standard_error
    assert server.url == ""


def test_a_rubric_may_be_made_by_a_python_function(rubric_file, server_process_class):
    """The function is named by its module."""
    server = server_process_class(rubric_file(), where="steered:made")
    assert server.score("4").data["items"] == [{"reward": 1.0, "score": 1.0}]
    assert server.request("/v1/rubric", method="GET").data["name"] == "made"
    server.stop()


def test_a_port_that_is_in_use_is_refused_at_startup(server):
    with pytest.raises(SettingsError, match="is in use: name another"):
        serve(str(server.rubric), Settings(port=urlsplit(server.url).port))
