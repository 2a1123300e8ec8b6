"""`--parser` and `--thinking`: what commands let checks and judges read of an answer."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from assay.cli import main
from assay.runs import Run

pytestmark = pytest.mark.usefixtures("place")

REPLY = r"<think>5?</think> So it is \boxed{4}."
CHECKS: list[dict[str, Any]] = [
    {"name": "right", "check": "exact_match"},
    {"name": "doubts", "check": {"contains": "5?"}},
]
WORKERS = [[], ["--backend", "processes", "--workers", "1"]]


@pytest.fixture
def assay(capsys: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> SimpleNamespace:
        code = main(list(arguments))
        printed = capsys.readouterr()
        return SimpleNamespace(code=code, out=printed.out, err=printed.err)

    return run


def scores(folder: str) -> list[list[float | None]]:
    return [[line.value for line in row.report.lines] for row in Run.open(folder).rows()]


@pytest.mark.parametrize("backend", WORKERS)
def test_options_replace_what_the_rubric_and_those_of_rows_say(
    assay: Any, files: Any, backend: list[str]
) -> None:
    own = {"parser": "text", "thinking": "hidden", "criteria": CHECKS}
    rows = [
        {"completion": REPLY, "answer": "4"},
        {"completion": REPLY, "answer": "4", "rubric": own},
    ]
    command = ["score", files("rows.jsonl", rows), "-r", files("rubric.json", CHECKS)]
    assert assay(*command, "-o", "plain", *backend).code == 0
    options = ["--parser", "boxed", "--thinking", "shown"]
    assert assay(*command, "-o", "other", *options, *backend).code == 0
    assert scores("plain") == [[0.0, 0.0], [0.0, 0.0]]
    assert scores("other") == [[1.0, 1.0], [1.0, 1.0]]


def test_a_run_is_not_continued_with_another_parser(assay: Any, files: Any) -> None:
    data = files("rows.jsonl", [{"completion": REPLY, "answer": "4"}])
    command = ["score", data, "-r", files("rubric.json", CHECKS), "-o", "run"]
    assert assay(*command, "--parser", "boxed").code == 0
    done = assay(*command, "--parser", "think", "--resume")
    assert done.code == 2
    assert "the rubric has changed" in done.err


def test_an_evaluation_reads_what_the_options_say(assay: Any, files: Any, serve: Any) -> None:
    data = files("rows.jsonl", [{"question": "2 + 2?", "answer": "4"}])
    command = ["eval", data, "-r", files("rubric.json", CHECKS), "-m", serve(REPLY).model]
    options = ["--parser", "boxed", "--thinking", "shown"]
    assert assay(*command, "-o", "run", *options).code == 0
    assert scores("run") == [[1.0, 1.0]]


def test_an_environment_reads_what_the_options_say(assay: Any, files: Any, serve: Any) -> None:
    source = """
        from assay import Rubric, SingleTurnEnv

        def load_environment():
            rows = [{"question": "2 + 2?", "answer": "4"}]
            checks = [{"check": "exact_match"}, {"check": {"contains": "5?"}}]
            return SingleTurnEnv(eval_dataset=rows, rubric=Rubric(checks))
    """
    lines = [line.removeprefix(" " * 8) for line in source.splitlines()]
    environment = files("sums_environment.py", "\n".join(lines))
    options = ["--parser", "boxed", "--thinking", "shown"]
    done = assay("eval", environment, "-m", serve(REPLY).model, "-o", "run", *options)
    assert done.code == 0, done.err
    assert scores("run") == [[1.0, 1.0]]


def test_one_text_is_graded_as_the_options_say(assay: Any, files: Any) -> None:
    data = files("rows.jsonl", [{"completion": REPLY, "answer": "4"}])
    command = ["grade", data, "-r", files("rubric.json", CHECKS), "-f", "json"]
    assert '"score": 0.0' in assay(*command).out
    assert '"score": 0.5' in assay(*command, "--parser", "boxed").out
    assert '"score": 1.0' in assay(*command, "--parser", "boxed", "--thinking", "shown").out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--parser", "boxd"], "there is no parser 'boxd': did you mean 'boxed'?"),
        (["--parser", "xml"], "write parser: {xml: [think, answer]}"),
        (["--parser", "{xml: [think"], "Failed to parse YAML"),
        (["--thinking", "maybe"], "'maybe' is not one of"),
    ],
)
def test_what_cannot_be_read_with_is_refused(
    assay: Any, files: Any, options: list[str], words: str
) -> None:
    data = files("rows.jsonl", [{"completion": REPLY, "answer": "4"}])
    done = assay("score", data, "-r", files("rubric.json", CHECKS), *options)
    assert done.code == 2
    assert words in done.err
