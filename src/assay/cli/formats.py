"""Print rows and their summary as a table, Markdown, JSON, CSV or JUnit; and pages of tables and notes."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TextIO
from xml.sax.saxutils import escape, quoteattr

from assay.cli.terminal import counted, on_one_line, painted, printable, shown_report, shown_score, shown_spending
from assay.runs.thresholds import NO_THRESHOLDS, Thresholds

if TYPE_CHECKING:
    from assay.runs import Row, Summary
    from assay.runs.stats import MeanEstimate
    from assay.runs.summary import CriterionSummary
    from assay.trust import Estimate


def row_name(row: Row) -> str:
    """The example, and which of its samples where there are several.

    >>> from assay.runs import Row
    >>> row_name(Row("apples")), row_name(Row("apples", sample=2))
    ('apples', 'apples #2')
    """
    return f"{row.example} #{row.sample}" if row.sample else row.example


def row_data(row: Row, judge: str | None) -> dict[str, Any]:
    """Plain data, with who judged. `report` is what `EvaluationReport.from_dict` reads."""
    data: dict[str, Any] = {"example": row.example, "sample": row.sample}
    data |= {"score": row.score, "reward": row.reward, "errors": row.errors}
    data |= {"metrics": row.report.metrics, "report": row.report.to_dict()}
    data |= {"model": row.model, "judge": judge, "spent": row.spent.to_dict(), "timing": dict(row.timing)}
    return {**data, "fields": dict(row.fields)}


def json_text(data: object) -> str:
    """JSON on one line; what JSON has no word for is null."""
    try:
        return json.dumps(data, allow_nan=False)
    except ValueError:
        return json.dumps(json.loads(json.dumps(data), parse_constant=_none))


def _none(constant: str) -> None:
    """NaN and infinities are no JSON."""


class Section(NamedTuple):
    """Rows of cells under the names of their columns; the first column names the row."""

    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]


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


def spending_line(summary: Summary) -> str:
    """What was asked of models; empty when nothing was."""
    spent = summary.spent
    return shown_spending(spent) if spent.calls or spent.hits else ""


def sections(summary: Summary) -> Iterator[Section]:
    """What there is to tell, most pressing first."""
    if summary.errors_by_criterion:
        yield _errors(summary)
    results = [("score", *_cells(summary.score)), ("reward", *_cells(summary.reward))]
    results += [(f"tag {name}", *_cells(found)) for name, found in summary.tags.items()]
    if len(summary.tasks) > 1:
        tasks = summary.tasks.items()
        results += [(f"task {name}", *_cells(found.score)) for name, found in tasks]
    yield Section(("", "mean", "95 %", "rollouts"), results)
    if summary.criteria:
        yield _criteria(summary)
    if max(summary.passes, default=1) > 1:
        yield _passes(summary)


def _errors(summary: Summary) -> Section:
    rows = [
        (where, kind, f"{count:,}")
        for where, kinds in summary.errors_by_criterion.items()
        for kind, count in kinds.items()
    ]
    return Section(("errors", "kind", "rollouts"), rows)


def _criteria(summary: Summary) -> Section:
    columns = ("criterion", "weight", "mean", "met", "unmet", "n/a", "errors", "verdicts")
    rows = [
        (
            name,
            "varies" if found.weight is None else f"{found.weight:+g}",
            number(found.value.mean),
            # Of a scale, what counts as met is somewhere in the middle of it.
            *("–" if found.is_scale else f"{count:,}" for count in (found.met, found.unmet)),
            f"{found.not_applicable:,}",
            f"{found.errors:,}",
            _verdicts(found) if found.is_scale else "",
        )
        for name, found in summary.criteria.items()
    ]
    # A column in which nothing ever happened tells nothing.
    kept = [i for i in range(8) if i < 5 or any(row[i] not in ("0", "") for row in rows)]
    return Section(tuple(columns[i] for i in kept), [tuple(row[i] for i in kept) for row in rows])


def _verdicts(found: CriterionSummary) -> str:
    return ", ".join(f"{verdict} {count:,}" for verdict, count in found.verdicts.items())


def _passes(summary: Summary) -> Section:
    rows = [
        (f"{k}", number(rates.any), number(rates.all), f"{rates.examples:,}") for k, rates in summary.passes.items()
    ]
    return Section(("k", "pass@k", "pass^k", "examples"), rows)


def _cells(estimate: MeanEstimate) -> tuple[str, str, str]:
    bounds = ""
    if estimate.low is not None and estimate.high is not None:
        bounds = f"{number(estimate.low)} to {number(estimate.high)}"
    return number(estimate.mean), bounds, f"{estimate.count:,}"


def number(value: float | None) -> str:
    """A number to three places; a dash when there is none.

    >>> number(2 / 3), number(None)
    ('0.667', '–')
    """
    return "–" if value is None else f"{value:.3g}"


RowText = Callable[["Row"], str]


class Table:
    """Prints rows as they come, if they are wanted, and the summary where it is known."""

    def __init__(self, out: TextIO, title: str, about: str, rows: RowText | None, *, sums_up: bool) -> None:
        self.out = out
        self.title = title
        self.about = about
        self.rows = rows
        self.told = not sums_up

    def begin(self, summary: Summary | None) -> None:
        if summary is not None:
            self._tell(summary)
            if self.rows is not None:
                print(file=self.out)

    def row(self, row: Row) -> None:
        if self.rows is not None:
            print(self.rows(row), file=self.out, flush=True)

    def end(self, summary: Summary) -> None:
        if not self.told:
            self._tell(summary)

    def _tell(self, summary: Summary) -> None:
        self.told = True
        head = headline(summary)
        head = painted(head, "red") if summary.unscored else head
        print(f"{on_one_line(self.title)}: {head}", file=self.out)
        if self.about:
            print(on_one_line(self.about), file=self.out)
        for section in sections(summary):
            print(f"\n{laid_out(section)}", file=self.out)
        if spending := spending_line(summary):
            print(f"\n{spending}", file=self.out)


def laid_out(section: Section) -> str:
    """A section as columns padded with spaces."""
    rows = [tuple(map(on_one_line, row)) for row in section.rows]
    widths = [max(map(len, column)) for column in zip(section.columns, *rows, strict=True)]
    lines = [_padded(section.columns, widths), *(_padded(row, widths) for row in rows)]
    return "\n".join([painted(lines[0], "bold"), *lines[1:]])


def _padded(cells: tuple[str, ...], widths: list[int]) -> str:
    pairs = zip(cells, widths, strict=True)
    return "  ".join(f"{cell:<{width}}" for cell, width in pairs).rstrip()


def whole_row(row: Row) -> str:
    """A row with every criterion, its verdict and its reason."""
    if row.error is not None:
        said = on_one_line(row.error)
        return f"{on_one_line(row_name(row))}: {painted('nothing to score', 'red')}, {said}"
    return shown_report(row_name(row), row.report, coloured=True)


def brief_row(row: Row) -> str:
    """A row on one line: score, name, and where it lost."""
    lost = [line.name for line in row.report.lines if line.passed is False and line.counted]
    said = f"  {on_one_line(', '.join(lost))}" if lost else ""
    if row.errors:
        errors = [on_one_line(f"{name}: {error}") for name, error in row.errors.items()]
        said = painted("".join(f"  {error}" for error in errors), "red")
    return f"{number(row.score):<6} {on_one_line(row_name(row))}{said}"


_SPECIAL = re.compile(r"([\\`*_\[\]<>|~])")
_COLUMNS = ("rollout", "score", "reward", "not met", "errors")


class Markdown:
    """A heading, tables of what the rows come to, and a table of the rows if they are wanted."""

    def __init__(self, out: TextIO, title: str, about: str, *, rows: bool) -> None:
        self.out = out
        self.title = title
        self.about = about
        self.rows = rows
        self.told = self.began = False

    def begin(self, summary: Summary | None) -> None:
        print(f"## {escaped(self.title)}\n", file=self.out)
        if self.about:
            print(f"{escaped(self.about)}\n", file=self.out)
        if summary is not None:
            self._tell(summary)

    def row(self, row: Row) -> None:
        if not self.rows:
            return
        if not self.began:
            print(_markdown_header(_COLUMNS), file=self.out)
            self.began = True
        lost = [line.name for line in row.report.lines if line.passed is False and line.counted]
        errors = "; ".join(f"{name}: {error}" for name, error in row.errors.items())
        cells = (row_name(row), number(row.score), number(row.reward), ", ".join(lost), errors)
        print(_markdown_line(cells), file=self.out)

    def end(self, summary: Summary) -> None:
        if self.began:
            print(file=self.out)
        if not self.told:
            self._tell(summary)

    def _tell(self, summary: Summary) -> None:
        self.told = True
        print(f"{headline(summary)}\n", file=self.out)
        for section in sections(summary):
            print(f"{markdown_table(section)}\n", file=self.out)
        if spending := spending_line(summary):
            print(f"{spending}\n", file=self.out)


def markdown_table(section: Section) -> str:
    """A section as a table of Markdown."""
    return "\n".join([_markdown_header(section.columns), *map(_markdown_line, section.rows)])


def _markdown_header(columns: tuple[str, ...]) -> str:
    return f"{_markdown_line(columns)}\n|{'---|' * len(columns)}"


def _markdown_line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(map(escaped, cells))} |"


def escaped(text: str) -> str:
    """The text so that Markdown shows it as it is, on one line.

    >>> escaped("a|b *c*")
    'a\\\\|b \\\\*c\\\\*'
    """
    return _SPECIAL.sub(r"\\\1", on_one_line(text))


_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What an XML file may not even hold as an escape: control characters and half characters."""


