"""Metrics in the Prometheus format, summed over all processes."""

import os

import pytest
from prometheus_client.parser import text_string_to_metric_families

from assay import Rubric
from assay.server import RewardServer


def parse_samples(text):
    """Parse metrics with the official Prometheus client."""
    families = text_string_to_metric_families(text)
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def test_every_request_and_rollout_is_counted(send_request):
    """Two requests of three rollouts, and an invalid one."""
    with RewardServer(Rubric([lambda completion: completion == "4"])) as server:
        body = {"rollouts": [{"completion": "4"}, {"completion": "5"}, {"completion": "6"}]}
        for _ in range(2):
            send_request(server.url, "/v1/score", body)
        send_request(server.url, "/v1/score", b"nonsense")
        answer = send_request(server.url, "/metrics", method="GET")
    metrics = parse_samples(answer.body.decode())
    route = ("route", "score")
    assert metrics["assay_requests_total", (route, ("status", "200"))] == 2
    assert metrics["assay_requests_total", (route, ("status", "400"))] == 1
    assert metrics["assay_rollouts_total", (("outcome", "scored"), route)] == 6
    assert metrics["assay_request_seconds_count", (route,)] == 3
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


def test_every_metric_has_a_help_text(server):
    """Including those summed over worker processes; there are no other metrics."""
    server.score("4")
    families = list(
        text_string_to_metric_families(server.request("/metrics", method="GET").body.decode())
    )
    assert {family.name for family in families} == NAMES
    assert all(family.documentation.endswith(".") for family in families)


@pytest.mark.slow
def test_counters_do_not_decrease_when_a_worker_is_replaced(start_server, wait_until):
    """Counts of dead workers are kept; each worker writes its counts twice a second."""
    server = start_server(workers=2)
    for _ in range(10):
        server.score("4")
    name = 'assay_requests_total{route="score",status="200"}'
    wait_until(lambda: server.metrics().get(name) == 10)
    for worker in server.workers():
        os.kill(worker, 9)
    wait_until(lambda: server.metrics()["assay_worker_restarts_total"] == 2)
    wait_until(lambda: server.ready()["ready"])
    assert server.metrics()[name] == 10
    server.score("4")
    wait_until(lambda: server.metrics()[name] == 11)


def test_every_one_of_many_requests_is_counted(send_request):
    """There are more requests than are counted before anything is written, and some are invalid."""
    with RewardServer(Rubric([lambda completion: completion == "4"])) as server:
        for number in range(300):
            send_request(
                server.url,
                "/v1/score",
                {"rollouts": [{"completion": "4"}]} if number % 3 else b"nonsense",
            )
        metrics = parse_samples(send_request(server.url, "/metrics", method="GET").body.decode())
    route = ("route", "score")
    assert metrics["assay_requests_total", (route, ("status", "200"))] == 200
    assert metrics["assay_requests_total", (route, ("status", "400"))] == 100
    assert metrics["assay_rollouts_total", (("outcome", "scored"), route)] == 200
    assert metrics["assay_request_seconds_count", (route,)] == 300
