"""Engine: whoever has shards scored, on this machine or on many."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from assay.backends.job import Job
from assay.backends.shards import Shard
from assay.backends.work import Scored

ATTEMPTS: Final = 4
"""Times that a shard is tried whose worker dies."""

Stopping: TypeAlias = Callable[[], bool]


@dataclass(frozen=True)
class Broken:
    """A shard that could not be scored: not that rows in it have errors, but that it has no part."""

    shard: int
    error: str


class Engine(Protocol):
    """Scores shards in any order. A worker that dies is replaced, and its shard tried again."""

    name: str

    def run(
        self, job: Job, shards: Sequence[Shard], stopping: Stopping
    ) -> Iterator[Scored | Broken]:
        """What comes of each shard, as it comes. Once `stopping`, no new one is begun."""
        ...
