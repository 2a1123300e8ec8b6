"""`--parser` and `--thinking`: the part of an answer that checks and judges read."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from assay.cli import main
from assay.runs import Run

pytestmark = pytest.mark.usefixtures("cache_folder")

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
def test_options_override_the_rubric_and_row_rubrics(
    assay: Any, write_file: Any, backend: list[str]
) -> None:
    own = {"parser": "text", "thinking": "hidden", "criteria": CHECKS}
    rows = [
        {"completion": REPLY, "answer": "4"},
        {"completion": REPLY, "answer": "4", "rubric": own},
    ]
    command = ["score", write_file("rows.jsonl", rows), "-r", write_file("rubric.json", CHECKS)]
    assert assay(*command, "-o", "plain", *backend).code == 0
    options = ["--parser", "boxed", "--thinking", "shown"]
    assert assay(*command, "-o", "other", *options, *backend).code == 0
    assert scores("plain") == [[0.0, 0.0], [0.0, 0.0]]
    assert scores("other") == [[1.0, 1.0], [1.0, 1.0]]


def test_a_run_is_not_continued_with_another_parser(assay: Any, write_file: Any) -> None:
    data = write_file("rows.jsonl", [{"completion": REPLY, "answer": "4"}])
    command = ["score", data, "-r", write_file("rubric.json", CHECKS), "-o", "run"]
    assert assay(*command, "--parser", "boxed").code == 0
    done = assay(*command, "--parser", "think", "--resume")
    assert done.code == 2
    assert "the rubric has changed" in done.err


def test_the_options_apply_to_an_evaluation(assay: Any, write_file: Any, serve: Any) -> None:
    data = write_file("rows.jsonl", [{"question": "2 + 2?", "answer": "4"}])
    command = ["eval", data, "-r", write_file("rubric.json", CHECKS), "-m", serve(REPLY).model]
    options = ["--parser", "boxed", "--thinking", "shown"]
    assert assay(*command, "-o", "run", *options).code == 0
    assert scores("run") == [[1.0, 1.0]]


def test_the_options_apply_to_an_environment(assay: Any, write_file: Any, serve: Any) -> None:
    source = """
        from assay import Rubric, SingleTurnEnv

        def load_environment():
            rows = [{"question": "2 + 2?", "answer": "4"}]
            checks = [{"check": "exact_match"}, {"check": {"contains": "5?"}}]
            return SingleTurnEnv(eval_dataset=rows, rubric=Rubric(checks))
    """
    lines = [line.removeprefix(" " * 8) for line in source.splitlines()]
    environment = write_file("sums_environment.py", "\n".join(lines))
    options = ["--parser", "boxed", "--thinking", "shown"]
    done = assay("eval", environment, "-m", serve(REPLY).model, "-o", "run", *options)
    assert done.code == 0, done.err
    assert scores("run") == [[1.0, 1.0]]


def test_the_options_apply_to_grading_a_text(assay: Any, write_file: Any) -> None:
    data = write_file("rows.jsonl", [{"completion": REPLY, "answer": "4"}])
    command = ["grade", data, "-r", write_file("rubric.json", CHECKS), "-f", "json"]
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
def test_invalid_parsers_are_refused(
    assay: Any, write_file: Any, options: list[str], words: str
) -> None:
    data = write_file("rows.jsonl", [{"completion": REPLY, "answer": "4"}])
    done = assay("score", data, "-r", write_file("rubric.json", CHECKS), *options)
    assert done.code == 2
    assert words in done.err
