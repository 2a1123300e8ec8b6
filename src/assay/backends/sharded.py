"""ShardedRun: a run's folder while it is in shards, what of it is done, and what that comes to."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from assay.backends.joining import Parts
from assay.backends.manifest import Done, Manifest
from assay.backends.plan import Plan
from assay.backends.shards import Shard
from assay.backends.work import Scored
from assay.runs.folder import Folder, RunRefused, numbered_lines
from assay.runs.row import RowForm
from assay.runs.saved_run import Run
from assay.runs.spending import larger, spent_by
from assay.runs.summary import Summary, Tally


def size_of(path: Path) -> int:
    """The bytes of a file; 0 when it is not there."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


class ShardedRun:
    """One sitting of a run. What was done in earlier ones counts."""

    def __init__(self, place: Folder, plan: Plan) -> None:
        self._place = place
        self._plan = plan
        self._manifest = Manifest(place.path)
        self._parts = place.path / "parts"
        self._scratch = place.path / "scratch"
        self._fresh: dict[int, Tally] = {}
        """What the shards of this sitting come to."""
        self._known: set[int] = set()
        """The shards that were done before it."""
        self._models: set[str] = set()
        """The ids of the models that answered in this sitting."""

    @property
    def folder(self) -> Path:
        return self._place.path

    @property
    def left(self) -> list[Shard]:
        """What is still to be scored."""
        if self._is_joined:
            return []
        return [shard for shard in self._plan.shards if shard.number not in self._manifest.done]

    @property
    def rows(self) -> int:
        """Rows that are done."""
        return sum(done.rows for done in self._manifest.done.values())

    @property
    def _is_joined(self) -> bool:
        return self._manifest.joined is not None and self._place.rollouts.exists()

    def begin(self, *, resume: bool) -> None:
        """Find out what is left. Raises `RunError` when the folder holds another run, or is not to be resumed."""
        if not self._manifest.spec:
            self._begin_anew()
            return
        self._refuse_another(resume=resume)
        if self._is_joined:
            if self._place.rollouts.stat().st_size != self._manifest.joined:
                raise RunRefused(f"{self._place.path} was gone on with by one process: resume it without shards")
            if not any(done.errors for done in self._manifest.done.values()):
                return
            self._take_apart()
        self._sort_parts()
        self._known = set(self._manifest.done)

    def _begin_anew(self) -> None:
        if self._place.has_rows:
            raise RunRefused(
                f"{self._place.path} holds a run that is not in shards: go on with it without them, or "
                "name another folder"
            )
        for folder in (self._parts, self._scratch):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        self._place.spending.unlink(missing_ok=True)
        self._place.write_about(self._plan.about)
        self._manifest.begin(self._plan.spec, len(self._plan.shards))

    def _refuse_another(self, *, resume: bool) -> None:
        if not resume:
            raise RunRefused(
                f"{self._place.path} holds a run already: go on with it by resuming, or name another folder"
            )
        if self._manifest.spec != self._plan.spec:
            before, now = self._manifest.shards, len(self._plan.shards)
            different = "; ".join(self._place.about().differences(self._plan.about))
            raise RunRefused(
                f"{self._place.path} holds another run, which cannot be gone on with: "
                f"{different or f'it was cut into {before} shards, and is cut into {now}'}. Give what it "
                "was started with, or name another folder"
            )

    def _take_apart(self) -> None:
        """Go back to the parts of a run that was joined, since some of its rows are to be done again."""
        missing = [done for done in self._manifest.done.values() if not self._is_there(done)]
        if missing:
            raise RunRefused(
                f"{self._place.path} has no parts any more, so only one process can do again what "
                "failed: resume it without shards"
            )
        self._manifest.note_joined(None)
        self._place.summary_json.unlink(missing_ok=True)
        self._place.rollouts.unlink()

    def _sort_parts(self) -> None:
        """Keep the parts that are well. What is not, the next attempt at the shard goes on from."""
        for folder in (self._parts, self._scratch):
            folder.mkdir(exist_ok=True)
        done = self._manifest.done
        for part in list(done.values()):
            if part.errors or not self._is_there(part):
                del done[part.shard]
        kept = {part.part for part in done.values()}
        for path in sorted(self._parts.glob("*-*")):
            name = path.name.partition("-")[0]
            if path.stem in kept or not name.isdecimal():
                continue
            if path.suffix == ".jsonl" and int(name) not in done:
                place = self._scratch / name
                place.mkdir(exist_ok=True)
                path.replace(Folder.of(place).rollouts)
            else:
                path.unlink()

    def _is_there(self, done: Done) -> bool:
        path = self._path(done)
        beside = [path.with_suffix(".examples")] if done.named else []
        beside += [path.with_suffix(".failures")] if done.errors else []
        return size_of(path) == done.size and all(map(size_of, beside))

    def _path(self, done: Done) -> Path:
        return self._parts / f"{done.part}.jsonl"

    def take(self, scored: Scored) -> None:
        """Count a shard as done."""
        self._manifest.add(scored.done)
        self._fresh[scored.done.shard] = scored.tally
        self._models.update(scored.counts["models"])

    def summed_up(self) -> Summary:
        """What it comes to. Once all is done, the parts become the run that this was to be."""
        about = self._place.about()
        if (met := about.having_met(self._models)) is not about:
            self._place.write_about(met)
        if self._is_joined:
            return self._finished()
        parts = Parts(self._place.path, self._manifest.in_order())
        if parts.repeated and self._plan.compares:
            raise RunRefused(
                f"criterion {self._plan.compares!r} compares the rollouts of an example, and there are "
                "examples whose rollouts do not stand together: sort the rows by example"
            )
        found = self._tally(has_repeated=bool(parts.repeated)).summary()
        assert found is not None
        found = found.with_fields(spent=larger(found.spent, spent_by(self._place.spending)))
        if self.left:
            return found.with_fields(complete=False)
        parts.join()
        return self._finished(found)

    def _tally(self, *, has_repeated: bool) -> Tally:
        # Tallies merge where no example is in two of them. Else, and of earlier sittings, rows are read.
        done = self._manifest.in_order()
        if has_repeated:
            return self._read(done)
        tally = self._read(part for part in done if part.shard in self._known)
        for number in sorted(self._fresh):
            tally.merge(self._fresh[number])
        return tally

    def _read(self, parts: Iterable[Done]) -> Tally:
        form = RowForm(self._plan.about.criteria)
        tally = Tally()
        for part in parts:
            for where, _, line in numbered_lines(self._path(part), part.size):
                tally.add(form.read(line, where))
        return tally

    def _finished(self, found: Summary | None = None) -> Summary:
        """Save the summary and sweep up. What a kill prevents of this is done when it is resumed."""
        size = self._place.rollouts.stat().st_size
        if self._manifest.joined != size:
            self._manifest.note_joined(size)
        found = (found or Run.open(self._place.path).summary()).with_fields(complete=True)
        found.save(self._place.summary_json, size)
        shutil.rmtree(self._scratch, ignore_errors=True)
        if not any(done.errors for done in self._manifest.done.values()):
            shutil.rmtree(self._parts, ignore_errors=True)
        return found
