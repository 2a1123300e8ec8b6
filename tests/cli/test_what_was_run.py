"""A run records what was run and which requests were sent, and `assay show` prints it."""

import json
import sqlite3
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assay import Rubric
from assay.cli import main
from assay.envs import SingleTurnEnv, ToolEnv
from assay.runs import Run, RunAbout, RunError, score_rows_sync
from assay.runs.metadata import find_git_commit
from assay.testing import ModelServer, tool_call

QUESTIONS = [{"id": "fr", "question": "The capital of France?", "answer": "Paris"}]
RUBRIC = [{"name": "polite", "requirement": "Is polite"}]
PROMPT = "system: Be brief.\nfew_shot:\n- {user: 1 + 1?, assistant: '2'}\nuser: 'Q: {question}'\n"

pytestmark = pytest.mark.usefixtures("cache_folder")


def answer(system: str, user: str) -> Any:
    if "criterion" in system:
        return {"explanation": "It is.", "criterion_status": "MET"}
    return "Paris."


@pytest.fixture
def evaluate(
    write_file: Any, serve: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> Any:
    """Return a function that runs `assay eval` into `run`, and returns its exit code and messages."""
    monkeypatch.chdir(tmp_path)
    write_file("questions.jsonl", QUESTIONS)
    write_file("rubric.json", RUBRIC)
    write_file("brief.yaml", PROMPT)
    model, judge = serve(answer), serve(answer)

    def run(*arguments: str) -> tuple[int, str]:
        command = ["eval", "questions.jsonl", "-r", "rubric.json", "--no-cache", "-o", "run"]
        command += ["-m", model.model, "--judge", judge.model, "--prompt", "brief.yaml"]
        code = main([*command, *arguments])
        return code, capsys.readouterr().err

    run.servers = (model, judge)
    return run


def show(capsys: Any, *arguments: str) -> str:
    code = main(["show", "run", *arguments])
    printed = capsys.readouterr()
    assert code == 0, printed.err
    return printed.out


def test_show_prints_what_was_run(evaluate: Any, capsys: Any) -> None:
    """Data and its hash, sampling, prompt, environment and versions."""
    assert evaluate("--temperature", "0.5")[0] == 0
    printed = show(capsys)
    about = Run.open("run").about
    assert f"data        questions.jsonl, 1 row, hash {about.data['sha256'][:12]}" in printed
    assert "sampling    temperature 0.5\n" in printed
    assert 'brief: system "Be brief."; 2 few-shot messages; user "Q: {question}"' in printed
    assert "environment SingleTurnEnv, max_turns 1\n" in printed
    assert "versions    assay " in printed


def test_a_run_with_another_prompt_is_not_resumed(evaluate: Any, write_file: Any) -> None:
    """The message shows both prompts."""
    evaluate()
    write_file("brief.yaml", PROMPT.replace("Be brief.", "Be long."))
    code, error = evaluate("--resume")
    assert code == 2
    assert "prompt was" in error
    assert "Be long." in error


def test_the_commit_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a mark if files have changed since; outside of a repository there is none."""
    monkeypatch.chdir(tmp_path)
    find_git_commit.cache_clear()
    assert find_git_commit(tmp_path) is None
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run([*git, *command], check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    find_git_commit.cache_clear()
    assert find_git_commit(tmp_path) == head.stdout.strip()
    (tmp_path / "file").write_text("1")
    subprocess.run([*git, "add", "file"], check=True)
    find_git_commit.cache_clear()
    dirty = find_git_commit(tmp_path) or ""
    assert dirty.startswith(f"{head.stdout.strip()}-dirty-")
    (tmp_path / "file").write_text("2")
    find_git_commit.cache_clear()
    assert find_git_commit(tmp_path) not in (dirty, None)
    find_git_commit.cache_clear()


def test_a_run_in_the_repository_is_not_a_change_of_the_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    commit_all("first")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "run.assay").write_text("1")
    commit_all("the run")
    head = find_git_commit(tmp_path)
    (tmp_path / "folder" / "run.assay").write_text("2")
    find_git_commit.cache_clear()
    assert find_git_commit(tmp_path) == head
    find_git_commit.cache_clear()


def commit_all(message: str) -> None:
    """Commit all files of the current folder, and make it a repository first if necessary."""
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    commit = ["commit", "-q", "--allow-empty", "-m", message]
    for command in (["init", "-q"], ["add", "--all"], commit):
        subprocess.run([*git, *command], check=True)
    find_git_commit.cache_clear()


def test_a_run_is_resumed_at_another_commit_only_if_that_is_allowed(
    evaluate: Any, capsys: Any
) -> None:
    commit_all("first")
    evaluate()
    commit_all("second")
    code, error = evaluate("--resume")
    assert code == 2
    assert "git commit was" in error
    assert "--allow-changes" in error
    code, _ = evaluate("--resume", "--allow-changes")
    assert code == 0
    about = Run.open("run").about
    assert about.versions["git"] == find_git_commit(Path.cwd())
    [change] = about.changes
    assert change.endswith(f"and is {about.versions['git'][:12]}")
    assert change in show(capsys)
    # What is allowed once is the commit of the run from then on.
    code, _ = evaluate("--resume")
    assert code == 0
    find_git_commit.cache_clear()


def test_a_run_is_resumed_with_another_version_only_if_that_is_allowed(tmp_path: Path) -> None:
    rubric = Rubric([{"check": {"contains": "Paris"}}])
    rows = [{"completion": "Paris"}]
    about = RunAbout.of("score")
    older = replace(about, versions={**about.versions, "assay": "0.0.1"})
    score_rows_sync(rubric, rows, folder=tmp_path, about=older)
    with pytest.raises(RunError, match=r"assay was 0\.0\.1.*allow_changes=True"):
        score_rows_sync(rubric, rows, folder=tmp_path, about=about, resume=True)
    score_rows_sync(rubric, rows, folder=tmp_path, about=about, resume=True, allow_changes=True)
    [change] = Run.open(tmp_path).about.changes
    assert "assay was 0.0.1" in change


def test_other_data_are_refused_even_if_changes_are_allowed(evaluate: Any, write_file: Any) -> None:
    evaluate()
    write_file("questions.jsonl", [*QUESTIONS, {"id": "new", "question": "?", "answer": "!"}])
    code, error = evaluate("--resume", "--allow-changes")
    assert code == 2
    assert "the data have changed" in error


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def make_tool(offset: int) -> Any:
    def total(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b + offset

    return total


def test_a_run_with_a_changed_tool_is_not_resumed(tmp_path: Path) -> None:
    """The hash of a tool covers its code."""
    with ModelServer("3") as server:
        rubric = Rubric([{"check": {"contains": "3"}}])

        def run(offset: int, *, resume: bool) -> None:
            env = ToolEnv([{"question": "1 + 2?"}], tools=[make_tool(offset)], rubric=rubric)
            env.evaluate_sync(model=server.model, run=tmp_path / "run", resume=resume)

        run(0, resume=False)
        run(0, resume=True)
        with pytest.raises(RunError, match="tools was"):
            run(1, resume=True)


def test_the_exact_requests_are_shown(evaluate: Any, capsys: Any) -> None:
    """Those to the model under test and to the judge, as the endpoints received them."""
    evaluate("--save-requests", "--temperature", "0.5", "--seed", "3")
    model, judge = evaluate.servers
    row = Run.open("run").row("fr")
    requests = {call["role"]: call["request"] for call in row.calls}
    assert requests == {"model": model.requests[0].body, "judge": judge.requests[0].body}
    with sqlite3.connect("run/run.assay") as connection:
        saved = connection.execute("SELECT role, input_tokens, output_tokens FROM calls").fetchall()
    assert saved == [
        ("model", model.prompt_tokens, model.completion_tokens),
        ("judge", judge.prompt_tokens, judge.completion_tokens),
    ]
    printed = show(capsys, "--row", "fr", "--requests")
    assert f"request to the model under test, {model.model}" in printed
    assert json.dumps(model.requests[0].body, indent=2) in printed
    assert json.dumps(judge.requests[0].body, indent=2, ensure_ascii=False) in printed
    assert "\nreply\n  Paris." in printed


def test_requests_that_were_not_saved_cannot_be_shown(evaluate: Any, capsys: Any) -> None:
    """The message says how to save them."""
    evaluate()
    assert main(["show", "run", "--row", "fr", "--requests"]) == 2
    assert "make the run with --save-requests" in capsys.readouterr().err


def test_tokens_of_model_and_judge_are_printed_apart(evaluate: Any, capsys: Any) -> None:
    """Below the tables, and for a single rollout."""
    evaluate()
    model, judge = evaluate.servers
    model_line = f"1 call, {model.prompt_tokens} input and {model.completion_tokens} output tokens"
    judge_line = f"1 call, {judge.prompt_tokens} input and {judge.completion_tokens} output tokens"
    for printed in (show(capsys), show(capsys, "--row", "fr")):
        assert model_line in printed
        assert f"judge: {judge_line}" in printed


def test_a_conversation_is_shown_message_by_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """With roles, reasoning, calls of tools and their results."""
    monkeypatch.chdir(tmp_path)

    def reply(messages: Any) -> Any:
        if messages[-1]["role"] == "tool":
            return "<think>That was\nthe tool.</think>It is 3."
        return tool_call("add", a=1, b=2)

    with ModelServer(reply) as server:
        env = ToolEnv(
            [{"id": "sum", "question": "1 + 2?"}],
            tools=[add],
            system_prompt="Use the tool.",
            rubric=Rubric([{"check": {"contains": "3"}}]),
        )
        env.evaluate_sync(model=server.model, run="run")
    assert show(capsys, "--row", "sum").startswith(
        "prompt\n  system: Use the tool.\n  user: 1 + 2?\n"
        'completion\n  assistant calls add({"a": 1, "b": 2})\n  tool returns: 3\n'
        "  assistant, thinking: That was\n    the tool.\n  assistant: It is 3.\n"
    )
    assert "tools       add (code " in show(capsys)


def test_a_system_prompt_is_part_of_the_record(tmp_path: Path) -> None:
    """As if it stood in a template."""
    with ModelServer("4") as server:
        env = SingleTurnEnv(
            [{"question": "2 + 2?"}],
            system_prompt="Be brief.",
            rubric=Rubric([{"check": {"contains": "4"}}]),
        )
        env.evaluate_sync(model=server.model, run=tmp_path / "run")
    prompt = Run.open(tmp_path / "run").about.config["prompt"]
    assert prompt["system"] == "Be brief."


def test_a_reply_to_an_equal_request_of_another_rollout_says_so(
    evaluate: Any, write_file: Any, capsys: Any
) -> None:
    """Two samples of the same text are judged once at the same time."""
    evaluate("--samples", "2", "--save-requests")
    _, judge = evaluate.servers
    assert judge.calls == 1
    sources = [call["source"] for row in Run.open("run").rows() for call in row.calls]
    assert sorted(sources) == ["flight", "model", "model", "model"]
    printed = show(capsys, "--row", "fr", "--sample", "0", "--requests")
    printed += show(capsys, "--row", "fr", "--sample", "1", "--requests")
    assert "reply to an identical request of another rollout: this request was not sent" in printed
