"""Metrics count what a worker of the server does, and show the sums of all workers to Prometheus."""

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

# The histogram of the durations of requests has a bucket up to each of these numbers of seconds.
DURATION_BUCKETS: Final = (
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1,
    2.5,
    5,
    10,
    30,
    60,
)


@dataclass(frozen=True)
class ServerStatus:
    """The worker processes of a server and the state of its rubric file."""

    workers: int = 1  # how many should be running
    workers_ready: int = 1  # how many answer requests
    restarts: int = 0  # how many have ended by themselves and were replaced
    reloads: int = 0  # how often the changed rubric file was loaded
    reload_failures: int = 0  # how often it could not be loaded
    # Why the present content of the rubric file is not served; empty if it is.
    reload_error: str = ""


class Metrics(Collector):
    """Counts what one process does, and shows these metrics, or the sums of those of all workers."""

    def __init__(
        self, read_status: Callable[[], ServerStatus] = ServerStatus, folder: str | None = None
    ) -> None:
        """`folder` is where all workers keep their counts; None if there is one process only.

        It must be the value that the environment variable PROMETHEUS_MULTIPROC_DIR had when
        prometheus_client was imported, because that package decides then where to keep counts.
        """
        self._read_status = read_status
        registry = CollectorRegistry()

        def make_counter(name: str, description: str, *labels: str) -> Counter:
            return Counter(f"assay_{name}", description, labels, registry=registry)

        def make_gauge(name: str, description: str) -> Gauge:
            # `livesum` shows the sum of the workers that are alive.
            return Gauge(
                f"assay_{name}", description, registry=registry, multiprocess_mode="livesum"
            )

        self.requests = make_counter("requests", "Scoring requests answered.", "route", "status")
        self.rollouts = make_counter(
            "rollouts", "Rollouts scored, and rollouts without a score.", "route", "outcome"
        )
        self.fallbacks = make_counter(
            "unscored_fallbacks",
            "Unscored rollouts on routes that take numbers only, by the value that was sent instead.",
            "route",
            "fallback",
        )
        self.seconds = Histogram(
            "assay_request_seconds",
            "Time from the head of a request to its answer.",
            ["route"],
            buckets=DURATION_BUCKETS,
            registry=registry,
        )
        self.deadlines = make_counter("deadlines", "Rollouts that were not scored in time.")
        self.requests_under_way = make_gauge("requests_under_way", "Scoring requests in progress.")
        self.bytes_under_way = make_gauge(
            "bytes_under_way", "Bytes of the scoring requests in progress."
        )
        self.connections = make_gauge("connections", "Open connections.")
        self._judge_calls = make_counter("judge_calls", "Calls that the judge's endpoint answered.")
        self._judge_hits = make_counter("judge_cache_hits", "Verdicts found in the cache.")
        self._judge_errors = make_counter("judge_errors", "Failed calls to the judge.")
        self._judge_tokens = make_counter(
            "judge_tokens", "Tokens that the judge read and wrote.", "kind"
        )
        self._judge_dollars = make_counter(
            "judge_dollars", "The cost of the judge, as far as prices are known."
        )
        self._signs = Gauge(
            "assay_reward_sign",
            "Signs of reward hacking, from the worker that wrote last.",
            ["sign"],
            registry=registry,
            multiprocess_mode="livemostrecent",
        )
        self._counted: dict[Counter, float] = {}  # what `count_judge` has added so far
        # The registry whose metrics are shown. With several workers, it reads those of all workers
        # from the folder.
        self._shown_registry = registry
        if folder is not None:
            self._shown_registry = CollectorRegistry()
            MultiProcessCollector(self._shown_registry, folder)
        self._shown_registry.register(self)  # adds what `collect` yields

    def format_text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        for _ in range(20):
            # Reading fails while a worker is just starting and its file is still empty.
            with suppress(struct.error, RuntimeError):
                return generate_latest(self._shown_registry)
            time.sleep(0.005)
        return generate_latest(self._shown_registry)  # raises the error if it still fails

    def set_signs(self, step: int, signs: Mapping[str, float]) -> None:
        """Show the latest signs of reward hacking, by name. A RewardMonitor calls this as a sink."""
        for name, value in signs.items():
            self._signs.labels(name).set(value)

    def count_judge(self, spent: Ledger) -> None:
        """Bring the counters of the judge up to date with this ledger.

        A counter can only be increased, so the difference to the last call is added.
        """
        totals = {
            self._judge_calls: spent.calls,
            self._judge_hits: spent.hits,
            self._judge_errors: sum(spent.errors.values()),
            self._judge_tokens.labels("prompt"): spent.usage.prompt,
            self._judge_tokens.labels("completion"): spent.usage.completion,
            self._judge_dollars: spent.cost,
        }
        for counter, total in totals.items():
            counter.inc(total - self._counted.get(counter, 0))
            self._counted[counter] = total

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics that no worker counts, from the status that the supervisor publishes.

        prometheus_client calls this whenever metrics are shown.
        """
        status = self._read_status()
        yield GaugeMetricFamily(
            "assay_workers", "Worker processes that should be running.", status.workers
        )
        yield GaugeMetricFamily(
            "assay_workers_ready", "Worker processes that accept requests.", status.workers_ready
        )
        yield CounterMetricFamily(
            "assay_worker_restarts", "Worker processes that were replaced.", status.restarts
        )
        yield CounterMetricFamily(
            "assay_rubric_reloads", "Changed rubric files that were loaded.", status.reloads
        )
        yield CounterMetricFamily(
            "assay_rubric_reload_failures",
            "Changed rubric files that could not be loaded.",
            status.reload_failures,
        )
        yield GaugeMetricFamily(
            "assay_rubric_reload_failed",
            "1 while the rubric file cannot be loaded.",
            float(bool(status.reload_error)),
        )
