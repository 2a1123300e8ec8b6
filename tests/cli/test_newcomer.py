"""The first day of a user: tutorial, comparison, gate in CI, and notebook."""

import json
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

import nbformat
import pytest
from nbclient import NotebookClient

from assay.cli import main
from tests.cli.test_pages import BLOCK, COMMAND, DOCS, Session, answer

GATE = """
from assay import Rubric
from assay.integrations import assert_not_worse


def test_replies_are_not_worse():
    assert_not_worse("{run}", "run2")


def test_replies_are_short(grades):
    rubric = Rubric.from_dict([{{"name": "short", "check": {{"max_words": 25}}}}])
    grades(rubric, [{{"completion": "Thank you. It comes on Friday."}}], fail_under=0.9)
"""

NOTEBOOK = [
    """
    from assay.runs import Run
    from assay.trust import agree, compare, read_labels
    run = Run.open("run2")
    run
    """,
    "compare(run, Run.open('better'))",
    "frame = run.to_pandas()\nfloat(frame['score'].mean())",
    "str(agree(run, read_labels('labels.csv')).overall.judge.kappa)",
    "run.plot()",
]


@pytest.mark.slow
@pytest.mark.usefixtures("cache_folder")
def test_a_newcomer_gets_from_an_empty_folder_to_a_gate_and_a_notebook(
    serve: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    server = serve(answer)
    monkeypatch.chdir(tmp_path)
    follow_tutorial(Session(capsys, server.model, server.model))
    assert {"run", "run2", "rubric2.yaml", "labels.csv"} <= {path.name for path in Path().iterdir()}

    # The criterion was reworded between the two runs, so their scores are not compared.
    assert assay("compare run run2", capsys).code == 0
    refused = assay("compare run run2 --fail-if-worse", capsys)
    assert refused.code == 2
    assert "used different rubrics" in refused.err

    # Every reply that names no day, or thanks nobody, is written anew.
    good_reply = "Thank you for writing. It will be with you on Friday."
    write_replies("better.jsonl", [good_reply] * 60)
    judge = f"-r rubric2.yaml --judge {server.model} -q"
    assert assay(f"score better.jsonl {judge} -o better", capsys).code == 0
    compared = assay("compare run2 better --fail-if-worse", capsys)
    assert compared.code == 0
    assert compared.out.startswith("better is better than run2: its mean score is 0.417 higher")
    assert compared.err.strip() == compared.out.splitlines()[0]
    assert assay("compare better run2 --fail-if-worse", capsys).code == 100
    differs = assay("compare run2 better --differs --flips 1", capsys).out
    assert f"assistant: {good_reply[:20]}" in differs

    # The gate: a run that is worse than the accepted one fails, in a test as on the command line.
    write_replies("worse.jsonl", ["It comes when it comes."] * 60)
    assay(f"score worse.jsonl {judge} -o worse", capsys)
    assert run_tests("better").returncode == 0
    failed = run_tests("worse")
    assert failed.returncode == 1
    assert "the run is worse than the baseline" in failed.stdout
    assert "names_a_day: MET → UNMET, 'Friday' does not occur" in failed.stdout
    assert "“It comes when it comes.”" in failed.stdout
    assert assay("show better --fail-interval-under 0.9", capsys).code == 0

    outputs = run_notebook(tmp_path)
    assert "run2: 60 rollouts" in outputs[0]
    assert "second is better than first" in outputs[1]
    assert outputs[2].startswith("0.583")
    assert "0.96" in outputs[3]
    assert "image/png" in outputs[4]


def follow_tutorial(session: Session) -> None:
    """Write every file of the tutorial, and run every command; the output is tested elsewhere."""
    for language, title, content in BLOCK.findall((DOCS / "tutorial.md").read_text("utf-8")):
        if title:
            Path(title).write_text(content, encoding="utf-8")
        if language == "console":
            for line, _ in COMMAND.findall(content):
                session.run_and_format(line)


class Result(NamedTuple):
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str


def assay(line: str, capsys: Any) -> Result:
    capsys.readouterr()
    code = main(shlex.split(line))
    printed = capsys.readouterr()
    return Result(code, printed.out, printed.err)


def write_replies(name: str, replies: list[str]) -> None:
    """Write replies to the questions of the tutorial."""
    rows = [json.loads(line) for line in Path("rollouts.jsonl").read_text().splitlines()]
    lines = [
        json.dumps({**row, "completion": reply}) for row, reply in zip(rows, replies, strict=True)
    ]
    Path(name).write_text("\n".join(lines))


def run_tests(run: str) -> "subprocess.CompletedProcess[str]":
    """Run the user's tests, which compare a run with the baseline."""
    Path("test_replies.py").write_text(GATE.format(run=run))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_replies.py"]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def run_notebook(folder: Path) -> list[str]:
    """Run the cells in a Jupyter kernel, and return the output of each."""
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(textwrap.dedent(cell).strip()) for cell in NOTEBOOK]
    NotebookClient(
        notebook, timeout=240, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()
    shown: list[str] = []
    for cell in notebook.cells:
        texts: list[str] = []
        for output in cell.outputs:
            for kind, data in output.get("data", {}).items():
                texts.append(kind if kind.startswith("image/") else str(data))
        shown.append("\n".join(texts))
    return shown
