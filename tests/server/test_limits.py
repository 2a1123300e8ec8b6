"""Limits on concurrent work, and deadlines."""

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


class Gate:
    """A check that waits until it is opened, and counts the waiting calls."""

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
def gate():
    return Gate()


@pytest.fixture
def gated_server(gate):
    """Start a server whose check waits at the gate for the completion `wait`."""

    def start(**bounds):
        settings = Settings(port=0, bounds=Bounds(**bounds))
        return RewardServer(Rubric([gate.check]), settings)

    return start


def waiting_body(count=1):
    return {"rollouts": [{"completion": "wait"}] * count}


def test_requests_above_the_limit_get_429_but_health_checks_do_not(
    gated_server, gate, send_request, read_server_metrics
):
    """Two requests wait, and the third is refused for a second; once the two are done, it is accepted."""
    with gated_server(at_once=2) as server, ThreadPoolExecutor() as pool:
        pending = [
            pool.submit(send_request, server.url, "/v1/score", waiting_body()) for _ in range(2)
        ]
        for _ in pending:
            gate.waiting.acquire()
        refused = send_request(server.url, "/slime", {"response": "4"})
        assert (refused.status, refused.headers["retry-after"]) == (429, "1")
        assert "2 requests are in progress" in refused.error
        for path in ("/health", "/ready", "/metrics", "/v1/rubric"):
            assert send_request(server.url, path, method="GET").status == 200
        metrics = read_server_metrics(server.url)
        assert metrics["assay_requests_under_way"] == 2
        assert metrics['assay_requests_total{route="slime",status="429"}'] == 1
        gate.opened.set()
        assert [future.result().status for future in pending] == [200, 200]
        assert send_request(server.url, "/slime", {"response": "4"}).status == 200


def test_the_total_size_of_requests_in_progress_is_limited(gated_server, gate, send_request):
    """Eight requests of 1000 bytes reach the limit, and one more is refused."""
    with gated_server(max_bytes=1000) as server, ThreadPoolExecutor(8) as pool:
        body = json.dumps(waiting_body()).encode()
        body += b" " * (1000 - len(body))
        pending = [pool.submit(send_request, server.url, "/v1/score", body) for _ in range(8)]
        for _ in pending:
            gate.waiting.acquire()
        refused = send_request(server.url, "/v1/score", GOOD)
        gate.opened.set()
        assert refused.status == 429
        assert "8000 bytes are in progress" in refused.error
        assert [future.result().status for future in pending] == [200] * 8


def test_requests_that_arrive_together_are_counted_even_if_no_check_waits():
    """Ten requests are there when the server reads its sockets: two are served."""
    rubric = Rubric([lambda completion: completion == "4"])
    with (
        RewardServer(rubric, Settings(port=0, bounds=Bounds(at_once=2))) as server,
        ExitStack() as stack,
    ):
        address = urlsplit(server.url)
        all_connections = [
            http.client.HTTPConnection(address.netloc, timeout=30) for _ in range(10)
        ]
        connections = [stack.enter_context(closing(connection)) for connection in all_connections]
        for connection in connections:
            connection.request("GET", "/health")
            connection.getresponse().read()
        loop_may_continue = threading.Event()
        server._loop.call_soon_threadsafe(loop_may_continue.wait)  # blocks the event loop meanwhile
        for connection in connections:
            connection.request("POST", "/v1/score", json.dumps(GOOD), JSON)
        loop_may_continue.set()
        answers = [connection.getresponse() for connection in connections]
        statuses = sorted(answer.status for answer in answers if answer.read() or True)
    assert statuses == [200] * 2 + [429] * 8


