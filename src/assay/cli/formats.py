"""Print rows and their summary as a table, Markdown, JSON, CSV or JUnit; and pages of tables and notes.

What a model wrote is never printed as it is: a terminal would obey its control characters.
"""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import Any, TextIO
from xml.etree.ElementTree import Element, SubElement, tostring
from xml.sax.saxutils import quoteattr

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
)
from assay.runs.stats import NO_THRESHOLDS, Thresholds
from assay.wording import format_count


def shown_size(criteria: Sequence[assay.Criterion]) -> str:
    """How many criteria there are, and who answers them."""
    judged = sum(criterion.judged for criterion in criteria)
    how = f"{judged} of them judged by a model" if judged else "checked by code"
    return f"{format_count(len(criteria), 'criterion', 'criteria')}, {how}"


def shown_spending(spent: runs.Spending) -> str:
    """Calls, tokens and dollars, as far as they are known."""
    parts = [format_count(spent.calls, "call")]
    if spent.hits:
        parts.append(f"{format_count(spent.hits, 'verdict')} from the cache")
    if spent.calls:
        parts.append(f"{spent.prompt:,} input and {spent.completion:,} output tokens")
        # What has no known price is said, and not counted as free.
        unpriced = (
            f" and {format_count(spent.unpriced, 'call')} whose price is not known"
            if spent.unpriced
            else ""
        )
        parts.append((f"${spent.cost:.4f}" if spent.cost else "$0") + unpriced)
    return ", ".join(parts)


def point(estimate: trust.Estimate) -> str:
    return "–" if estimate.value is None else f"{estimate.value:.2f}"


RowText = Callable[["runs.Row"], str]
FOR_PEOPLE = (
    "table",
    "markdown",
)  # formats that say it all in the summary, and show rows only on request


def row_name(row: runs.Row) -> str:
    return f"{row.example} #{row.sample}" if row.sample else row.example


def whole_row(row: runs.Row) -> str:
    """A row with every criterion, its verdict and its reason."""
    if row.error is not None:
        return f"{format_line(row_name(row))}: {colour_text('nothing to score', 'red')}, {format_line(row.error)}"
    from assay.report_text import format_report

    return format_report(row_name(row), row.report, coloured=True)


def brief_row(row: runs.Row) -> str:
    """A row on one line: score, name, and where it lost."""
    lost = format_line(_lost(row))
    said = f"  {lost}" if lost else ""
    if row.errors:
        said = colour_text(
            "".join(f"  {format_line(f'{name}: {error}')}" for name, error in row.errors.items()),
            "red",
        )
    return f"{format_cell(row.score):<6} {format_line(row_name(row))}{said}"


def _lost(row: runs.Row) -> str:
    return ", ".join(
        line.name for line in row.report.lines if line.passed is False and line.counted
    )


def _errors(row: runs.Row) -> str:
    return "; ".join(f"{name}: {error}" for name, error in row.errors.items())


def row_json(row: runs.Row, judge: str | None) -> str:
    """A row as JSON, with who judged. `report` is what `EvaluationReport.from_dict` reads."""
    data: dict[str, Any] = {"example": row.example, "sample": row.sample}
    data |= {"score": row.score, "reward": row.reward, "errors": row.errors}
    data |= {"metrics": row.report.metrics, "report": row.report.to_dict()}
    data |= {
        "model": row.model,
        "judge": judge,
        "spent": row.spent.to_dict(),
        "timing": dict(row.timing),
    }
    return json_text({**data, "fields": dict(row.fields)})


def page_text(page: Page, layout: str) -> str:
    return json_text(page.data) if layout == "json" else page.text(layout)


def json_text(data: object) -> str:
    """JSON on one line; what JSON has no word for is null, and an object of Python what comes nearest to it."""
    to_jsonable = runs.jsonable.to_jsonable
    try:
        return json.dumps(data, allow_nan=False, default=to_jsonable)
    except ValueError:
        return json.dumps(
            json.loads(json.dumps(data, default=to_jsonable), parse_constant=lambda _: None)
        )