class Junit:
    """A test suite. A rollout without a score is an error, one below the threshold for every rollout a failure.

    A threshold for the mean adds a test case of its own, the last.
    """

    def __init__(self, out: TextIO, title: str, thresholds: Thresholds) -> None:
        self.out = out
        self.title = title
        self.thresholds = thresholds
        self.tests = self.failures = self.errors = 0
        self.seconds = 0.0
        self.cases = TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115

    def begin(self, summary: Summary | None) -> None:
        """The counts stand before the cases, and are known after them."""

    def row(self, row: Row) -> None:
        self.tests += 1
        seconds = sum(row.timing.values())
        self.seconds += seconds
        self.cases.write(
            f'    <testcase classname={attribute(row.task)} name={attribute(row_name(row))} time="{seconds:.3f}">'
        )
        self.cases.write(self._outcome(row))
        self.cases.write("</testcase>\n")

    def _outcome(self, row: Row) -> str:
        if row.score is None:
            self.errors += 1
            message = "; ".join(f"{name}: {said}" for name, said in row.errors.items())
            return _junit_element("error", message or shown_score(row.report), "unscored", row)
        if self.thresholds.is_low(row.score):
            self.failures += 1
            message = f"score {row.score:.3g} is below {self.thresholds.fail_rollout_under:g}"
            return _junit_element("failure", message, "below", row)
        return ""

    def _mean(self, summary: Summary) -> None:
        failure = self.thresholds.failure(
            summary.score, rollouts=summary.rollouts, unscored=summary.unscored, complete=summary.complete
        )
        self.tests += 1
        self.cases.write('    <testcase classname="assay" name="mean score" time="0.000">')
        if failure is not None:
            self.failures += failure.is_missed
            self.errors += not failure.is_missed
            kind, what = ("failure", "below") if failure.is_missed else ("error", "unscored")
            self.cases.write(f'<{kind} type="{what}" message={attribute(failure.reason)}/>')
        self.cases.write("</testcase>\n")

    def end(self, summary: Summary) -> None:
        if self.thresholds.is_for_mean:
            self._mean(summary)
        counts = f'tests="{self.tests}" failures="{self.failures}" errors="{self.errors}"'
        counts += f' time="{self.seconds:.3f}"'
        self.out.write('<?xml version="1.0" encoding="UTF-8"?>\n')
        self.out.write(f"<testsuites {counts}>\n")
        self.out.write(f"  <testsuite name={attribute(self.title)} {counts}>\n")
        self.cases.seek(0)
        for line in self.cases:
            self.out.write(line)
        self.out.write("  </testsuite>\n</testsuites>\n")
        self.cases.close()


