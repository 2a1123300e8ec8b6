"""Metrics count what the server does, for Prometheus; those of several worker processes are added up."""

import struct
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from assay.models import Ledger

SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


@dataclass(frozen=True)
class ServerStatus:
    """The worker processes of a server and its rubric file, as any of them sees it."""

    workers: int = 1
    workers_ready: int = 1
    restarts: int = 0
    reloads: int = 0
    reload_failures: int = 0
    reload_error: str = (
        ""  # why the rubric file as it is now is not the one that is served; empty when it is
    )


class Metrics(Collector):
    """The metrics of one process, or of all workers whose values lie in a shared folder."""

    def __init__(
        self, status: Callable[[], ServerStatus] = ServerStatus, folder: str | None = None
    ) -> None:
        """`folder` is the one that `PROMETHEUS_MULTIPROC_DIR` named when prometheus_client was imported."""
        self._status = status
        own = CollectorRegistry()

        def count(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"assay_{name}", text, labels, registry=own)

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"assay_{name}", text, registry=own, multiprocess_mode="livesum")

        self.requests = count("requests", "Scoring requests answered.", "route", "status")
        self.rollouts = count(
            "rollouts", "Rollouts scored, and rollouts without a score.", "route", "outcome"
        )
        instead = "Unscored rollouts on routes that take numbers only, by what was sent instead."
        self.fallbacks = count("unscored_fallbacks", instead, "route", "fallback")
        taken = "Time from the head of a request to its answer."
        self.seconds = Histogram(
            "assay_request_seconds", taken, ["route"], buckets=SECONDS, registry=own
        )
        self.deadlines = count("deadlines", "Rollouts that were not scored in time.")
        self.requests_under_way = gauge("requests_under_way", "Scoring requests under way.")
        self.bytes_under_way = gauge("bytes_under_way", "Bytes of the scoring requests under way.")
        self.connections = gauge("connections", "Open connections.")
        tokens = count("judge_tokens", "Tokens that the judge read and wrote.", "kind")
        self._judge = (
            count("judge_calls", "Calls that the judge's endpoint answered."),
            count("judge_cache_hits", "Verdicts that the cache had."),
            count("judge_errors", "Calls to the judge that came to nothing."),
            tokens.labels("prompt"),
            tokens.labels("completion"),
            count("judge_dollars", "What the judge cost, as far as prices are known."),
        )
        seen = "Signs of reward hacking, as the worker that wrote last sees them."
        self._signs = Gauge(
            "assay_reward_sign", seen, ["sign"], registry=own, multiprocess_mode="livemostrecent"
        )
        self._judged: tuple[float, ...] = (0.0,) * len(self._judge)
        self._shown = own
        if folder is not None:
            self._shown = CollectorRegistry()
            MultiProcessCollector(self._shown, folder)
        self._shown.register(self)

    def text(self) -> bytes:
        for _ in range(20):
            # The file of a worker that is just starting is still empty.
            with suppress(struct.error, RuntimeError):
                return generate_latest(self._shown)
            time.sleep(0.005)
        return generate_latest(self._shown)

    def set_signs(self, step: int, signs: Mapping[str, float]) -> None:
        """Take what a monitor sees: this is a sink."""
        for name, value in signs.items():
            self._signs.labels(name).set(value)

    def count_judge(self, spent: Ledger) -> None:
        """Add what the judge was asked and has cost since the last time."""
        usage, errors = spent.usage, sum(spent.errors.values())
        now = (spent.calls, spent.hits, errors, usage.prompt, usage.completion, spent.cost)
        for counter, new, old in zip(self._judge, now, self._judged, strict=True):
            counter.inc(new - old)
        self._judged = now

    def collect(self) -> Iterable[Metric]:
        """What is read from the status when it is asked for, and counted by no worker."""
        status, gauge, counter = self._status(), GaugeMetricFamily, CounterMetricFamily
        yield gauge("assay_workers", "Worker processes that should be there.", status.workers)
        yield gauge(
            "assay_workers_ready", "Worker processes that take requests.", status.workers_ready
        )
        yield counter(
            "assay_worker_restarts", "Worker processes that were replaced.", status.restarts
        )
        yield counter(
            "assay_rubric_reloads", "Changed rubric files that were taken over.", status.reloads
        )
        yield counter(
            "assay_rubric_reload_failures", "Those that could not be.", status.reload_failures
        )
        failed = float(bool(status.reload_error))
        yield gauge(
            "assay_rubric_reload_failed", "1 while the rubric file cannot be taken over.", failed
        )
