"""Output formats: the same rows as table, JSON, CSV, JUnit XML and Markdown."""

import asyncio
import csv
import io
import json
import re
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

import pytest

from assay import (
    Criterion,
    CriterionReport,
    EvaluationReport,
    PerCriterionGrader,
    Rollout,
    Rubric,
    Score,
)
from assay.cli.formats import FORMATS, format_brief_row, format_full_row
from assay.runs import Row, Spending, Summary, summarize
from assay.runs.stats import Thresholds
from assay.testing import FakeModel


def report(right: Any, short: Any) -> EvaluationReport:
    """Return the report on a rollout, from the results of two checks."""
    criteria = [
        Criterion(check=lambda: right, name="right", weight=3),
        Criterion(check=lambda: short, name="short", weight=1),
    ]
    [found] = asyncio.run(Rubric(criteria).score([Rollout(completion="4")]))
    return found


GOOD = Row("a", fields={"task": "sums"}, report=report(True, True), timing={"scoring": 0.25})
LOW = Row("b", report=report(False, Score(1.0, reason="4 words")))
HALF = Row("b", sample=1, report=report(True, Score.failed(KeyError("x"))))
NONE = Row("c", error="Overloaded: it does not answer", model="gpt")
ROWS = (GOOD, LOW, HALF, NONE)


def print_rows(
    capsys: Any, name: str, found: Sequence[Row] = ROWS, known: bool = False, **options: Any
) -> str:
    """Return what a format prints for these rows."""
    options = {"criteria": ["right", "short"], **options}
    summary = summarize(found)
    format = FORMATS[name]("essays", **options)
    format.begin(summary if known else None)
    for row in found:
        format.print_row(row)
    format.end(summary)
    return capsys.readouterr().out


class TestJson:
    def test_jsonl_has_one_line_for_each_row(self, capsys: Any) -> None:
        """A row without a score has an error."""
        rows = [json.loads(x) for x in print_rows(capsys, "jsonl", judge="me").splitlines()]
        assert [(r["example"], r["sample"], r["score"], r["reward"]) for r in rows] == [
            ("a", 0, 1.0, 4.0),
            ("b", 0, 0.25, 1.0),
            ("b", 1, None, None),
            ("c", 0, None, None),
        ]
        assert [row["error"] for row in rows] == [
            None,
            None,
            "short: KeyError: 'x'",
            "rollout: Overloaded: it does not answer",
        ]
        assert (rows[0]["right.value"], rows[0]["judge"]) == (1.0, "me")
        assert (rows[1]["short.reason"], rows[2]["short.error"]) == ("4 words", "KeyError: 'x'")

    def test_json_includes_the_summary(self, capsys: Any) -> None:
        """In the form in which it is saved."""
        document = json.loads(print_rows(capsys, "json"))
        assert len(document["rollouts"]) == 4
        assert Summary.from_dict(document["summary"]) == summarize(ROWS)

    def test_no_rows_are_valid_json(self, capsys: Any) -> None:
        """An empty list."""
        assert json.loads(print_rows(capsys, "json", []))["rollouts"] == []
        assert print_rows(capsys, "jsonl", []) == ""

    def test_values_that_json_cannot_hold_are_printed_as_text(self, capsys: Any) -> None:
        """As in a saved run, so that every reader can parse it."""
        row = Row("a", fields={"logprob": float("-inf")}, report=report(True, True))
        line = print_rows(capsys, "jsonl", [row])
        found = json.loads(line, parse_constant=lambda constant: pytest.fail(constant))
        assert found["logprob"] == "-Infinity"


