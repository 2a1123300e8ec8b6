"""Print rows and their summary as a table, Markdown, JSON, CSV or JUnit; and pages of tables and notes.

What a model wrote is never printed as it is: a terminal would obey its control characters.
"""

from __future__ import annotations

import csv
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO
from xml.sax.saxutils import escape, quoteattr

from assay.runs.stats import NO_THRESHOLDS, Thresholds
from assay.wording import counted

if TYPE_CHECKING:
    from assay.criterion import Criterion
    from assay.models import Ledger
    from assay.report import CriterionReport, EvaluationReport
    from assay.runs import Row, Spending, Summary
    from assay.trust import Estimate

_COLOURS = {"green": "32", "yellow": "33", "red": "31", "bold": "1"}
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # control characters but for tab and new line

REASON = 160  # characters of a reason that are shown; `--json` has all of it


def painted(text: str, colour: str) -> str:
    """The text in that colour; as it is unless standard output is a terminal that shows colours."""
    is_wanted = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if colour and is_wanted else text


def printable(text: str) -> str:
    """The text without what would act on a terminal, since a model may have written it."""
    return _CONTROLS.sub(lambda found: repr(found[0])[1:-1], text)


def on_one_line(text: str) -> str:
    """The text as `printable`, with its line ends as spaces."""
    return printable(" ".join(text.split()))


def shortened(text: str, most: int = REASON) -> str:
    """The text on one line, cut where that grows too long."""
    words = on_one_line(text)
    return words if len(words) <= most else f"{words[:most]}…"


def shown_report(name: str, report: EvaluationReport, *, coloured: bool = False) -> str:
    """A report as lines: the score, and each criterion with its verdict and reason."""
    head = f"{on_one_line(name)}: {shown_score(report)}"
    if report.vetoed_by:
        head += f", vetoed by {on_one_line(', '.join(report.vetoed_by))}"
    if report.report is None and report.reason:
        head += f"  {shortened(report.reason)}"
    return "\n".join([head, *_lines(report.lines, "  ", coloured)])


def shown_score(report: EvaluationReport) -> str:
    """The score, or how much of it is missing."""
    if report.score is not None:
        return f"{report.score:.3g}"
    if report.scored:
        return f"reward {report.raw_score:.3g}, and no score, since nothing can be gained"
    if not report.applies:
        return "unscored, since no counted criterion applies"
    return f"unscored, no answer to {report.asked - report.answered} of {report.asked} criteria"


def _lines(lines: Sequence[CriterionReport], indent: str, coloured: bool) -> Iterator[str]:
    for line in lines:
        colour = "red" if line.error is not None else ""
        if line.error is None and line.verdict is not None:
            colour = "green" if line.passed else "yellow"
        said = line.error or line.reason
        mark = painted(f"{line.said or '–':<6} ", colour if coloured else "")
        words = on_one_line(line.requirement or line.name)
        yield f"{indent}{mark}{line.weight:+g}  {words}{f': {shortened(said)}' if said else ''}"
        if line.requirement is None:
            yield from _lines(line.lines, indent + "  ", coloured)


def shown_size(criteria: Sequence[Criterion]) -> str:
    """How many criteria there are, and who answers them."""
    judged = sum(criterion.judged for criterion in criteria)
    how = f"{judged} of them judged by a model" if judged else "checked by code"
    return f"{counted(len(criteria), 'criterion', 'criteria')}, {how}"


def shown_spending(spent: Spending) -> str:
    """Calls, tokens and dollars, as far as they are known."""
    parts = [counted(spent.calls, "call")]
    if spent.hits:
        parts.append(f"{counted(spent.hits, 'verdict')} from the cache")
    if spent.calls:
        parts.append(f"{spent.prompt:,} tokens read and {spent.completion:,} written")
        # What has no known price is said, and not counted as free.
        unpriced = f" and {counted(spent.unpriced, 'call')} whose price is not known" if spent.unpriced else ""
        parts.append((f"${spent.cost:.4f}" if spent.cost else "$0") + unpriced)
    return ", ".join(parts)


