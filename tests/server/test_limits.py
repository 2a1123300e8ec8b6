"""How much is taken on at once, and how long anything may take."""

import asyncio
import contextlib
import http.client
import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from urllib.parse import urlsplit

import pytest

from assay import Rubric
from assay.server import Bounds, RewardServer, Settings

GOOD = {"rollouts": [{"completion": "4"}]}
JSON = {"Content-Type": "application/json"}


class Door:
    """A check that waits until it is opened, and knows how many wait."""

    def __init__(self):
        self.waiting = threading.Semaphore(0)
        self.opened = threading.Event()

    async def check(self, completion):
        if completion != "wait":
            return 1.0
        self.waiting.release()
        while not self.opened.is_set():  # noqa: ASYNC110 - set by another thread
            await asyncio.sleep(0.005)
        return 1.0


@pytest.fixture
def door():
    return Door()


@pytest.fixture
def slow(door):
    """A server that takes two requests at once, and waits at the door."""

    def begin(**bounds):
        settings = Settings(port=0, bounds=Bounds(**bounds))
        return RewardServer(Rubric([door.check]), settings)

    return begin


def waiting_body(count=1):
    return {"rollouts": [{"completion": "wait"}] * count}


def test_beyond_what_is_under_way_scoring_is_refused_and_health_is_not(
    slow, door, asking, metrics_of
):
    """Two wait, the third is told to come back in a second; once they are done, it may."""
    with slow(at_once=2) as server, ThreadPoolExecutor() as pool:
        asked = [pool.submit(asking, server.url, "/v1/score", waiting_body()) for _ in range(2)]
        for _ in asked:
            door.waiting.acquire()
        refused = asking(server.url, "/slime", {"response": "4"})
        assert (refused.status, refused.headers["retry-after"]) == (429, "1")
        assert "2 requests are in progress" in refused.error
        for path in ("/health", "/ready", "/metrics", "/v1/rubric"):
            assert asking(server.url, path, method="GET").status == 200
        metrics = metrics_of(server.url)
        assert metrics["assay_requests_under_way"] == 2
        assert metrics['assay_requests_total{route="slime",status="429"}'] == 1
        door.opened.set()
        assert [future.result().status for future in asked] == [200, 200]
        assert asking(server.url, "/slime", {"response": "4"}).status == 200


def test_bytes_are_limited_too(slow, door, asking):
    """Requests of 8 × 1000 bytes together; one that would go beyond is refused."""
    with slow(max_bytes=1000) as server, ThreadPoolExecutor(8) as pool:
        body = json.dumps(waiting_body()).encode()
        body += b" " * (1000 - len(body))
        asked = [pool.submit(asking, server.url, "/v1/score", body) for _ in range(8)]
        for _ in asked:
            door.waiting.acquire()
        refused = asking(server.url, "/v1/score", GOOD)
        door.opened.set()
        assert refused.status == 429
        assert "8000 bytes are in progress" in refused.error
        assert [future.result().status for future in asked] == [200] * 8


def test_those_who_come_at_the_same_time_are_counted_although_none_waits():
    """A check that never waits, ten requests that are there when the server looks: two are served."""
    rubric = Rubric([lambda completion: completion == "4"])
    with (
        RewardServer(rubric, Settings(port=0, bounds=Bounds(at_once=2))) as server,
        ExitStack() as stack,
    ):
        place = urlsplit(server.url)
        made = [http.client.HTTPConnection(place.netloc, timeout=30) for _ in range(10)]
        connections = [stack.enter_context(closing(connection)) for connection in made]
        for connection in connections:
            connection.request("GET", "/health")
            connection.getresponse().read()
        held = threading.Event()
        server._loop.call_soon_threadsafe(held.wait)  # it looks at nothing meanwhile
        for connection in connections:
            connection.request("POST", "/v1/score", json.dumps(GOOD), JSON)
        held.set()
        answers = [connection.getresponse() for connection in connections]
        statuses = sorted(answer.status for answer in answers if answer.read() or True)
    assert statuses == [200] * 2 + [429] * 8


def test_new_connections_are_counted_while_checks_block_the_server(start):
    """Forty connections arrive while a check works: they are refused, not left in the system's queue."""
    server = start('- {check: "steered:blocks"}', workers=1, bounds={"at_once": 2})
    with ExitStack() as stack:
        address = urlsplit(server.url).netloc
        connections = [http.client.HTTPConnection(address, timeout=30) for _ in range(40)]
        for connection in connections:
            stack.enter_context(closing(connection))
            connection.request("POST", "/v1/score", json.dumps(GOOD), JSON)
        responses = [connection.getresponse() for connection in connections]
        statuses = [response.status for response in responses]
    assert set(statuses) == {200, 429}
    assert statuses.count(429) >= 20


