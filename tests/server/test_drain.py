"""The end: what is under way is finished or refused, and nothing is dropped."""

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


def begun(folder, count):
    return len(list(folder.glob("*.began-*"))) >= count


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_requests_under_way_are_finished_and_new_ones_refused(start, until, tmp_path, number):
    """Three wait when the signal comes; they are answered, one that comes then is told to go away."""
    server = start(WAITS, workers=2)
    place = urlsplit(server.url)
    idle = http.client.HTTPConnection(place.netloc, timeout=30)
    idle.request("GET", "/health")
    idle.getresponse().read()
    with ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(server.score, str(tmp_path / f"go{i}")) for i in range(3)]
        until(lambda: begun(tmp_path, 3))
        server.process.send_signal(number)
        until(lambda: server.ask("/ready", method="GET").status == 503)
        refused = server.score("4")
        assert refused.status == 503
        assert (refused.headers["retry-after"], refused.headers["connection"]) == ("1", "close")
        assert "the server is stopping" in refused.error
        assert server.ask("/health", method="GET").status == 200
        for i in range(3):
            (tmp_path / f"go{i}").touch()
        answers = [future.result() for future in asked]
    assert [answer.data["items"][0]["reward"] for answer in answers] == [1.0, 1.0, 1.0]
    assert all(answer.headers["connection"] == "close" for answer in answers)
    assert server.process.wait(30) == 0
    idle.close()


def test_what_takes_too_long_is_refused_at_the_end(start, until, tmp_path):
    """It never ends by itself, and gets 503 when the time to finish is over."""
    server = start(WAITS, bounds={"drain_seconds": 0.2})
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(server.score, str(tmp_path / "never"))
        until(lambda: begun(tmp_path, 1))
        server.process.send_signal(signal.SIGTERM)
        assert asked.result().status == 503
    assert server.process.wait(30) == 0


def test_an_idle_connection_is_told_before_it_is_closed(start):
    """A request on a connection that was open when the signal came is refused, and not cut."""
    server = start()
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


def test_a_connection_that_was_just_taken_may_send_its_request(until):
    """As when a server is restarted while requests are on their way over a network."""
    with ThreadPoolExecutor(1) as pool, ExitStack() as stack:
        server = stack.enter_context(RewardServer(Rubric([lambda completion: 1.0])))
        place = urlsplit(server.url)
        new = http.client.HTTPConnection(place.netloc, timeout=30)
        new.connect()
        with closing(http.client.HTTPConnection(place.netloc, timeout=30)) as after:
            after.request("GET", "/health")
            assert after.getresponse().status == 200  # so the one before it is taken

        ending = pool.submit(stack.pop_all().close)
        until(lambda: server._listening.fileno() == -1)  # it takes no new connections
        new.request(
            "POST",
            "/v1/score",
            b'{"rollouts": [{"completion": "4"}]}',
            {"Content-Type": "application/json"},
        )
        response = new.getresponse()
        assert response.status == 503
        assert response.headers["connection"] == "close"
        new.close()
        ending.result()


def test_a_second_ctrl_c_ends_it_at_once(start, until, tmp_path):
    """Whatever is under way. A terminal sends it to all processes of the server."""
    server = start(WAITS)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(server.score, str(tmp_path / "never"))
        until(lambda: begun(tmp_path, 1))
        os.killpg(server.process.pid, signal.SIGINT)
        until(lambda: server.ask("/ready", method="GET").status == 503)
        os.killpg(server.process.pid, signal.SIGINT)
        assert server.process.wait(30) == 0
        broken = isinstance(asked.exception(), OSError | http.client.HTTPException)
        assert broken or asked.result().status == 500
