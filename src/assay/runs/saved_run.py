"""Run reads a run's folder, also while it is still being written."""

import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from assay.rubric import Rubric, RubricGroup
from assay.runs.folder import Folder, numbered_lines, whole_lines
from assay.runs.metadata import RunAbout
from assay.runs.row import Key, Row, RowForm, Seen, opening_of
from assay.runs.spending import NOTHING, Spending, larger, spent_by
from assay.runs.summary import Summary, Tally


class Run:
    """A saved run. What it gives is what was finished when it was asked.

    >>> Run.open("no/such/folder")
    Traceback (most recent call last):
    assay.runs.folder.RunError: there is no folder no/such/folder: name the folder of a run
    """

    def __init__(self, folder: Folder, about: RunAbout) -> None:
        """Use `Run.open`."""
        self._folder = folder
        self.about = about
        self._form = RowForm(about.criteria)
        self._places: dict[Key, int] = {}
        self._failed: set[Key] = set()
        self._read_to = self._lines = 0

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "Run":
        """The run in a folder. Raises `RunError` when there is none."""
        folder = Folder.of(path)
        return cls(folder, folder.about())

    @property
    def path(self) -> Path:
        return self._folder.path

    def rows(self) -> Iterator[Row]:
        """Every rollout once, in the order of the data; of one that was done again the last line that did.

        They are read one by one, so a run of any size will do. Rows that do not know their place in the
        data come in the order of the file.
        """
        end = whole_lines(self._folder.rollouts)
        places = self._in_order(end)
        if places is not None:
            for place, number in places:
                yield self._row_at(place, f"{self._folder.rollouts}:{number}")
            return
        for where, _, line in numbered_lines(self._folder.rollouts, end):
            yield self._form.read(line, where)

    def row(self, example: str, sample: int = 0) -> Row:
        """One row. Raises `KeyError` when there is none."""
        self._look_further()
        key = (str(example), sample)
        if key not in self._places:
            raise KeyError(f"{self.path} has no row for example {key[0]!r}, sample {sample}")
        return self.row_at(self._places[key])

    def placed_rows(self, start: int = 0) -> Iterator[tuple[int, int, Row]]:
        """Rows from a byte on, each between the bytes where it begins and ends; with those done again.

        For an index of the rows: `row_at` finds a row again, and the end of the last is where to
        go on.
        """
        end = whole_lines(self._folder.rollouts)
        for where, place, line in numbered_lines(self._folder.rollouts, end, start=start):
            yield place, place + len(line), self._form.read(line, where)

    def row_at(self, place: int) -> Row:
        """The row that begins at a byte."""
        return self._row_at(place, f"{self._folder.rollouts}, byte {place}")

    def _row_at(self, place: int, where: str) -> Row:
        with self._folder.rollouts.open("rb") as file:
            file.seek(place)
            return self._form.read(file.readline(), where)

    def by_example(self) -> Iterator[list[Row]]:
        """The rows of each example together, in the order in which examples first came."""
        self._look_further()
        samples: dict[str, list[int]] = {}
        for example, sample in self._places:
            samples.setdefault(example, []).append(sample)
        for example, of_it in samples.items():
            yield [self.row(example, sample) for sample in sorted(of_it)]

    def __len__(self) -> int:
        end = whole_lines(self._folder.rollouts)
        places = self._in_order(end)
        if places is not None:
            return len(places)
        return sum(1 for _ in numbered_lines(self._folder.rollouts, end))

    def __contains__(self, key: object) -> bool:
        self._look_further()
        return key in self._places

    def summary(self) -> Summary:
        """The saved summary where it tells of every row that is there; else worked out."""
        saved = self._saved_summary()
        return self.work_out() if saved is None else saved

    def _saved_summary(self) -> Summary | None:
        return Summary.saved(self._folder.summary_json, whole_lines(self._folder.rollouts))

    def work_out(self) -> Summary:
        """The summary, from the rows. It is `complete` when the run was finished and nothing came after."""
        saved = self._saved_summary()
        tally = Tally()
        for row in self.rows():
            tally.add(row)
        summary = tally.summary()
        assert summary is not None
        spent = larger(summary.spent, self.spent())
        return summary.with_fields(complete=saved is not None and saved.complete, spent=spent)

    def spent(self) -> Spending:
        """What the run has asked of models in all its sittings, also for rollouts that were done again.

        `budget(dollars=2.0, spent=run.spent().cost, rollout=run.dearest())` is a budget for the whole run when
        it is resumed.
        """
        logged = spent_by(self._folder.spending)
        if logged.calls or logged.hits:
            return logged
        # A journal that another program wrote has no log; of a line that is there twice one counts.
        end, seen, total = whole_lines(self._folder.rollouts), Seen(), NOTHING
        for where, _, line in numbered_lines(self._folder.rollouts, end):
            if b'"spent":' in line and seen.add(line.decode(errors="replace")):
                total += self._form.read(line, where).spent
        return total

    def dearest(self) -> float | None:
        """What the dearest rollout that was scored has cost, in dollars; None when none had a cost."""
        costs = (row.spent.cost for row in self.rows() if row.scored)
        return max((cost for cost in costs if cost), default=None)

    def rubric(self, *, allow_code: bool = False, **options: Any) -> Rubric | None:
        """The rubric, made again from what was saved; None when it had checks that no file can name.

        `allow_code=True` lets it name functions of yours, as it does for a rubric file.
        """
        source = None if self.about.rubric is None else self.about.rubric.source
        if source is None:
            return None
        kind = RubricGroup if "rubrics" in source else Rubric
        return kind.from_dict(source, allow_code=allow_code, **options)

    def _look_further(self) -> None:
        """Note where each row stands, from where the last look ended."""
        end = whole_lines(self._folder.rollouts)
        rest = numbered_lines(self._folder.rollouts, end, start=self._read_to, number=self._lines)
        for where, place, line in rest:
            key, _, has_errors = opening_of(line, where)
            if key not in self._places or key in self._failed or not has_errors:
                self._places[key] = place
                (self._failed.add if has_errors else self._failed.discard)(key)
            self._lines += 1
        self._read_to = end

    def _in_order(self, end: int) -> Sequence[tuple[int, int]] | None:
        """The byte where each row begins and its line, in the order of the data, each key once.

        None when the file is just so, as most are. Rows that were waited for stand in it as they were finished, and what was done
        again further down.
        """
        if self._is_in_order(end):
            return None
        numbers, places, lines = array("q"), array("q"), array("q")
        chosen: dict[Key, int] = {}
        failed: set[Key] = set()
        found = numbered_lines(self._folder.rollouts, end)
        for at, (where, place, line) in enumerate(found, start=1):
            key, number, has_errors = opening_of(line, where)
            known = chosen.get(key)
            if known is None:
                chosen[key] = len(places)
                places.append(place)
                lines.append(at)
                numbers.append(-1 if number is None else number)
            elif key in failed or not has_errors:
                places[known], lines[known] = place, at
            else:
                continue
            (failed.add if has_errors else failed.discard)(key)
        order: Iterable[int] = range(len(places))
        if -1 not in numbers:
            order = sorted(order, key=numbers.__getitem__)
        return [(places[at], lines[at]) for at in order]

    def _is_in_order(self, end: int) -> bool:
        """Whether the rows stand in the order of the data, and none of them twice."""
        last, seen = -1, Seen()
        for where, _, line in numbered_lines(self._folder.rollouts, end):
            key, number, _ = opening_of(line, where)
            if number is None:
                if not seen.add(f"{key[1]} {key[0]}"):
                    return False
            elif number <= last:
                return False
            else:
                last = number
        return True
