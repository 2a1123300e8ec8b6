"""Formats: the same rows as a table, as JSON, as CSV, as JUnit's XML and as Markdown."""

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
    """The report on a rollout, from the answers of two checks."""
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


def printed(
    capsys: Any, name: str, found: Sequence[Row] = ROWS, known: bool = False, **options: Any
) -> str:
    """What a format prints of these rows."""
    options = {"criteria": ["right", "short"], **options}
    summary = summarize(found)
    format = FORMATS[name]("essays", **options)
    format.begin(summary if known else None)
    for row in found:
        format.print_row(row)
    format.end(summary)
    return capsys.readouterr().out


class TestJson:
    def test_lines_are_a_row_each(self, capsys: Any) -> None:
        """A row without a score has none, and says why."""
        rows = [json.loads(x) for x in printed(capsys, "jsonl", judge="me").splitlines()]
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

    def test_one_document_has_the_summary_too(self, capsys: Any) -> None:
        """As it would be saved."""
        document = json.loads(printed(capsys, "json"))
        assert len(document["rollouts"]) == 4
        assert Summary.from_dict(document["summary"]) == summarize(ROWS)

    def test_no_rows_are_still_json(self, capsys: Any) -> None:
        """An empty list."""
        assert json.loads(printed(capsys, "json", []))["rollouts"] == []
        assert printed(capsys, "jsonl", []) == ""

    def test_what_json_has_no_word_for_is_text(self, capsys: Any) -> None:
        """As a saved run has it, so that every reader can read it."""
        row = Row("a", fields={"logprob": float("-inf")}, report=report(True, True))
        line = printed(capsys, "jsonl", [row])
        found = json.loads(line, parse_constant=lambda constant: pytest.fail(constant))
        assert found["logprob"] == "-Infinity"


class TestCsv:
    def test_every_criterion_is_a_column(self, capsys: Any) -> None:
        """What is missing is empty, and not 0."""
        rows = list(csv.DictReader(io.StringIO(printed(capsys, "csv"))))
        assert [row["right.value"] for row in rows] == ["1.0", "0.0", "1.0", ""]
        assert [row["short.value"] for row in rows] == ["1.0", "1.0", "", ""]
        assert [row["score"] for row in rows] == ["1.0", "0.25", "", ""]
        assert rows[2]["error"] == "short: KeyError: 'x'"

    def test_where_every_row_has_its_own_rubric_each_criterion_is_a_column(
        self, capsys: Any
    ) -> None:
        """Though the columns cannot be known before the last row."""
        wordy = "Names " + "one thing and another " * 4
        asked = [
            Criterion(requirement=f"{wordy}{end}", check=None) for end in ("here", "there", "here")
        ]
        judge = PerCriterionGrader(FakeModel("MET"))
        rows = [
            Row(
                str(place),
                fields={"rubric": [{"requirement": criterion.requirement}]},
                report=Rubric([criterion], judge=judge).grade_sync("4"),
            )
            for place, criterion in enumerate(asked)
        ]
        text = printed(capsys, "csv", [*rows, GOOD], criteria=[])
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
    def test_no_cell_is_a_formula_or_a_command(self, capsys: Any, text: str, cell: str) -> None:
        """To a spreadsheet or a terminal, whatever an id or an error says."""
        rows = [Row(text, report=report(1, 1)), Row("b", error=text)]
        found = list(csv.DictReader(io.StringIO(printed(capsys, "csv", rows))))
        assert found[0]["example"] == cell
        assert found[1]["error"].startswith("rollout: ")
        assert "\x1b" not in found[1]["error"]

    def test_any_text_comes_back(self, capsys: Any) -> None:
        """Quotes, separators and new lines."""
        text = printed(capsys, "csv", [Row('x,"y"\nz', report=report(1, 1))])
        assert next(csv.DictReader(io.StringIO(text)))["example"] == 'x,"y"\nz'


