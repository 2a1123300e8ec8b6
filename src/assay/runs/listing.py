"""Find the runs in a folder, and describe each in one line with its settings and scores."""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.display import Page, Section, format_cell, shorten_line
from assay.runs.journal import Run
from assay.runs.metadata import RunAbout
from assay.runs.run_errors import RunError
from assay.runs.run_schema import FILE_ENDING, is_run
from assay.runs.summary import Summary
from assay.wording import format_count, suggest_path

MAX_DEPTH = 3  # folders below the one that is listed


@dataclass(frozen=True)
class RunListing:
    """One run in a list. A run that cannot be read has an error and nothing else."""

    name: str  # its path below the folder that was listed
    path: Path
    about: RunAbout | None = None
    summary: Summary | None = None
    error: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the run in this line of the list as plain data. What is not known is None."""
        data: dict[str, Any] = {"name": self.name, "path": str(self.path), "error": self.error}
        if self.about is not None:
            rubric = self.about.rubric
            data |= {
                "created": self.about.created,
                "kind": self.about.kind,
                "rubric": None if rubric is None else rubric.name,
                "rubric_version": None if rubric is None else rubric.hash,
                "model": self.about.model,
                "judge": self.about.judge,
            }
        if self.summary is not None:
            score = self.summary.score
            data |= {
                "rollouts": self.summary.rollouts,
                "unscored": self.summary.unscored,
                "complete": self.summary.complete,
                "score": {"mean": score.mean, "low": score.low, "high": score.high},
                "errors": sum(self.summary.errors.values()),
                "cost": self.summary.spent.cost,
                "unpriced": self.summary.spent.unpriced,
            }
        return data


def find_runs(path: str | os.PathLike[str]) -> list[Path]:
    """Return the folders and files of all runs below a folder, sorted; only the path if it is a run.

    Raise `RunError` if there is no such folder, or no run in it.
    """
    folder = Path(path)
    if is_run(folder):
        return [folder]
    if not folder.exists():
        raise RunError(f"there is no folder {folder}{suggest_path(folder)}")
    if not folder.is_dir():
        return [folder]  # the caller opens it, and the error says why it is not a run
    runs = sorted(_walk(folder, depth=0))
    if not runs:
        raise RunError(
            f"{folder} holds no run: name the folder of a run, or a folder that holds some"
        )
    return runs


def _walk(folder: Path, depth: int) -> Iterator[Path]:
    """Yield the runs in a folder, and in its folders down to `MAX_DEPTH`. A run is not searched."""
    for child in folder.iterdir():
        if child.name.startswith(".") or child.is_symlink():
            continue
        is_folder = child.is_dir()
        may_be_run = is_folder or child.name.endswith(FILE_ENDING)
        if may_be_run and is_run(child):
            yield child
        elif is_folder and depth + 1 < MAX_DEPTH:
            yield from _walk(child, depth + 1)


def list_runs(folder: str | os.PathLike[str]) -> list[RunListing]:
    """Return a line for each run in the folder, the newest first."""
    listings = [describe_run(path, folder) for path in find_runs(folder)]
    return sorted(listings, key=_get_time, reverse=True)


def _get_time(listing: RunListing) -> str:
    """Return when the run was started, as text that sorts by time; empty if that is not known."""
    return "" if listing.about is None else listing.about.created


def describe_run(path: Path, folder: str | os.PathLike[str]) -> RunListing:
    """Return the line of one run in a list of the runs in `folder`.

    Its name is its path below the folder. A run that cannot be read has a line with the error.
    """
    is_listed_folder = path == Path(folder)
    name = path.resolve().name if is_listed_folder else str(path.relative_to(folder))
    try:
        run = Run.open(path)
        return RunListing(name, path, run.about, run.summary())
    except RunError as error:
        return RunListing(name, path, error=str(error))


def make_list_page(folder: str | os.PathLike[str], listings: Sequence[RunListing]) -> Page:
    """Return the list of the runs in a folder as a page with one table, to print."""
    columns = (
        "run",
        "date",
        "rubric",
        "model",
        "judge",
        "rollouts",
        "score",
        "95 %",
        "errors",
        "cost",
    )
    rows = [_make_cells(listing) for listing in listings]
    # A column in which no run has a value is left out, but never the name of the run.
    used_indices = [0]
    for index in range(1, len(columns)):
        if any(row[index] not in (None, "") for row in rows):
            used_indices.append(index)
    used_columns = [columns[index] for index in used_indices]
    used_rows = [[row[index] for index in used_indices] for row in rows]
    return Page(
        title=f"{folder}: {format_count(len(listings), 'run')}",
        sections=[Section(used_columns, used_rows)],
        notes=[f"{line.name} cannot be read: {line.error}" for line in listings if line.error],
        data={"runs": [listing.to_dict() for listing in listings]},
    )


def _make_cells(listing: RunListing) -> list[Any]:
    """Return the cells of a run in the order of the columns; None for an empty one."""
    about = listing.about
    summary = listing.summary
    if about is None or summary is None:
        empty_cells = [None] * 8
        return [listing.name, "cannot be read", *empty_cells]
    rubric = None
    if about.rubric is not None:
        rubric = f"{about.rubric.name or 'unnamed'} {about.rubric.hash[:8]}"
    rollouts = f"{summary.rollouts:,}"
    if summary.unscored:
        rollouts += f", {summary.unscored:,} unscored"
    if not summary.complete:
        rollouts += ", not finished"
    score = summary.score
    interval = None
    if score.low is not None and score.high is not None:
        interval = f"{format_cell(score.low)} to {format_cell(score.high)}"
    return [
        listing.name,
        about.created.replace("T", " ")[:16],  # `2026-01-31T09:30:00Z` without its seconds
        rubric,
        None if about.model is None else shorten_line(about.model, 40),
        None if about.judge is None else shorten_line(_name_judge(about.judge), 40),
        rollouts,
        score.mean,
        interval,
        sum(summary.errors.values()) or None,
        _format_cost(summary),
    ]


def _name_judge(judge: str) -> str:
    """Return only the model of the default judge, which is `PerCriterionGrader(MODEL)`."""
    match = re.fullmatch(r"PerCriterionGrader\((.+)\)(?:, per_criterion/\d+)?", judge)
    return judge if match is None else match[1]


def _format_cost(summary: Summary) -> str | None:
    """Return what the run cost. A run that called no model has no cost, which is not $0."""
    spent = summary.spent
    if not spent.calls:
        return None
    if spent.cost is None:
        return "not known"
    cost = f"${spent.cost:.2f}"
    if spent.unpriced:
        cost += f" and {format_count(spent.unpriced, 'call')} without a known price"
    return cost
