"""`assay score DATA -r RUBRIC -o FOLDER`: saved rollouts, or a saved run, scored."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli.options import (
    DisplayOptions,
    InputOptions,
    JudgeOptions,
    OutputOptions,
    RubricOptions,
    WorkerOptions,
    display_options,
    input_options,
    judge_options,
    output_options,
    rubric_options,
    worker_options,
)
from assay.cli.root import Command

if TYPE_CHECKING:
    from assay.backends.engine import Engine
    from assay.cli.runner import Conditions, Work
    from assay.graders import Autograder
    from assay.rubric import Rubric
    from assay.runs import RunAbout, Summary


@click.command(
    "score",
    cls=Command,
    epilog="Exit code: 0 all scored, 100 a threshold missed, 1 one unscored or broken off, 2 bad "
    "usage or data, 130 stopped.",
    example="assay score rollouts.jsonl -r rubric.yaml -o run",
)
@input_options("DATA...", several=True)
@rubric_options(required=False)
@output_options
@worker_options
@judge_options("-m", "--model")
@display_options
def command(
    given: InputOptions,
    rubrics: RubricOptions,
    output: OutputOptions,
    workers: WorkerOptions,
    judging: JudgeOptions,
    display: DisplayOptions,
) -> int:
    """Score rollouts that were saved: .jsonl, .json, .csv, .tsv or .parquet files, or - for standard input.

    A row has a `completion`, and whatever else its criteria need: `prompt`, `answer`, columns of your
    own. One with a `rubric` of its own is scored by that. A folder of tables stands for all of them.

    Where DATA is the folder of a run, that run is scored again by the rubric, into another folder:
    nothing is generated, and judges are asked only what they were not asked before.
    """
    from assay.cli.judges import judging_with
    from assay.cli.runner import Runner
    from assay.cli.sources import rubric_of

    rubric = None if rubrics.rubric is None else rubric_of(rubrics)
    names = [] if rubric is None else [criterion.name for criterion in rubric.criteria]
    runner = Runner(given.data, names, judging, output, display)
    rows = None if _is_run(given) else Rows(given)
    if workers.backend is not None and not judging.dry_run:
        if rows is None:
            raise click.UsageError(f"{given.data} is a run, which one process scores: leave --backend out")
        _refuse_no_rubric(rows, rubric)

        make = Making.of(rubrics, rubric, judging, rows_may_ask=rows.have_rubrics)
        return runner.run(by_workers(given, make, output, workers, display), None)
    _refuse_shards(output)
    if rows is None:
        rescoring = _rescore(given, rubric, output)
        with judging_with(judging, rubric, quiet=display.quiet) as grader:
            return runner.run(rescoring, grader)
    _refuse_no_rubric(rows, rubric)
    may_ask = rows.have_rubrics
    with judging_with(judging, rubric, quiet=display.quiet, rows_may_ask=may_ask) as grader:
        about = _about(rows, rubric, grader, output, judging)
        return runner.run(_score_rows(rows, rubric, output, about), grader, about)


def _is_run(given: InputOptions) -> bool:
    from assay.backends.cutting import tables_in
    from assay.runs.folder import Folder

    if len(given.files) > 1 or given.data == "-":
        return False
    folder = Path(given.data)
    # A folder without a table in it is a run that lacks something, or not what was meant.
    return folder.is_dir() and (Folder.of(folder).run_json.exists() or not tables_in(folder))


def _refuse_no_rubric(rows: Rows, rubric: Rubric | None) -> None:
    if rubric is None and not rows.have_rubrics:
        raise click.UsageError("--rubric is missing: give -r/--rubric RUBRIC, or every row a `rubric` of its own")


def _refuse_shards(output: OutputOptions) -> None:
    """Refuse a run whose shards are not all done: one process would begin it anew."""
    from assay.runs.folder import Folder

    if output.folder is not None and output.resume:
        folder = Folder.of(output.folder)
        if (folder.path / "manifest.jsonl").exists() and not folder.has_rows:
            raise click.UsageError(f"{output.folder} is in shards: go on with it by --backend")


class Rows:
    """The rows of a table, one of them looked at before the work begins."""

    def __init__(self, given: InputOptions) -> None:
        from assay.cli.sources import COMPLETION
        from assay.tables import TableError, rows_of

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
        from assay.runs.row_rubrics import COLUMN

        return self.first is not None and COLUMN in self.first

    def __iter__(self) -> Iterator[dict[str, Any]]:
        first = [] if self.first is None else [self.first]
        return islice(chain(first, self._rows), self.given.limit)

    def count(self) -> int | None:
        """How many there are, where that is quickly told."""
        from assay.backends.shards import LINES

        paths = [Path(path) for path in self.paths]
        if any(path.suffix.lower() not in LINES or not path.is_file() for path in paths):
            return None
        lines = sum(map(_lines_in, paths))
        return lines if self.given.limit is None else min(lines, self.given.limit)


def _tables(name: str) -> list[str]:
    """The file of this name, or the files in the folder."""
    from assay.backends.cutting import tables_in

    if name == "-" or not Path(name).is_dir():
        return [name]
    return [str(path) for path in tables_in(Path(name))]


def _lines_in(path: Path) -> int:
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))


def _about(
    rows: Rows, rubric: Rubric | None, grader: Autograder | None, output: OutputOptions, judging: JudgeOptions
) -> RunAbout:
    """What the run is that begins with these rows."""
    from assay.backends.cutting import files_about
    from assay.runs import RunAbout
    from assay.runs.metadata import RubricAbout, judge_of

    about = RunAbout.of(
        "score",
        config={"map": dict(rows.given.mapping)},
        options={"limit": rows.given.limit, "concurrency": output.concurrency} | {"budget": judging.budget},
        data=files_about(rows.paths),
    )
    about = about.with_fields(judge=judge_of(rubric, grader))
    return about if rubric is None else about.with_fields(rubric=RubricAbout.of(rubric))


def _score_rows(rows: Rows, rubric: Rubric | None, output: OutputOptions, about: RunAbout) -> Work:
    """Rows of a table, which nobody scored yet."""
    from assay.runs import score_rows
    from assay.runs.pipeline import MOST_AT_ONCE

    async def work(under: Conditions) -> Summary:
        return await score_rows(
            rubric,
            rows,
            about=about,
            total=rows.count(),
            max_concurrent=output.concurrency or MOST_AT_ONCE,
            exchanges=output.judge_log,
            grader=under.grader,
            folder=under.folder,
            resume=under.resume,
            on_row=under.on_row,
            on_progress=under.on_progress,
            stopping=under.stopping,
        )

    return work


def _rescore(given: InputOptions, rubric: Rubric | None, output: OutputOptions) -> Work:
    """A run that was saved, by another rubric."""
    from assay.cli.sources import opened
    from assay.runs import rescore
    from assay.runs.pipeline import MOST_AT_ONCE

    if rubric is None:
        raise click.UsageError(f"{given.data} is a run: say by which rubric to score it, with -r")
    if given.mapping or given.limit is not None:
        raise click.UsageError(f"{given.data} is a run: --map and --limit are for tables")
    run = opened(given.data)
    if output.folder is not None and Path(output.folder).resolve() == run.path.resolve():
        raise click.UsageError(f"{given.data} would be written over: name another folder with -o")

    async def work(under: Conditions) -> Summary:
        return await rescore(
            run,
            rubric,
            under.folder,
            max_concurrent=output.concurrency or MOST_AT_ONCE,
            exchanges=output.judge_log,
            grader=under.grader,
            resume=under.resume,
            on_row=under.on_row,
            on_progress=under.on_progress,
            stopping=under.stopping,
        )

    return work


@dataclass(frozen=True)
class Making:
    """Makes the rubric and the grader in a worker, as the options name them."""

    rubrics: RubricOptions
    rubric: Rubric | None
    """The rubric of a file, which other machines need not have; None for one that Python makes anew."""
    judging: JudgeOptions
    rows_may_ask: bool

    @classmethod
    def of(cls, rubrics: RubricOptions, rubric: Rubric | None, judging: JudgeOptions, *, rows_may_ask: bool) -> Making:
        """Raises `UsageError` when every worker would have to load a model."""
        from assay.cli.judges import LOCAL, has_own_grader
        from assay.engine import Traits

        judge = judging.judge or LOCAL
        is_asked = judging.judge is not None or not has_own_grader(rubric)
        if is_asked and Traits.of(rubric).asks and judge.partition(":")[0] in (LOCAL, "smoke"):
            raise click.UsageError(
                f"every worker would load the model {judge!r}: name a judge that they can share with "
                "--judge, or leave --backend out"
            )
        is_file = rubrics.rubric is not None and Path(rubrics.rubric).is_file()
        return cls(rubrics, rubric if is_file else None, judging, rows_may_ask)

    def __call__(self) -> tuple[Rubric | None, Autograder | None]:
        from assay.cli.judges import judging_with
        from assay.cli.sources import rubric_of

        rubric = self.rubric
        if rubric is None and self.rubrics.rubric is not None:
            rubric = rubric_of(self.rubrics)
        stack = ExitStack()
        atexit.register(stack.close)  # the grader's cache is open as long as the worker lives
        judging = judging_with(self.judging, rubric, quiet=True, rows_may_ask=self.rows_may_ask)
        return rubric, stack.enter_context(judging)


def by_workers(
    given: InputOptions, make: Making, output: OutputOptions, workers: WorkerOptions, display: DisplayOptions
) -> Work:
    """Rows of tables, in shards."""
    from assay.backends import score_shards
    from assay.backends.cutting import ROWS, files_about, files_of
    from assay.runs import RunAbout

    if output.folder is None:
        raise click.UsageError("--backend needs a folder that all workers can write to: give -o")
    if given.limit is not None:
        raise click.UsageError("--limit is for one process: leave it or --backend out")
    engine = _engine(workers, display)
    mapping = dict(given.mapping)
    options: dict[str, Any] = {"concurrency": output.concurrency, "budget": make.judging.budget}
    about = RunAbout.of(
        "score",
        config={"map": mapping},
        options=options | {"backend": workers.backend, "workers": workers.workers},
        data=files_about(files_of(given.files)),
    )

    async def work(under: Conditions) -> Summary:
        assert under.folder is not None

        def stopping() -> bool:
            if under.stopping.heard > 1:
                raise KeyboardInterrupt
            return under.stopping()

        return score_shards(
            make,
            given.files,
            under.folder,
            engine=engine,
            rows=workers.shard_rows or ROWS,
            mapping=mapping,
            about=about,
            resume=under.resume,
            max_concurrent=output.concurrency,
            exchanges=output.judge_log,
            on_progress=under.on_progress,
            stopping=stopping,
        )

    return work


def _engine(workers: WorkerOptions, display: DisplayOptions) -> Engine:
    from assay.backends import Processes, RayTasks
    from assay.cli.runner import say

    if workers.backend == "processes":
        return Processes() if workers.workers is None else Processes(workers.workers)
    if workers.ray_address is None and "RAY_ADDRESS" not in os.environ:
        say("starting Ray, which listens on all interfaces of this machine", display)
    return RayTasks(workers.ray_address, workers.workers)
