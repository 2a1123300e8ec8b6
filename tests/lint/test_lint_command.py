"""`assay lint`, which is also `assay rubric lint`."""

import json

import pytest

from assay.cli import main
from assay.testing import ModelServer


@pytest.fixture(autouse=True)
def _no_model_is_configured(monkeypatch):
    for name in ("ASSAY_JUDGE", "ASSAY_BUDGET"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def write(tmp_path):
    def to(text, name="a.yaml"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    return to


@pytest.mark.parametrize("command", [["lint"], ["rubric", "lint"]])
def test_findings_are_lines_with_file_and_line(write, capsys, command):
    """Under both names; a warning is no failure."""
    path = write("- requirement: Is clear\n- requirement: Names the year\n")
    assert main([*command, path]) == 0
    first, total, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{path}:1: warning R002 is_clear: 'clear' means something else")
    assert total == f"{path}: 2 criteria, 2 of them judged by a model, 1 warning"


def test_a_line_for_each_criterion_says_what_it_does(write, capsys):
    """Points, the order of levels, vetoes, conditions and what the judge is shown."""
    path = write("""
- {requirement: Names a drug that does not exist, name: drug, weight: -5}
- requirement: "How far the dose is explained: missing is no word of it, partly is one word of it, complete is all of it"
  name: dose
  choices: [missing, partly, complete]
  weight: 2
- {check: json_valid, required: true}
- requirement: Agrees with the reference
  name: agrees
  when: [{category: writing}, {json_valid: MET}]
  reference: answer
- {requirement: Names the year, name: year, weight: 0}
""")
    assert main(["lint", path]) == 0
    assert capsys.readouterr().out.splitlines()[-5:] == [
        "  drug: MET subtracts 5 points",
        "  dose: levels from worst to best: missing, partly, complete; complete adds 2 points",
        "  json_valid: a check by code; MET adds 1 point; a veto: if it fails, the score is at most 0",
        "  agrees: MET adds 1 point; asked only if json_valid is MET and the column category is writing; "
        "the judge is shown answer",
        "  year: MET is reported and adds nothing",
    ]


@pytest.mark.parametrize(
    ("text", "options", "code"),
    [
        ("- requirement: Names the year\n", [], 0),
        ("- requirement: Is rude\n", [], 100),
        ("- requirement: Is clear\n", ["--fail-on", "warning"], 100),
        ("- requirement: Is clear\n", ["--fail-on", "note", "--ignore", "R002"], 0),
        ("- requirement: Is clear\n  wieght: 1\n", [], 2),
        ("- requirement: Is clear\n", ["--ignore", "R2"], 2),
        ("- requirement: Is clear\n", ["--run", "nowhere"], 1),
    ],
)
def test_the_exit_code_tells_how_bad_it_is(write, capsys, text, options, code):
    """0 nothing as bad, 100 something, 2 what cannot be used, 1 a run that cannot be read."""
    assert main(["lint", write(text), *options]) == code


def test_json_has_every_field(write, capsys):
    """And how many there are of each kind."""
    assert main(["lint", write("- requirement: Is rude\n"), "--format", "json"]) == 100
    data = json.loads(capsys.readouterr().out)
    assert data["counts"] == {"error": 1, "warning": 0, "note": 0}
    (finding,) = data["findings"]
    assert finding.keys() == {
        "id",
        "rule",
        "criterion",
        "message",
        "fix",
        "severity",
        "line",
        "path",
    }
    assert (finding["id"], finding["rule"], finding["line"]) == ("R005", "polarity", 1)


def test_a_run_is_looked_at(write, capsys, make_run):
    """What its verdicts tell stands at the criterion."""
    path = write("- requirement: Names the year\n")
    rubric = [{"requirement": "Names the year"}]
    run = make_run("run", rubric, [(n, {"names_the_year": "MET"}) for n in range(40)])
    assert main(["lint", path, "--run", str(run.path)]) == 0
    assert f"{path}:1: warning R101 names_the_year: all 40 examples" in capsys.readouterr().out


def test_a_rubric_in_python_is_looked_at(tmp_path, monkeypatch, capsys):
    """It has no lines."""
    (tmp_path / "rubric_in_python.py").write_text(
        'criteria = [{"requirement": "Is rude", "name": "rude"}]\n'
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["lint", "rubric_in_python:criteria"]) == 100
    assert capsys.readouterr().out.startswith("error R005 rude: 'rude' describes a fault")


class TestFix:
    def test_it_shows_a_diff_and_leaves_the_file(self, write, tmp_path, capsys):
        """Until --yes says that it is wanted."""
        path = write("- requirement: Does not fail to end\n")
        assert main(["lint", path, "--fix"]) == 0
        out, err = capsys.readouterr()
        assert "\n+- requirement: Ends\n" in out
        assert "--yes writes these changes" in err
        assert (tmp_path / "a.yaml").read_text() == "- requirement: Does not fail to end\n"

    def test_yes_writes_it(self, write, tmp_path, capsys):
        """And what is left is what is told."""
        path = write("- requirement: Does not fail to end\n- requirement: Is rude\n")
        assert main(["lint", path, "--fix", "--yes"]) == 100
        out, err = capsys.readouterr()
        assert (tmp_path / "a.yaml").read_text() == "- requirement: Ends\n- requirement: Is rude\n"
        assert "R006" not in out
        assert "R005 is_rude" in out
        assert "1 criterion fixed" in err

    def test_a_model_that_is_named_rewrites(self, write, tmp_path, capsys):
        """Over HTTP, and its calls are counted."""
        path = write("- requirement: Cites several sources\n")
        reply = {"reason": "r", "requirements": ["Cites at least three sources"]}
        with ModelServer(json.dumps(reply)) as server:
            url = f"{server.url}#{server.name}"
            assert main(["lint", path, "--fix", "--yes", "--judge", url]) == 0
        assert (tmp_path / "a.yaml").read_text() == "- requirement: Cites at least three sources\n"
        assert "1 call" in capsys.readouterr().err

    def test_a_diff_is_no_json(self, write, capsys):
        """So the two are not asked for at once."""
        assert main(["lint", write("- requirement: Is rude\n"), "--fix", "-f", "json"]) == 2
        assert "drop --format json" in capsys.readouterr().err

    def test_nothing_to_mend_is_said(self, write, capsys):
        """On standard error."""
        assert main(["lint", write("- requirement: Names the year\n"), "--fix"]) == 0
        assert "nothing was fixed" in capsys.readouterr().err
