"""Saved rollouts, and saved runs, scored."""

from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import click

from assay.backends.cutting import files_about, tables_in
from assay.backends.shards import LINES
from assay.cli.judges import judging_with
from assay.cli.options import Crew, Input, Judging, Rubrics, Saving, Showing
from assay.cli.runner import Conditions, Running, Work
from assay.cli.sources import COMPLETION, opened, rubric_of
from assay.rubric import Rubric
from assay.runs import RunAbout, Summary, rescore, score_rows
from assay.runs.folder import Folder
from assay.runs.pipeline import MOST_AT_ONCE
from assay.runs.row_rubrics import COLUMN
from assay.tables import TableError, rows_of


def score(
    given: Input,
    rubrics: Rubrics,
    saving: Saving,
    crew: Crew,
    judging: Judging,
    showing: Showing,
) -> int:
    """Score what is given, print it, and give the exit code."""
    rubric = None if rubrics.rubric is None else rubric_of(rubrics)
    names = [] if rubric is None else [criterion.name for criterion in rubric.criteria]
    running = Running(given.data, names, judging, saving, showing)
    rows = None if _is_run(given) else Rows(given)
    if crew.backend is not None and not judging.dry_run:
        if rows is None:
            raise click.UsageError(
                f"{given.data} is a run, which one process scores: leave --backend out"
            )
        _refuse_no_rubric(rows, rubric)
        from assay.cli.workers import Making, by_workers

        make = Making.of(rubrics, rubric, judging, rows_may_ask=rows.have_rubrics)
        return running.carry_out(by_workers(given, make, saving, crew, showing), None)
    _refuse_shards(saving)
    work = _again(given, rubric, saving) if rows is None else _first(rows, rubric, saving, judging)
    may_ask = rows is not None and rows.have_rubrics
    with judging_with(judging, rubric, quiet=showing.quiet, rows_may_ask=may_ask) as grader:
        return (running.rehearse if judging.dry_run else running.carry_out)(work, grader)


def _is_run(given: Input) -> bool:
    if len(given.files) > 1 or given.data == "-":
        return False
    folder = Path(given.data)
    # A folder without a table in it is a run that lacks something, or not what was meant.
    return folder.is_dir() and (Folder.of(folder).run_json.exists() or not tables_in(folder))


def _refuse_no_rubric(rows: "Rows", rubric: Rubric | None) -> None:
    if rubric is None and not rows.have_rubrics:
        raise click.UsageError(
            "--rubric is missing: give -r/--rubric RUBRIC, or every row a `rubric` of its own"
        )


def _refuse_shards(saving: Saving) -> None:
    """Refuse a run whose shards are not all done: one process would begin it anew."""
    if saving.folder is not None and saving.resume:
        folder = Folder.of(saving.folder)
        if (folder.path / "manifest.jsonl").exists() and not folder.has_rows:
            raise click.UsageError(f"{saving.folder} is in shards: go on with it by --backend")


class Rows:
    """The rows of a table, one of them looked at before the work begins."""

    def __init__(self, given: Input) -> None:
        self.given = given
        self.paths = [path for name in given.files for path in _tables(name)]
        mapping = dict(given.mapping)
        self._rows = chain.from_iterable(rows_of(path, mapping=mapping) for path in self.paths)
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
        paths = [Path(path) for path in self.paths]
        if any(path.suffix.lower() not in LINES or not path.is_file() for path in paths):
            return None
        lines = sum(map(_lines_in, paths))
        return lines if self.given.limit is None else min(lines, self.given.limit)


def _tables(name: str) -> list[str]:
    """The file of this name, or the files in the folder."""
    if name == "-" or not Path(name).is_dir():
        return [name]
    return [str(path) for path in tables_in(Path(name))]


def _lines_in(path: Path) -> int:
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))


def _first(rows: Rows, rubric: Rubric | None, saving: Saving, judging: Judging) -> Work:
    """Rows of a table, which nobody scored yet."""
    _refuse_no_rubric(rows, rubric)
    about = RunAbout.of(
        "score",
        config={"map": dict(rows.given.mapping)},
        options={"limit": rows.given.limit, "concurrency": saving.concurrency}
        | {"money": judging.money},
        data=files_about(rows.paths),
    )

    async def work(under: Conditions) -> Summary:
        return await score_rows(
            rubric,
            rows,
            about=about,
            total=rows.count(),
            max_concurrent=saving.concurrency or MOST_AT_ONCE,
            exchanges=saving.exchanges,
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
            exchanges=saving.exchanges,
            grader=under.grader,
            resume=under.resume,
            on_row=under.on_row,
            on_progress=under.on_progress,
            stopping=under.stopping,
        )

    return work
