"""`assay suggest`: criteria drafted and judged with real HTTP; output, exit codes and costs."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from assay import Rubric
from assay.cli import main
from assay.testing import Fault

FIGURE = {"reason": "r", "requirement": "Gives a figure in digits", "weight": 2}
ENDS = {"reason": "r", "requirement": "Ends with a full stop", "weight": 1}
PAIRS = [
    {"prompt": f"Animal {n}?", "chosen": f"It has {n} legs.", "rejected": "It has some."}
    for n in range(9)
]
pytestmark = pytest.mark.usefixtures("cache_folder")


def rule(*proposed: dict[str, Any]) -> Any:
    """Return a model that proposes these criteria; `figure` is met if there is a digit, any other always."""

    def answer(system: str, user: str) -> Any:
        if system.startswith("You write criteria"):
            return {"reason": "as the rule says", "criteria": list(proposed)}
        text = user.partition("<response>")[2].partition("</response>")[0]
        return "MET" if "full stop" in user or any(c.isdigit() for c in text) else "UNMET"

    return answer


@pytest.fixture
def suggest(write_file: Any, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run the command on these pairs; return its exit code, output and error output."""
    path = write_file("pairs.jsonl", PAIRS)

    def run(*options: str, model: Any) -> SimpleNamespace:
        source = [] if "--prompt" in options or "--pairs" in options else ["--pairs", path]
        code = main(["suggest", *source, "--judge", model.model, *options])
        said = capsys.readouterr()
        return SimpleNamespace(code=code, out=said.out, err=said.err)

    return run


def test_the_rubric_is_printed_and_dropped_criteria_are_reported(suggest: Any, serve: Any) -> None:
    """YAML on standard output, dropped criteria with reasons on standard error."""
    done = suggest(model=serve(rule(FIGURE, ENDS)))
    assert done.code == 0
    rubric = Rubric.from_yaml(done.out)
    assert [criterion.requirement for criterion in rubric.criteria] == ["Gives a figure in digits"]
    assert len(rubric.golden) == 6
    assert done.err.startswith("1 of 2 criteria kept\n")
    assert "it says the same of both in every pair" in done.err
    assert "25 calls" in done.err


def test_a_file_is_written_and_never_overwritten(
    suggest: Any, serve: Any, tmp_path: Path, capsys: Any
) -> None:
    """The rubric is named after the file, and its golden examples pass."""
    server, path = serve(rule(FIGURE)), tmp_path / "legs.yaml"
    assert suggest("-o", str(path), model=server).code == 0
    assert Rubric.from_file(path).name == "legs"
    assert main(["rubric", "test", str(path), "--judge", server.model]) == 0
    capsys.readouterr()
    text, calls = path.read_text(), server.calls
    done = suggest("-o", str(path), model=server)
    assert (done.code, server.calls, path.read_text()) == (2, calls, text)
    assert "legs.yaml would be overwritten" in done.err


def test_criteria_can_be_drafted_from_a_prompt_and_references(
    suggest: Any, serve: Any, write_file: Any
) -> None:
    """Good answers are the rows of a table, or one text."""
    task = write_file("task.txt", "How many legs has a spider?")
    rows = write_file("good.jsonl", [{"text": "8 legs."}, {"text": "It has 8."}])
    done = suggest("--prompt", task, "--references", rows, model=serve(rule(FIGURE, ENDS)))
    assert done.code == 0
    golden = Rubric.from_yaml(done.out).golden
    assert [example.name for example in golden] == ["reference_1", "reference_2", "off_topic"]
    assert golden[0].fields["prompt"] == "How many legs has a spider?"
    one = write_file("good.txt", "8 legs.")
    assert suggest("--prompt", task, "--references", one, model=serve(rule(FIGURE))).code == 0


def test_the_result_can_be_printed_as_json(suggest: Any, serve: Any) -> None:
    """Kept and dropped criteria, with their figures."""
    data = json.loads(suggest("--json", model=serve(rule(FIGURE, ENDS))).out)
    assert [each["better"] for each in data["kept"]] == [6]
    assert [each["alike"] for each in data["dropped"]] == [6]


def test_exit_code_100_and_no_file_if_nothing_is_kept(
    suggest: Any, serve: Any, tmp_path: Path
) -> None:
    done = suggest("-o", str(tmp_path / "none.yaml"), model=serve(rule(ENDS)))
    assert (done.code, done.out) == (100, "")
    assert not (tmp_path / "none.yaml").exists()
    assert done.err.startswith("0 of 1 criterion kept\n")


def test_missing_verdicts_give_exit_code_1(suggest: Any, serve: Any) -> None:
    """Their pairs are not counted."""

    def fault(call: int) -> Fault | None:
        return Fault.refusing("no", 404) if call >= 12 else None

    done = suggest(model=serve(rule(FIGURE), faults=fault))
    assert done.code == 1
    assert "1 comparison without a verdict, left out" in done.err


def test_a_dry_run_estimates_the_calls(suggest: Any, serve: Any) -> None:
    """One call to draft, and two criteria on both sides of six pairs."""
    server = serve(rule(FIGURE))
    done = suggest("--dry-run", "--most", "2", model=server)
    assert (done.code, server.calls) == (0, 0)
    assert done.out.startswith("it would take 25 calls,")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--prompt", "task.txt"], "--prompt and --references go together"),
        (["--prompt", "t", "--references", "r", "--pairs", "p"], "give either --pairs"),
        (["--prompt", "nowhere.txt", "--references", "r"], "nowhere.txt is not a file"),
        (["--pairs", "nowhere.jsonl"], "File not found"),
        (["--limit", "4"], "4 prompts are too few"),
        (["-o", "rubric.json"], "must end in .yaml"),
        (["-o", "no/folder/rubric.yaml"], "no/folder is not a folder"),
        (["--grader", "holistic"], "one number for the whole"),
    ],
)
def test_invalid_options_give_exit_code_2(
    suggest: Any, serve: Any, options: list[str], words: str, tmp_path: Path, monkeypatch: Any
) -> None:
    """Without calls."""
    monkeypatch.chdir(tmp_path)
    server = serve(rule(FIGURE))
    done = suggest(*options, model=server)
    assert (done.code, server.calls) == (2, 0)
    assert words in done.err
