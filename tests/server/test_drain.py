"""Shutdown: requests in progress are finished or refused, and none is dropped."""

import http.client
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from urllib.parse import urlsplit

import pytest

from assay import Rubric
from assay.server import RewardServer

pytestmark = pytest.mark.slow

WAITS = '- {check: "steered:when_told"}'


def has_started_checks(folder, count):
    return len(list(folder.glob("*.began-*"))) >= count


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGINT])
def test_a_stopping_server_finishes_running_requests_and_refuses_new_ones(
    start_server, wait_until, tmp_path, signal_number
):
    """Three requests are running when the signal comes: they are answered, and a later one gets 503."""
    server = start_server(WAITS, workers=2)
    address = urlsplit(server.url)
    idle = http.client.HTTPConnection(address.netloc, timeout=30)
    idle.request("GET", "/health")
    idle.getresponse().read()
    with ThreadPoolExecutor(3) as pool:
        pending = [pool.submit(server.score, str(tmp_path / f"go{i}")) for i in range(3)]
        wait_until(lambda: has_started_checks(tmp_path, 3))
        server.process.send_signal(signal_number)
        wait_until(lambda: server.request("/ready", method="GET").status == 503)
        refused = server.score("4")
        assert refused.status == 503
        assert (refused.headers["retry-after"], refused.headers["connection"]) == ("1", "close")
        assert "the server is stopping" in refused.error
        assert server.request("/health", method="GET").status == 200
        for i in range(3):
            (tmp_path / f"go{i}").touch()
        answers = [future.result() for future in pending]
    assert [answer.data["items"][0]["reward"] for answer in answers] == [1.0, 1.0, 1.0]
    assert all(answer.headers["connection"] == "close" for answer in answers)
    assert server.process.wait(30) == 0
    idle.close()


def test_a_request_that_outlasts_the_drain_time_is_answered_with_503(
    start_server, wait_until, tmp_path
):
    """The check never returns."""
    server = start_server(WAITS, bounds={"drain_seconds": 0.2})
    with ThreadPoolExecutor(1) as pool:
        pending = pool.submit(server.score, str(tmp_path / "never"))
        wait_until(lambda: has_started_checks(tmp_path, 1))
        server.process.send_signal(signal.SIGTERM)
        assert pending.result().status == 503
    assert server.process.wait(30) == 0


def test_a_request_on_an_idle_connection_is_answered_during_shutdown(start_server):
    """The connection was open when the signal came; its request is answered and not cut off."""
    server = start_server()
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=30)
    connection.request("GET", "/health")
    connection.getresponse().read()
    body = b'{"rollouts": [{"completion": "4", "answer": "4"}]}'
    server.process.send_signal(signal.SIGTERM)
    connection.request("POST", "/v1/score", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    assert response.status in (200, 503)
    response.read()
    connection.close()
    assert server.process.wait(30) == 0


def test_a_connection_accepted_before_shutdown_may_still_send_its_request(wait_until):
    """This happens when a server restarts while requests are on their way over a network."""
    with ThreadPoolExecutor(1) as pool, ExitStack() as stack:
        server = stack.enter_context(RewardServer(Rubric([lambda completion: 1.0])))
        address = urlsplit(server.url)
        early_connection = http.client.HTTPConnection(address.netloc, timeout=30)
        early_connection.connect()
        with closing(http.client.HTTPConnection(address.netloc, timeout=30)) as late_connection:
            late_connection.request("GET", "/health")
            assert (
                late_connection.getresponse().status == 200
            )  # so the earlier connection has been accepted too

        shutdown = pool.submit(stack.pop_all().close)
        wait_until(lambda: server._listening.fileno() == -1)  # no new connections are accepted
        early_connection.request(
            "POST",
            "/v1/score",
            b'{"rollouts": [{"completion": "4"}]}',
            {"Content-Type": "application/json"},
        )
        response = early_connection.getresponse()
        assert response.status == 503
        assert response.headers["connection"] == "close"
        early_connection.close()
        shutdown.result()


def test_a_second_ctrl_c_stops_the_server_immediately(start_server, wait_until, tmp_path):
    """Even with a request in progress. A terminal sends the signal to all processes of the server."""
    server = start_server(WAITS)
    with ThreadPoolExecutor(1) as pool:
        pending = pool.submit(server.score, str(tmp_path / "never"))
        wait_until(lambda: has_started_checks(tmp_path, 1))
        os.killpg(server.process.pid, signal.SIGINT)
        wait_until(lambda: server.request("/ready", method="GET").status == 503)
        os.killpg(server.process.pid, signal.SIGINT)
        assert server.process.wait(30) == 0
        broken = isinstance(pending.exception(), OSError | http.client.HTTPException)
        assert broken or pending.result().status == 500
