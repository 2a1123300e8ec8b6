"""ShardWatch: how far a run by shards is, told now and then."""

import time
from collections.abc import Iterable
from typing import Any

from assay.runs.pipeline import EVERY_SECONDS, OnProgress, Progress

_SUMMED = ("done", "errors", "unscored", "hits", "calls", "tokens", "cost", "unpriced")


class ShardWatch:
    """Adds up what workers have finished, and what they are at."""

    def __init__(self, on_progress: OnProgress | None, total: int, kept: int) -> None:
        """`kept` rows of `total` were done before."""
        self._on_progress = on_progress
        self._total = total
        self._kept = kept
        self._finished = Progress(done=kept)
        self._began = time.monotonic()
        self._told = 0.0

    def count(self, progress: Progress) -> None:
        """A shard is finished, and this is where it ended."""
        self._finished = Progress(**_sums([self._finished, progress]))

    def tell(self, under_way: Iterable[Progress], *, at_once: bool = False) -> None:
        """Tell, if it is time."""
        now = time.monotonic()
        if self._on_progress is None or (not at_once and now - self._told < EVERY_SECONDS):
            return
        self._told = now
        sums = _sums([self._finished, *under_way])
        seconds = now - self._began
        fresh = sums["done"] - self._kept
        eta = max(0, self._total - sums["done"]) * seconds / fresh if fresh else None
        self._on_progress(Progress(**sums, total=self._total, kept=self._kept, seconds=seconds, eta=eta))


def _sums(each: list[Progress]) -> dict[str, Any]:
    return {name: sum(getattr(progress, name) for progress in each) for name in _SUMMED}
