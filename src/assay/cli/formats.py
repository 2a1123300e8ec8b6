"""Print rows and their summary as a table, Markdown, JSON, CSV or JUnit; and pages of tables and notes.

What a model wrote is never printed as it is: a terminal would obey its control characters.
"""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TextIO
from xml.etree.ElementTree import Element, SubElement, tostring
from xml.sax.saxutils import quoteattr

import click

import assay
from assay import runs, trust
from assay.display import (
    Page,
    Section,
    colour_text,
    escape_control_characters,
    escape_markdown,
    format_cell,
    format_line,
    format_markdown_table,
    format_table,
    shorten_line,
    shorten_middle,
)
from assay.wording import format_count, format_dollars

if TYPE_CHECKING:
    from assay.runs.export import Record
    from assay.runs.metadata import CriterionAbout
    from assay.runs.stats import Thresholds


def format_page(page: Page, layout: str) -> str:
    """Return a page of tables and notes as `table`, `markdown` or `json`."""
    if layout == "json":
        return to_json(page.data)
    return page.text(layout)


def to_json(data: object) -> str:
    """Return data as JSON on one line. NaN and infinity, which JSON does not have, become null."""
    to_jsonable = runs.jsonable.to_jsonable
    try:
        return json.dumps(data, allow_nan=False, default=to_jsonable)
    except ValueError:  # a number is NaN or infinite
        text = json.dumps(data, default=to_jsonable)
        # Read it again: `parse_constant` replaces what json writes for these numbers.
        finite_data = json.loads(text, parse_constant=lambda _: None)
        return json.dumps(finite_data)


def describe_criteria(criteria: Sequence[assay.Criterion | CriterionAbout]) -> str:
    """Return how many criteria there are, and who answers them."""
    total = format_count(len(criteria), "criterion", "criteria")
    judged = sum(criterion.judged for criterion in criteria)
    if judged:
        return f"{total}, {judged} of them judged by a model"
    return f"{total}, checked by code"


def describe_spending(spent: runs.Spending) -> str:
    """Return the calls, tokens and dollars that were spent, as far as they are known."""
    parts = [format_count(spent.calls, "call")]
    if spent.hits:
        parts.append(f"{format_count(spent.hits, 'verdict')} from the cache")
    if spent.calls:
        parts.append(f"{spent.prompt:,} input and {spent.completion:,} output tokens")
        parts.append(_describe_cost(spent))
    return ", ".join(parts)


def _describe_cost(spent: runs.Spending) -> str:
    if spent.cost is None:
        return "cost unknown"
    cost = format_dollars(spent.cost)
    if spent.unpriced:
        cost += f" and {format_count(spent.unpriced, 'call')} without a known price"
    return cost


def format_value_of(estimate: trust.Estimate) -> str:
    """Return the value of an estimate without its interval."""
    if estimate.value is None:
        return "–"
    return f"{estimate.value:.2f}"


# Rows as text.

# Formats a row. The dict holds the error messages that were printed before, each with the name of
# its row; a message is printed once.
FormatRow = Callable[["runs.Row", dict[str, str]], str]


def format_row_name(row: runs.Row) -> str:
    if row.sample:
        return f"{row.example} #{row.sample}"
    return row.example


def format_full_row(
    row: runs.Row, known_errors: dict[str, str], *, with_names: bool = False
) -> str:
    """Return a row with every criterion, its verdict and its reason.

    `known_errors` holds the errors printed before, see `FormatRow`. `with_names` writes the name of
    a criterion before its requirement.
    """
    from assay.report_text import format_report

    name = format_row_name(row)
    if row.error is not None:  # as when generation failed
        problem = colour_text("nothing to score", "red")
        return f"{format_line(name)}: {problem}, {format_line(row.error)}"
    return format_report(
        name,
        row.report,
        coloured=True,
        known_errors=known_errors,
        with_names=with_names,
    )


def format_brief_row(row: runs.Row, known_errors: dict[str, str]) -> str:
    """Return a row on one line: its score, its name, and its errors or the criteria that it failed.

    `known_errors` holds the errors printed before, each with the name of its row.
    """
    name = format_row_name(row)
    line = f"{format_cell(row.score):<6} {format_line(name)}"
    for error, criteria in runs.export.group_errors(row).items():
        if error in known_errors:
            kind_of_error = error.partition(":")[0]
            text = f"{kind_of_error}, as in {known_errors[error]}"
        else:
            text = shorten_middle(error)
            known_errors[error] = name
        line += colour_text(f"  {format_line(f'{criteria}: {text}')}", "red")
    if row.errors:
        return line
    failed_criteria = format_line(_list_failed_criteria(row))
    if failed_criteria:
        return f"{line}  {failed_criteria}"
    return line


