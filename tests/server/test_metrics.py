"""Metrics: what Prometheus reads, from all processes together."""

import os

import pytest
from prometheus_client.parser import text_string_to_metric_families

from assay import Rubric
from assay.server import RewardServer


def samples(text):
    """What Prometheus' own reader makes of a text."""
    families = text_string_to_metric_families(text)
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


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


NAMES = {
    "assay_requests",
    "assay_rollouts",
    "assay_unscored_fallbacks",
    "assay_request_seconds",
    "assay_deadlines",
    "assay_requests_under_way",
    "assay_bytes_under_way",
    "assay_connections",
    "assay_workers",
    "assay_workers_ready",
    "assay_worker_restarts",
    "assay_rubric_reloads",
    "assay_rubric_reload_failures",
    "assay_rubric_reload_failed",
    "assay_judge_calls",
    "assay_judge_cache_hits",
    "assay_judge_errors",
    "assay_judge_tokens",
    "assay_judge_dollars",
}


def test_every_family_has_its_help(server):
    """Also where the counts of worker processes are added up; nothing else is told."""
    server.score("4")
    families = list(
        text_string_to_metric_families(server.ask("/metrics", method="GET").body.decode())
    )
    assert {family.name for family in families} == NAMES
    assert all(family.documentation.endswith(".") for family in families)


@pytest.mark.slow
def test_counts_do_not_fall_when_a_worker_is_replaced(start, until):
    """What the dead ones had written stays counted; each writes twice a second."""
    server = start(workers=2)
    for _ in range(10):
        server.score("4")
    name = 'assay_requests_total{route="score",status="200"}'
    until(lambda: server.metrics().get(name) == 10)
    for worker in server.workers():
        os.kill(worker, 9)
    until(lambda: server.metrics()["assay_worker_restarts_total"] == 2)
    until(lambda: server.ready()["ready"])
    assert server.metrics()[name] == 10
    server.score("4")
    until(lambda: server.metrics()[name] == 11)


def test_many_requests_are_all_counted(asking):
    """More of them than are counted before anything is written, and some are refused."""
    with RewardServer(Rubric([lambda completion: completion == "4"])) as server:
        for number in range(300):
            asking(
                server.url,
                "/v1/score",
                {"rollouts": [{"completion": "4"}]} if number % 3 else b"nonsense",
            )
        found = samples(asking(server.url, "/metrics", method="GET").body.decode())
    route = ("route", "score")
    assert found["assay_requests_total", (route, ("status", "200"))] == 200
    assert found["assay_requests_total", (route, ("status", "400"))] == 100
    assert found["assay_rollouts_total", (("outcome", "scored"), route)] == 200
    assert found["assay_request_seconds_count", (route,)] == 300
