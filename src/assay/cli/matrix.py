"""Evaluate several models with several prompts, one run per pair, and print a table of all runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from assay import runs
from assay.cli.base_command import EXIT_INTERRUPTED, EXIT_OK, print_note
from assay.cli.formats import format_page
from assay.cli.run_output import (
    advise_resume,
    choose_exit_code,
    is_resumed,
    list_low_rows,
    make_budget,
)
from assay.cli.runner import Interrupt, print_budget_note, run_command
from assay.display import Page, Section, format_cell
from assay.wording import format_count

if TYPE_CHECKING:
    from assay import envs
    from assay.cli.eval import EvalOptions
    from assay.cli.models_under_test import NamedModel
    from assay.graders import Grader
    from assay.models import Ledger
    from assay.runs.pipeline import OnProgress
    from assay.runs.stats import MeanEstimate


@dataclass(frozen=True)
class MatrixRun:
    """One model that is asked with one prompt."""

    model: NamedModel
    environment: envs.Environment
    folder: str | None  # None if nothing is saved

    @property
    def prompt_name(self) -> str:
        """The name of the prompt; empty if the rows are asked as they are."""
        prompt = self.environment.prompt
        return "" if prompt is None else prompt.name

    @property
    def label(self) -> str:
        """The model and the prompt, for messages."""
        if self.prompt_name:
            return f"{self.model.label} with {self.prompt_name}"
        return self.model.label


def make_matrix(
    models: Sequence[NamedModel],
    environments: Sequence[envs.Environment],
    folder: str | None,
) -> list[MatrixRun]:
    """Return a run for every model and prompt; there is an environment for each prompt.

    Each run is saved in a folder inside `folder`. If there is only one run, it is saved in `folder`.
    """
    pairs = [MatrixRun(model, env, folder) for model in models for env in environments]
    if len(pairs) == 1 or folder is None:
        return pairs
    matrix: list[MatrixRun] = []
    pair_by_name: dict[str, MatrixRun] = {}
    for pair in pairs:
        name = pair.model.slug
        if pair.prompt_name:
            name = f"{name}-{pair.prompt_name}" if name else pair.prompt_name
        if name in pair_by_name:
            raise click.UsageError(
                f"{pair.model.name} and {pair_by_name[name].model.name} would both be saved in "
                f"{folder}/{name}: give each a different name with a table [models.NAME] in the "
                "config file"
            )
        pair_by_name[name] = pair
        matrix.append(replace(pair, folder=str(Path(folder) / name)))
    return matrix


# Asks one model with one prompt; the mapping holds further arguments of `Environment.evaluate`.
Evaluate: TypeAlias = Callable[
    [MatrixRun, "EvalOptions", Mapping[str, Any]], Awaitable["runs.Summary"]
]


def evaluate_matrix(
    matrix: Sequence[MatrixRun],
    options: EvalOptions,
    grader: Grader | None,
    *,
    evaluate: Evaluate,
) -> int:
    """Evaluate all runs, print their table, and return the exit code.

    The runs of one model follow each other, and the models are asked at the same time. The budget
    is that of all runs together.
    """
    if options.format not in ("table", "json", "markdown"):
        raise click.UsageError(
            f"the table of several runs is not printed as {options.format}: choose table, json or "
            "markdown, and print the rollouts of a run with `assay show`"
        )
    import asyncio  # slow to load

    resumed_folders: list[str] = []
    for run in matrix:
        if is_resumed(replace(options, output=run.folder)) and run.folder is not None:
            resumed_folders.append(run.folder)

    async def work(
        on_progress: OnProgress | None, interrupt: Interrupt
    ) -> list[runs.Summary | None]:
        """Evaluate the runs: those of one model in turn, and the models at the same time.

        Returns the summaries in the order of the matrix; None for a run that was not begun.
        """
        progress = _TotalProgress(on_progress, matrix, options)
        summaries: dict[int, runs.Summary] = {}  # by position in the matrix

        async def evaluate_model(indices: Sequence[int]) -> None:
            """Evaluate the runs of one model, which are at these positions in the matrix."""
            for index in indices:
                if interrupt.is_requested():
                    return
                run = matrix[index]
                # As `RunOutput.make_arguments` makes them, but without rows to print.
                arguments: dict[str, Any] = {
                    "judge": grader,
                    "resume": options.resume and run.folder is not None,
                    "allow_changes": options.allow_changes,
                    "save_requests": options.save_requests,
                    "on_progress": progress.make_listener(index),
                    "stopping": interrupt.is_requested,
                }
                if options.concurrency is not None:
                    arguments["max_concurrent"] = options.concurrency
                summaries[index] = await evaluate(run, options, arguments)

        indices_by_model: dict[str, list[int]] = {}
        for index, run in enumerate(matrix):
            indices_by_model.setdefault(run.model.name, []).append(index)
        try:
            async with asyncio.TaskGroup() as tasks:
                for indices in indices_by_model.values():
                    tasks.create_task(evaluate_model(indices))
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None  # callers catch single errors, not groups
        return [summaries.get(index) for index in range(len(matrix))]

    def count_rollouts(summaries: Sequence[runs.Summary | None]) -> str:
        total = sum(summary.rollouts for summary in summaries if summary is not None)
        return f"{format_count(total, 'rollout')} in {format_count(len(matrix), 'run')}"

    def print_result(summaries: Sequence[runs.Summary | None], spent: Ledger) -> int:
        return _print_matrix(matrix, summaries, options, spent)

    def report_failure(error: BaseException) -> None:
        if isinstance(error, KeyboardInterrupt):
            print_note(f"stopped at once; {advise_resume(options)}", quiet=options.quiet)

    return run_command(
        work,
        options=options,
        quiet=options.quiet,
        noun="rollouts",
        describe_size=count_rollouts,
        print_result=print_result,
        on_failure=report_failure,
        budget=make_budget(options, resumed_folders),
        saved_in=options.folder,
    )


class _TotalProgress:
    """Adds up the progress of all runs."""

    def __init__(
        self, on_progress: OnProgress | None, matrix: Sequence[MatrixRun], options: EvalOptions
    ) -> None:
        """`on_progress` shows the sum; None shows nothing."""
        self._on_progress = on_progress
        self._latest: dict[int, runs.Progress] = {}  # the latest progress of each run
        self._total = 0  # the number of rollouts of all runs
        for run in matrix:
            examples = len(run.environment.get_eval_dataset())
            if options.limit is not None:
                examples = min(examples, options.limit)
            self._total += examples * options.samples

    def make_listener(self, index: int) -> OnProgress | None:
        """Return the function to which the run at this position reports; None if none is shown."""
        on_progress = self._on_progress
        if on_progress is None:
            return None

        def listen(progress: runs.Progress) -> None:
            self._latest[index] = progress
            on_progress(self._add_up())

        return listen

    def _add_up(self) -> runs.Progress:
        """Return the progress of all runs together."""
        latest = list(self._latest.values())
        # The runs are under way at the same time, so their seconds are not added up.
        return runs.Progress(
            done=sum(progress.done for progress in latest),
            total=self._total,
            kept=sum(progress.kept for progress in latest),
            errors=sum(progress.errors for progress in latest),
            unscored=sum(progress.unscored for progress in latest),
            hits=sum(progress.hits for progress in latest),
            calls=sum(progress.calls for progress in latest),
            tokens=sum(progress.tokens for progress in latest),
            cost=sum(progress.cost for progress in latest),
            unpriced=sum(progress.unpriced for progress in latest),
            seconds=max(progress.seconds for progress in latest),
            idle_seconds=min(progress.idle_seconds for progress in latest),
            open_calls=_add_up_calls(latest),
        )


def _add_up_calls(latest: Sequence[runs.Progress]) -> dict[str, tuple[int, float]]:
    """Return how many calls to each model are waited for, and since how many seconds the oldest is."""
    open_calls: dict[str, tuple[int, float]] = {}
    for progress in latest:
        for model, (call_count, oldest_seconds) in progress.open_calls.items():
            total_count, total_oldest = open_calls.get(model, (0, 0.0))
            open_calls[model] = (total_count + call_count, max(total_oldest, oldest_seconds))
    return open_calls


def _print_matrix(
    matrix: Sequence[MatrixRun],
    summaries: Sequence[runs.Summary | None],
    options: EvalOptions,
    spent: Ledger,
) -> int:
    """Print the table and what is missing, and return the highest exit code of the runs."""
    print(format_page(_make_page(matrix, summaries, options), options.format))
    print_budget_note(spent, quiet=options.quiet)
    exit_code = EXIT_OK
    unscored = 0
    is_complete = True
    for run, summary in zip(matrix, summaries, strict=True):
        if summary is None or not summary.complete:  # None if the run was not begun
            is_complete = False
            continue
        unscored += summary.unscored
        low_rows: list[str] = []  # the names of rollouts below their threshold
        if run.folder is not None and options.fail_rollout_under is not None:
            low_rows = list_low_rows(runs.Run.open(run.folder).rows(), options)
        exit_code = max(exit_code, choose_exit_code(summary, options, low_rows, name=run.label))
    if unscored and options.folder is not None:
        print_note(f"{unscored:,} unscored; {advise_resume(options)}", quiet=options.quiet)
    if not is_complete:
        print_note(f"stopped; {advise_resume(options)}", quiet=options.quiet)
        return EXIT_INTERRUPTED
    return exit_code


def _make_page(
    matrix: Sequence[MatrixRun],
    summaries: Sequence[runs.Summary | None],
    options: EvalOptions,
) -> Page:
    """Return the table: a row for each run, with the score overall and in each category.

    The summary of a run is None if the run was not begun.
    """
    has_prompts = any(run.prompt_name for run in matrix)
    categories: dict[str, None] = {}  # in the order of the runs
    for summary in summaries:
        if summary is not None and len(summary.tasks) > 1:
            categories |= dict.fromkeys(summary.tasks)
    columns = ["model"]
    if has_prompts:
        columns.append("prompt")
    columns += ["score", *categories, "rollouts"]
    rows: list[list[object]] = []
    data: list[dict[str, Any]] = []
    for run, summary in zip(matrix, summaries, strict=True):
        row: list[object] = [run.model.label]
        if has_prompts:
            row.append(run.prompt_name)
        if summary is None:
            row += [None, *[None for _ in categories], "not begun"]
        else:
            row.append(_format_estimate(summary.score))
            for category in categories:
                task = summary.tasks.get(category)
                row.append(None if task is None else _format_estimate(task.score))
            row.append(_count_rollouts(summary))
        rows.append(row)
        data.append(
            {
                "model": run.model.label,
                "prompt": run.prompt_name or None,
                "folder": run.folder,
                "summary": None if summary is None else summary.to_dict(),
            }
        )
    title = format_count(len(matrix), "run")
    if options.folder is not None:
        title = f"{options.folder}: {title}"
    notes = ["the mean score of each run, and its 95 % interval in brackets"]
    return Page(title, [Section(columns, rows)], notes, {"runs": data})


def _format_estimate(estimate: MeanEstimate) -> str:
    if estimate.low is None or estimate.high is None:
        return format_cell(estimate.mean)
    low = format_cell(estimate.low)
    high = format_cell(estimate.high)
    return f"{format_cell(estimate.mean)} ({low} to {high})"


def _count_rollouts(summary: runs.Summary) -> str:
    text = f"{summary.rollouts:,}"
    if summary.unscored:
        text += f", {summary.unscored:,} unscored"
    return text