def _junit_element(kind: str, message: str, what: str, row: Row) -> str:
    body = escape(xml_safe(shown_report(row_name(row), row.report)))
    return f'<{kind} type="{what}" message={attribute(message)}>{body}</{kind}>'


def attribute(text: str) -> str:
    """The text as the value of an attribute, quotation marks included."""
    return quoteattr(xml_safe(text))


def xml_safe(text: str) -> str:
    """The text with what XML cannot hold written out: `\\x00` as four letters.

    >>> xml_safe("bell\\x07")
    'bell\\\\x07'
    """
    return _NO_XML.sub(lambda found: repr(found[0])[1:-1], text)


class Format(Protocol):
    """Takes rows one by one, and then their summary, which may also be known before."""

    def begin(self, summary: Summary | None) -> None: ...

    def row(self, row: Row) -> None: ...

    def end(self, summary: Summary) -> None: ...


class JsonLines:
    """One object a rollout, as soon as it is there. The summary is not printed."""

    def __init__(self, out: TextIO, judge: str | None) -> None:
        self.out = out
        self.judge = judge

    def begin(self, summary: Summary | None) -> None:
        """A line a rollout, and no more."""

    def row(self, row: Row) -> None:
        self.out.write(f"{json_text(row_data(row, self.judge))}\n")
        self.out.flush()

    def end(self, summary: Summary) -> None:
        """Every line has been said."""


