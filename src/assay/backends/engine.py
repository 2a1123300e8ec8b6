"""Engine: whoever has shards scored, on this machine or on many."""

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from assay.backends.job import Job
from assay.backends.shards import Shard
from assay.backends.work import Scored

ATTEMPTS: Final = 4
"""Times that a shard is tried whose worker dies."""

PATIENCE: Final = 0.2
"""Seconds after which a driver that waits looks whether it is to stop."""

Stopping: TypeAlias = Callable[[], bool]


@dataclass(frozen=True)
class Broken:
    """A shard that could not be scored: not that rows in it have errors, but that it has no part."""

    shard: int
    error: str


Results: TypeAlias = Generator[Scored | Broken | None]
"""What comes of shards, as it comes; None now and then while nothing does."""


@dataclass(frozen=True)
class Site:
    """Where the work goes on."""

    host: str
    """The address at which workers reach the driver."""
    workers: int
    """How many of them score at the same time."""


class Engine(Protocol):
    """Scores shards in any order. A worker that dies is replaced, and its shard tried again."""

    def opened(self) -> AbstractContextManager[Site]:
        """There is somewhere to work inside the block."""
        ...

    def run(self, job: Job, shards: Sequence[Shard], stopping: Stopping) -> Results:
        """Have shards scored. Once `stopping`, no new one is begun. Closed early, workers are ended."""
        ...
