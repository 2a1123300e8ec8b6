"""`assay score DATA -r RUBRIC -o FOLDER`: score saved rollouts, or a saved run."""

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

from assay.cli import options
from assay.cli.options import count, record, value_of
from assay.cli.root import Command

if TYPE_CHECKING:
    from assay.cli.runner import Conditions, Runner, Work
    from assay.graders import Autograder
    from assay.rubric import Rubric
    from assay.runs import Summary


@dataclass(frozen=True)
class WorkerOptions:
    """Who does the work."""

    backend: str | None = value_of(
        "--backend", "Have many workers do it: processes of this machine, or tasks of a Ray cluster.",
        ("processes", "ray"),
    )  # fmt: skip
    """None is this process."""
    workers: int | None = value_of("--workers N", "How many; by default as many as there are processors.", count(1))
    shard_rows: int | None = value_of(
        "--shard-rows N", "Rows that a worker is given at a time; 10,000 by default.", count(1)
    )
    ray_address: str | None = value_of(
        "--ray-address ADDRESS",
        "Of the cluster; by default what RAY_ADDRESS says, and without that one is started here.",
    )

    def __post_init__(self) -> None:
        for name, value in {"--workers": self.workers, "--shard-rows": self.shard_rows}.items():
            if self.backend is None and value is not None:
                raise click.UsageError(f"{name} goes with --backend: say which")
        if self.backend != "ray" and self.ray_address is not None:
            raise click.UsageError("--ray-address goes with --backend ray")


@click.command(
    "score",
    cls=Command,
    epilog="Exit code: 0 all scored, 100 a threshold missed, 1 one unscored or broken off, 2 bad "
    "usage or data, 130 stopped.",
    example="assay score rollouts.jsonl -r rubric.yaml -o run",
)
@options.input_options("DATA...", nargs=-1, required=True)
@options.rubric_options(required=False)
@options.output_options
@record("workers", WorkerOptions)
@options.judge_options("-m --model")
@options.display_options
def command(
    given: options.InputOptions,
    rubrics: options.RubricOptions,
    output: options.OutputOptions,
    workers: WorkerOptions,
    judging: options.JudgeOptions,
    display: options.DisplayOptions,
) -> int:
    """Score rollouts that were saved: .jsonl, .json, .csv, .tsv or .parquet files, or - for standard input.

    A row has a `completion`, and whatever else its criteria need: `prompt`, `answer`, columns of your
    own. One with a `rubric` of its own is scored by that. A folder of tables stands for all of them.

    Where DATA is the folder of a run, that run is scored again by the rubric, into another folder:
    nothing is generated, and judges are asked only what they were not asked before.
    """
    from assay.backends.shards import files_about
    from assay.cli.runner import Runner
    from assay.cli.sources import judging_with, rubric_of
    from assay.runs import RunAbout, score_rows
    from assay.runs.folder import Folder
    from assay.runs.metadata import judge_of

    rubric = None if rubrics.rubric is None else rubric_of(rubrics)
    runner = Runner(given.data, rubric, judging, output, display)
    rows = None if _is_run(given) else Rows(given)
    if rows is not None and rubric is None and not rows.have_rubrics:
        raise click.UsageError("--rubric is missing: give -r/--rubric RUBRIC, or every row a `rubric` of its own")
    if workers.backend is not None and not judging.dry_run:
        if rows is None:
            raise click.UsageError(f"{given.data} is a run, which one process scores: leave --backend out")
        is_file = rubrics.rubric is not None and Path(rubrics.rubric).is_file()
        make = Making(rubrics, rubric if is_file else None, judging, rows.have_rubrics)
        return runner.run(_by_workers(given, make, workers, runner), None, by_workers=True)
    if output.folder is not None and output.resume:
        run = Folder(output.folder)
        if (run.path / "manifest.jsonl").exists() and not run.has_rows:
            # One process would begin it anew.
            raise click.UsageError(f"{output.folder} is in shards: go on with it by --backend")
    if rows is None:
        rescoring = _rescoring(given, rubric, output)
        with judging_with(judging, rubric, quiet=display.quiet) as grader:
            return runner.run(rescoring, grader)
    with judging_with(judging, rubric, quiet=display.quiet, rows_may_ask=rows.have_rubrics) as grader:
        runner.about = RunAbout.of(
            "score",
            rubric=rubric,
            judge=judge_of(rubric, grader),
            config={"map": dict(given.mapping)},
            options={"limit": given.limit, "concurrency": output.concurrency, "budget": judging.budget},
            data=files_about(rows.paths),
        )

        async def scoring(under: Conditions) -> Summary:
            return await score_rows(
                rubric, rows, folder=under.folder, about=runner.about, total=rows.count(), **under.settings(output)
            )

        return runner.run(scoring, grader)


def _is_run(given: options.InputOptions) -> bool:
    from assay.backends.shards import tables_in
    from assay.runs.folder import Folder

    if len(given.files) > 1 or given.data == "-":
        return False
    folder = Path(given.data)
    # A folder without a table in it is a run that lacks something, or not what was meant.
    return folder.is_dir() and (Folder(folder).run_json.exists() or not tables_in(folder))


