"""ViewedRuns holds the runs that a page shows, and reads their files on demand."""

import hashlib
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from assay import trust
from assay.advantage import advantages
from assay.errors import AssayError
from assay.messages import ALLOWED_MEDIA, media_access
from assay.runs import Row, Run
from assay.runs.jsonable import escape_surrogates
from assay.runs.listing import find_runs
from assay.runs.metadata import CriterionAbout, media_folders
from assay.runs.row import Key
from assay.runs.row_rubrics import RowRubrics
from assay.trust.labels import Label, hash_row_text, read_run_labels, save_label
from assay.trust.questions import read_row_criteria
from assay.viewer import page_data
from assay.viewer.page_data import pick_attributes
from assay.viewer.rollout_table import RolloutTable


class NotFoundError(AssayError, LookupError):
    """There is no such run, row or criterion."""


class ViewedRun:
    """One run on a page."""

    def __init__(self, identity: str, run: Run) -> None:
        self.identity = identity
        self.run = run
        self.table = RolloutTable(run.file, run.about.criteria, self._list_labelled)
        self._row_rubrics = RowRubrics()

    @property
    def is_live(self) -> bool:
        """Whether a process is writing the run."""
        return self.run.file.is_being_written

    def count(self) -> int:
        return self.table.count()

    def describe(self) -> dict[str, Any]:
        """Return the line of the run in the list of runs."""
        about = self.run.about
        rubric = about.rubric
        summary = self.run.summary()
        return {
            "id": self.identity,
            "name": self.run.path.resolve().name,
            **pick_attributes(about, "kind created model judge resolved"),
            "environment": about.config.get("env_id"),
            "env_args": about.config.get("env_args"),
            "rubric": None if rubric is None else {"name": rubric.name, "hash": rubric.hash},
            "rows": self.count(),
            "live": self.is_live,
            **pick_attributes(summary.score, "mean low high"),
            "errors": sum(summary.errors.values()),
            "cost": summary.spent.cost,
        }

    def overview(self) -> dict[str, Any]:
        return page_data.describe_run(self.run, self.run.summary(), self.table)

    def list_rows(
        self,
        query: str,
        *,
        sort: str = "number",
        descending: bool = False,
        offset: int = 0,
        limit: int = 100,
    ) -> dict[str, Any]:
        """Return how many rows fit a filter, and some of them; see `RolloutTable.list_rows`."""
        return self.table.list_rows(
            query, sort=sort, descending=descending, offset=offset, limit=limit
        )

    def describe_row(self, number: int) -> dict[str, Any]:
        """Return everything about one rollout."""
        row = self._read_row(number)
        key = (escape_surrogates(row.example), row.sample)  # as the tables of a run have it
        labels = [label for label in self.read_labels() if _find_key(label) == key]
        criteria = self._read_criteria(row)
        # Pictures may be in the folders that the caller allows, or else in those of the run's data.
        folders = ALLOWED_MEDIA.get().folders or media_folders(self.run.about)
        with media_access(folders):
            return page_data.describe_row(self.run, number, row, labels, criteria)

    def _read_row(self, number: int) -> Row:
        rollout_id = self.table.find_id(number)
        if rollout_id is None:
            raise NotFoundError(f"there is no row {number}: the run has {self.count()}")
        return self.run.row_at(rollout_id)

    def _read_criteria(self, row: Row) -> Sequence[CriterionAbout]:
        """Return the criteria that a row was scored by: those of the run, or its own."""
        return read_row_criteria(row, self.run.about.rubric, self._row_rubrics)

    def describe_group(self, example: str) -> dict[str, Any]:
        """Return the rollouts of one example, with the advantage of each over the others."""
        rows = [self.describe_row(number) for number in self.table.list_numbers(example)]
        if not rows:
            raise NotFoundError(f"there is no example {example!r}")
        group_advantages = advantages([row["reward"] for row in rows])
        for row, advantage in zip(rows, group_advantages, strict=True):
            row["media"] = []  # large, and not shown here
            row["advantage"] = advantage
        return {"example": rows[0]["example"], "prompt": rows[0]["prompt"], "rows": rows}

    def read_labels(self) -> list[Label]:
        """Return what people said about the rollouts of this run."""
        return read_run_labels(self.run)

    def _list_labelled(self) -> set[Key]:
        return {_find_key(label) for label in self.read_labels()}

    def add_label(
        self, number: int, criterion: str, verdict: Any, note: str, rater: str
    ) -> dict[str, Any]:
        """Save what a person says about one criterion of a row, and return the label.

        The judge's verdict stays in the run beside it.
        """
        row = self._read_row(number)
        # The hash of the wording of each criterion, by which outdated labels are recognized.
        guidelines = {
            row_criterion.name: row_criterion.guideline
            for row_criterion in self._read_criteria(row)
        }
        if criterion not in guidelines:
            names = ", ".join(guidelines)
            raise NotFoundError(f"there is no criterion {criterion!r}: there are {names}")
        label = Label.from_row(
            {
                "example": row.example,
                "sample": row.sample,
                "criterion": criterion,
                "verdict": verdict,
                "rater": rater,
                "note": note,
                "time": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
                "guideline": guidelines[criterion],
                "text_hash": hash_row_text(row),
            }
        )
        save_label(self.run, label)
        return label.to_dict()


def _find_key(label: Label) -> Key:
    """Return the rollout that a label is about, as the tables of a run name it."""
    return escape_surrogates(label.example), label.sample


class ViewedRuns:
    """All runs of a page, by identity: a short hash of the path."""

    def __init__(self, paths: Sequence[str | Path]) -> None:
        """A path is a run or a folder of runs."""
        self.runs: dict[str, ViewedRun] = {}
        for run_or_folder in paths:
            for path in find_runs(run_or_folder):
                run = Run.open(path)
                identity = hashlib.sha256(os.fsencode(run.path.resolve())).hexdigest()[:8]
                self.runs.setdefault(identity, ViewedRun(identity, run))

    def values(self) -> list[ViewedRun]:
        return list(self.runs.values())

    def find_run(self, identity: str) -> ViewedRun:
        if identity not in self.runs:
            raise NotFoundError(f"there is no run {identity!r} here")
        return self.runs[identity]

    def compare(self, first: str, second: str) -> dict[str, Any]:
        """Return the comparison of two runs, which are named by their identities.

        Each flip, a rollout whose result changed, has the numbers of its rows in both runs.
        """
        first_run = self.find_run(first)
        second_run = self.find_run(second)
        comparison = trust.compare(first_run.run, second_run.run)
        names = (first_run.run.path.resolve().name, second_run.run.path.resolve().name)
        data: dict[str, Any] = {**comparison.to_dict(), "decision": comparison.decide(names)}
        del data["example_passes"]  # the page does not show them, and there are many
        for flip in data["flips"]:
            example = escape_surrogates(flip["example"])  # as the tables of a run have it
            flip["first_row"] = first_run.table.find_number(example, flip["sample"])
            flip["second_row"] = second_run.table.find_number(example, flip["sample"])
        return data
