"""Score files of rollouts in turn by one process's way and by a worker's, and print the CPU seconds of each as JSON.

`scale_shard_worker.py RUBRIC FOLDER FILE...`. Both ways run in this one process, a file each, so that a slow moment of
the machine meets both. A worker's way is all of it, from cutting to joining, but for its start and the pipe.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from scale_worker import RUBRICS

from assay.backends import score_shards
from assay.backends.engine import Results, Site, Stopping
from assay.backends.job import Job
from assay.backends.shards import Shard
from assay.backends.work import score_shard
from assay.runs import score_rows
from assay.tables import rows_of


class Here:
    """An engine that does the work itself."""

    @contextmanager
    def opened(self) -> Generator[Site]:
        yield Site(1, "127.0.0.1")

    def run(self, job: Job, shards: Sequence[Shard], stopping: Stopping) -> Results:
        for shard in shards:
            yield score_shard(job, shard)


def main() -> None:
    name, folder, *files = sys.argv[1:]
    make = RUBRICS[name]
    rubric, _ = make()

    def alone(path: str, run: Path) -> None:
        asyncio.run(score_rows(rubric, rows_of(path), folder=run))

    def by_shard(path: str, run: Path) -> None:
        score_shards(make, [path], run, engine=Here())

    ways: dict[str, Callable[[str, Path], None]] = {"alone": alone, "shard": by_shard}
    taken: dict[str, list[float]] = {way: [] for way in ways}
    for number, path in enumerate(files):
        way = list(ways)[number % 2]
        began = time.process_time()
        ways[way](path, Path(folder) / f"run-{number}")
        taken[way].append(time.process_time() - began)
    print(json.dumps(taken))


if __name__ == "__main__":
    main()
