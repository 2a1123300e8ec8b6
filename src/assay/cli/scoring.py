"""Saved rollouts, and saved runs, scored."""

from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import click

from assay.cli.judges import judging_with
from assay.cli.options import Input, Judging, Rubrics, Saving, Showing
from assay.cli.running import Conditions, Running, Work
from assay.cli.sources import rubric_of
from assay.cli.texts import COMPLETION
from assay.cli.viewing import opened
from assay.rubric import Rubric
from assay.runs import RunAbout, Summary, data_about, rescore, score_rows
from assay.runs.row_rubrics import COLUMN
from assay.runs.scoring import MOST_AT_ONCE
from assay.tables import TableError, rows_of


def score(
    given: Input, rubrics: Rubrics, saving: Saving, judging: Judging, showing: Showing
) -> int:
    """Score what is given, print it, and give the exit code."""
    rubric = None if rubrics.rubric is None else rubric_of(rubrics)
    is_run = given.data != "-" and Path(given.data).is_dir()
    rows = None if is_run else Rows(given)
    again = rows is None
    work = _again(given, rubric, saving) if again else _first(rows, rubric, saving, judging)
    names = [] if rubric is None else [criterion.name for criterion in rubric.criteria]
    running = Running(given.data, names, judging, saving, showing)
    may_ask = rows is not None and rows.have_rubrics
    with judging_with(judging, rubric, quiet=showing.quiet, rows_may_ask=may_ask) as grader:
        return (running.rehearse if judging.dry_run else running.carry_out)(work, grader)


class Rows:
    """The rows of a table, one of them looked at before the work begins."""

    def __init__(self, given: Input) -> None:
        self.given = given
        self._rows = rows_of(given.data, mapping=dict(given.mapping))
        self.first = next(self._rows, None)
        if self.first is None:
            raise TableError(f"{given.data} has no rows: there is nothing to score")
        theirs = next((name for name in COMPLETION if name in self.first), None)
        if theirs not in (None, "completion"):
            raise click.UsageError(
                f"{given.data} has no column 'completion' (there: {', '.join(self.first)}): give "
                f"--map completion={theirs}"
            )

    @property
    def have_rubrics(self) -> bool:
        """Whether they bring their own."""
        return self.first is not None and COLUMN in self.first

    def __iter__(self) -> Iterator[dict[str, Any]]:
        first = [] if self.first is None else [self.first]
        return islice(chain(first, self._rows), self.given.limit)

    def count(self) -> int | None:
        """How many there are, where that is quickly told."""
        path = Path(self.given.data)
        if path.suffix.lower() not in (".jsonl", ".ndjson") or not path.is_file():
            return None
        with path.open("rb") as file:
            lines = sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
        return lines if self.given.limit is None else min(lines, self.given.limit)


def _first(rows: Rows, rubric: Rubric | None, saving: Saving, judging: Judging) -> Work:
    """Rows of a table, which nobody scored yet."""
    if rubric is None and not rows.have_rubrics:
        raise click.UsageError(
            "--rubric is missing: give -r/--rubric RUBRIC, or every row a `rubric` of its own"
        )
    about = RunAbout.of(
        "score",
        config={"map": dict(rows.given.mapping)},
        options={"limit": rows.given.limit, "concurrency": saving.concurrency}
        | {"money": judging.money},
        data=data_about(rows.given.data),
    )

    async def work(under: Conditions) -> Summary:
        return await score_rows(
            rubric,
            rows,
            about=about,
            total=rows.count(),
            max_concurrent=saving.concurrency or MOST_AT_ONCE,
            grader=under.grader,
            folder=under.folder,
            resume=under.resume,
            on_row=under.on_row,
            on_progress=under.on_progress,
            stopping=under.stopping,
        )

    return work


def _again(given: Input, rubric: Rubric | None, saving: Saving) -> Work:
    """A run that was saved, by another rubric."""
    if rubric is None:
        raise click.UsageError(f"{given.data} is a run: say by which rubric to score it, with -r")
    if given.mapping or given.limit is not None:
        raise click.UsageError(f"{given.data} is a run: --map and --limit are for tables")
    run = opened(given.data)
    if saving.folder is not None and Path(saving.folder).resolve() == run.path.resolve():
        raise click.UsageError(f"{given.data} would be written over: name another folder with -o")

    async def work(under: Conditions) -> Summary:
        return await rescore(
            run,
            rubric,
            under.folder,
            max_concurrent=saving.concurrency or MOST_AT_ONCE,
            grader=under.grader,
            resume=under.resume,
            on_row=under.on_row,
            on_progress=under.on_progress,
            stopping=under.stopping,
        )

    return work