def shown_dry_run(spent: Ledger) -> str:
    """What a dry run counted: what it would take if all goes well, and at most.

    The number of calls is a bound. Dollars rest on a guess of how much judges write; `--budget` bounds those.
    """
    from assay.runs.spending import Spending

    told = shown_spending(Spending.of(spent))
    if not spent.calls:
        return told
    most_cost = "" if spent.unpriced else f" and ${spent.most_cost:.4f}"
    return (
        f"{told}; at most {counted(spent.most_calls, 'call')}{most_cost}, if every call were tried as often as "
        "allowed and every reply asked for again"
    )


class Section(NamedTuple):
    """Rows of cells under the names of their columns; the first column names the row."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]


def _cell(value: object) -> str:
    """A number to three places, a count with its thousands apart, a dash for nothing, anything else in its words."""
    if value is None:
        return "–"
    if isinstance(value, int | float):
        return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"
    return on_one_line(str(value))


def laid_out(section: Section) -> str:
    """A section as columns padded with spaces."""
    table = [[_cell(cell) for cell in cells] for cells in (section.columns, *section.rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in table]
    return "\n".join([painted(lines[0], "bold"), *lines[1:]])


_SPECIAL = re.compile(r"([\\`*_\[\]<>|~])")


def escaped(value: object) -> str:
    """A value so that Markdown shows it as it is, on one line."""
    return _SPECIAL.sub(r"\\\1", _cell(value))


def markdown_table(section: Section) -> str:
    """A section as a table of Markdown."""
    head, *rows = (f"| {' | '.join(map(escaped, cells))} |" for cells in (section.columns, *section.rows))
    return "\n".join([head, f"|{'---|' * len(section.columns)}", *rows])


def point(estimate: Estimate) -> str:
    """A figure alone; a dash when there is none."""
    return "–" if estimate.value is None else f"{estimate.value:.2f}"


def chance(p: float | None) -> str:
    """A p-value as people write it."""
    return "–" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


@dataclass(frozen=True)
class Page:
    """A title, tables under it, and sentences under those; and all of it as data."""

    title: str
    sections: Sequence[Section]
    notes: Sequence[str]
    data: Mapping[str, Any]

    def text(self, layout: str) -> str:
        """The page as `table`, `json` or `markdown`, without tables that have no rows."""
        sections = [section for section in self.sections if section.rows]
        if layout == "json":
            return json_text(self.data)
        if layout == "markdown":
            parts = [f"## {escaped(self.title)}", *map(markdown_table, sections)]
            notes = [f"- {escaped(note)}" for note in self.notes]
        else:
            parts = [painted(printable(self.title), "bold"), *map(laid_out, sections)]
            notes = [printable(note) for note in self.notes]
        return "\n\n".join([*parts, "\n".join(notes)] if notes else parts)


def headline(summary: Summary) -> str:
    """How many rollouts there are, and how many of them have no score.

    >>> from assay.runs import Summary
    >>> headline(Summary(rollouts=4, examples=2, scored=3, unscored=1, complete=False))
    '4 rollouts of 2 examples, 1 unscored, not all that were wanted'
    """
    parts = counted(summary.rollouts, "rollout")
    if summary.examples != summary.rollouts:
        parts += f" of {counted(summary.examples, 'example')}"
    if summary.unscored:
        parts += f", {summary.unscored:,} unscored"
    return parts if summary.complete else f"{parts}, not all that were wanted"


def sections(summary: Summary) -> Iterator[Section]:
    """What there is to tell, most pressing first."""
    errors = [(where, *found) for where, kinds in summary.errors_by_criterion.items() for found in kinds.items()]
    if errors:
        yield Section(("errors", "kind", "rollouts"), errors)
    means = {"score": summary.score, "reward": summary.reward}
    means |= {f"tag {name}": found for name, found in summary.tags.items()}
    if len(summary.tasks) > 1:
        means |= {f"task {name}": found.score for name, found in summary.tasks.items()}
    rows: list[tuple[object, ...]] = []
    for name, found in means.items():
        no_interval = found.low is None or found.high is None
        bounds = "" if no_interval else f"{_cell(found.low)} to {_cell(found.high)}"
        rows.append((name, found.mean, bounds, found.count))
    yield Section(("", "mean", "95 %", "rollouts"), rows)
    if summary.criteria:
        yield _criteria(summary)
    if max(summary.passes, default=1) > 1:
        passes = [(f"{k}", rates.any, rates.all, rates.examples) for k, rates in summary.passes.items()]
        yield Section(("k", "pass@k", "pass^k", "examples"), passes)


def _criteria(summary: Summary) -> Section:
    columns = ("criterion", "weight", "mean", "met", "unmet", "n/a", "errors", "verdicts")
    rows = [
        (
            name,
            "varies" if found.weight is None else f"{found.weight:+g}",
            found.value.mean,
            # Of a scale, what counts as met is somewhere in the middle of it.
            *((None, None) if found.is_scale else (found.met, found.unmet)),
            found.not_applicable,
            found.errors,
            ", ".join(f"{verdict} {count:,}" for verdict, count in found.verdicts.items()) if found.is_scale else "",
        )
        for name, found in summary.criteria.items()
    ]
    # A column in which nothing ever happened tells nothing.
    kept = [i for i in range(8) if i < 5 or any(row[i] for row in rows)]
    return Section([columns[i] for i in kept], [[row[i] for i in kept] for row in rows])


RowText = Callable[["Row"], str]
FOR_PEOPLE = ("table", "markdown")
"""Formats that say it all in the summary, and show rows only on request."""


def row_name(row: Row) -> str:
    """The example, and which of its samples where there are several."""
    return f"{row.example} #{row.sample}" if row.sample else row.example


def whole_row(row: Row) -> str:
    """A row with every criterion, its verdict and its reason."""
    if row.error is not None:
        return f"{on_one_line(row_name(row))}: {painted('nothing to score', 'red')}, {on_one_line(row.error)}"
    return shown_report(row_name(row), row.report, coloured=True)


def brief_row(row: Row) -> str:
    """A row on one line: score, name, and where it lost."""
    lost = on_one_line(_lost(row))
    said = f"  {lost}" if lost else ""
    if row.errors:
        said = painted("".join(f"  {on_one_line(f'{name}: {error}')}" for name, error in row.errors.items()), "red")
    return f"{_cell(row.score):<6} {on_one_line(row_name(row))}{said}"


def _lost(row: Row) -> str:
    return ", ".join(line.name for line in row.report.lines if line.passed is False and line.counted)


def _errors(row: Row) -> str:
    return "; ".join(f"{name}: {error}" for name, error in row.errors.items())


def row_json(row: Row, judge: str | None) -> str:
    """A row as JSON, with who judged. `report` is what `EvaluationReport.from_dict` reads."""
    data: dict[str, Any] = {"example": row.example, "sample": row.sample}
    data |= {"score": row.score, "reward": row.reward, "errors": row.errors}
    data |= {"metrics": row.report.metrics, "report": row.report.to_dict()}
    data |= {"model": row.model, "judge": judge, "spent": row.spent.to_dict(), "timing": dict(row.timing)}
    return json_text({**data, "fields": dict(row.fields)})


def json_text(data: object) -> str:
    """JSON on one line; what JSON has no word for is null, and an object of Python what comes nearest to it."""
    from assay.runs.jsonable import to_jsonable

    try:
        return json.dumps(data, allow_nan=False, default=to_jsonable)
    except ValueError:
        return json.dumps(json.loads(json.dumps(data, default=to_jsonable), parse_constant=lambda _: None))


@dataclass
class Format:
    """Takes rows one by one, and then their summary, which may also be known before; prints to standard output."""

    title: str
    about: str = ""
    """A line about all of it."""
    criteria: Sequence[str] = ()
    judge: str | None = None
    thresholds: Thresholds = NO_THRESHOLDS
    rows: RowText | None = None
    """With it, formats for people show every rollout too, and the plain one in these words."""
    sums_up: bool = True
    """Whether formats for people say what it comes to."""
    rows_bring_criteria: bool = False
    """Whether CSV waits for the summary, since rows may bring criteria that are no columns yet."""

    def __post_init__(self) -> None:
        # Taken now: a progress bar puts a stream of its own there while it is shown.
        self.out = sys.stdout

    def begin(self, summary: Summary | None) -> None: ...

    def row(self, row: Row) -> None: ...

    def end(self, summary: Summary) -> None: ...

    def _print(self, text: str = "") -> None:
        print(text, file=self.out, flush=True)


class Table(Format):
    """Prints rows as they come, if they are wanted, and the summary where it is known."""

    told = False
    table = staticmethod(laid_out)

    def begin(self, summary: Summary | None) -> None:
        if summary is not None:
            self.end(summary)
            if self.rows is not None:
                self._print()

    def row(self, row: Row) -> None:
        if self.rows is not None:
            self._print(self.rows(row))

    def end(self, summary: Summary) -> None:
        if self.sums_up and not self.told:
            self.told = True
            head = f"{on_one_line(self.title)}: {painted(headline(summary), 'red' if summary.unscored else '')}"
            about = [on_one_line(self.about)] if self.about else []
            self._print("\n\n".join(["\n".join([head, *about]), *self._tables(summary)]))

    def _tables(self, summary: Summary) -> Iterator[str]:
        yield from map(self.table, sections(summary))
        if summary.spent.calls or summary.spent.hits:
            yield shown_spending(summary.spent)


class Markdown(Table):
    """A heading, tables of what the rows come to, and a table of the rows if they are wanted."""

    began = False
    table = staticmethod(markdown_table)

    def begin(self, summary: Summary | None) -> None:
        self._print(f"## {escaped(self.title)}\n")
        if self.about:
            self._print(f"{escaped(self.about)}\n")
        if summary is not None:
            self.end(summary)

    def row(self, row: Row) -> None:
        if self.rows is not None:
            cells = (row_name(row), row.score, row.reward, _lost(row), _errors(row))
            lines = markdown_table(Section(("rollout", "score", "reward", "not met", "errors"), [cells])).split("\n")
            self._print("\n".join(lines[2:] if self.began else lines))
            self.began = True

    def end(self, summary: Summary) -> None:
        if self.began:
            self._print()
        if not self.told:
            self.told = True
            self._print("\n\n".join([headline(summary), *self._tables(summary)]) + "\n")


class JsonLines(Format):
    """One object a rollout, as soon as it is there. The summary is not printed."""

    def row(self, row: Row) -> None:
        self._print(row_json(row, self.judge))


class Json(Format):
    """One object with `rollouts` and `summary`, written as it grows."""

    between = "\n"

    def begin(self, summary: Summary | None) -> None:
        self.out.write('{"rollouts": [')

    def row(self, row: Row) -> None:
        self.out.write(f"{self.between}{row_json(row, self.judge)}")
        self.between = ",\n"

    def end(self, summary: Summary) -> None:
        self._print(f'\n], "summary": {json_text(summary.to_dict())}}}')


class Csv(Format):
    """One row a rollout, with a column for every criterion: of the rubric, and of those that rows bring."""

    waiting: TextIO | None = None
    """Lines of JSON with rows, where the columns are known only after the last of them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.names = list(dict.fromkeys(self.criteria))
        self.writer = csv.writer(self.out, lineterminator="\n")

    def begin(self, summary: Summary | None) -> None:
        if summary is None and (self.rows_bring_criteria or not self.names):
            self.waiting = TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115
            return
        if summary is not None:
            # Equal names of a group are numbered in a summary, and summed up here.
            known = {name for name in summary.criteria if re.sub(r"_\d+$", "", name) in self.names}
            self.names += [name for name in summary.criteria if name not in {*self.names, *known}]
        self._write(["example", "sample", "score", "reward", "errors", *self.names])

    def row(self, row: Row) -> None:
        cells: list[Any] = [row.example, row.sample, row.score, row.reward, _errors(row)]
        if self.waiting is not None:
            self.waiting.write(f"{json.dumps([cells, _metrics(row)])}\n")
        else:
            self._write([*cells, *map(_metrics(row).get, self.names)])

    def end(self, summary: Summary) -> None:
        if self.waiting is not None:
            self.begin(summary)
            self.waiting.seek(0)
            for cells, metrics in map(json.loads, self.waiting):
                self._write([*cells, *map(metrics.get, self.names)])
            self.waiting.close()

    def _write(self, cells: Sequence[Any]) -> None:
        self.writer.writerow([_csv_cell(cell) if isinstance(cell, str) else cell for cell in cells])


