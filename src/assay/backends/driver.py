"""score_shards: a run by many workers, with the rows that one process would write, each once.

While it runs, its folder holds

    run.json         what is run
    parts/           a file a shard, renamed into place when it is whole
    failures/        the rows of a part that have errors, where there are any
    manifest.jsonl   a line a finished shard: what is not here does not count

Once every shard is done the parts become one `rollouts.jsonl`, and the folder is a run like any other:
resuming it without shards scores only what failed.
"""

import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.backends.engine import Broken, Engine, Stopping
from assay.backends.job import Job, Make, packed
from assay.backends.manifest import Done, Manifest
from assay.backends.permits import HOST, PermitServer
from assay.backends.processes import Processes
from assay.backends.shards import ROWS, Shard, shards_of
from assay.identity import hash_of
from assay.runs import Run, RunAbout, Summary
from assay.runs.about import judge_of
from assay.runs.data import data_about
from assay.runs.errors import RunError
from assay.runs.folder import Folder
from assay.runs.form import RowForm
from assay.runs.lock import Lock
from assay.runs.reading import numbered_lines
from assay.runs.rubrics import RubricAbout
from assay.runs.tally import Tally


@dataclass(frozen=True)
class ShardProgress:
    """How far a run by shards has come."""

    shards: int
    shards_done: int
    rows: int
    rows_done: int
    errors: int
    seconds: float


def score_shards(
    make: Make,
    paths: Sequence[str | Path],
    folder: str | Path,
    *,
    engine: Engine | None = None,
    rows: int = ROWS,
    mapping: Mapping[str, str] | None = None,
    config: Mapping[str, Any] | None = None,
    resume: bool = False,
    on_progress: Callable[[ShardProgress], object] | None = None,
    stopping: Stopping = lambda: False,
    host: str = HOST,
) -> Summary:
    """Score files of rows with many workers, and give what it comes to.

    `make` gives the rubric and its grader, and is called in every worker. With `resume` shards that are
    done stay done. `host` is where workers on other machines reach this one for their turns at a judge.

    Raises `RunError` when a shard could not be scored at all; the others are done and safe.
    """
    place = Folder.of(folder)
    place.make()
    lock = Lock(place.lock)
    try:
        driver = _Driver(place.path, engine or Processes(), on_progress)
        return driver.run(
            make, paths, rows, mapping or {}, config or {}, stopping, host, resume=resume
        )
    finally:
        lock.close()


