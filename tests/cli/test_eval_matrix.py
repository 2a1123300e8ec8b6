"""`assay eval` with prompt templates, and with several models and prompts in one command."""

import json
from pathlib import Path
from typing import Any

import pytest

from assay.cli import main
from assay.runs import Run
from assay.testing import Fault

QUESTIONS = [
    {"id": "fr", "question": "The capital of France?", "answer": "Paris", "category": "europe"},
    {"id": "it", "question": "The capital of Italy?", "answer": "Rome", "category": "europe"},
    {"id": "cl", "question": "The capital of Chile?", "answer": "Santiago", "category": "america"},
]
RUBRIC = [{"name": "right", "check": "exact_match"}]

pytestmark = pytest.mark.usefixtures("cache_folder")


def answer_all(system: str, user: str) -> str:
    """Answer every question of the data."""
    for question in QUESTIONS:
        if question["question"] in user.splitlines()[-1]:
            return question["answer"]
    return "?"


def answer_paris(system: str, user: str) -> str:
    return "Paris"


@pytest.fixture
def evaluate(write_file: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Any:
    """Return a function that runs `assay eval` on the questions and returns its exit code and output."""
    monkeypatch.chdir(tmp_path)
    write_file("questions.jsonl", QUESTIONS)
    write_file("rubric.json", RUBRIC)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(["eval", "questions.jsonl", "-r", "rubric.json", "--no-cache", *arguments])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def test_a_prompt_template_is_filled_with_the_columns(
    evaluate: Any, serve: Any, write_file: Any
) -> None:
    server = serve(answer_all)
    write_file("prompt.yaml", "system: You know {category}.\nuser: 'Q: {question}'\n")
    code, _, _ = evaluate("-m", server.model, "--prompt", "prompt.yaml", "--limit", "1")
    assert code == 0
    assert server.requests[0].body["messages"] == [
        {"role": "system", "content": "You know europe."},
        {"role": "user", "content": "Q: The capital of France?"},
    ]


def test_few_shot_examples_come_from_a_table(evaluate: Any, serve: Any, write_file: Any) -> None:
    server = serve(answer_all)
    write_file("prompt.txt", "Q: {question}\n")
    shots = [
        {"question": "The capital of Japan?", "answer": "Tokyo"},
        {"question": "The capital of Peru?", "answer": "Lima"},
    ]
    write_file("shots.jsonl", shots)
    command = ["-m", server.model, "--prompt", "prompt.txt", "--few-shot", "shots.jsonl"]
    evaluate(*command, "--shots", "1", "--system-prompt", "Know {category}.", "--limit", "1")
    assert server.requests[0].body["messages"] == [
        {"role": "system", "content": "Know europe."},
        {"role": "user", "content": "Q: The capital of Japan?"},
        {"role": "assistant", "content": "Tokyo"},
        {"role": "user", "content": "Q: The capital of France?"},
    ]


def test_a_missing_column_is_an_error_that_names_the_columns(
    evaluate: Any, serve: Any, write_file: Any
) -> None:
    server = serve(answer_all)
    write_file("prompt.txt", "{question} in {language}")
    code, _, error = evaluate("-m", server.model, "--prompt", "prompt.txt")
    assert (code, server.calls) == (2, 0)
    assert "'language'" in error
    assert "question" in error
    assert "category" in error


def test_sampling_options_reach_the_model(evaluate: Any, serve: Any) -> None:
    server = serve(answer_all)
    options = ["--temperature", "0.5", "--top-p", "0.9", "--stop", "\n\n", "--stop", "END"]
    evaluate("-m", server.model, *options, "--max-tokens", "7", "--limit", "1")
    body = server.requests[0].body
    assert body["temperature"] == 0.5
    assert body["top_p"] == 0.9
    assert body["stop"] == ["\n\n", "END"]
    assert 7 in (body.get("max_tokens"), body.get("max_completion_tokens"))


def test_every_sample_has_its_own_seed(evaluate: Any, serve: Any) -> None:
    server = serve(answer_all)
    evaluate("-m", server.model, "--seed", "7", "--samples", "3", "--limit", "1")
    assert sorted(asked.body["seed"] for asked in server.requests) == [7, 8, 9]


def test_several_models_and_prompts_make_one_table(
    evaluate: Any, serve: Any, write_file: Any
) -> None:
    small = serve(answer_paris, name="small")
    big = serve(answer_all, name="big")
    write_file("short.txt", "{question}")
    write_file("long.txt", "Think, then answer.\n{question}")
    models = ["-m", small.model, "-m", big.model]
    prompts = ["--prompt", "short.txt", "--prompt", "long.txt"]
    code, out, _ = evaluate(*models, *prompts, "-o", "runs")
    assert code == 0
    assert (small.calls, big.calls) == (6, 6)
    lines = [line.split() for line in out.splitlines()]
    assert lines[2] == ["model", "prompt", "score", "europe", "america", "rollouts"]
    assert lines[3][:3] == ["small", "short", "0.333"]
    assert lines[4][:3] == ["small", "long", "0.333"]
    assert lines[5][:3] == ["big", "short", "1"]
    assert " to " in out
    folders = sorted(path.name for path in Path("runs").iterdir())
    assert folders == ["big-long", "big-short", "small-long", "small-short"]
    assert Run.open("runs/big-long").about.model == big.model

    code, out, _ = evaluate(*models, *prompts, "-o", "runs", "--resume", "-f", "json")
    assert (small.calls, big.calls) == (6, 6)
    table = json.loads(out)["runs"]
    assert [(run["model"], run["prompt"]) for run in table] == [
        ("small", "short"),
        ("small", "long"),
        ("big", "short"),
        ("big", "long"),
    ]
    assert table[3]["summary"]["tasks"]["america"]["score"]["mean"] == 1.0


def test_compare_finds_the_pairs_of_a_matrix(
    evaluate: Any, serve: Any, write_file: Any, capsys: Any
) -> None:
    """Pairs that differ in the model or in the prompt, but not in both."""
    small = serve(answer_paris, name="small")
    big = serve(answer_all, name="big")
    write_file("short.txt", "{question}")
    write_file("long.txt", "Think, then answer.\n{question}")
    prompts = ["--prompt", "short.txt", "--prompt", "long.txt"]
    evaluate("-m", small.model, "-m", big.model, *prompts, "-o", "runs")
    assert main(["compare", "runs", "-f", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    pairs = {(pair["first"], pair["second"]): pair["settings"] for pair in data["pairs"]}
    assert pairs == {
        ("big-long", "big-short"): ["prompt"],
        ("big-long", "small-long"): ["model"],
        ("big-short", "small-short"): ["model"],
        ("small-long", "small-short"): ["prompt"],
    }
    assert data["decision"].startswith("big-long has the highest mean score, 1.000; no difference")
    assert main(["compare", "runs/big-short", "runs/small-long"]) == 0
    assert "prompt" in capsys.readouterr().out

    evaluate("-m", small.model, "-m", big.model, *prompts, "-o", "later")
    assert main(["compare", "runs", "later", "--fail-if-worse"]) == 0
    assert capsys.readouterr().err == "No difference can be shown in any of 4 pairs\n"
    assert main(["compare", "runs/big-long"]) == 2
    assert "name two runs" in capsys.readouterr().err


def test_the_threshold_for_passing_can_be_given(evaluate: Any, serve: Any, capsys: Any) -> None:
    """It is saved with the run and printed with the rates; `assay show` can use another one."""
    server = serve(answer_paris)
    command = ["-m", server.model, "-o", "run", "--samples", "2", "--pass-at", "0.5"]
    _, out, _ = evaluate(*command, "-f", "markdown")
    assert "k, score ≥ 0.5" in out
    assert "2, task europe" in out
    assert Run.open("run").about.pass_rule.threshold == 0.5
    assert main(["show", "run", "--pass-at", "0", "-f", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)["summary"]
    assert (shown["threshold"], shown["passes"]["2"]["all"]) == (0.0, 1.0)
    assert main(["show", "run", "--examples", "-f", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["pass_rule"] == "score ≥ 0.5"
    assert [(line["example"], line["passed"]) for line in shown["examples"]] == [
        ("it", 0),
        ("cl", 0),
        ("fr", 2),
    ]
    assert main(["show", "run", "--examples", "-f", "csv"]) == 2


def test_resuming_a_matrix_repeats_only_failed_runs(evaluate: Any, serve: Any) -> None:
    small = serve(answer_all, name="small", faults=[Fault.refusing("no"), None, None])
    big = serve(answer_all, name="big")
    command = ["-m", small.model, "-m", big.model, "-o", "runs"]
    code, out, error = evaluate(*command)
    assert code == 1
    assert "1 unscored" in out
    assert "--resume" in error
    answered = (small.calls, big.calls)
    code, out, _ = evaluate(*command)
    assert code == 2
    code, out, _ = evaluate(*command, "--resume")
    assert code == 0
    assert "unscored" not in out
    assert (small.calls, big.calls) == (answered[0] + 1, answered[1])


def test_thresholds_apply_to_every_run_of_a_matrix(evaluate: Any, serve: Any) -> None:
    small = serve(answer_paris, name="small")
    big = serve(answer_all, name="big")
    models = ["-m", small.model, "-m", big.model]
    code, _, error = evaluate(*models, "--fail-under", "0.5")
    assert code == 100
    assert error.startswith("small: ")


def test_a_matrix_is_printed_in_formats_for_tables(evaluate: Any, serve: Any) -> None:
    small = serve(answer_all, name="small")
    big = serve(answer_all, name="big")
    code, _, error = evaluate("-m", small.model, "-m", big.model, "-f", "csv")
    assert code == 2
    assert "choose table, json or markdown" in error


def test_a_dry_run_of_a_matrix_counts_all_calls(evaluate: Any, serve: Any) -> None:
    small = serve(answer_all, name="small")
    big = serve(answer_all, name="big")
    _, out, _ = evaluate("-m", small.model, "-m", big.model, "--dry-run", "--samples", "2")
    assert out.startswith("12 rollouts in 2 runs would take 12 calls, ")
    assert small.requests == []


def test_a_model_or_prompt_that_is_given_twice_is_refused(
    evaluate: Any, serve: Any, write_file: Any
) -> None:
    server = serve(answer_all)
    code, _, error = evaluate("-m", server.model, "-m", server.model)
    assert code == 2
    assert "was given twice" in error
    Path("other").mkdir()
    write_file("prompt.txt", "{question}")
    write_file("other/prompt.txt", "Q: {question}")
    prompts = ["--prompt", "prompt.txt", "--prompt", "other/prompt.txt"]
    code, _, error = evaluate("-m", server.model, *prompts)
    assert code == 2
    assert "two prompts are called 'prompt'" in error


def test_the_config_file_can_have_settings_for_each_model(
    evaluate: Any, serve: Any, write_file: Any
) -> None:
    server = serve(answer_all, name="qwen")
    write_file(
        "assay.toml",
        f"""
temperature = 0.1
max-tokens = 50

[models.cool]
model = "{server.model}"
temperature = 0.3
stop = ["END"]
price = [1000.0, 1000.0]
extra_body = {{ reasoning_effort = "low" }}

[models.warm]
model = "{server.model}"
top-p = 0.5
""",
    )
    code, out, _ = evaluate("-m", "cool", "-m", "warm", "--limit", "1", "-o", "runs")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[3:5]] == ["cool", "warm"]
    by_temperature = {asked.body["temperature"]: asked.body for asked in server.requests}
    assert by_temperature[0.3]["stop"] == ["END"]
    assert by_temperature[0.3]["reasoning_effort"] == "low"
    assert by_temperature[0.1]["top_p"] == 0.5
    assert Run.open("runs/cool").summary().spent.cost
    assert Run.open("runs/warm").summary().spent.cost is None

    evaluate("-m", "cool", "--temperature", "0.9", "--limit", "1")
    assert server.requests[-1].body["temperature"] == 0.9


def test_wrong_settings_of_a_model_are_refused(evaluate: Any, write_file: Any) -> None:
    write_file("assay.toml", "[models.small]\ntemprature = 1.0\n")
    code, _, error = evaluate("-m", "small")
    assert code == 2
    assert "'models.small.temprature': did you mean 'temperature'?" in error
    write_file("assay.toml", '[models.small]\nmodel = "openai/x"\nprice = [1.0]\n')
    code, _, error = evaluate("-m", "small")
    assert code == 2
    assert "models.small.price is [1.0]" in error


def test_an_address_in_a_config_file_that_was_found_is_not_called(
    evaluate: Any, write_file: Any
) -> None:
    write_file("assay.toml", '[models.small]\nmodel = "https://elsewhere.example/v1#small"\n')
    code, _, error = evaluate("-m", "small")
    assert code == 2
    assert "may be sent keys" in error


@pytest.mark.parametrize(
    ("option", "nearest"),
    [
        ("--prompt-template", "--prompt"),
        ("--max-token", "--max-tokens"),
        ("--temprature", "--temperature"),
        ("--max-concurrency", "--concurrency"),
        ("--few-shots", "--few-shot"),
        ("--epochs", "--samples"),  # in inspect_ai
        ("--repeat", "--samples"),  # in promptfoo
    ],
)
def test_an_unknown_option_suggests_the_nearest_one(
    evaluate: Any, option: str, nearest: str
) -> None:
    code, _, error = evaluate("-m", "small", option, "1")
    assert code == 2
    assert f"Did you mean '{nearest}'?" in error


def test_a_misspelt_model_of_the_config_file_suggests_the_right_one(
    evaluate: Any, write_file: Any
) -> None:
    write_file("assay.toml", '[models.small]\nmodel = "openai/gpt-5-mini"\n')
    code, _, error = evaluate("-m", "smal")
    assert code == 2
    assert "did you mean 'small'?" in error


def test_a_folder_of_runs_cannot_be_shown_as_one_run(
    evaluate: Any, serve: Any, capsys: Any
) -> None:
    server = serve(answer_all)
    evaluate("-m", server.model, "-m", serve(answer_paris, name="other").model, "-o", "runs")
    assert main(["show", "runs"]) == 2
    assert "the runs in it are listed by: assay list runs" in capsys.readouterr().err
