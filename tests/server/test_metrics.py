"""Metrics: what Prometheus reads, from all processes together."""

import os

import pytest
from prometheus_client.parser import text_string_to_metric_families

from assay import Rubric
from assay.server import RewardServer
from assay.server.board import Board, Family
from assay.server.metrics import FAMILIES

REQUESTS = Family("requests_total", "counter", "Requests.", ('route="a"', 'route="b"'))
SECONDS = Family("seconds", "histogram", "Time.", ('route="a"',), (0.1, 1))
WORKERS = Family("workers", "gauge", "Workers.")


def samples(text):
    """What Prometheus' own reader makes of a text."""
    families = text_string_to_metric_families(text)
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


class TestBoard:
    def test_rows_are_added_up(self):
        """Two processes, 2 and 3 requests."""
        board = Board((REQUESTS, WORKERS), rows=2)
        board.row(0).add("requests_total", 2, 'route="a"')
        board.row(1).add("requests_total", 3, 'route="a"')
        assert board.total("requests_total", 'route="a"') == 5
        assert samples(board.text()) == {
            ("requests_total", (("route", "a"),)): 5.0,
            ("requests_total", (("route", "b"),)): 0.0,
            ("workers", ()): 0.0,
        }

    def test_a_histogram_counts_upwards(self):
        """One below 0.1, two below 1, one above."""
        board = Board((SECONDS,))
        row = board.row(0)
        start = row.place("seconds", 'route="a"')
        for place, count in enumerate((1, 2, 1)):
            row.numbers[start + place] = count
        row.numbers[start + 3] = 7.25
        found = samples(board.text())
        buckets = [
            found["seconds_bucket", (("le", le), ("route", "a"))] for le in ("0.1", "1", "+Inf")
        ]
        assert buckets == [1.0, 3.0, 4.0]
        assert found["seconds_sum", (("route", "a"),)] == 7.25
        assert found["seconds_count", (("route", "a"),)] == 4.0

    def test_processes_see_each_other(self):
        """A child writes, the parent reads."""
        file = Board.shared_file((WORKERS,), 2)
        board = Board.at(file, (WORKERS,), 2)
        board.row(0).set("workers", 1)
        child = os.fork()
        if not child:
            Board.at(file, (WORKERS,), 2).row(1).set("workers", 2)
            os._exit(0)
        os.waitpid(child, 0)
        os.close(file)
        assert board.total("workers") == 3


def test_every_request_and_rollout_is_counted(asking):
    """Two requests of three rollouts, and one that made no sense."""
    with RewardServer(Rubric([lambda completion: completion == "4"])) as server:
        body = {"rollouts": [{"completion": "4"}, {"completion": "5"}, {"completion": "6"}]}
        for _ in range(2):
            asking(server.url, "/v1/score", body)
        asking(server.url, "/v1/score", b"nonsense")
        answer = asking(server.url, "/metrics", method="GET")
    found = samples(answer.body.decode())
    route = ("route", "score")
    assert found["assay_requests_total", (route, ("status", "200"))] == 2
    assert found["assay_requests_total", (route, ("status", "400"))] == 1
    assert found["assay_rollouts_total", (("outcome", "scored"), route)] == 6
    assert found["assay_request_seconds_count", (route,)] == 3
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")


def test_names_and_help_are_there_for_all(server):
    """Each family once, with its kind."""
    text = server.ask("/metrics", method="GET").body.decode()
    kinds = [line.split()[2:] for line in text.splitlines() if line.startswith("# TYPE")]
    assert kinds == [[family.name, family.kind] for family in FAMILIES]


@pytest.mark.slow
def test_counts_do_not_fall_when_a_worker_is_replaced(start, until):
    """Its row goes on where it was."""
    server = start(workers=2)
    for _ in range(10):
        server.score("4")
    name = 'assay_requests_total{route="score",status="200"}'
    assert server.metrics()[name] == 10
    for worker in server.workers():
        os.kill(worker, 9)
    until(lambda: server.metrics()["assay_worker_restarts_total"] == 2)
    until(lambda: server.ready()["ready"])
    assert server.metrics()[name] == 10
    server.score("4")
    assert server.metrics()[name] == 11