class _Driver:
    """One run, from its folder."""

    def __init__(
        self, folder: Path, engine: Engine, on_progress: Callable[[ShardProgress], object] | None
    ) -> None:
        self.folder = folder
        self.engine = engine
        self.on_progress = on_progress
        self.manifest = Manifest(folder)
        self.started = time.monotonic()

    def run(
        self,
        make: Make,
        paths: Sequence[str | Path],
        rows: int,
        mapping: Mapping[str, str],
        config: Mapping[str, Any],
        stopping: Stopping,
        host: str,
        *,
        resume: bool,
    ) -> Summary:
        rubric, grader = make()
        together = bool(getattr(rubric, "compares", False))
        shards = shards_of(paths, rows=rows, together=together, mapping=mapping)
        about = RunAbout.of(
            "score",
            rubric=RubricAbout.of(rubric),
            judge=judge_of(rubric, grader),
            config={**config, "mapping": dict(mapping), "shards": len(shards)},
            data={"files": [data_about(path) for path in paths]},
        )
        spec = _spec(about, shards)
        self._prepare(about, spec, resume=resume)
        if Folder.of(self.folder).rollouts.exists():
            return Run.open(self.folder).summary()  # it was finished before
        done = self.manifest.done(spec)
        # What was done before is read once more for the summary; the rest is counted by the workers.
        tally = self._tally_of(done.values())
        with PermitServer(host) as permits:
            job = Job(
                str(self.folder), about.to_dict(), packed(make), spec, mapping, permits.address
            )
            broken = self._score(job, shards, done, tally, stopping)
        shutil.rmtree(self.folder / "scratch", ignore_errors=True)
        self._refuse_broken(shards, done, broken)
        is_apart = not any(shard.before for shard in shards)
        return self._finish(shards, done, tally if is_apart else None)

    def _prepare(self, about: RunAbout, spec: str, *, resume: bool) -> None:
        place = Folder.of(self.folder)
        self.manifest.cut()
        others = self.manifest.specs()
        if others and not resume:
            raise RunError(
                f"{self.folder} holds a run already: go on with it by resuming, or name another folder"
            )
        if others and spec not in others:
            different = "; ".join(place.about().differences(about)) or "its shards are others"
            raise RunError(
                f"{self.folder} holds another run, which cannot be gone on with: {different}. Give "
                "what it was started with, or name another folder"
            )
        if place.rollouts.exists() and not others:
            raise RunError(f"{self.folder} holds a run that is not in shards: name another folder")
        for name in ("parts", "failures"):
            (self.folder / name).mkdir(exist_ok=True)
        shutil.rmtree(self.folder / "scratch", ignore_errors=True)
        place.write_about(about)

    def _score(
        self,
        job: Job,
        shards: Sequence[Shard],
        done: dict[int, Done],
        tally: Tally,
        stopping: Stopping,
    ) -> list[Broken]:
        broken: list[Broken] = []
        self._tell(shards, done)
        left = [shard for shard in shards if shard.number not in done]
        for result in self.engine.run(job, left, stopping) if left else ():
            if isinstance(result, Broken):
                broken.append(result)
                continue
            self.manifest.add(result.done)
            done[result.done.shard] = result.done
            tally.merge(result.tally)
            self._tell(shards, done)
        return broken

    def _tally_of(self, lines: Iterable[Done]) -> Tally:
        form = RowForm(Folder.of(self.folder).about().criteria)
        tally = Tally()
        for line in lines:
            path = self.manifest.parts / line.part
            for where, _, text in numbered_lines(path, line.size):
                tally.add(form.read(text, where))
        return tally

    def _tell(self, shards: Sequence[Shard], done: Mapping[int, Done]) -> None:
        if self.on_progress is not None:
            self.on_progress(
                ShardProgress(
                    shards=len(shards),
                    shards_done=len(done),
                    rows=sum(shard.rows for shard in shards),
                    rows_done=sum(line.rows for line in done.values()),
                    errors=sum(line.errors for line in done.values()),
                    seconds=time.monotonic() - self.started,
                )
            )

    def _refuse_broken(
        self, shards: Sequence[Shard], done: Mapping[int, Done], broken: Sequence[Broken]
    ) -> None:
        if broken:
            first = broken[0]
            raise RunError(
                f"{len(broken)} of {len(shards)} shards could not be scored; the first, shard "
                f"{first.shard}: {first.error}. The other {len(done)} are done: see to it, and resume"
            )

    def _finish(
        self, shards: Sequence[Shard], done: Mapping[int, Done], tally: Tally | None
    ) -> Summary:
        if len(done) < len(shards):
            found = (tally or self._tally_of(done.values())).summary()
            assert found is not None
            return found.with_fields(complete=False)
        self._join([done[shard.number] for shard in shards])
        run = Run.open(self.folder)
        found = run.work_out() if tally is None else tally.summary()
        assert found is not None
        place = Folder.of(self.folder)
        found.save(place.summary_json, place.rollouts.stat().st_size)
        shutil.rmtree(self.manifest.parts)
        return found

    def _join(self, lines: Sequence[Done]) -> None:
        """All parts, in the order of their shards, as one file that is there whole or not at all."""
        whole = Folder.of(self.folder).rollouts
        new = whole.with_name(f"{whole.name}.new")
        with new.open("wb") as file:
            for line in lines:
                with (self.manifest.parts / line.part).open("rb") as part:
                    shutil.copyfileobj(part, file, 1 << 20)
            file.flush()
            os.fsync(file.fileno())
        if new.stat().st_size != sum(line.size for line in lines):
            raise RunError(f"the parts in {self.manifest.parts} changed while they were joined")
        new.replace(whole)


def _spec(about: RunAbout, shards: Sequence[Shard]) -> str:
    """The hash of what decides the results: rubric, judge, settings, data, and how it is cut."""
    told = about.to_dict()
    deciding = {name: told[name] for name in ("kind", "judge", "config", "data", "model")}
    cuts = [[shard.path, shard.begin, shard.end] for shard in shards]
    rubric = about.rubric.hash if about.rubric else ""
    return hash_of({**deciding, "rubric": rubric, "cuts": cuts})