class Json:
    """One object with `rollouts` and `summary`, written as it grows."""

    def __init__(self, out: TextIO, judge: str | None) -> None:
        self.out = out
        self.judge = judge
        self.between = "\n"

    def begin(self, summary: Summary | None) -> None:
        self.out.write('{"rollouts": [')

    def row(self, row: Row) -> None:
        self.out.write(f"{self.between}{json_text(row_data(row, self.judge))}")
        self.between = ",\n"

    def end(self, summary: Summary) -> None:
        self.out.write(f'\n], "summary": {json_text(summary.to_dict())}}}\n')


class Csv:
    """One row a rollout, with a column for every criterion: of the rubric, and of those that rows bring."""

    FIRST = ("example", "sample", "score", "reward", "errors")

    def __init__(self, out: TextIO, criteria: Sequence[str]) -> None:
        self.names = list(dict.fromkeys(criteria))
        self.writer = csv.writer(out, lineterminator="\n")
        self.waiting: list[tuple[list[Any], dict[str, float]]] | None = None
        """Rows, where the columns are known only after the last of them, for rows bring criteria of their own."""

    def begin(self, summary: Summary | None) -> None:
        if summary is not None:
            # Equal names of a group are numbered in a summary, and summed up here.
            known = {name for name in summary.criteria if _NUMBERED.sub("", name) in self.names}
            self.names += [name for name in summary.criteria if name not in {*self.names, *known}]
        elif not self.names:
            self.waiting = []
            return
        self._write([*self.FIRST, *self.names])

    def row(self, row: Row) -> None:
        metrics = _metrics(row)
        errors = "; ".join(f"{name}: {error}" for name, error in row.errors.items())
        cells: list[Any] = [row.example, row.sample, row.score, row.reward, errors]
        if self.waiting is None:
            self._write([*cells, *map(metrics.get, self.names)])
        else:
            self.waiting.append((cells, metrics))

    def end(self, summary: Summary) -> None:
        waiting, self.waiting = self.waiting, None
        if waiting is not None:
            self.begin(summary)
            for cells, metrics in waiting:
                self._write([*cells, *map(metrics.get, self.names)])

    def _write(self, cells: Sequence[Any]) -> None:
        self.writer.writerow([_csv_cell(cell) if isinstance(cell, str) else cell for cell in cells])