def format_worst_row(row: runs.Row, known_errors: dict[str, str]) -> str:
    """Return a row on one line, with the reason of the first criterion that it failed."""
    line = format_brief_row(row, known_errors)
    for criterion in row.report.lines:
        if criterion.counted and criterion.passed is False and criterion.reason:
            return f"{line}: {shorten_line(criterion.reason)}"
    return line


def _list_failed_criteria(row: runs.Row) -> str:
    """Return the names of the criteria that lower the score of a row."""
    names = [line.name for line in row.report.lines if line.counted and line.passed is False]
    return ", ".join(names)


# Formats.


@dataclass
class Format:
    """Prints rows one by one, and their summary, to standard output; the base class prints nothing."""

    title: str
    description: str = ""  # a line about the run
    # More about the run, by what it is about, such as `data` and `model`.
    details: Mapping[str, str] = field(default_factory=dict[str, str])
    criteria: Sequence[str] = ()
    judge: str | None = None
    thresholds: Thresholds | None = None
    # How formats for people print a row; None prints no rows.
    format_row: FormatRow | None = None
    # Whether formats for people print the summary.
    has_summary: bool = True
    # The only columns to print, in formats that have columns; empty for all.
    columns: Sequence[str] = ()

    def __post_init__(self) -> None:
        # A progress bar replaces sys.stdout while it is shown, so take the stream before that.
        self.out = sys.stdout
        self.known_errors: dict[str, str] = {}  # see `FormatRow`

    def begin(self, summary: runs.Summary | None) -> None:
        """Print what comes before the rows. `summary` is None if it is not known yet."""

    def print_row(self, row: runs.Row) -> None:
        """Print a row."""

    def end(self, summary: runs.Summary) -> None:
        """Print what comes after the rows."""

    def print_run(self, summary: runs.Summary, rows: Iterable[runs.Row]) -> None:
        """Print a run that is complete: its summary and rows."""
        self.begin(summary)
        for row in rows:
            self.print_row(row)
        self.end(summary)

    def _print(self, text: str = "") -> None:
        print(text, file=self.out, flush=True)


class Table(Format):
    """Prints the summary as tables, as soon as it is known, and rows on request."""

    is_summary_printed = False

    def begin(self, summary: runs.Summary | None) -> None:
        if summary is not None:
            self.end(summary)
            if self.format_row is not None:
                self._print()

    def print_row(self, row: runs.Row) -> None:
        if self.format_row is not None:
            self._print(self.format_row(row, self.known_errors))

    def end(self, summary: runs.Summary) -> None:
        """Print the summary, unless `begin` has printed it because it was known before the rows."""
        if not self.has_summary or self.is_summary_printed:
            return
        self.is_summary_printed = True
        colour = "red" if summary.unscored else ""
        heading = f"{format_line(self.title)}: {colour_text(summary.headline, colour)}"
        if self.description:
            heading += f"\n{format_line(self.description)}"
        for name, text in self.details.items():
            heading += f"\n{name:<12}{format_line(text)}"
        tables = _format_summary_tables(summary, format_table)
        self._print("\n\n".join([heading, *tables]))


class Markdown(Table):
    """Prints the summary as Markdown tables, and rows on request as one table."""

    is_row_printed = False

    def begin(self, summary: runs.Summary | None) -> None:
        """Print the heading, what was run, and the summary if it is known already."""
        self._print(f"## {escape_markdown(self.title)}\n")
        if self.description:
            self._print(f"{escape_markdown(self.description)}\n")
        for name, text in self.details.items():
            self._print(f"- {name}: {escape_markdown(text)}")
        if self.details:
            self._print()
        if summary is not None:
            self.end(summary)

    def print_row(self, row: runs.Row) -> None:
        """Print the row as a line of a table, after the header of the table if it is the first."""
        if self.format_row is None:  # no rows were asked for
            return
        columns = ("rollout", "score", "reward", "not met", "errors")
        cells = (
            format_row_name(row),
            row.score,
            row.reward,
            _list_failed_criteria(row),
            runs.export.format_errors(row),
        )
        table_lines = format_markdown_table(Section(columns, [cells])).split("\n")
        if self.is_row_printed:
            del table_lines[:2]  # the header of the table
        self._print("\n".join(table_lines))
        self.is_row_printed = True

    def end(self, summary: runs.Summary) -> None:
        """Print the summary, unless `begin` has printed it because it was known before the rows."""
        if self.is_row_printed:
            self._print()  # ends the table of rows
        if self.is_summary_printed:
            return
        self.is_summary_printed = True
        tables = _format_summary_tables(summary, format_markdown_table)
        self._print("\n\n".join([summary.headline, *tables]) + "\n")


def _format_summary_tables(
    summary: runs.Summary, format_section: Callable[[Section], str]
) -> Iterator[str]:
    """Yield the tables of a summary, and then its notes and what was spent as one text."""
    for section in summary.sections():
        yield format_section(section)
    lines = [*summary.notes(), *_list_spending(summary)]
    if lines:
        yield "\n".join(lines)