def test_new_connections_are_counted_while_checks_block_the_server(start_server):
    """Forty connections arrive while a check is running: they are refused, not left in the system's queue."""
    server = start_server('- {check: "steered:blocks"}', workers=1, bounds={"at_once": 2})
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
    def test_a_rollout_that_exceeds_its_deadline_is_unscored_and_the_others_are_scored(
        self, gated_server, send_request, read_server_metrics
    ):
        """It gets an error, not a zero."""
        with gated_server(item_seconds=0.05) as server:
            rollouts = [{"completion": text} for text in ("4", "wait", "5")]
            items = send_request(server.url, "/v1/score", {"rollouts": rollouts}).data["items"]
            metrics = read_server_metrics(server.url)
        assert [item["reward"] for item in items] == [1.0, None, 1.0]
        assert items[1]["errors"] == {"check": "DeadlineExceeded: not scored within 0.05 s"}
        assert metrics["assay_deadlines_total"] == 1

    def test_a_group_has_one_deadline(self, send_request):
        """Compared rollouts cannot be scored without each other, so none of them is tried again alone."""
        batch_sizes = []

        async def slowest(completions) -> list[float]:
            batch_sizes.append(len(completions))
            await asyncio.sleep(60)
            return [1.0] * len(completions)

        def first_check(completion):
            return 1.0

        async def second_check(completion):
            return 1.0

        settings = Settings(port=0, bounds=Bounds(item_seconds=0.05))
        with RewardServer(Rubric([slowest, first_check, second_check]), settings) as server:
            items = send_request(
                server.url, "/v1/score", {"rollouts": [{"completion": "4"}] * 2}
            ).data["items"]
        assert [item["reward"] for item in items] == [None, None]
        assert batch_sizes == [2]

    def test_a_batch_check_that_exceeds_the_deadline_is_called_again_for_each_rollout(
        self, send_request
    ):
        """Only the rollout that waits stays without a score."""

        async def in_batches(completions) -> list[float]:
            await asyncio.sleep(60 if "wait" in completions else 0)
            return [1.0] * len(completions)

        in_batches.independent = True
        settings = Settings(port=0, bounds=Bounds(item_seconds=0.05))
        rollouts = [{"completion": text} for text in ("4", "wait", "5")]
        with RewardServer(Rubric([in_batches]), settings) as server:
            items = send_request(server.url, "/v1/score", {"rollouts": rollouts}).data["items"]
        assert [item["reward"] for item in items] == [1.0, None, 1.0]
        assert "not scored within 0.05 s" in items[1]["errors"]["in_batches"]

    def test_a_cancelled_batch_is_scored_once_more_for_each_rollout_only(self, send_request):
        """Each of 4 rollouts is scored once in the batch and once by itself, and not a third time."""
        calls = []

        async def in_batches(completions) -> list[float]:
            return [1.0] * len(completions)

        async def waits(completion):
            calls.append(completion)
            await asyncio.sleep(60)

        in_batches.independent = True
        settings = Settings(port=0, bounds=Bounds(item_seconds=0.05))
        rollouts = [{"completion": text} for text in "abcd"]
        with RewardServer(Rubric([in_batches, waits]), settings) as server:
            items = send_request(server.url, "/v1/score", {"rollouts": rollouts}).data["items"]
        assert [item["reward"] for item in items] == [None] * 4
        assert sorted(calls) == sorted("abcd" * 2)

    def test_a_rubric_with_a_single_group_check_has_a_deadline(self, send_request):
        async def slowest(completions) -> list[float]:
            await asyncio.sleep(60)
            return [1.0] * len(completions)

        settings = Settings(port=0, bounds=Bounds(item_seconds=0.05))
        with RewardServer(Rubric([slowest]), settings) as server:
            answer = send_request(server.url, "/v1/score", {"rollouts": [{"completion": "4"}] * 2})
        assert [item["reward"] for item in answer.data["items"]] == [None, None]

    def test_a_check_that_ignores_cancellation_does_not_delay_the_response(self, send_request):
        """It keeps running, and the request is answered at the deadline."""
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
            items = send_request(server.url, "/v1/score", {"rollouts": rollouts}).data["items"]
            loops[0].call_soon_threadsafe(ended.set)
        assert [item["reward"] for item in items] == [None, 1.0]

    def test_a_trainer_gets_422_for_a_rollout_that_exceeds_its_deadline(
        self, gated_server, send_request
    ):
        """As for every rollout without a score."""
        with gated_server(item_seconds=0.05) as server:
            answer = send_request(server.url, "/slime", {"response": "wait"})
        assert answer.status == 422
        assert "not scored within 0.05 s" in answer.error


def test_a_server_in_a_thread_finishes_requests_in_progress(gated_server, gate, send_request):
    """The `with` block ends while a request waits, and the request is still answered."""
    with ThreadPoolExecutor(1) as pool:
        with gated_server() as server:
            pending = pool.submit(send_request, server.url, "/v1/score", waiting_body())
            gate.waiting.acquire()
            threading.Timer(0.05, gate.opened.set).start()
        assert pending.result().status == 200


def test_a_body_that_does_not_arrive_is_answered_with_408(gated_server):
    """The connection is closed."""
    with gated_server(body_seconds=0.05) as server:
        head = (
            b"POST /v1/score HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 50\r\n\r\n{"
        )
        assert exchange_bytes(server.url, head).startswith(b"HTTP/1.1 408")


@pytest.mark.slow
def test_a_connection_that_sends_no_complete_request_line_is_closed(gated_server):
    with gated_server(body_seconds=0.05) as server:
        assert exchange_bytes(server.url, b"") == b""
        assert exchange_bytes(server.url, b"POST /v1/sc") == b""


def exchange_bytes(url, sent):
    """Send bytes, and return what the server sends until it closes the connection."""
    address = urlsplit(url)
    with socket.create_connection((address.hostname, address.port), timeout=30) as connection:
        connection.sendall(sent)
        chunks = []
        while chunk := connection.recv(65536):
            chunks.append(chunk)
    return b"".join(chunks)


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
def test_invalid_limits_are_refused_at_construction(bounds, words):
    with pytest.raises(ValueError, match=words):
        Bounds(**bounds)
