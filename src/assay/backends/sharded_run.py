"""A ShardedRun is a run that many workers score: each shard is a run of its own, merged into one.

While it runs, its folder holds

    run.assay    the run, with every shard that is finished
    parts/       a folder for each attempt at a shard, with a `run.assay` of its own

What a killed worker or a killed driver leaves in `parts` is merged too, so that only the rollouts
that were in progress are scored again. A worker numbers the rollouts of an example from 0. Where an
example is in several shards, its rollouts are numbered in the order of the data when shards are
merged.
"""

import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from assay.backends.shards import Shard
from assay.backends.worker import ATTEMPTS_FOLDER, ShardResult, read_row_range
from assay.runs.journal import Journal
from assay.runs.pipeline import read_own_sample
from assay.runs.run_errors import RunError, RunInUseError, RunRefused
from assay.runs.run_file import RunFile
from assay.runs.run_schema import is_run
from assay.runs.run_writer import RunWriter
from assay.runs.spending import NOTHING, Spending, read_spending
from assay.runs.summary import Summary, Tally

# How long the workers of a killed driver may take to end, before their folders count as in use.
SECONDS_TO_END = 10.0


def has_attempts(folder: Path) -> bool:
    """Return whether a sharded run was started in this folder, and is not finished."""
    return (folder / ATTEMPTS_FOLDER).is_dir()


class ShardedRun:
    """A run whose shards are merged into it. Shards that earlier sessions finished are kept."""

    def __init__(
        self, journal: Journal, shards: Sequence[Shard], comparing_criterion: str | None = None
    ) -> None:
        """Merge first what earlier sessions left unfinished.

        `comparing_criterion` is the name of a criterion that compares the rollouts of an example;
        None if no criterion does.
        """
        self.shards = shards
        self.attempts = journal.path / ATTEMPTS_FOLDER
        self._journal = journal
        self._comparing_criterion = comparing_criterion
        self._tallies: dict[int, Tally] = {}  # of the shards of this session, by shard number
        # Whether the tallies count all rows of the run, and no example is in two of them. Only then
        # can they be added up; if not, the summary is computed from the saved rows. A run that is
        # resumed has rows of earlier sessions, which have no tally here.
        self._tallies_are_complete = journal.is_new
        self._models: set[str] = set()  # the ids of the models that answered in this session
        # The first result of this session. All others must have the same columns.
        self._first_result: ShardResult | None = None
        self.attempts.mkdir(exist_ok=True)
        for attempt in sorted(self.attempts.iterdir()):
            self.merge_unfinished(attempt)

    def find_unfinished(self) -> list[Shard]:
        """Return the shards with a row that is missing or has an error."""
        unfinished: list[Shard] = []
        for shard in self.shards:
            end_row = shard.first + shard.rows
            if self._journal.writer.count_finished(shard.first, end_row) < shard.rows:
                unfinished.append(shard)
        return unfinished

    def merge_finished(self, result: ShardResult) -> None:
        """Add the rows of a shard that was scored as a whole to the run."""
        if self._first_result is None:
            self._first_result = result
        _refuse_different_columns(self._first_result, result)
        self._merge(self.attempts / result.attempt)
        self._tallies[result.shard] = result.tally
        self._models.update(result.counts["models"])

    def merge_unfinished(self, attempt: Path) -> Spending:
        """Add the rows that a killed or failed attempt has saved in its folder, and delete it.

        Return what the attempt has spent.
        """
        spent = NOTHING
        try:
            if is_run(attempt):
                _wait_for_writer(attempt)
                file = RunFile(attempt)
                spent = read_spending(file)
                if file.holds_work:
                    self._tallies_are_complete = False  # these rows have no tally
                self._merge(attempt)
        except RunInUseError:
            return spent  # its worker is still alive; it is merged when the run is resumed
        except RunRefused:
            raise  # the rows of the attempt do not fit the run, so it is kept for the user
        except RunError:
            if _is_readable(attempt):
                raise  # so the run that it is added to cannot be written, such as on a full disk
            # The file of the attempt is damaged: delete it, so that the shard is scored again.
        shutil.rmtree(attempt, ignore_errors=True)
        return spent

    def _merge(self, attempt: Path) -> None:
        """Move the rows of an attempt into the run.

        The attempt numbered the rollouts of each example from 0. If rows outside of its shard are
        of the same example, all rollouts of that example get new numbers.
        """
        writer = self._journal.writer
        first_row, end_row = read_row_range(attempt.name)
        shared_examples = writer.find_shared_examples(attempt, first_row, end_row)
        if shared_examples:
            if self._comparing_criterion is not None:
                raise RunRefused(
                    f"criterion {self._comparing_criterion!r} compares the rollouts of an example, "
                    f"and those of {shared_examples[0]!r} are not adjacent: sort the rows by example"
                )
            self._tallies_are_complete = False
            with RunWriter(attempt) as attempt_writer:
                for example in shared_examples:
                    _renumber(example, run=writer, attempt=attempt_writer)
        writer.merge_from(attempt)
        shutil.rmtree(attempt, ignore_errors=True)

    def finish(self) -> Summary:
        """Compute the summary of all rows, and save it."""
        journal = self._journal
        row_count = sum(shard.rows for shard in self.shards)
        is_complete = journal.writer.count_rollouts() >= row_count
        tally = None  # the journal then counts the saved rows, which takes longer
        if self._tallies_are_complete:
            tally = Tally(pass_rule=journal.about.pass_rule)
            for number in sorted(self._tallies):
                tally.merge(self._tallies[number])
        journal.use_tally(tally)
        summary = journal.finish(complete=is_complete, models=self._models)
        if is_complete:
            shutil.rmtree(self.attempts, ignore_errors=True)
        return summary


