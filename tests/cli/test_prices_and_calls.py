"""`--price`, `--budget` and `--max-calls`: limits on what models may cost."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from assay.cli import main
from assay.testing import Fault

pytestmark = pytest.mark.usefixtures("cache_folder")

JUDGED = [{"requirement": "Names Paris"}]


@pytest.fixture
def assay(capsys: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run the command line in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> SimpleNamespace:
        code = main([*arguments])
        printed = capsys.readouterr()
        return SimpleNamespace(code=code, out=printed.out, err=printed.err)

    return run


@pytest.fixture
def data(write_file: Any) -> str:
    return write_file(
        "data.jsonl", [{"prompt": f"Question {n}", "completion": "x"} for n in range(4)]
    )


@pytest.fixture
def rubric(write_file: Any) -> str:
    return write_file("rubric.json", JUDGED)


def test_a_budget_without_a_known_price_is_refused(
    assay: Any, serve: Any, data: str, rubric: str
) -> None:
    server = serve("MET")
    judge = ("-r", rubric, "--judge", server.model, "--no-cache")
    for command in (("score", data), ("grade", "--text", "Paris")):
        done = assay(*command, *judge, "--budget", "1")
        assert done.code == 1
        assert f"the price of {server.model} is not known" in done.err
        assert "--price" in done.err
        assert "--max-calls" in done.err
    assert server.requests == []


def test_a_model_can_be_declared_as_free(assay: Any, serve: Any, data: str, rubric: str) -> None:
    server = serve("MET")
    judge = ("-r", rubric, "--judge", server.model, "--no-cache")
    done = assay("score", data, *judge, "--budget", "1", "--price", "0,0")
    assert (done.code, server.calls) == (0, 4)
    assert ", $0\n" in done.out


def test_without_a_price_the_cost_is_unknown_and_not_zero(
    assay: Any, serve: Any, data: str, rubric: str
) -> None:
    done = assay("score", data, "-r", rubric, "--judge", serve("MET").model, "--no-cache")
    assert done.code == 0
    assert "cost unknown" in done.out


def test_the_price_applies_to_input_and_output(
    assay: Any, serve: Any, data: str, rubric: str
) -> None:
    """In dollars per million tokens: a million for input is a dollar for each token."""
    server = serve("MET")
    price = f"{server.model}=1000000,0"
    judge = ("-r", rubric, "--judge", server.model, "--no-cache", "-f", "json")
    done = assay("score", data, *judge, "--price", price)
    assert json.loads(done.out)["summary"]["spent"]["cost"] == server.prompt_tokens


def test_a_budget_with_a_price_stops_the_run(
    assay: Any, serve: Any, data: str, rubric: str
) -> None:
    server = serve("MET")
    judge = (
        "-r",
        rubric,
        "--judge",
        server.model,
        "--no-cache",
        "-f",
        "json",
        "--price",
        "1000,1000",
    )
    one = json.loads(assay("score", data, *judge, "--limit", "1").out)
    server.reset()
    dollars = 2.5 * one["summary"]["spent"]["cost"]
    done = assay("score", data, *judge, "--budget", str(dollars))
    assert (done.code, server.calls) == (1, 2)


def test_each_model_has_its_own_price(assay: Any, serve: Any, data: str, rubric: str) -> None:
    model = serve("an answer")
    judge = serve("MET")
    command = ("eval", data, "-r", rubric, "-m", model.model, "--judge", judge.model, "--no-cache")
    unclear = assay(*command, "--price", "0,0")
    assert unclear.code == 2
    assert "name the model, as in" in unclear.err
    incomplete = assay(*command, "--budget", "1", "--price", f"{model.model}=0,0")
    assert f"the price of {judge.model} is not known" in incomplete.err
    incomplete = assay(*command, "--budget", "1", "--price", f"{judge.model}=0,0")
    assert f"the price of {model.model} is not known" in incomplete.err
    assert model.requests == judge.requests == []
    prices = ("--price", f"{model.model}=0,0", "--price", f"{judge.model}=0,0")
    assert assay(*command, "--budget", "1", *prices).code == 0


@pytest.mark.parametrize("price", ["1", "a,b", "1,-1", "1,2,3", "", "model="])
def test_a_price_must_be_two_amounts(assay: Any, data: str, rubric: str, price: str) -> None:
    done = assay("score", data, "-r", rubric, "--judge", "openai/x", "--price", price)
    assert done.code == 2
    assert "is not a price: write 0.5,1.5 or MODEL=0.5,1.5" in done.err


def test_a_price_of_a_model_that_is_not_called_is_refused(
    assay: Any, serve: Any, data: str, rubric: str
) -> None:
    server = serve("MET")
    done = assay("score", data, "-r", rubric, "--judge", server.model, "--price", "openai/gpt=1,2")
    assert done.code == 2
    assert "--price is for 'openai/gpt', which this command does not ask" in done.err


def test_lint_limits_the_model_that_proposes_fixes(assay: Any, serve: Any, write_file: Any) -> None:
    server = serve('{"reason": "", "requirements": ["Names the author", "Gives the year"]}')
    rubric = write_file("two.yaml", "- requirement: Names the author and gives the year\n")
    fix = ("lint", rubric, "--fix", "--judge", server.model)
    refused = assay(*fix, "--budget", "1")
    assert "--price" in refused.err + refused.out
    assert server.requests == []
    assay(*fix, "--budget", "1", "--price", "0,0")
    assert server.calls > 0


def test_failed_attempts_count_as_calls(assay: Any, serve: Any, data: str, rubric: str) -> None:
    """One of five requests fails, so the last of the four rollouts is still scored."""
    server = serve("MET", faults=[Fault.failing()])
    judge = ("-r", rubric, "--judge", server.model, "--no-cache")
    done = assay("score", data, *judge, "--max-calls", "4")
    assert (done.code, len(server.requests), server.calls) == (1, 4, 3)
    assert "4 requests, 3 answered" in done.err


def test_a_limit_of_calls_needs_a_single_process(assay: Any, data: str, rubric: str) -> None:
    options = ("--backend", "processes", "-o", "run", "--max-calls", "4")
    done = assay("score", data, "-r", rubric, "--judge", "openai/x", *options)
    assert done.code == 2
    assert "--max-calls works only in one process" in done.err


def test_a_dry_run_counts_row_rubrics_for_every_sample(
    assay: Any, serve: Any, write_file: Any
) -> None:
    """2 + 3 + 2 + 3 criteria and as many answers as rows, for each of three samples."""
    answers = iter(range(100))
    model = serve(lambda messages: f"answer {next(answers)}")
    judge = serve("MET")
    rows: list[dict[str, Any]] = []
    for number in range(4):
        rubric = [{"requirement": f"Says {word}"} for word in ("one", "two", "three")]
        if number % 2 == 0:
            rubric.pop()
        rows.append({"prompt": f"Question {number}", "rubric": rubric})
    data = write_file("own.jsonl", rows)
    command = ("eval", data, "-m", model.model, "--judge", judge.model, "--no-cache")
    options = ("--samples", "3")
    estimate = assay(*command, *options, "--dry-run")
    assert estimate.out.startswith("12 rollouts would take 42 calls, ")
    assert model.requests == judge.requests == []
    assert assay(*command, *options).code == 0
    assert (model.calls, judge.calls) == (12, 30)


def test_a_dry_run_gives_the_worst_case_for_row_rubrics(
    assay: Any, serve: Any, write_file: Any
) -> None:
    """Every unreadable reply is requested again: no more calls than the worst case."""
    judge = serve("neither yes nor no")
    rows = [{"completion": f"text {n}", "rubric": JUDGED} for n in range(3)]
    command = ("score", write_file("own.jsonl", rows), "--judge", judge.model, "--no-cache")
    estimate = assay(*command, "--dry-run").out
    assert estimate.startswith("3 rollouts would take 3 calls, ")
    worst_case = re.search(r"at most ([\d,]+) calls", estimate)
    assert worst_case is not None
    assert assay(*command).code == 1
    assert 3 < len(judge.requests) <= int(worst_case[1])


def test_a_saved_run_shows_that_its_budget_ran_out(
    assay: Any, serve: Any, data: str, rubric: str
) -> None:
    """A later reader did not see the output of the command."""
    judge = ("-r", rubric, "--judge", serve("MET").model, "--no-cache")
    assay("score", data, *judge, "--max-calls", "3", "-o", "run")
    cut = assay("show", "run").out
    assert "1 unscored; the budget ran out, so the means are biased" in cut
    assay("score", data, *judge, "--max-calls", "5", "-o", "run", "--resume")
    assert "budget" not in assay("show", "run").out