@dataclass
class Format:
    """Takes rows one by one, and then their summary, which may also be known before; prints to standard output."""

    title: str
    about: str = ""  # a line about all of it
    criteria: Sequence[str] = ()
    judge: str | None = None
    thresholds: Thresholds = NO_THRESHOLDS
    rows: RowText | None = (
        None  # with it, formats for people show every rollout too, a table in these words
    )
    sums_up: bool = True  # whether formats for people print the summary
    rows_bring_criteria: bool = (
        False  # whether CSV waits for the summary, since rows may bring further columns
    )

    def __post_init__(self) -> None:
        # Taken now: a progress bar puts a stream of its own there while it is shown.
        self.out = sys.stdout

    def begin(self, summary: runs.Summary | None) -> None: ...

    def row(self, row: runs.Row) -> None: ...

    def end(self, summary: runs.Summary) -> None: ...

    def whole(self, summary: runs.Summary, rows: Iterable[runs.Row]) -> None:
        """Print a run that is there, summary and rows."""
        self.begin(summary)
        for row in rows:
            self.row(row)
        self.end(summary)

    def _print(self, text: str = "") -> None:
        print(text, file=self.out, flush=True)


class Table(Format):
    """Prints rows as they come, if they are wanted, and the summary where it is known."""

    told = False
    table = staticmethod(format_table)

    def begin(self, summary: runs.Summary | None) -> None:
        if summary is not None:
            self.end(summary)
            if self.rows is not None:
                self._print()

    def row(self, row: runs.Row) -> None:
        if self.rows is not None:
            self._print(self.rows(row))

    def end(self, summary: runs.Summary) -> None:
        if self.sums_up and not self.told:
            self.told = True
            head = f"{format_line(self.title)}: {colour_text(summary.headline, 'red' if summary.unscored else '')}"
            about = [format_line(self.about)] if self.about else []
            self._print("\n\n".join(["\n".join([head, *about]), *self._tables(summary)]))

    def _tables(self, summary: runs.Summary) -> Iterator[str]:
        yield from map(self.table, summary.sections())
        if summary.spent.calls or summary.spent.hits:
            yield shown_spending(summary.spent)


class Markdown(Table):
    """A heading, tables of what the rows come to, and a table of the rows if they are wanted."""

    began = False
    table = staticmethod(format_markdown_table)

    def begin(self, summary: runs.Summary | None) -> None:
        self._print(f"## {escape_markdown(self.title)}\n")
        if self.about:
            self._print(f"{escape_markdown(self.about)}\n")
        if summary is not None:
            self.end(summary)

    def row(self, row: runs.Row) -> None:
        if self.rows is not None:
            cells = (row_name(row), row.score, row.reward, _lost(row), _errors(row))
            lines = format_markdown_table(
                Section(("rollout", "score", "reward", "not met", "errors"), [cells])
            ).split("\n")
            self._print("\n".join(lines[2:] if self.began else lines))
            self.began = True

    def end(self, summary: runs.Summary) -> None:
        if self.began:
            self._print()
        if not self.told:
            self.told = True
            self._print("\n\n".join([summary.headline, *self._tables(summary)]) + "\n")


class JsonLines(Format):
    """One object a rollout, as soon as it is there. The summary is not printed."""

    def row(self, row: runs.Row) -> None:
        self._print(row_json(row, self.judge))


class Json(Format):
    """One object with `rollouts` and `summary`, written as it grows."""

    between = "\n"

    def begin(self, summary: runs.Summary | None) -> None:
        self.out.write('{"rollouts": [')

    def row(self, row: runs.Row) -> None:
        self.out.write(f"{self.between}{row_json(row, self.judge)}")
        self.between = ",\n"

    def end(self, summary: runs.Summary) -> None:
        self._print(f'\n], "summary": {json_text(summary.to_dict())}}}')