class TestCsv:
    def test_every_criterion_is_a_column(self, capsys: Any) -> None:
        """A missing value is empty, not 0."""
        rows = list(csv.DictReader(io.StringIO(print_rows(capsys, "csv"))))
        assert [row["right.value"] for row in rows] == ["1.0", "0.0", "1.0", ""]
        assert [row["short.value"] for row in rows] == ["1.0", "1.0", "", ""]
        assert [row["score"] for row in rows] == ["1.0", "0.25", "", ""]
        assert rows[2]["error"] == "short: KeyError: 'x'"

    def test_criteria_of_row_rubrics_are_columns_too(self, capsys: Any) -> None:
        """Although the columns are only known after the last row."""
        wordy = "Names " + "one thing and another " * 4
        asked = [
            Criterion(requirement=f"{wordy}{end}", check=None) for end in ("here", "there", "here")
        ]
        judge = PerCriterionGrader(FakeModel("MET"))
        rows = [
            Row(
                str(cache_folder),
                fields={"rubric": [{"requirement": criterion.requirement}]},
                report=Rubric([criterion], judge=judge).grade_sync("4"),
            )
            for cache_folder, criterion in enumerate(asked)
        ]
        text = print_rows(capsys, "csv", [*rows, GOOD], criteria=[])
        found = list(csv.DictReader(io.StringIO(text)))
        names = [f"{name}.value" for name in (f"{wordy}here", f"{wordy}there", "right", "short")]
        assert [name for name in found[0] if name.endswith(".value")] == names
        assert [[row[name] for name in names] for row in found] == [
            ["1.0", "", "", ""],
            ["", "1.0", "", ""],
            ["1.0", "", "", ""],
            ["", "", "1.0", "1.0"],
        ]

    @pytest.mark.parametrize(
        ("text", "cell"),
        [
            ("=HYPERLINK(1)", "'=HYPERLINK(1)"),
            ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
            ("-2+3", "'-2+3"),
            ("@SUM(1)", "'@SUM(1)"),
            ("\t=1", "'\t=1"),
            ("-12.5", "-12.5"),
            ("\x1b]0;owned\x07", "\\x1b]0;owned\\x07"),
        ],
    )
    def test_cells_cannot_be_formulas_or_escape_sequences(
        self, capsys: Any, text: str, cell: str
    ) -> None:
        """Whatever an id or an error contains."""
        rows = [Row(text, report=report(1, 1)), Row("b", error=text)]
        found = list(csv.DictReader(io.StringIO(print_rows(capsys, "csv", rows))))
        assert found[0]["example"] == cell
        assert found[1]["error"].startswith("rollout: ")
        assert "\x1b" not in found[1]["error"]

    def test_any_text_is_quoted_correctly(self, capsys: Any) -> None:
        """Quotes, separators and line breaks."""
        text = print_rows(capsys, "csv", [Row('x,"y"\nz', report=report(1, 1))])
        assert next(csv.DictReader(io.StringIO(text)))["example"] == 'x,"y"\nz'


class TestJunit:
    def test_a_rollout_is_a_test_case(self, capsys: Any) -> None:
        """Below the threshold for every rollout it is a failure, and without a score an error."""
        suite = ElementTree.fromstring(
            print_rows(capsys, "junit", thresholds=Thresholds(fail_rollout_under=0.5))
        )[0]
        counts = {name: suite.get(name) for name in ("name", "tests", "failures", "errors")}
        assert counts == {"name": "essays", "tests": "4", "failures": "1", "errors": "2"}
        good, low, half, none = suite
        assert (good.get("classname"), good.get("name"), list(good)) == ("sums", "a", [])
        assert low[0].tag == "failure"
        assert low[0].get("message") == "score 0.25 is below 0.5"
        assert "UNMET  +3  right" in (low[0].text or "")
        assert (half.get("name"), half[0].tag) == ("b #1", "error")
        assert half[0].get("message") == "short: KeyError: 'x'"
        assert none[0].get("message") == "rollout: Overloaded: it does not answer"

    def test_a_threshold_for_the_mean_is_a_separate_test_case(self, capsys: Any) -> None:
        """So that a CI that reads only this file agrees with the exit code."""
        rows = [Row("a", report=report(1, 1)), Row("b", report=report(0, 0))]
        for least, failures in ((0.5, "0"), (0.6, "1")):
            thresholds = Thresholds(fail_under=least)
            suite = ElementTree.fromstring(
                print_rows(capsys, "junit", rows, thresholds=thresholds)
            )[0]
            assert (suite.get("tests"), suite.get("failures")) == ("3", failures)
        assert suite[-1].get("name") == "mean score"
        assert suite[-1][0].get("message") == (
            "the mean score is 0.5 over 2 rollouts, which is below 0.6"
        )

    def test_without_a_threshold_no_test_case_fails(self, capsys: Any) -> None:
        """A rollout without a score is still an error."""
        suite = ElementTree.fromstring(print_rows(capsys, "junit"))[0]
        assert (suite.get("failures"), suite.get("errors")) == ("0", "2")

    @pytest.mark.parametrize("text", ["\x00\x1b[31m", "]]>&<\"'", "\ud800", "\ufffe", "a\nb"])
    def test_any_model_output_gives_valid_xml(self, text: str, capsys: Any) -> None:
        """Control characters and lone surrogates are escaped."""
        row = Row(text, report=report(Score.failed(text), Score(1.0, reason=text)))
        out = print_rows(
            capsys, "junit", [row], thresholds=Thresholds(fail_rollout_under=1)
        ).encode(errors="strict")
        case = ElementTree.fromstring(out)[0][0]
        assert case[0].get("message")


