"""Metrics: what is counted, under the names that Prometheus reads."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, Final

from assay.aggregation import POLICIES
from assay.server.board import Board, Family, Row

ROUTES: Final = ("score", "openrlhf", "slime", "nemo_gym")
STATUSES: Final = (200, 400, 401, 403, 408, 413, 415, 422, 429, 500, 503)
SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


def _pairs(name: str, values: Sequence[object]) -> list[str]:
    return [f'route="{route}",{name}="{value}"' for route in ROUTES for value in values]


FAMILIES: Final = (
    Family(
        "assay_requests_total", "counter", "Scoring requests answered.", _pairs("status", STATUSES)
    ),
    Family(
        "assay_rollouts_total", "counter", "Rollouts scored, and rollouts without a score.",
        _pairs("outcome", ("scored", "unscored")),
    ),
    Family(
        "assay_unscored_fallbacks_total", "counter",
        "Unscored rollouts on routes that take numbers only, by what was sent instead.",
        _pairs("fallback", POLICIES),
    ),
    Family(
        "assay_request_seconds", "histogram", "Time from the head of a request to its answer.",
        [f'route="{route}"' for route in ROUTES], SECONDS,
    ),
    Family("assay_deadlines_total", "counter", "Rollouts that were not scored in time."),
    Family("assay_requests_under_way", "gauge", "Scoring requests under way."),
    Family("assay_bytes_under_way", "gauge", "Bytes of the scoring requests under way."),
    Family("assay_connections", "gauge", "Open connections."),
    Family("assay_workers", "gauge", "Worker processes that should be there."),
    Family("assay_workers_ready", "gauge", "Worker processes that take requests."),
    Family("assay_worker_restarts_total", "counter", "Worker processes that were replaced."),
    Family("assay_rubric_reloads_total", "counter", "Times that a changed rubric file was taken over."),
    Family("assay_rubric_reload_failures_total", "counter", "Times that it could not be."),
    Family("assay_rubric_reload_failed", "gauge", "1 while the rubric file cannot be taken over."),
    Family("assay_judge_calls_total", "counter", "Calls that the judge's endpoint answered."),
    Family("assay_judge_cache_hits_total", "counter", "Verdicts that the cache had."),
    Family("assay_judge_errors_total", "counter", "Calls to the judge that came to nothing."),
    Family(
        "assay_judge_tokens_total", "counter", "Tokens that the judge read and wrote.",
        ('kind="prompt"', 'kind="completion"'),
    ),
    Family("assay_judge_dollars_total", "counter", "What the judge cost, as far as prices are known."),
)  # fmt: skip

JUDGING: Final = (
    # In the order of `Written`.
    ("assay_judge_calls_total", ""),
    ("assay_judge_cache_hits_total", ""),
    ("assay_judge_errors_total", ""),
    ("assay_judge_tokens_total", 'kind="prompt"'),
    ("assay_judge_tokens_total", 'kind="completion"'),
    ("assay_judge_dollars_total", ""),
)


class Counts:
    """What one worker process writes down."""

    def __init__(self, board: Board, place: int = 0) -> None:
        self.board = board
        self._place = place
        self.row: Row = board.row(place)
        self._numbers: Any = self.row.numbers
        self._answered = {
            (route, status): self.row.place(
                "assay_requests_total", f'route="{route}",status="{status}"'
            )
            for route in ROUTES
            for status in STATUSES
        }
        self._rollouts = {
            route: tuple(
                self.row.place("assay_rollouts_total", f'route="{route}",outcome="{outcome}"')
                for outcome in ("scored", "unscored")
            )
            for route in ROUTES
        }
        self._seconds = {
            route: self.row.place("assay_request_seconds", f'route="{route}"') for route in ROUTES
        }

    def fewest_elsewhere(self, name: str) -> float:
        """The least that another worker has of something; infinite when there is no other."""
        return self.board.fewest(name, besides=self._place)

    @property
    def unscored(self) -> float:
        """Rollouts of this process that could not be scored."""
        return sum(self._numbers[places[1]] for places in self._rollouts.values())

    def answered(self, route: str, status: int, seconds: float) -> None:
        """One request was answered."""
        numbers = self._numbers
        numbers[self._answered[route, status]] += 1
        start = self._seconds[route]
        numbers[start + bisect_left(SECONDS, seconds)] += 1
        numbers[start + len(SECONDS) + 1] += seconds

    def rollouts(self, route: str, scored: int, unscored: int) -> None:
        """So many rollouts were scored, and so many could not be."""
        places = self._rollouts[route]
        self._numbers[places[0]] += scored
        if unscored:
            self._numbers[places[1]] += unscored

    def fell_back(self, route: str, fallback: str, rollouts: int) -> None:
        """So many unscored rollouts were answered with something else."""
        labels = f'route="{route}",fallback="{fallback}"'
        self.row.add("assay_unscored_fallbacks_total", rollouts, labels)