class TestJunit:
    def test_a_rollout_is_a_test_case(self, capsys: Any) -> None:
        """Below the threshold for every rollout a failure, without a score an error."""
        suite = ElementTree.fromstring(
            printed(capsys, "junit", thresholds=Thresholds(fail_rollout_under=0.5))
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

    def test_a_threshold_for_the_mean_is_a_test_case_of_its_own(self, capsys: Any) -> None:
        """So that a CI that reads only this file sees what the exit code says."""
        rows = [Row("a", report=report(1, 1)), Row("b", report=report(0, 0))]
        for least, failures in ((0.5, "0"), (0.6, "1")):
            thresholds = Thresholds(fail_under=least)
            suite = ElementTree.fromstring(printed(capsys, "junit", rows, thresholds=thresholds))[0]
            assert (suite.get("tests"), suite.get("failures")) == ("3", failures)
        assert suite[-1].get("name") == "mean score"
        assert suite[-1][0].get("message") == (
            "the mean score is 0.5 over 2 rollouts, which is below 0.6"
        )

    def test_without_a_threshold_nothing_fails(self, capsys: Any) -> None:
        """But what has no score is an error still."""
        suite = ElementTree.fromstring(printed(capsys, "junit"))[0]
        assert (suite.get("failures"), suite.get("errors")) == ("0", "2")

    @pytest.mark.parametrize("text", ["\x00\x1b[31m", "]]>&<\"'", "\ud800", "\ufffe", "a\nb"])
    def test_whatever_a_model_wrote_is_xml(self, text: str, capsys: Any) -> None:
        """Control characters and half characters are written out."""
        row = Row(text, report=report(Score.failed(text), Score(1.0, reason=text)))
        out = printed(capsys, "junit", [row], thresholds=Thresholds(fail_rollout_under=1)).encode(
            errors="strict"
        )
        case = ElementTree.fromstring(out)[0][0]
        assert case[0].get("message")


class TestForPeople:
    def test_a_table_puts_errors_before_means(self, capsys: Any) -> None:
        """Two of four have no score; the mean of the others is 0.625."""
        out = printed(capsys, "table")
        assert out.startswith("essays: 4 rollouts of 3 examples, 2 unscored\n")
        assert out.index("KeyError") < out.index("0.625")
        assert re.search(r"^score +0\.625 ", out, re.MULTILINE)
        assert "right      +3      0.667  2    1      0\n" in out
        assert "\na  " not in out

    def test_rows_come_on_request(self, capsys: Any) -> None:
        """On a line each, or with every criterion."""
        brief = printed(capsys, "table", format_row=format_brief_row, known=True)
        assert brief.endswith(
            "1      a\n0.25   b  right\n–      b #1  short: KeyError: 'x'\n"
            "–      c  rollout: Overloaded: it does not answer\n"
        )
        whole = printed(capsys, "table", format_row=format_full_row, has_summary=False)
        assert whole.startswith("a: 1\n  MET    +3  right\n  MET    +1  short\nb: 0.25\n")
        assert whole.endswith("c: nothing to score, Overloaded: it does not answer\n")

    def test_an_error_is_written_once(self, capsys: Any) -> None:
        """With its count and first row; then only its kind, and where the message stands."""
        down = Score.failed(ConnectionError("http://127.0.0.1:9 gave no answer: try again later"))
        rows = [Row(str(n), report=report(down, down), number=n) for n in (2, 1)]
        out = printed(capsys, "table", rows, format_row=format_brief_row, known=True)
        message = "ConnectionError: http://127.0.0.1:9 gave no answer: try again later"
        assert f"4       2         1         right, short  {message}\n" in out
        assert f"–      2  right, short: {message}\n" in out
        assert out.endswith("–      1  right, short: ConnectionError, as in 2\n")
        whole = printed(capsys, "table", rows[:1], format_row=format_full_row, has_summary=False)
        assert whole.count(message) == 1
        assert "short: ConnectionError, as above" in whole

    def test_markdown_is_tables(self, capsys: Any) -> None:
        """Which a name with a bar in it does not break."""
        row = Row("a|b", report=report(True, True), spent=Spending(calls=2, prompt=5, cost=0.1))
        out = printed(capsys, "markdown", [row], format_row=format_brief_row)
        assert out.startswith("## essays\n\n| rollout |")
        assert "| a\\|b | 1 | 4 |  |  |\n" in out
        assert "| right | +3 | 1 | 1 | 0 |\n" in out
        assert "2 calls, 5 input and 0 output tokens, $0.1000" in out

    def test_a_terminal_is_not_steered_by_what_a_model_wrote(self, capsys: Any) -> None:
        """Escape sequences are shown, and not obeyed."""
        row = Row("\x1b]0;owned\x07", report=report(Score(1.0, reason="\x1b[2J"), True))
        for name in ("table", "markdown"):
            assert "\x1b" not in printed(capsys, name, [row], format_row=format_full_row)

    def test_a_criterion_that_came_with_a_row_cannot_steer_it_either(self, capsys: Any) -> None:
        """Nor take more than its line: one for the header, one for each of two criteria, one row."""
        lines = [CriterionReport(name=f"\x1b[2J\n{n}", value=0.0, passed=False) for n in range(2)]
        found = EvaluationReport(
            score=0.0, raw_score=0.0, gain=2.0, report=lines, asked=2, answered=2
        )
        row = Row("a\nb", report=found)
        out = printed(capsys, "table", [row], format_row=format_brief_row, known=True)
        assert "\x1b" not in out
        *_, first, second, blank, last = out.splitlines()
        assert (first[:9], second[:9], blank) == ("\\x1b[2J 0", "\\x1b[2J 1", "")
        assert last == "0      a b  \\x1b[2J 0, \\x1b[2J 1"

    def test_colours_are_for_terminals_that_want_them(
        self, capsys: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """FORCE_COLOR switches them on elsewhere, and NO_COLOR off."""
        monkeypatch.delenv("NO_COLOR", raising=False)
        monkeypatch.delenv("FORCE_COLOR", raising=False)
        monkeypatch.setenv("TERM", "xterm")
        assert "\x1b[" not in printed(capsys, "table", format_row=format_full_row)
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)
        assert "\x1b[32mMET" in printed(capsys, "table", format_row=format_full_row)
        assert "\x1b[" not in printed(capsys, "junit", thresholds=Thresholds(fail_rollout_under=1))
        monkeypatch.setattr("sys.stdout.isatty", lambda: False)
        monkeypatch.setenv("FORCE_COLOR", "1")
        assert "\x1b[32mMET" in printed(capsys, "table", format_row=format_full_row)
        monkeypatch.setenv("NO_COLOR", "1")
        assert "\x1b[" not in printed(capsys, "table", format_row=format_full_row)

    def test_pass_rates_are_shown_where_there_are_several_rollouts(self, capsys: Any) -> None:
        """Of b, one of two succeeds."""
        rows = [LOW, Row("b", sample=1, report=report(True, True))]
        out = printed(capsys, "table", rows)
        assert "2 1 0 1" in " ".join(out.split())


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_takes_no_rows(name: str, capsysbinary: Any) -> None:
    """An empty run is no crash; only lines that are none say nothing."""
    out = printed(capsysbinary, name, [], format_row=format_brief_row)
    assert bool(out) is (name != "jsonl")
