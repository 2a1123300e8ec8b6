"""Print the output of a run during and after scoring, and decide the exit code."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay import runs
from assay.cli.base_command import (
    EXIT_ERROR,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_THRESHOLD,
    print_note,
)
from assay.cli.formats import FORMATS, Format, FormatRow, format_row_name
from assay.cli.inputs import open_run
from assay.cli.runner import Interrupt, Work, print_budget_note, run_command
from assay.display import format_line
from assay.wording import format_count

if TYPE_CHECKING:
    from assay.cli.options import DisplayOptions, RunOptions
    from assay.graders import Grader
    from assay.models import Ledger
    from assay.rubric import Rubric
    from assay.runs.pipeline import OnProgress, OnRow
    from assay.runs.stats import PassRule


class RunOutput:
    """What a command that makes a run prints: its rows, its summary, and how to resume it."""

    def __init__(
        self,
        options: RunOptions,
        rubric: Rubric | None,
        grader: Grader | None = None,
        *,
        pass_rule: PassRule | None = None,
        uses_workers: bool = False,
    ) -> None:
        """`grader` is None if no judge was opened.

        `pass_rule` decides which rollouts pass, if not a score of 1. With `uses_workers`, other
        processes score the rows.
        """
        self._options = options
        self._grader = grader
        self._is_resumed = not options.dry_run and is_resumed(options)
        self._resumed_folders: list[str] = []
        if self._is_resumed and options.folder is not None:
            self._resumed_folders.append(options.folder)
        self._interrupt: Interrupt | None = None  # set when the work starts
        self._printer: RowPrinter | None = None
        # The rows of a resumed run, and those of workers, are read from its folder afterwards.
        if not options.dry_run and not self._is_resumed and not uses_workers:
            format = _make_live_format(options, rubric, grader)
            self._printer = RowPrinter(format, options, pass_rule)

    def make_arguments(
        self, on_progress: OnProgress | None, interrupt: Interrupt
    ) -> dict[str, Any]:
        """Return the arguments of `runs.score_rows`, `runs.rescore` and `Environment.evaluate`.

        They have these in common, and the values follow from the options of the command.
        """
        self._interrupt = interrupt
        options = self._options
        arguments: dict[str, Any] = {
            "judge": self._grader,
            "resume": options.resume and options.folder is not None,
            "allow_changes": options.allow_changes,
            "save_requests": options.save_requests,
            "on_progress": on_progress,
            "on_row": self._make_row_listener(interrupt),
            "stopping": interrupt.is_requested,
        }
        if options.concurrency is not None:
            arguments["max_concurrent"] = options.concurrency
        return arguments

    def _make_row_listener(self, interrupt: Interrupt) -> OnRow | None:
        """Return the function that gets every finished row; None if there is nothing to do with it."""
        print_row = None if self._printer is None else self._printer.on_row
        if self._options.folder is None:
            return print_row

        def count_row(row: runs.Row) -> None:
            interrupt.rows += 1  # for the message that says how many are saved
            if print_row is not None:
                print_row(row)

        return count_row

    def run(self, work: Work[runs.Summary]) -> int:
        """Make the run and return the exit code."""
        return run_command(
            work,
            options=self._options,
            quiet=self._options.quiet,
            noun="rollouts",
            describe_size=lambda summary: format_count(summary.rollouts, "rollout"),
            print_result=self._print_result,
            on_failure=self._report_failure,
            budget=make_budget(self._options, self._resumed_folders),
            saved_in=self._options.folder,
        )

    def _report_failure(self, error: BaseException) -> None:
        """Print the rows so far, and after Ctrl-C what is saved and how to resume it."""
        if self._printer is not None:
            self._printer.finish()
        if isinstance(error, KeyboardInterrupt):
            parts = ["stopped at once"]
            if self._interrupt is not None and self._options.folder is not None:
                parts.append(self._interrupt.describe_saved())
            parts.append(advise_resume(self._options))
            print_note("; ".join(parts), quiet=self._options.quiet)

    def _print_result(self, summary: runs.Summary, spent: Ledger) -> int:
        """Print what is not printed yet, and return the exit code."""
        options = self._options
        if self._printer is not None:
            self._printer.finish(summary)
        # A saved run in a format for people is printed only now, and so are the rows of workers.
        is_printed = self._printer is not None and not options.is_for_people
        if options.folder is not None and not is_printed:
            _print_saved_run(options.folder, summary, options)
        print_budget_note(spent, quiet=options.quiet)
        if summary.errors and options.is_for_people:
            print_note(f"see every error with: {_advise_errors(options)}", quiet=options.quiet)
        if summary.unscored and options.folder is not None:
            print_note(
                f"{summary.unscored:,} unscored; {advise_resume(options)}", quiet=options.quiet
            )
        if not summary.complete:
            print_note(
                f"stopped after {format_count(summary.rollouts, 'rollout')}; "
                f"{advise_resume(options)}",
                quiet=options.quiet,
            )
            return EXIT_INTERRUPTED
        return choose_exit_code(summary, options, self._list_low_rows())

    def _list_low_rows(self) -> list[str]:
        """Return the names of the rows below `--fail-rollout-under`: as printed, or from the folder."""
        if self._printer is not None:
            return self._printer.low_rows
        folder = self._options.folder
        if folder is None or self._options.fail_rollout_under is None:
            return []
        return list_low_rows(runs.Run.open(folder).rows(), self._options)


def advise_resume(options: RunOptions) -> str:
    """Return the end of a message: the command that continues the run."""
    if options.folder is None:
        return "nothing is saved without -o FOLDER"
    arguments = click.get_current_context().find_root().meta["assay.arguments"]
    command = ["assay", *arguments]
    if "--resume" not in arguments:
        command.append("--resume")
    return f"continue with: {shlex.join(command)}"


def _advise_errors(options: RunOptions) -> str:
    """Return the command that shows every rollout with an error."""
    if options.folder is None:
        return "-o FOLDER, and then: assay show FOLDER --errors"
    return f"assay show {shlex.quote(options.folder)} --errors"


def make_budget(
    options: RunOptions, resumed_folders: Sequence[str]
) -> AbstractContextManager[Ledger] | None:
    """Return the budget of runs that are resumed, less what they have spent already.

    None if the command needs a new budget: nothing is resumed, or dollars are not limited.
    """
    from assay.models import budget

    if options.budget is None or not resumed_folders:
        return None
    dollars_spent = 0.0
    dearest_rollout = 0.0
    for folder in resumed_folders:
        run = runs.Run.open(folder)
        dollars_spent += run.spent().cost or 0.0
        dearest_rollout = max(dearest_rollout, run.dearest() or 0.0)
    return budget(
        dollars=options.budget,
        calls=options.max_calls,
        spent=dollars_spent,
        # What a rollout may cost, as far as that is known: another starts only if so much is left.
        rollout=dearest_rollout or None,
    )


def is_resumed(options: RunOptions) -> bool:
    """Return whether there is a run to resume.

    Raises a usage error if there is a run but no `--resume`, or `--resume` without a folder.
    """
    from assay.runs.run_file import RunFile
    from assay.runs.run_schema import is_run

    if options.folder is None:
        if options.resume:
            raise click.UsageError("--resume needs the folder of the run: give -o")
        return False
    if not options.folder:
        raise click.UsageError("--output is empty: name a folder")
    # A run in which nothing was done yet may be replaced.
    has_run = is_run(options.folder) and RunFile(options.folder).holds_work
    if has_run and not options.resume:
        raise click.UsageError(
            f"{options.folder} already holds a run: give --resume to continue it, or name another "
            "folder"
        )
    return options.resume and has_run


def _make_live_format(
    options: RunOptions, rubric: Rubric | None, grader: Grader | None
) -> Format | None:
    """Return the format that prints rows as they come.

    None for a saved run that people read: they see only its summary, at the end.
    """
    from assay.redaction import redact_settings
    from assay.runs.metadata import judge_name, judge_of

    if options.folder is None:
        title = options.data
        judge = None if grader is None else judge_name(grader)
    elif options.is_for_people:
        return None
    else:  # the same title and judge as when the saved run is printed later
        title = str(Path(options.folder))
        judge = judge_of(rubric, grader)
    criteria: list[str] = []
    if rubric is not None:
        criteria = [criterion.name for criterion in rubric.criteria]
    return FORMATS[options.format](
        title,
        criteria=criteria,
        judge=redact_settings(judge),
        thresholds=options.thresholds,
        columns=options.columns,
    )


def _print_saved_run(folder: str, summary: runs.Summary, options: DisplayOptions) -> None:
    """Print the summary of a run, and its rows if the format is read by programs."""
    run = open_run(folder)
    rows: Iterable[runs.Row] = ()
    if not options.is_for_people:
        rows = run.rows()
    make_saved_format(folder, run.about, options).print_run(summary, rows)


def make_saved_format(
    folder: str,
    about: runs.RunAbout,
    options: DisplayOptions,
    format_row: FormatRow | None = None,
    *,
    has_details: bool = False,
) -> Format:
    """Return the format that prints a saved run, with a line about what was run.

    `format_row` prints a row for people; None prints no rows. With `has_details`, data, sampling,
    prompt, versions and more follow the line.
    """
    criteria: list[str] = []
    if about.rubric is not None:
        criteria = [criterion.name for criterion in about.rubric.criteria]
    return FORMATS[options.format](
        str(Path(folder)),
        description=_describe_run(about),
        details=_list_details(about) if has_details else {},
        criteria=criteria,
        judge=about.judge,
        thresholds=options.thresholds,
        columns=options.columns,
        format_row=format_row,
    )


def _describe_run(about: runs.RunAbout) -> str:
    """Return a line: the kind of run, its date, rubric, environment, model and judge."""
    parts = [f"{about.kind}, {about.created}"]
    if about.rubric is not None:
        name = about.rubric.name or "unnamed"
        parts.append(f"rubric {name} {about.rubric.hash[:8]}")
    if "env_id" in about.config:
        parts.append(f"environment {about.config['env_id']}")
    if "env_args" in about.config:
        parts.append(f"with {json.dumps(about.config['env_args'], ensure_ascii=False)}")
    if about.model:
        parts.append(f"model {about.model}")
    if about.judge:
        parts.append(f"judge {about.judge}")
    return "; ".join(parts)


def _list_details(about: runs.RunAbout) -> dict[str, str]:
    """Return what decided the results, each with a title; only what the run has recorded."""
    details = {
        "data": _describe_data(about.data),
        "map": _format_settings(about.config.get("map", {})),
        "sampling": _format_settings(about.config.get("sampling_args", {})),
        "prompt": _describe_prompt(about),
        "environment": _describe_environment(about.config),
        "tools": _describe_tools(about.config.get("tools", {})),
        "options": _format_settings(
            {
                name: value
                for name, value in about.options.items()
                if name not in ("prompt_name", "pass_rule")  # shown elsewhere
            }
        ),
        "versions": ", ".join(f"{name} {version}" for name, version in about.versions.items()),
    }
    if about.resumed:
        details["resumed"] = format_count(about.resumed, "time")
    if about.changes:
        details["changed"] = "; ".join(about.changes)
    return {name: text for name, text in details.items() if text}


def _describe_data(data: Mapping[str, Any]) -> str:
    """Return the files of the data, the number of rows and the hash, as far as they are recorded."""
    parts: list[str] = []
    source = data.get("source")  # a name, or a list of them
    if isinstance(source, str):
        parts.append(source)
    elif source:
        parts.append(", ".join(source))
    if "rows" in data:
        parts.append(format_count(data["rows"], "row"))
    data_hash = data.get("sha256") or data.get("fingerprint")
    if data_hash:
        parts.append(f"hash {data_hash[:12]}")
    return ", ".join(parts)


def _describe_prompt(about: runs.RunAbout) -> str:
    """Return the prompt template with its name; empty if the rows were asked without one."""
    prompt = about.config.get("prompt")
    if not prompt:
        return ""
    parts: list[str] = []
    if prompt.get("system"):
        parts.append(f"system {_quote(prompt['system'])}")
    # Messages of the template, and those that `--few-shot` added.
    few_shot_messages = [*(prompt.get("few_shot") or ()), *(prompt.get("examples") or ())]
    if few_shot_messages:
        parts.append(format_count(len(few_shot_messages), "few-shot message"))
    if prompt.get("user"):
        parts.append(f"user {_quote(prompt['user'])}")
    text = "; ".join(parts)
    name = about.options.get("prompt_name")
    return f"{name}: {text}" if name else text


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _describe_environment(config: Mapping[str, Any]) -> str:
    """Return the class of the environment, its settings and the hash of its code; empty without one."""
    if "environment" not in config:
        return ""
    parts = [config["environment"]]
    settings = _format_settings(config.get("settings", {}))
    if settings:
        parts.append(settings)
    if "code" in config:
        parts.append(f"code {config['code'][:12]}")
    return ", ".join(parts)


def _describe_tools(tools: Mapping[str, str]) -> str:
    return ", ".join(f"{name} (code {code[:12]})" for name, code in tools.items())


def _format_settings(settings: Mapping[str, Any]) -> str:
    """Return settings as `name value, …`, without those that are not set."""
    parts: list[str] = []
    for name, value in settings.items():
        if value is not None and value != {}:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            parts.append(f"{name} {text}")
    return ", ".join(parts)


class RowPrinter:
    """Prints rows in the order of the data, and remembers which are below their threshold."""

    def __init__(
        self,
        format: Format | None,
        options: DisplayOptions,
        pass_rule: PassRule | None = None,
    ) -> None:
        """Without a `format`, rows are only counted and compared with their threshold."""
        from assay.runs.stats import DEFAULT_PASS_RULE
        from assay.runs.summary import Tally

        self.low_rows: list[str] = []  # names of rows below `--fail-rollout-under`
        self.printed = 0
        # The base class `Format` prints nothing.
        self._format = Format("") if format is None else format
        self._thresholds = options.thresholds
        self._tally = Tally(pass_rule=pass_rule or DEFAULT_PASS_RULE)  # makes the summary
        self._next_number = 0  # of the row to print next
        # Finished rows that cannot be printed yet, because an earlier row is not finished.
        self._waiting: dict[int, runs.Row] = {}
        # The function to call with every finished row. None if no row is printed or compared with a
        # threshold: rows that wait for earlier ones would only take memory.
        needs_rows = format is not None or options.fail_rollout_under is not None
        self.on_row = self._take if needs_rows else None

    def _take(self, row: runs.Row) -> None:
        """Print the row as soon as all rows before it are printed."""
        # The position of the row in the data; without one, rows come in their order.
        number = self._next_number if row.number is None else row.number
        self._waiting[number] = row
        while self._next_number in self._waiting:
            next_row = self._waiting.pop(self._next_number)
            self._next_number += 1
            self._print(next_row)

    def _print(self, row: runs.Row) -> None:
        """Print a row, and count it for the summary and for the thresholds."""
        if self._thresholds.is_low(row.score):
            self.low_rows.append(format_line(format_row_name(row)))
        if not self.printed:
            self._format.begin(summary=None)  # the summary is only known at the end
        self._format.print_row(row)
        self._tally.add(row)
        self.printed += 1

    def finish(
        self, summary: runs.Summary | None = None, *, complete: bool = False
    ) -> runs.Summary:
        """Print the rows that still wait, then the summary, and return the summary.

        Without a summary, that of the printed rows is used, which counts as `complete` or not, and
        nothing is printed if there are no rows.
        """
        for number in sorted(self._waiting):
            self._print(self._waiting[number])
        self._waiting.clear()
        if summary is None:
            summary = replace(self._tally.summary(), complete=complete)
            if self.printed:
                self._format.end(summary)
            return summary
        if not self.printed:
            self._format.begin(summary=None)  # it is known only after the last row
        self._format.end(summary)
        return summary


def list_low_rows(rows: Iterable[runs.Row], options: DisplayOptions) -> list[str]:
    """Return the names of the rows that are below `--fail-rollout-under`."""
    thresholds = options.thresholds
    return [format_line(format_row_name(row)) for row in rows if thresholds.is_low(row.score)]


def choose_exit_code(
    summary: runs.Summary, options: DisplayOptions, low_rows: Sequence[str], *, name: str = ""
) -> int:
    """Return the exit code of a run by its thresholds, and say why if one is missed.

    `name` is that of the run, if there are several.
    """
    thresholds = options.thresholds
    failure = thresholds.failure(
        summary.score,
        rollouts=summary.rollouts,
        unscored=summary.unscored,
        complete=summary.complete,
        low=low_rows,
    )
    if failure is None:
        return EXIT_OK
    if thresholds.are_set:
        reason = f"{name}: {failure.reason}" if name else failure.reason
        print_note(reason, quiet=options.quiet)
    return EXIT_THRESHOLD if failure.is_missed else EXIT_ERROR