class Rows:
    """The rows of tables, one of them looked at before the work begins."""

    def __init__(self, given: options.InputOptions) -> None:
        from assay.cli.sources import COMPLETION
        from assay.runs.row import COLUMN
        from assay.tables import TableError, rows_of

        self.given = given
        self.paths = [path for name in given.files for path in _tables(name)]
        rows = chain.from_iterable(rows_of(path, mapping=dict(given.mapping)) for path in self.paths)
        first = next(rows, None)
        if first is None:
            raise TableError(f"{given.data} has no rows: there is nothing to score")
        theirs = next((name for name in COMPLETION if name in first), "completion")
        if theirs != "completion":
            raise click.UsageError(
                f"{given.data} has no column 'completion' (there: {', '.join(first)}): give --map completion={theirs}"
            )
        self.have_rubrics = COLUMN in first
        """Whether they bring their own."""
        self._rows = islice(chain([first], rows), given.limit)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self._rows

    def count(self) -> int | None:
        """How many there are, where that is quickly told."""
        from assay.backends.shards import LINES

        lines = 0
        for path in map(Path, self.paths):
            if path.suffix.lower() not in LINES or not path.is_file():
                return None
            with path.open("rb") as file:
                lines += sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
        return lines if self.given.limit is None else min(lines, self.given.limit)


def _tables(name: str) -> list[str]:
    """The file of this name, or the files in the folder."""
    from assay.backends.shards import tables_in

    if name == "-" or not Path(name).is_dir():
        return [name]
    return [str(path) for path in tables_in(Path(name))]


def _rescoring(given: options.InputOptions, rubric: Rubric | None, output: options.OutputOptions) -> Work[Summary]:
    """A run that was saved, by another rubric."""
    from assay.cli.sources import opened
    from assay.runs import rescore

    if rubric is None:
        raise click.UsageError(f"{given.data} is a run: say by which rubric to score it, with -r")
    if given.mapping or given.limit is not None:
        raise click.UsageError(f"{given.data} is a run: --map and --limit are for tables")
    run = opened(given.data)
    if output.folder is not None and Path(output.folder).resolve() == run.path.resolve():
        raise click.UsageError(f"{given.data} would be written over: name another folder with -o")
    return lambda under: rescore(run, rubric, under.folder, **under.settings(output))


@dataclass(frozen=True)
class Making:
    """Makes the rubric and the grader in a worker, as the options name them."""

    rubrics: options.RubricOptions
    rubric: Rubric | None
    """The rubric of a file, which other machines need not have; None for one that Python makes anew."""
    judging: options.JudgeOptions
    rows_may_ask: bool

    def __call__(self) -> tuple[Rubric | None, Autograder | None]:
        from assay.cli.sources import judging_with, rubric_of

        rubric = self.rubric
        if rubric is None and self.rubrics.rubric is not None:
            rubric = rubric_of(self.rubrics)
        stack = ExitStack()
        atexit.register(stack.close)  # the grader's cache is open as long as the worker lives
        judging = judging_with(self.judging, rubric, quiet=True, rows_may_ask=self.rows_may_ask)
        return rubric, stack.enter_context(judging)


def _by_workers(given: options.InputOptions, make: Making, workers: WorkerOptions, runner: Runner) -> Work[Summary]:
    """Rows of tables, in shards."""
    from assay.backends import Processes, RayTasks, score_shards
    from assay.backends.shards import ROWS, files_about, files_of
    from assay.cli.runner import say
    from assay.cli.sources import LOCAL, has_own_grader
    from assay.engine import Traits
    from assay.runs import RunAbout

    output, judge = runner.output, make.judging.judge or LOCAL
    is_asked = make.judging.judge is not None or not has_own_grader(runner.rubric)
    if is_asked and Traits.of(runner.rubric).asks and judge.partition(":")[0] in (LOCAL, "smoke"):
        raise click.UsageError(
            f"every worker would load the model {judge!r}: name a judge that they can share with "
            "--judge, or leave --backend out"
        )
    if output.folder is None:
        raise click.UsageError("--backend needs a folder that all workers can write to: give -o")
    if given.limit is not None:
        raise click.UsageError("--limit is for one process: leave it or --backend out")
    if workers.backend == "ray":
        if workers.ray_address is None and "RAY_ADDRESS" not in os.environ:
            say("starting Ray, which listens on all interfaces of this machine", quiet=runner.display.quiet)
        backend = RayTasks(workers.ray_address, workers.workers)
    else:
        backend = Processes() if workers.workers is None else Processes(workers.workers)
    options: dict[str, Any] = {"concurrency": output.concurrency, "budget": make.judging.budget}
    about = RunAbout.of(
        "score",
        config={"map": dict(given.mapping)},
        options=options | {"backend": workers.backend, "workers": workers.workers},
        data=files_about(files_of(given.files)),
    )

    async def work(under: Conditions) -> Summary:
        def stopping() -> bool:
            # Workers are waited for without a loop that could be cancelled.
            if under.stopping.heard > 1:
                raise KeyboardInterrupt
            return under.stopping()

        return score_shards(
            make,
            given.files,
            under.folder or "",
            backend=backend,
            rows=workers.shard_rows or ROWS,
            mapping=dict(given.mapping),
            about=about,
            resume=under.resume,
            max_concurrent=output.concurrency,
            judge_log=output.judge_log,
            on_progress=under.on_progress,
            stopping=stopping,
        )

    return work