def _refuse_different_columns(first: ShardResult, result: ShardResult) -> None:
    """Raise `RunRefused` if only one of two shards has an `id`, or a `sample`, in its rows.

    Rows without an id are numbered, and such a number might also be the id of another row.
    """
    if result.has_ids != first.has_ids:
        column, result_has_column = "id", result.has_ids
    elif result.has_samples != first.has_samples:
        column, result_has_column = "sample", result.has_samples
    else:
        return
    if result_has_column:
        shard_with, shard_without = result.shard, first.shard
    else:
        shard_with, shard_without = first.shard, result.shard
    raise RunRefused(
        f"the rows of shard {shard_with} have a column {column!r}, and those of shard "
        f"{shard_without} have none: give every row one, or none"
    )


def _is_readable(folder: Path) -> bool:
    """Return whether the file of the run in this folder is not damaged."""
    try:
        return RunFile(folder).select("PRAGMA quick_check") == [("ok",)]
    except RunError:
        return False


def _wait_for_writer(folder: Path) -> None:
    """Wait until no process writes the run in this folder.

    Raise `RunInUseError` if one still does after `SECONDS_TO_END`.
    """
    deadline = time.monotonic() + SECONDS_TO_END
    while True:
        try:
            writer = RunWriter(folder)  # raises while another process writes
        except RunInUseError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            writer.close()
            return


def _renumber(example: str, *, run: RunWriter, attempt: RunWriter) -> None:
    """Give the rollouts of an example sample numbers in the order of the data.

    Some of these rollouts are in the run, and some in an attempt that is about to be merged into
    it. Rows that name their sample keep it. Raise `RunRefused` if two rows have the same one.
    """
    rollouts_in_run = _read_example(run, example)
    rollouts_in_attempt = _read_example(attempt, example)
    rollouts = [*rollouts_in_run, *rollouts_in_attempt]
    # A row that was scored twice is in both, and counts once.
    rows = sorted({rollout.row for rollout in rollouts})
    new_samples: dict[int, int] = {}  # by the number of the row
    row_of_sample: dict[int, int] = {}  # which row has a sample number
    for rollout in rollouts:
        sample = rollout.own_sample
        if sample is None:
            sample = rows.index(rollout.row)
        if row_of_sample.setdefault(sample, rollout.row) != rollout.row:
            raise RunRefused(
                f"row {rollout.row} repeats example {example!r}, sample {sample}: "
                "give each row its own `sample`, or remove the column"
            )
        new_samples[rollout.row] = sample
    run.change_samples({rollout.id: new_samples[rollout.row] for rollout in rollouts_in_run})
    attempt.change_samples(
        {rollout.id: new_samples[rollout.row] for rollout in rollouts_in_attempt}
    )


@dataclass(frozen=True)
class _SavedRollout:
    """A rollout in the file of a run."""

    id: int  # in that file
    row: int  # the number of its row in the data
    own_sample: int | None  # the sample that its row names; None if it names none


def _read_example(writer: RunWriter, example: str) -> list[_SavedRollout]:
    """Return the rollouts of an example that are saved in the run of this writer."""
    rollouts: list[_SavedRollout] = []
    for rollout_id, row, data in writer.read_example(example):
        fields = json.loads(data).get("fields", {})
        # None if the data do not number the samples; then the run gives the numbers.
        own_sample = read_own_sample(fields.get("sample"))
        rollouts.append(_SavedRollout(rollout_id, row, own_sample))
    return rollouts