class Csv(Format):
    """One row a rollout, with a column for every criterion: of the rubric, and of those that rows bring."""

    waiting: TextIO | None = (
        None  # rows as JSON, where the columns are known only after the last of them
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.names = list(dict.fromkeys(self.criteria))
        self.writer = csv.writer(self.out, lineterminator="\n")

    def begin(self, summary: runs.Summary | None) -> None:
        if summary is None and (self.rows_bring_criteria or not self.names):
            self.waiting = TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115
            return
        if summary is not None:
            # Equal names of a group are numbered in a summary, and summed up here.
            known = {name for name in summary.criteria if re.sub(r"_\d+$", "", name) in self.names}
            self.names += [name for name in summary.criteria if name not in {*self.names, *known}]
        self._write(["example", "sample", "score", "reward", "errors", *self.names])

    def row(self, row: runs.Row) -> None:
        cells: list[Any] = [row.example, row.sample, row.score, row.reward, _errors(row)]
        if self.waiting is not None:
            self.waiting.write(f"{json.dumps([cells, _metrics(row)])}\n")
        else:
            self._write([*cells, *map(_metrics(row).get, self.names)])

    def end(self, summary: runs.Summary) -> None:
        if self.waiting is not None:
            self.begin(summary)
            self.waiting.seek(0)
            for cells, metrics in map(json.loads, self.waiting):
                self._write([*cells, *map(metrics.get, self.names)])
            self.waiting.close()

    def _write(self, cells: Sequence[Any]) -> None:
        self.writer.writerow([_csv_cell(cell) if isinstance(cell, str) else cell for cell in cells])


def _metrics(row: runs.Row) -> dict[str, float]:
    """The value of every criterion by the name that it has in a summary; equal names are summed."""
    if runs.row.own_rubric(row.fields) is None:
        return row.report.metrics
    lines = row.report.lines
    named = zip(runs.summary.names_of(lines, is_own=True), lines, strict=True)
    return {name: line.value for name, line in named if line.value is not None}


def _csv_cell(text: str) -> str:
    """A text so that no program that opens the file takes it for a formula, and no terminal for a command."""
    if text.startswith(("=", "+", "-", "@", "\t", "\r")) and not re.fullmatch(
        r"[+-]?\d+(\.\d+)?", text
    ):
        text = f"'{text}"
    return escape_control_characters(text)


class Junit(Format):
    """A test suite with a case for each rollout, and one for the mean where it has a threshold."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.suite = JunitSuite(self.title)
        self.seconds = 0.0

    def row(self, row: runs.Row) -> None:
        from assay.report_text import format_report, format_score

        fault, seconds = None, sum(row.timing.values())
        if row.score is None:
            fault = "error", "unscored", _errors(row) or format_score(row.report)
        elif self.thresholds.is_low(row.score):
            fault = (
                "failure",
                "below",
                f"score {row.score:.3g} is below {self.thresholds.fail_rollout_under:g}",
            )
        body = format_report(row_name(row), row.report) if fault else ""
        self.suite.add(row.task, row_name(row), fault, body, seconds)
        self.seconds += seconds

    def end(self, summary: runs.Summary) -> None:
        if self.thresholds.is_for_mean:
            failure = self.thresholds.failure(
                summary.score,
                rollouts=summary.rollouts,
                unscored=summary.unscored,
                complete=summary.complete,
            )
            kind, type = (
                ("failure", "below") if failure and failure.is_missed else ("error", "unscored")
            )
            fault = (kind, type, failure.reason) if failure else None
            self.suite.add("assay", "mean score", fault, seconds=0.0)
        self.suite.write(self.out, time=f"{self.seconds:.3f}")


class JunitSuite:
    """A test suite of JUnit, to which cases are added one by one."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.counts = {"tests": 0, "failures": 0, "errors": 0}
        # The counts stand before the cases, and are known after them.
        self.cases = TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115

    def add(
        self,
        task: str,
        name: str,
        fault: tuple[str, str, str] | None,
        body: str = "",
        seconds: float | None = None,
    ) -> None:
        """Add a case. A `fault` is `failure` or `error`, its type and a message; `body` has more about it."""
        case = Element("testcase", classname=_xml_safe(task), name=_xml_safe(name))
        if seconds is not None:
            case.set("time", f"{seconds:.3f}")
        self.counts["tests"] += 1
        if fault is not None:
            kind, type, message = fault
            self.counts[f"{kind}s"] += 1
            SubElement(case, kind, type=type, message=_xml_safe(message)).text = _xml_safe(body)
        self.cases.write(f"    {tostring(case, encoding='unicode')}\n")

    def write(self, out: TextIO, **further: str) -> None:
        told = " ".join(f'{name}="{count}"' for name, count in {**self.counts, **further}.items())
        out.write(f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites {told}>\n')
        out.write(f"  <testsuite name={quoteattr(_xml_safe(self.title))} {told}>\n")
        self.cases.seek(0)
        with self.cases:
            out.writelines(self.cases)
        out.write("  </testsuite>\n</testsuites>\n")


# What an XML file may not even hold as an escape: control characters and half characters.
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _xml_safe(text: str) -> str:
    """The text with what XML cannot hold written out: `\\x00` as four letters."""
    return _NO_XML.sub(lambda found: repr(found[0])[1:-1], text)


FORMATS: dict[str, type[Format]] = {
    "table": Table,
    "json": Json,
    "jsonl": JsonLines,
    "csv": Csv,
    "junit": Junit,
    "markdown": Markdown,
}
"""By the name that `--format` takes."""
