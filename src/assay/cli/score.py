"""`assay score DATA -r RUBRIC -o FOLDER`: score saved rollouts, or a saved run."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import click

import assay
from assay import backends, cli, runs
from assay.tables import TableError, rows_of


class ScoreOptions(cli.RunOptions):
    """What it takes to score saved rollouts; where `backend` is None, in this process."""

    rubric: str | None = cli.value_of()
    backend: str | None = cli.value_of(("processes", "ray"))
    workers: int | None = cli.value_of(cli.positive)
    shard_rows: int | None = cli.value_of(cli.positive)
    ray_address: str | None = cli.value_of()

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, value in {"--workers": self.workers, "--shard-rows": self.shard_rows}.items():
            if self.backend is None and value is not None:
                raise click.UsageError(f"{name} goes with --backend: say which")
        if self.backend != "ray" and self.ray_address is not None:
            raise click.UsageError("--ray-address goes with --backend ray")


@cli.declare("score")
def command(options: ScoreOptions) -> int:
    """Score rollouts that were saved: .jsonl, .json, .csv, .tsv or .parquet files, or - for standard input.

    A row has a `completion`, and whatever else its criteria need: `prompt`, `answer`, columns of your
    own. One with a `rubric` of its own is scored by that. A folder of tables stands for all of them.

    Where DATA is the folder of a run, that run is scored again by the rubric, into another folder:
    nothing is generated, and judges are asked only what they were not asked before.
    """
    rubric = None if options.rubric is None else cli.rubric_of(options)
    rows = None if _is_run(options) else Rows(options)
    if rows is not None and rubric is None and not rows.have_rubrics:
        raise click.UsageError("--rubric is missing: give -r/--rubric RUBRIC, or every row a `rubric` of its own")
    if options.backend is not None and not options.dry_run:
        if rows is None:
            raise click.UsageError(f"{options.data} is a run, which one process scores: leave --backend out")
        work = _by_workers(options, rubric, rows.have_rubrics)
        return cli.Runner(options, rubric).run(work, by_workers=True)
    if options.folder is not None and options.resume:
        run = cli.Folder(options.folder)
        if (run.path / "manifest.jsonl").exists() and not run.has_rows:
            # One process would begin it anew.
            raise click.UsageError(f"{options.folder} is in shards: go on with it by --backend")
    if rows is None:
        run, rubric = _run_to_rescore(options, rubric)
        with cli.judging_with(options, rubric, quiet=options.quiet) as grader:
            return cli.Runner(options, rubric, grader).run(
                lambda under: runs.rescore(run, rubric, options.folder, **under.settings(options, grader))
            )
    with cli.judging_with(options, rubric, quiet=options.quiet, rows_may_ask=rows.have_rubrics) as grader:
        how = {"limit": options.limit, "concurrency": options.concurrency, "budget": options.budget}
        config, data = {"map": dict(options.mapping)}, cli.files_about(rows.paths)
        rubrics = runs.RowRubrics(rubric, shows=options.shows or None)
        about = runs.RunAbout.of("score", config=config, options=how, data=data)

        async def scoring(under: cli.Conditions) -> runs.Summary:
            known = under.settings(options, grader)
            return await runs.score_rows(rubrics, rows, folder=options.folder, about=about, total=rows.count(), **known)

        return cli.Runner(options, rubric, grader).run(scoring)


def _is_run(given: cli.InputOptions) -> bool:
    if len(given.files) > 1 or given.data == "-":
        return False
    folder = Path(given.data)
    # A folder without a table in it is a run that lacks something, or not what was meant.
    return folder.is_dir() and (cli.Folder(folder).run_json.exists() or not cli.tables_in(folder))


class Rows:
    """The rows of tables, one of them looked at before the work begins."""

    def __init__(self, given: cli.InputOptions) -> None:
        from assay.runs.row import COLUMN

        self.given = given
        self.paths: list[str] = []
        for name in given.files:
            self.paths += map(str, cli.tables_in(Path(name))) if name != "-" and Path(name).is_dir() else [name]
        rows = chain.from_iterable(rows_of(path, mapping=dict(given.mapping)) for path in self.paths)
        first = next(rows, None)
        if first is None:
            raise TableError(f"{given.data} has no rows: there is nothing to score")
        theirs = next((name for name in cli.COMPLETION if name in first), "completion")
        if theirs != "completion":
            lacks = f"{given.data} has no column 'completion' (there: {', '.join(first)})"
            raise click.UsageError(f"{lacks}: give --map completion={theirs}")
        self.have_rubrics = COLUMN in first  # whether they bring their own
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


def _run_to_rescore(options: ScoreOptions, rubric: assay.Rubric | None) -> tuple[runs.Run, assay.Rubric]:
    if rubric is None:
        raise click.UsageError(f"{options.data} is a run: say by which rubric to score it, with -r")
    if options.mapping or options.limit is not None:
        raise click.UsageError(f"{options.data} is a run: --map and --limit are for tables")
    run = cli.opened(options.data)
    if options.folder is not None and Path(options.folder).resolve() == run.path.resolve():
        raise click.UsageError(f"{options.data} would be written over: name another folder with -o")
    return run, rubric


def _made(options: ScoreOptions, rubric: assay.Rubric | None, may_ask: bool) -> tuple[Any, assay.Autograder | None]:
    """The rubric, which Python makes anew unless it is that of a file, and the grader, in a worker."""

    if rubric is None and options.rubric is not None:
        rubric = cli.rubric_of(options)
    stack = ExitStack()
    atexit.register(stack.close)  # the grader's cache is open as long as the worker lives
    grader = stack.enter_context(cli.judging_with(options, rubric, quiet=True, rows_may_ask=may_ask))
    return runs.RowRubrics(rubric, shows=options.shows or None), grader


def _by_workers(options: ScoreOptions, rubric: assay.Rubric | None, rows_may_ask: bool) -> cli.Work[runs.Summary]:
    from assay.backends.shards import ROWS

    judge = options.judge or cli.LOCAL
    is_asked = options.judge is not None or not cli.has_own_grader(rubric)
    if is_asked and cli.Traits.of(rubric).asks and judge.partition(":")[0] in (cli.LOCAL, "smoke"):
        instead = "name a judge that they can share with --judge, or leave --backend out"
        raise click.UsageError(f"every worker would load the model {judge!r}: {instead}")
    folder = options.folder
    if folder is None:
        raise click.UsageError("--backend needs a folder that all workers can write to: give -o")
    if options.limit is not None:
        raise click.UsageError("--limit is for one process: leave it or --backend out")
    if options.backend == "ray":
        if options.ray_address is None and "RAY_ADDRESS" not in os.environ:
            cli.say("starting Ray, which listens on all interfaces of this machine", quiet=options.quiet)
        backend = backends.RayTasks(options.ray_address, options.workers)
    else:
        backend = backends.Processes() if options.workers is None else backends.Processes(options.workers)
    how: dict[str, Any] = {name: getattr(options, name) for name in ("concurrency", "budget", "backend", "workers")}
    config, data = {"map": dict(options.mapping)}, cli.files_about(cli.files_of(options.files))
    about = runs.RunAbout.of("score", config=config, options=how, data=data)
    is_file = options.rubric is not None and Path(options.rubric).is_file()
    make = partial(_made, options, rubric if is_file else None, rows_may_ask)

    async def work(under: cli.Conditions) -> runs.Summary:
        def stopping() -> bool:
            # Workers are waited for without a loop that could be cancelled.
            if under.stopping.heard > 1:
                raise KeyboardInterrupt
            return under.stopping()

        return backends.score_shards(
            make, options.files, folder, backend=backend, rows=options.shard_rows or ROWS,
            mapping=dict(options.mapping), about=about, resume=options.resume, max_concurrent=options.concurrency,
            judge_log=options.judge_log, on_progress=under.on_progress, stopping=stopping,
        )  # fmt: skip

    return work