class TestDeadline:
    def test_a_rollout_that_takes_too_long_is_unscored_and_the_others_are_not(
        self, slow, asking, metrics_of
    ):
        """Its error says so; it is no zero."""
        with slow(item_seconds=0.05) as server:
            rollouts = [{"completion": text} for text in ("4", "wait", "5")]
            items = asking(server.url, "/v1/score", {"rollouts": rollouts}).data["items"]
            metrics = metrics_of(server.url)
        assert [item["reward"] for item in items] == [1.0, None, 1.0]
        assert items[1]["errors"] == {"check": "DeadlineExceeded: not scored within 0.05 s"}
        assert metrics["assay_deadlines_total"] == 1

    def test_a_group_has_one_deadline(self, asking):
        """Where rollouts are compared, none has a score without the others, and none is asked about again alone."""
        asked = []

        async def slowest(completions) -> list[float]:
            asked.append(len(completions))
            await asyncio.sleep(60)
            return [1.0] * len(completions)

        def known(completion):
            return 1.0

        async def waits(completion):
            return 1.0

        settings = Settings(port=0, bounds=Bounds(item_seconds=0.05))
        with RewardServer(Rubric([slowest, known, waits]), settings) as server:
            items = asking(server.url, "/v1/score", {"rollouts": [{"completion": "4"}] * 2}).data[
                "items"
            ]
        assert [item["reward"] for item in items] == [None, None]
        assert asked == [2]

    def test_many_at_once_have_a_deadline_too(self, asking):
        """A function that takes many rollouts at once and waits for one of them is asked again for each."""

        async def in_batches(completions) -> list[float]:
            await asyncio.sleep(60 if "wait" in completions else 0)
            return [1.0] * len(completions)

        in_batches.independent = True
        settings = Settings(port=0, bounds=Bounds(item_seconds=0.05))
        rollouts = [{"completion": text} for text in ("4", "wait", "5")]
        with RewardServer(Rubric([in_batches]), settings) as server:
            items = asking(server.url, "/v1/score", {"rollouts": rollouts}).data["items"]
        assert [item["reward"] for item in items] == [1.0, None, 1.0]
        assert "not scored within 0.05 s" in items[1]["errors"]["in_batches"]

    def test_a_batch_that_was_cancelled_is_not_asked_again(self, asking):
        """Each of 4 rollouts is asked once in the batch and once by itself, and not a third time."""
        asked = []

        async def in_batches(completions) -> list[float]:
            return [1.0] * len(completions)

        async def waits(completion):
            asked.append(completion)
            await asyncio.sleep(60)

        in_batches.independent = True
        settings = Settings(port=0, bounds=Bounds(item_seconds=0.05))
        rollouts = [{"completion": text} for text in "abcd"]
        with RewardServer(Rubric([in_batches, waits]), settings) as server:
            items = asking(server.url, "/v1/score", {"rollouts": rollouts}).data["items"]
        assert [item["reward"] for item in items] == [None] * 4
        assert sorted(asked) == sorted("abcd" * 2)

    def test_a_group_that_only_waits_has_a_deadline_too(self, asking):
        """Also where nothing else in the rubric waits."""

        async def slowest(completions) -> list[float]:
            await asyncio.sleep(60)
            return [1.0] * len(completions)

        settings = Settings(port=0, bounds=Bounds(item_seconds=0.05))
        with RewardServer(Rubric([slowest]), settings) as server:
            answer = asking(server.url, "/v1/score", {"rollouts": [{"completion": "4"}] * 2})
        assert [item["reward"] for item in answer.data["items"]] == [None, None]

    def test_a_check_that_does_not_heed_its_end_holds_nobody(self, asking):
        """It is left to itself, and the request is answered at the deadline."""
        ended = asyncio.Event()
        loops = []

        async def stubborn(completion):
            loops.append(asyncio.get_running_loop())
            while completion == "wait" and not ended.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await ended.wait()
            return 1.0

        settings = Settings(port=0, bounds=Bounds(item_seconds=0.05))
        rollouts = [{"completion": "wait"}, {"completion": "4"}]
        with RewardServer(Rubric([stubborn]), settings) as server:
            items = asking(server.url, "/v1/score", {"rollouts": rollouts}).data["items"]
            loops[0].call_soon_threadsafe(ended.set)
        assert [item["reward"] for item in items] == [None, 1.0]

    def test_a_trainer_is_told_and_given_no_number(self, slow, asking):
        """422, as for every rollout without a score."""
        with slow(item_seconds=0.05) as server:
            answer = asking(server.url, "/slime", {"response": "wait"})
        assert answer.status == 422
        assert "not scored within 0.05 s" in answer.error


def test_a_server_in_a_thread_finishes_what_is_under_way(slow, door, asking):
    """The block ends while a request waits; it is answered all the same."""
    with ThreadPoolExecutor(1) as pool:
        with slow() as server:
            asked = pool.submit(asking, server.url, "/v1/score", waiting_body())
            door.waiting.acquire()
            threading.Timer(0.05, door.opened.set).start()
        assert asked.result().status == 200


def test_a_body_that_does_not_come_is_not_waited_for(slow):
    """408, and the connection is closed."""
    with slow(body_seconds=0.05) as server:
        head = (
            b"POST /v1/score HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 50\r\n\r\n{"
        )
        assert heard(server.url, head).startswith(b"HTTP/1.1 408")


@pytest.mark.slow
def test_a_connection_that_says_nothing_is_closed(slow):
    """Nor one that never ends its first line."""
    with slow(body_seconds=0.05) as server:
        assert heard(server.url, b"") == b""
        assert heard(server.url, b"POST /v1/sc") == b""


def heard(url, said):
    """What a server says until it hangs up."""
    place = urlsplit(url)
    with socket.create_connection((place.hostname, place.port), timeout=30) as connection:
        connection.sendall(said)
        parts = []
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ({"at_once": 0}, "at_once is 0: give 1 or more"),
        ({"max_batch": -1}, "max_batch is -1"),
        ({"item_seconds": 0}, "item_seconds is 0: give a number of seconds above 0"),
        ({"body_seconds": float("inf")}, "body_seconds is inf"),
        ({"drain_seconds": float("nan")}, "drain_seconds is nan"),
    ],
)
def test_bounds_that_bound_nothing_are_refused(bounds, words):
    """At construction."""
    with pytest.raises(ValueError, match=words):
        Bounds(**bounds)
