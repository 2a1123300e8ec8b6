"""What people see of rubrics, reports and runs: printed, and in a real notebook."""

import textwrap

import nbformat
import pytest
from nbclient import NotebookClient

from assay import Criterion, CriterionReport, EvaluationReport, Rubric
from assay.display import Page, Section, TonedCell, format_table

CELLS = {
    "rubric": """
        from assay import Rubric, Run, score_rows
        rubric = Rubric.from_dict([{"check": {"contains": "<b>Paris"}, "name": "paris"}], name="capitals")
        rubric""",
    "report": "(await rubric.grade('Rome'))",
    "scored": """
        rows = [{"id": n, "completion": "<b>Paris" if n % 3 else "Rome"} for n in range(9)]
        summary = await score_rows(rubric, rows, folder="run")
        summary""",
    "run": "Run.open('run')",
    "compared": """
        from assay.trust import compare
        compare(Run.open("run"), Run.open("run"))""",
    "figure": "Run.open('run').plot()",
}


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """The outputs of every cell, from a kernel of Jupyter."""
    folder = tmp_path_factory.mktemp("notebook")
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [
        nbformat.v4.new_code_cell(textwrap.dedent(text).strip()) for text in CELLS.values()
    ]
    NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()
    return {name: cell.outputs for name, cell in zip(CELLS, notebook.cells, strict=True)}


def html_of(outputs):
    return "".join(output.get("data", {}).get("text/html", "") for output in outputs)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("rubric", ["capitals: 1 criterion", "paris", "+1", "code"]),
        ("report", ["score: 0", "UNMET"]),
        ("scored", ["9 rollouts", "0.667", "criterion"]),
        ("run", ["run: 9 rollouts"]),
        ("compared", ["have the same score on all 9 examples", "minimum detectable effect"]),
    ],
)
def test_a_notebook_shows_tables(outputs, cell, words):
    """Each of them is HTML that needs no server."""
    page = html_of(outputs[cell])
    assert [word for word in words if word not in page] == []
    assert "<table" in page
    assert "http" not in page


@pytest.mark.slow
def test_a_notebook_shows_progress_and_figures(outputs):
    """A bar that reached its end while rows were scored, and a picture of the run."""
    assert '<progress value="9" max="9">' in html_of(outputs["scored"])
    assert any("image/png" in output.get("data", {}) for output in outputs["figure"])


def test_what_a_model_wrote_is_shown_and_not_obeyed():
    """Markup of a response or of a name is text in the page, and control characters are spelled out."""
    page = Page(
        "<script>alert(1)</script>",
        [Section(("a\x1b[2J",), [("<img src=x onerror=alert(1)>",)])],
        ["<i>"],
    )
    shown = page.text("html").split("</style>")[1]
    assert "<script" not in shown
    assert "<img" not in shown
    assert "<i>" not in shown
    assert "\x1b" not in shown


def test_a_printed_report_says_what_failed():
    """The first line is the score or why there is none; then a line a criterion."""
    lines = [
        CriterionReport(name="a", value=1.0, verdict="MET", passed=True),
        CriterionReport(name="b", error="ValueError: no"),
    ]
    printed = str(EvaluationReport(report=lines, asked=2, answered=1))
    assert printed.splitlines() == [
        "score: unscored, no answer to 1 of 2 criteria",
        "  MET    +1  a",
        "  error  +1  b: ValueError: no",
    ]


def test_a_rubric_shows_who_answers():
    """Judged criteria are told from those that code checks."""
    rubric = Rubric(
        [
            Criterion(requirement="Is polite"),
            Criterion(check=lambda completion: len(completion), name="length"),
        ]
    )
    page = rubric._repr_html_()
    assert "<td>a model</td><td>Is polite</td>" in page
    assert "<td>length</td><td>+1</td><td>code</td>" in page


def test_a_cell_in_a_colour_is_padded_by_its_text(monkeypatch):
    """The codes of a colour take no space on a terminal."""
    cells = [(TonedCell("2 happened", "bad"), "x"), (TonedCell("", ""), "y")]
    section = Section(("met", "unmet"), cells)
    assert format_table(section) == "met         unmet\n2 happened  x\n            y"
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert format_table(section).splitlines()[1] == "\x1b[31m2 happened\x1b[0m  x"


def test_a_fault_happened_or_was_avoided():
    """People read these words, in the colours of bad and good; the report keeps MET and UNMET."""
    rubric = Rubric.from_dict(
        [
            {"check": {"contains": "thanks"}, "name": "thanks"},
            {"check": {"contains": "idiot"}, "name": "insults", "weight": -1},
        ]
    )
    rude = rubric.grade_sync("idiot")
    assert str(rude).splitlines()[1].split()[:2] == ["UNMET", "+1"]
    assert str(rude).splitlines()[2].split()[:2] == ["happened", "-1"]
    assert '<td class="bad">happened</td>' in rude._repr_html_()
    polite = rubric.grade_sync("thanks")
    assert '<td class="good">avoided</td>' in polite._repr_html_()
    assert [line.verdict for line in polite.report] == ["MET", "UNMET"]