def _list_spending(summary: runs.Summary) -> Iterator[str]:
    """Yield what was spent; on the model under test and on judges apart, if both were asked."""
    by_role = {"model": summary.spent_on_model, "judge": summary.spent_on_judge}
    both_were_asked = all(spent.calls or spent.hits for spent in by_role.values())
    if both_were_asked:
        for role, spent in by_role.items():
            yield f"{role}: {describe_spending(spent)}"
        spent_on_rollouts = summary.spent_on_model + summary.spent_on_judge
        # Calls for a rollout that was interrupted are in no saved rollout.
        if summary.spent.calls > spent_on_rollouts.calls:
            yield f"in total, including interrupted rollouts: {describe_spending(summary.spent)}"
    elif summary.spent.calls or summary.spent.hits:
        yield describe_spending(summary.spent)


class RecordFormat(Format):
    """The base class of formats that print rows in the layout of `assay.runs.export`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        # The selected columns that no row has had so far, and all columns that rows have had.
        self._missing_columns = set(self.columns)
        self._available_columns: dict[str, None] = {}

    def _make_record(self, row: runs.Row) -> Record:
        """Return the row as a record, with only the selected columns if some are selected."""
        record = runs.export.make_record(row, judge=self.judge)
        if not self.columns:
            return record
        selected, missing = runs.export.select_columns(record, self.columns)
        if self._missing_columns:
            # A column that no row has is refused at the end, with the columns that there are.
            self._missing_columns &= set(missing)
            self._available_columns |= dict.fromkeys(record)
        return selected

    def _refuse_missing_columns(self) -> None:
        """Raise a usage error if no row has one of the selected columns."""
        if self._missing_columns and self._available_columns:
            names = ", ".join(sorted(self._missing_columns))
            raise click.UsageError(
                f"--columns: no rollout has {names}: the columns are "
                f"{', '.join(self._available_columns)}"
            )


class JsonLines(RecordFormat):
    """Prints one object per row, as soon as it is there. The summary is not printed."""

    def print_row(self, row: runs.Row) -> None:
        self._print(to_json(self._make_record(row)))

    def end(self, summary: runs.Summary) -> None:
        self._refuse_missing_columns()


class Json(RecordFormat):
    """Prints one object with `rollouts` and `summary`, row by row."""

    separator = "\n"

    def begin(self, summary: runs.Summary | None) -> None:
        self.out.write('{"rollouts": [')

    def print_row(self, row: runs.Row) -> None:
        self.out.write(f"{self.separator}{to_json(self._make_record(row))}")
        self.separator = ",\n"

    def end(self, summary: runs.Summary) -> None:
        self._print(f'\n], "summary": {to_json(summary.to_dict())}}}')
        self._refuse_missing_columns()


class TableFormat(RecordFormat):
    """The base class of formats whose rows all have the same columns.

    The columns are known only after the last row, so rows are kept in a temporary file until then.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._table = runs.export.TableColumns(self.criteria, self.columns)
        self._kept_records = TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115

    def print_row(self, row: runs.Row) -> None:
        record = self._make_record(row)
        self._table.add(record)
        self._kept_records.write(f"{to_json(record)}\n")

    def end(self, summary: runs.Summary) -> None:
        """Print the table of all rows, now that its columns are known."""
        with self._kept_records:  # closing the temporary file deletes it
            self._refuse_missing_columns()
            self._kept_records.seek(0)
            self._print_table(self._kept_records)

    def _print_table(self, lines: Iterable[str]) -> None:
        """Print the records, given as lines of JSON."""
        raise NotImplementedError


class Csv(TableFormat):
    """Prints a header, and a line per row."""

    def _print_table(self, lines: Iterable[str]) -> None:
        writer = csv.writer(self.out, lineterminator="\n")
        writer.writerow([_escape_csv_cell(name) for name in self._table.names])
        for line in lines:
            cells = self._table.make_cells(json.loads(line))
            writer.writerow([_escape_csv_cell(cell) for cell in cells])
        self.out.flush()