def _metrics(row: Row) -> dict[str, float]:
    """The value of every criterion by the name that it has in a summary; equal names are summed."""
    from assay.runs.row_rubrics import own_rubric
    from assay.runs.summary import names_of

    if own_rubric(row.fields) is None:
        return row.report.metrics
    lines = row.report.lines
    named = zip(names_of(lines, is_own=True), lines, strict=True)
    return {name: line.value for name, line in named if line.value is not None}


def _csv_cell(text: str) -> str:
    """A text so that no program that opens the file takes it for a formula, and no terminal for a command.

    >>> _csv_cell("=1+1"), _csv_cell("-0.5"), _csv_cell("\\x1b[31mred")
    ("'=1+1", '-0.5', '\\\\x1b[31mred')
    """
    if text.startswith(("=", "+", "-", "@", "\t", "\r")) and not _NUMBER.fullmatch(text):
        text = f"'{text}"
    return printable(text)


_NUMBERED = re.compile(r"_\d+$")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")


FOR_PEOPLE = ("table", "markdown")
"""Formats that say it all in the summary, and show rows only on request."""


def format_of(
    name: str,
    title: str,
    *,
    about: str = "",
    criteria: Sequence[str],
    judge: str | None = None,
    thresholds: Thresholds = NO_THRESHOLDS,
    rows: RowText | None = None,
    sums_up: bool = True,
) -> Format:
    """The format of that name, to standard output. `about` is a line about all of it.

    With `rows`, formats for people show every rollout too, and the plain one in these words; unless
    it `sums_up`, only these.
    """
    out = sys.stdout
    if name == "json":
        return Json(out, judge)
    if name == "jsonl":
        return JsonLines(out, judge)
    if name == "csv":
        return Csv(out, criteria)
    if name == "junit":
        return Junit(out, title, thresholds)
    if name == "markdown":
        return Markdown(out, title, about, rows=rows is not None)
    return Table(out, title, about, rows, sums_up=sums_up)


@dataclass(frozen=True)
class Page:
    """A title, tables under it, and sentences under those; and all of it as data."""

    title: str
    sections: Sequence[Section]
    notes: Sequence[str]
    data: Mapping[str, Any]

    def text(self, layout: str) -> str:
        """The page as `table`, `json` or `markdown`."""
        if layout == "json":
            return json_text(self.data)
        if layout == "markdown":
            parts = [f"## {escaped(self.title)}", *map(markdown_table, self.sections)]
            notes = [f"- {escaped(note)}" for note in self.notes]
        else:
            parts = [painted(printable(self.title), "bold"), *map(laid_out, self.sections)]
            notes = [printable(note) for note in self.notes]
        return "\n\n".join([*parts, "\n".join(notes)] if notes else parts)


def figure(estimate: Estimate, digits: int = 2) -> str:
    """A figure with its interval, to so many digits."""
    return estimate.to_digits(digits)


def point(estimate: Estimate) -> str:
    """A figure alone; a dash when there is none."""
    return "–" if estimate.value is None else f"{estimate.value:.2f}"


def chance(p: float | None) -> str:
    """A p-value as people write it.

    >>> chance(0.0312), chance(0.0002), chance(None)
    ('0.031', '< 0.001', '–')
    """
    if p is None:
        return "–"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"
