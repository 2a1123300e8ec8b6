"""JUnit's XML, which every CI reads: one test case a rollout."""

import re
from tempfile import TemporaryFile
from typing import TextIO
from xml.sax.saxutils import escape, quoteattr

from assay.cli.rows import row_name
from assay.cli.showing import shown_report, shown_score
from assay.runs import Row, Summary
from assay.runs.thresholds import Thresholds

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
            f"    <testcase classname={attribute(row.task)} name={attribute(row_name(row))} "
            f'time="{seconds:.3f}">'
        )
        self.cases.write(self._outcome(row))
        self.cases.write("</testcase>\n")

    def _outcome(self, row: Row) -> str:
        if row.score is None:
            self.errors += 1
            message = "; ".join(f"{name}: {said}" for name, said in row.errors.items())
            return _element("error", message or shown_score(row.report), "unscored", row)
        if self.thresholds.is_low(row.score):
            self.failures += 1
            message = f"score {row.score:.3g} is below {self.thresholds.fail_rollout_under:g}"
            return _element("failure", message, "below", row)
        return ""

    def _mean(self, summary: Summary) -> None:
        failure = self.thresholds.failure(
            summary.score,
            rollouts=summary.rollouts,
            unscored=summary.unscored,
            complete=summary.complete,
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


def _element(kind: str, message: str, what: str, row: Row) -> str:
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