def _metrics(row: Row) -> dict[str, float]:
    """The value of every criterion by the name that it has in a summary; equal names are summed."""
    from assay.runs.row import own_rubric
    from assay.runs.summary import names_of

    if own_rubric(row.fields) is None:
        return row.report.metrics
    lines = row.report.lines
    named = zip(names_of(lines, is_own=True), lines, strict=True)
    return {name: line.value for name, line in named if line.value is not None}


def _csv_cell(text: str) -> str:
    """A text so that no program that opens the file takes it for a formula, and no terminal for a command."""
    if text.startswith(("=", "+", "-", "@", "\t", "\r")) and not re.fullmatch(r"[+-]?\d+(\.\d+)?", text):
        text = f"'{text}"
    return printable(text)


class Junit(Format):
    """A test suite. A rollout without a score is an error, one below the threshold for every rollout a failure.

    A threshold for the mean adds a test case of its own, the last.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        # The counts stand before the cases, and are known after them.
        self.cases = TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115
        self.counts = {"tests": 0, "failures": 0, "errors": 0}
        self.seconds = 0.0

    def row(self, row: Row) -> None:
        found = None
        if row.score is None:
            found = JunitOutcome("error", "unscored", _errors(row) or shown_score(row.report))
        elif self.thresholds.is_low(row.score):
            message = f"score {row.score:.3g} is below {self.thresholds.fail_rollout_under:g}"
            found = JunitOutcome("failure", "below", message)
        if found is not None:
            found = found._replace(body=shown_report(row_name(row), row.report))
        self._add(row.task, row_name(row), found, sum(row.timing.values()))

    def _add(self, task: str, name: str, found: JunitOutcome | None, seconds: float) -> None:
        self.counts["tests"] += 1
        self.seconds += seconds
        if found is not None:
            self.counts[f"{found.kind}s"] += 1
        self.cases.write(junit_case(task, name, found, seconds))

    def end(self, summary: Summary) -> None:
        if self.thresholds.is_for_mean:
            failure = self.thresholds.failure(
                summary.score, rollouts=summary.rollouts, unscored=summary.unscored, complete=summary.complete
            )
            found = None
            if failure is not None:
                kind = ("failure", "below") if failure.is_missed else ("error", "unscored")
                found = JunitOutcome(*kind, failure.reason)
            self._add("assay", "mean score", found, 0.0)
        self.cases.seek(0)
        with self.cases:
            write_junit(self.out, self.title, self.counts | {"time": f"{self.seconds:.3f}"}, self.cases)


class JunitOutcome(NamedTuple):
    """Why a test case of JUnit did not pass: an `error` or a `failure`, of a type, in words."""

    kind: str
    type: str
    message: str
    body: str | None = None


def write_junit(out: TextIO, title: str, counts: Mapping[str, object], cases: Iterator[str]) -> None:
    """A document of JUnit with one test suite."""
    told = " ".join(f'{name}="{count}"' for name, count in counts.items())
    out.write(f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites {told}>\n')
    out.write(f"  <testsuite name={_attribute(title)} {told}>\n")
    out.writelines(cases)
    out.write("  </testsuite>\n</testsuites>\n")


def junit_case(task: str, name: str, found: JunitOutcome | None, seconds: float | None = None) -> str:
    """A test case of JUnit, on a line."""
    inside = ""
    if found is not None:
        inside = f'<{found.kind} type="{found.type}" message={_attribute(found.message)}'
        inside += "/>" if found.body is None else f">{escape(_xml_safe(found.body))}</{found.kind}>"
    time = "" if seconds is None else f' time="{seconds:.3f}"'
    return f"    <testcase classname={_attribute(task)} name={_attribute(name)}{time}>{inside}</testcase>\n"


def _attribute(text: str) -> str:
    return quoteattr(_xml_safe(text))


_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What an XML file may not even hold as an escape: control characters and half characters."""


def _xml_safe(text: str) -> str:
    """The text with what XML cannot hold written out: `\\x00` as four letters."""
    return _NO_XML.sub(lambda found: repr(found[0])[1:-1], text)


FORMATS: dict[str, type[Format]] = {
    "table": Table, "json": Json, "jsonl": JsonLines, "csv": Csv, "junit": Junit, "markdown": Markdown,
}  # fmt: skip
"""By the name that `--format` takes."""
