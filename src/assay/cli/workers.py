"""Saved rollouts scored by many workers: what each of them makes, and what they are told."""

import atexit
import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from assay.backends import Processes, RayTasks, score_shards
from assay.backends.cutting import ROWS, files_about, files_of
from assay.backends.engine import Engine
from assay.cli.judges import LOCAL, has_own_grader, judging_with
from assay.cli.options import Crew, Input, Judging, Rubrics, Saving, Showing
from assay.cli.runner import Conditions, Work, say
from assay.cli.sources import rubric_of
from assay.graders import Autograder
from assay.rubric import Rubric
from assay.runs import RunAbout, Summary
from assay.runs.row_rubrics import Way


@dataclass(frozen=True)
class Making:
    """Makes the rubric and the grader in a worker, as the options name them."""

    rubrics: Rubrics
    rubric: Rubric | None
    """The rubric of a file, which other machines need not have; None for one that Python makes anew."""
    judging: Judging
    rows_may_ask: bool

    @classmethod
    def of(
        cls, rubrics: Rubrics, rubric: Rubric | None, judging: Judging, *, rows_may_ask: bool
    ) -> "Making":
        """Raises `UsageError` when every worker would have to load a model."""
        judge = judging.judge or LOCAL
        is_asked = judging.judge is not None or not has_own_grader(rubric)
        if is_asked and Way.of(rubric).asks and judge.partition(":")[0] in (LOCAL, "smoke"):
            raise click.UsageError(
                f"every worker would load the model {judge!r}: name a judge that they can share with "
                "--judge, or leave --backend out"
            )
        is_file = rubrics.rubric is not None and Path(rubrics.rubric).is_file()
        return cls(rubrics, rubric if is_file else None, judging, rows_may_ask)

    def __call__(self) -> tuple[Rubric | None, Autograder | None]:
        rubric = self.rubric
        if rubric is None and self.rubrics.rubric is not None:
            rubric = rubric_of(self.rubrics)
        stack = ExitStack()
        atexit.register(stack.close)  # the grader's cache is open as long as the worker lives
        judging = judging_with(self.judging, rubric, quiet=True, rows_may_ask=self.rows_may_ask)
        return rubric, stack.enter_context(judging)


def by_workers(given: Input, make: Making, saving: Saving, crew: Crew, showing: Showing) -> Work:
    """Rows of tables, in shards."""
    if saving.folder is None:
        raise click.UsageError("--backend needs a folder that all workers can write to: give -o")
    if given.limit is not None:
        raise click.UsageError("--limit is for one process: leave it or --backend out")
    engine = _engine(crew, showing)
    mapping = dict(given.mapping)
    options: dict[str, Any] = {"concurrency": saving.concurrency, "money": make.judging.money}
    about = RunAbout.of(
        "score",
        config={"map": mapping},
        options=options | {"backend": crew.backend, "workers": crew.workers},
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
            rows=crew.shard_rows or ROWS,
            mapping=mapping,
            about=about,
            resume=under.resume,
            max_concurrent=saving.concurrency,
            exchanges=saving.exchanges,
            on_progress=under.on_progress,
            stopping=stopping,
        )

    return work


def _engine(crew: Crew, showing: Showing) -> Engine:
    if crew.backend == "processes":
        return Processes() if crew.workers is None else Processes(crew.workers)
    if crew.ray_address is None and "RAY_ADDRESS" not in os.environ:
        say("starting Ray, which listens on all interfaces of this machine", showing)
    return RayTasks(crew.ray_address, crew.workers)
