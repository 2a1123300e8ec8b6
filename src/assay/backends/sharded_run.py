"""A ShardedRun is a run that many workers score: each shard is a run of its own, merged into one.

While it runs, its folder holds

    run.assay    the run, with every shard that is finished
    parts/       a folder for each attempt at a shard, with a `run.assay` of its own

What a killed worker or a killed driver leaves in `parts` is merged too, so that only what was in
flight is done again. A worker numbers the rollouts of an example from 0. Where an example is in
several shards, its rollouts are numbered by their place in the data when shards are merged.
"""

import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from assay.backends.shards import Shard
from assay.backends.worker import PARTS, ShardResult, read_part_name
from assay.runs.journal import Journal
from assay.runs.pipeline import read_own_sample
from assay.runs.run_errors import RunError, RunInUseError, RunRefused
from assay.runs.run_file import RunFile
from assay.runs.run_schema import is_run
from assay.runs.run_writer import RunWriter
from assay.runs.spending import NOTHING, Spending, read_spending
from assay.runs.summary import Summary, Tally

SECONDS_TO_END = 10.0  # how long the workers of a killed driver may take to end


def has_parts(folder: Path) -> bool:
    """Return whether a sharded run in this folder is not finished."""
    return (folder / PARTS).is_dir()


class ShardedRun:
    """One session of a run. What was done in earlier ones counts."""

    def __init__(self, journal: Journal, shards: Sequence[Shard], compares: str = "") -> None:
        """`compares` is a criterion that compares the rollouts of an example; empty if none does."""
        self.shards = shards
        self.parts = journal.path / PARTS
        self._journal = journal
        self._compares = compares
        self._tallies: dict[int, Tally] = {}  # the counts of the shards of this session
        # Whether these counts are about all rows, and each example is in one of them.
        self._tallies_are_whole = journal.is_new
        self._models: set[str] = set()  # the ids of the models that answered in this session
        self._first_result: ShardResult | None = None
        self.parts.mkdir(exist_ok=True)
        for part in sorted(self.parts.iterdir()):
            self.merge_unfinished(part)

    def find_unfinished(self) -> list[Shard]:
        """Return the shards with a row that is missing or has an error."""
        finished = self._journal.writer.count_finished
        return [
            shard
            for shard in self.shards
            if finished(shard.first, shard.first + shard.rows) < shard.rows
        ]

    def take(self, result: ShardResult) -> None:
        """Add a shard that is done to the run."""
        if self._first_result is None:
            self._first_result = result
        self._refuse_some(self._first_result, result)
        self._merge(self.parts / result.part)
        self._tallies[result.shard] = result.tally
        self._models.update(result.counts["models"])

    def _refuse_some(self, first: ShardResult, result: ShardResult) -> None:
        """Refuse an `id`, or a `sample`, on some rows only: their keys might clash with others."""
        for column, has, had in (
            ("id", result.has_ids, first.has_ids),
            ("sample", result.has_samples, first.has_samples),
        ):
            if has != had:
                with_it, without = (result, first) if has else (first, result)
                raise RunRefused(
                    f"the rows of shard {with_it.shard} have a column {column!r}, and those of "
                    f"shard {without.shard} have none: give every row one, or none"
                )

    def merge_unfinished(self, part: Path) -> Spending:
        """Add what a killed attempt at a shard has finished. Return what it has spent."""
        spent = NOTHING
        try:
            if is_run(part):
                _wait_for_writer(part)
                file = RunFile(part)
                spent = read_spending(file)
                self._tallies_are_whole = self._tallies_are_whole and not file.holds_work
                self._merge(part)
        except RunInUseError:
            return spent  # it is merged when the run is resumed
        except RunRefused:
            raise
        except RunError:
            if _is_readable(part):
                raise  # the run itself cannot be written, such as on a full disk
            # The part is damaged, so its shard is done again.
        shutil.rmtree(part, ignore_errors=True)
        return spent

    def _merge(self, part: Path) -> None:
        writer = self._journal.writer
        repeated = writer.find_shared_examples(part, *read_part_name(part.name))
        if repeated:
            if self._compares:
                raise RunRefused(
                    f"criterion {self._compares!r} compares the rollouts of an example, and those "
                    f"of {repeated[0]!r} are not adjacent: sort the rows by example"
                )
            self._tallies_are_whole = False
            with RunWriter(part) as other:
                for example in repeated:
                    _renumber(writer, other, example)
        writer.merge_from(part)
        shutil.rmtree(part, ignore_errors=True)

    def finish(self) -> Summary:
        """Work out and save the summary."""
        journal = self._journal
        is_complete = journal.writer.count_rollouts() >= sum(shard.rows for shard in self.shards)
        tally = None
        if self._tallies_are_whole:
            tally = Tally(pass_rule=journal.about.pass_rule)
            for number in sorted(self._tallies):
                tally.merge(self._tallies[number])
        journal.use_tally(tally)
        summary = journal.finish(complete=is_complete, models=self._models)
        if is_complete:
            shutil.rmtree(self.parts, ignore_errors=True)
        return summary


def _is_readable(part: Path) -> bool:
    try:
        return RunFile(part).select("PRAGMA quick_check") == [("ok",)]
    except RunError:
        return False


def _wait_for_writer(part: Path) -> None:
    """Wait until no process writes a part. Raise `RunInUseError` if one goes on."""
    ends = time.monotonic() + SECONDS_TO_END
    while True:
        try:
            return RunWriter(part).close()
        except RunInUseError:
            if time.monotonic() > ends:
                raise
            time.sleep(0.05)


def _renumber(run: RunWriter, part: RunWriter, example: str) -> None:
    """Number the rollouts of an example by their place in the data, in a run and a part of it.

    Rows that name their sample keep it. Raise `RunRefused` if two rows name the same one.
    """
    rollouts_in_run = _read_example(run, example)
    rollouts_in_part = _read_example(part, example)
    rollouts = [*rollouts_in_run, *rollouts_in_part]
    rows = sorted({rollout.row for rollout in rollouts})
    row_of_sample: dict[int, int] = {}
    for rollout in rollouts:
        if rollout.sample is None:
            rollout.sample = rows.index(rollout.row)
        if row_of_sample.setdefault(rollout.sample, rollout.row) != rollout.row:
            raise RunRefused(
                f"row {rollout.row} repeats example {example!r}, sample {rollout.sample}: "
                "give each row its own `sample`, or remove the column"
            )
    run.change_samples({rollout.id: rollout.sample or 0 for rollout in rollouts_in_run})
    part.change_samples({rollout.id: rollout.sample or 0 for rollout in rollouts_in_part})


@dataclass
class _SavedRollout:
    """A rollout in the file of a run."""

    id: int
    row: int  # the number of its row in the data
    sample: int | None  # the sample that its row names; None if it names none


def _read_example(writer: RunWriter, example: str) -> list[_SavedRollout]:
    rollouts: list[_SavedRollout] = []
    for rollout_id, row, data in writer.read_example(example):
        fields = json.loads(data).get("fields", {})
        sample = read_own_sample(fields.get("sample"))
        rollouts.append(_SavedRollout(rollout_id, row, sample))
    return rollouts
