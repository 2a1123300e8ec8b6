"""Keeping: the rows of an evaluation go into its folder, if it has one, and progress is told."""

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any

from assay.envs.options import Settings
from assay.envs.rows import state_of
from assay.envs.work import Job
from assay.models import Ledger
from assay.runs import Row, Run, RunAbout, Summary
from assay.runs.jsonable import as_text, holdable, plain
from assay.runs.pipeline import Sink, Watch, opened_sink


class Keeping:
    """Where the rows of one evaluation go, and come from when it is gone on with."""

    def __init__(self, sink: Sink, settings: Settings) -> None:
        self._sink = sink
        self._folder = settings.run

    def __call__(self, rows: Sequence[Row]) -> None:
        """Keep some rows. Once it returns, they survive whatever happens to the process."""
        saved = self._folder is not None
        self._sink.take(rows, [holdable(row.fields) for row in rows] if saved else ())

    def restore(self, jobs: Sequence[Job]) -> list[Job]:
        """Fill in the jobs that were done in an earlier sitting; those that are left to do."""
        if self._folder is None or self._sink.is_fresh:
            return list(jobs)
        kept = {row.key: row for row in Run.open(self._folder).rows()}
        for job in jobs:
            if self._sink.has(job.key):
                job.row = kept[job.key]
                job.state = state_of(job.row)
        return [job for job in jobs if job.row is None]

    def finish(self, jobs: Sequence[Job]) -> Summary:
        """What it all comes to."""
        return self._sink.finish(complete=all(job.row is not None for job in jobs))


@contextmanager
def keeping(settings: Settings, about: RunAbout, total: int, ledger: Ledger) -> Generator[Keeping]:
    """A place for the rows of an evaluation, for as long as it takes."""
    with opened_sink(
        settings.run,
        about,
        resume=settings.resume,
        on_row=settings.on_row,
        watch=Watch(settings.on_progress, total, ledger),
    ) as sink:
        yield Keeping(sink, settings)


def fingerprint(examples: Iterable[Mapping[str, Any]]) -> str:
    """What a data set is known by: a hash of all that is in it."""
    digest = blake2b(digest_size=16)
    for example in examples:
        digest.update(as_text(plain(example)).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