class Parquet(TableFormat):
    """Writes a Parquet file to standard output."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.out.isatty():
            raise click.UsageError(
                "Parquet is a binary format: write it to a file with > run.parquet"
            )

    def _print_table(self, lines: Iterable[str]) -> None:
        self.out.flush()
        runs.export.write_parquet(lines, self._table, self.out.buffer)
        self.out.flush()


def _escape_csv_cell(text: Any) -> Any:
    """Escape a text that a spreadsheet would take for a formula, or a terminal for a command."""
    if not isinstance(text, str):
        return text
    is_number = re.fullmatch(r"[+-]?\d+(\.\d+)?", text) is not None
    if text.startswith(("=", "+", "-", "@", "\t", "\r")) and not is_number:
        text = f"'{text}"  # spreadsheets read what follows an apostrophe as text
    return escape_control_characters(text)


class Junit(Format):
    """Prints a test suite with a case per row, and a case for the mean if it has a threshold."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.suite = JunitSuite(self.title)
        self.total_seconds = 0.0

    def print_row(self, row: runs.Row) -> None:
        """Add the row to the test suite, which is printed at the end."""
        from assay.report_text import format_report

        problem = self._find_problem(row)
        body = ""
        if problem is not None:
            body = format_report(format_row_name(row), row.report)
        seconds = sum(row.timing.values())  # of all stages, such as generating and scoring
        self.total_seconds += seconds
        self.suite.add_case(row.task, format_row_name(row), problem, body=body, seconds=seconds)

    def _find_problem(self, row: runs.Row) -> JunitProblem | None:
        """Return an error for an unscored row, a failure for one below its threshold, else None."""
        from assay.report_text import format_score

        if row.score is None:
            message = runs.export.format_errors(row) or format_score(row.report)
            return JunitProblem("error", type="unscored", message=message)
        if self.thresholds is not None and self.thresholds.is_low(row.score):
            message = f"score {row.score:.3g} is below {self.thresholds.fail_rollout_under:g}"
            return JunitProblem("failure", type="below", message=message)
        return None

    def end(self, summary: runs.Summary) -> None:
        """Add a case for the mean if it has a threshold, and print the suite."""
        if self.thresholds is not None and self.thresholds.is_for_mean:
            problem = self._find_mean_problem(summary, self.thresholds)
            self.suite.add_case("assay", "mean score", problem, seconds=0.0)
        self.suite.write(self.out, time=f"{self.total_seconds:.3f}")

    def _find_mean_problem(
        self, summary: runs.Summary, thresholds: Thresholds
    ) -> JunitProblem | None:
        """Return a failure if the mean missed its threshold, an error if it has no value, else None."""
        failure = thresholds.failure(
            summary.score,
            rollouts=summary.rollouts,
            unscored=summary.unscored,
            complete=summary.complete,
        )
        if failure is None:
            return None
        if failure.is_missed:
            return JunitProblem("failure", type="below", message=failure.reason)
        return JunitProblem("error", type="unscored", message=failure.reason)


class JunitProblem(NamedTuple):
    """Why a test case did not pass: it failed, or it could not be run."""

    kind: Literal["failure", "error"]
    type: str
    message: str


class JunitSuite:
    """A JUnit test suite, to which cases are added one by one."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.counts = {"tests": 0, "failures": 0, "errors": 0}
        # The counts come before the cases in the file, so cases are kept until all are known.
        self.cases_file = TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115

    def add_case(
        self,
        task: str,
        name: str,
        problem: JunitProblem | None,
        *,
        body: str = "",
        seconds: float | None = None,
    ) -> None:
        """Add a case of a task, with its problem if it did not pass; `body` is more text about that."""
        case = Element("testcase", classname=_escape_xml(task), name=_escape_xml(name))
        if seconds is not None:
            case.set("time", f"{seconds:.3f}")
        self.counts["tests"] += 1
        if problem is not None:
            self.counts[f"{problem.kind}s"] += 1  # failures or errors
            element = SubElement(
                case,
                problem.kind,
                type=problem.type,
                message=_escape_xml(problem.message),
            )
            element.text = _escape_xml(body)
        self.cases_file.write(f"    {tostring(case, encoding='unicode')}\n")

    def write(self, out: TextIO, **attributes: str) -> None:
        """Write the suite, with its counts and these attributes, which need no escaping."""
        all_attributes = {**self.counts, **attributes}
        attribute_text = " ".join(f'{name}="{value}"' for name, value in all_attributes.items())
        title = quoteattr(_escape_xml(self.title))
        out.write(f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites {attribute_text}>\n')
        out.write(f"  <testsuite name={title} {attribute_text}>\n")
        self.cases_file.seek(0)
        with self.cases_file:  # closing the temporary file deletes it
            out.writelines(self.cases_file)
        out.write("  </testsuite>\n</testsuites>\n")


# Characters that XML cannot hold even as an escape: control characters and lone surrogates.
_INVALID_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _escape_xml(text: str) -> str:
    """Write out the characters that XML cannot hold: a zero byte becomes the text `\\x00`."""
    return _INVALID_IN_XML.sub(lambda match: repr(match[0])[1:-1], text)


# By the name that `--format` takes.
FORMATS: dict[str, type[Format]] = {
    "table": Table,
    "json": Json,
    "jsonl": JsonLines,
    "csv": Csv,
    "parquet": Parquet,
    "junit": Junit,
    "markdown": Markdown,
}