class TestTables:
    def test_a_table_puts_errors_before_means(self, capsys: Any) -> None:
        """Two of four have no score; the mean of the others is 0.625."""
        out = print_rows(capsys, "table")
        assert out.startswith("essays: 4 rollouts of 3 examples, 2 unscored\n")
        assert out.index("KeyError") < out.index("0.625")
        assert re.search(r"^score +0\.625 ", out, re.MULTILINE)
        assert "right      +3      0.667  2    1      0\n" in out
        assert "\na  " not in out

    def test_rows_are_printed_on_request(self, capsys: Any) -> None:
        """One line for each, or with every criterion."""
        brief = print_rows(capsys, "table", format_row=format_brief_row, known=True)
        assert brief.endswith(
            "1      a\n0.25   b  right\n–      b #1  short: KeyError: 'x'\n"
            "–      c  rollout: Overloaded: it does not answer\n"
        )
        whole = print_rows(capsys, "table", format_row=format_full_row, has_summary=False)
        assert whole.startswith("a: 1\n  MET    +3  right\n  MET    +1  short\nb: 0.25\n")
        assert whole.endswith("c: nothing to score, Overloaded: it does not answer\n")

    def test_an_error_message_is_printed_once(self, capsys: Any) -> None:
        """With its count and first row; elsewhere only its kind, with a reference to the message."""
        down = Score.failed(ConnectionError("http://127.0.0.1:9 gave no answer: try again later"))
        rows = [Row(str(n), report=report(down, down), number=n) for n in (2, 1)]
        out = print_rows(capsys, "table", rows, format_row=format_brief_row, known=True)
        message = "ConnectionError: http://127.0.0.1:9 gave no answer: try again later"
        assert f"4       2         1         right, short  {message}\n" in out
        assert f"–      2  right, short: {message}\n" in out
        assert out.endswith("–      1  right, short: ConnectionError, as in 2\n")
        whole = print_rows(capsys, "table", rows[:1], format_row=format_full_row, has_summary=False)
        assert whole.count(message) == 1
        assert "short: ConnectionError, as above" in whole

    def test_markdown_output_consists_of_tables(self, capsys: Any) -> None:
        """A name that contains a bar does not break them."""
        row = Row("a|b", report=report(True, True), spent=Spending(calls=2, prompt=5, cost=0.1))
        out = print_rows(capsys, "markdown", [row], format_row=format_brief_row)
        assert out.startswith("## essays\n\n| rollout |")
        assert "| a\\|b | 1 | 4 |  |  |\n" in out
        assert "| right | +3 | 1 | 1 | 0 |\n" in out
        assert "2 calls, 5 input and 0 output tokens, $0.1000" in out

    def test_model_output_cannot_control_the_terminal(self, capsys: Any) -> None:
        """Escape sequences are printed in escaped form."""
        row = Row("\x1b]0;owned\x07", report=report(Score(1.0, reason="\x1b[2J"), True))
        for name in ("table", "markdown"):
            assert "\x1b" not in print_rows(capsys, name, [row], format_row=format_full_row)

    def test_row_criteria_cannot_control_the_terminal(self, capsys: Any) -> None:
        """Nor take more than their line: one for the header, one for each of two criteria, one for the row."""
        lines = [CriterionReport(name=f"\x1b[2J\n{n}", value=0.0, passed=False) for n in range(2)]
        found = EvaluationReport(
            score=0.0, raw_score=0.0, gain=2.0, report=lines, asked=2, answered=2
        )
        row = Row("a\nb", report=found)
        out = print_rows(capsys, "table", [row], format_row=format_brief_row, known=True)
        assert "\x1b" not in out
        *_, first, second, blank, last = out.splitlines()
        assert (first[:9], second[:9], blank) == ("\\x1b[2J 0", "\\x1b[2J 1", "")
        assert last == "0      a b  \\x1b[2J 0, \\x1b[2J 1"

    def test_colours_are_used_only_in_terminals(
        self, capsys: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """FORCE_COLOR switches them on elsewhere, and NO_COLOR off."""
        monkeypatch.delenv("NO_COLOR", raising=False)
        monkeypatch.delenv("FORCE_COLOR", raising=False)
        monkeypatch.setenv("TERM", "xterm")
        assert "\x1b[" not in print_rows(capsys, "table", format_row=format_full_row)
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)
        assert "\x1b[32mMET" in print_rows(capsys, "table", format_row=format_full_row)
        assert "\x1b[" not in print_rows(
            capsys, "junit", thresholds=Thresholds(fail_rollout_under=1)
        )
        monkeypatch.setattr("sys.stdout.isatty", lambda: False)
        monkeypatch.setenv("FORCE_COLOR", "1")
        assert "\x1b[32mMET" in print_rows(capsys, "table", format_row=format_full_row)
        monkeypatch.setenv("NO_COLOR", "1")
        assert "\x1b[" not in print_rows(capsys, "table", format_row=format_full_row)

    def test_pass_rates_are_shown_for_several_rollouts(self, capsys: Any) -> None:
        """Of the two rollouts of b one succeeds."""
        rows = [LOW, Row("b", sample=1, report=report(True, True))]
        out = print_rows(capsys, "table", rows)
        assert "2 1 0 1" in " ".join(out.split())


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_handles_no_rows(name: str, capsysbinary: Any) -> None:
    """An empty run is not a crash; only the JSONL and CSV formats print nothing."""
    out = print_rows(capsysbinary, name, [], format_row=format_brief_row)
    assert bool(out) is (name != "jsonl")
