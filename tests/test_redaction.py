"""Keys, passwords and logins are struck out of everything that leaves the process."""

import json
import logging
import os
import subprocess
import sys
import urllib.request
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import openai
import pytest

import assay
from assay import GradingError, Limits, PerCriterionGrader, Refused, Rubric
from assay.models import model_of
from assay.redaction import get_logger, redact, redact_settings
from assay.runs import Journal, Row, Run, RunAbout, score_rows
from assay.runs.run_file import RunFile
from assay.server import RewardServer
from assay.testing import Fault, ModelServer

KEY = "sk-" + "a1B2" * 8


@pytest.mark.parametrize(
    "name",
    [
        "api_key",
        "OPENAI_API_KEY",
        "apiKey",
        "x-api-key",
        "token",
        "hf_token",
        "accessToken",
        "password",
        "db_passwd",
        "client_secret",
        "Authorization",
        "aws_secret_access_key",
        "auth",
        "credentials",
        "passphrase",
        "key",
        "cookie",
        "judgeKey",
        "MISTRAL_KEY",
        "x-auth-token",
    ],
)
def test_a_field_with_such_a_name_is_redacted_settings(name):
    """Whatever its value looks like."""
    assert redact_settings({name: "harmless"}) == {name: "***"}
    assert redact_settings({"headers": [{name: "harmless"}]}) == {"headers": [{name: "***"}]}


@pytest.mark.parametrize(
    "name",
    [
        "max_tokens",
        "tokens",
        "tokenizer",
        "keys",
        "monkey",
        "author",
        "prompt_tokens",
        "keyboard",
        "secretary",
        "eos_token",
        "sort_key",
        "answerKey",
    ],
)
def test_a_field_that_only_sounds_so_is_kept(name):
    """These are settings."""
    assert redact_settings({name: 5, "note": name}) == {name: 5, "note": name}


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (KEY, "***"),
        (f"Authorization: Bearer {'q' * 20} and so on", "Authorization: Bearer *** and so on"),
        ("sk-ant-api03-" + "x" * 40, "***"),
        ("ghp_" + "x" * 36, "***"),
        ("hf_" + "xY1" * 10, "***"),
        ("AKIAABCDEFGHIJKLMNOP", "***"),
        ("AIza" + "x" * 35, "***"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcdef", "***"),
        ("https://ada:pw@host:8000/v1", "https://***@host:8000/v1"),
        ("postgresql://judge:pw@db/assay", "postgresql://***@db/assay"),
        ("https://host/v1?api_key=abc&n=2", "https://host/v1?api_key=***&n=2"),
        ("https://host/v1#name", "https://host/v1#name"),
        ("write to ada@example.org", "write to ada@example.org"),
        ("task-sk-1", "task-sk-1"),
        ("npm_package_installs_without_a_word", "npm_package_installs_without_a_word"),
        ("uses sk-learn-pipelines-throughout", "uses sk-learn-pipelines-throughout"),
    ],
)
def test_a_value_that_looks_like_a_secret_is_redacted_settings(text, left):
    """Wherever it stands, and nothing around it."""
    assert redact_settings({"note": [text]}) == {"note": [left]}


def test_no_secret_reaches_the_folder(tmp_path):
    """From settings, options, data, model, judge or the rubric."""
    rubric = Rubric([{"requirement": f"Does not say {KEY}"}], name=KEY)
    about = RunAbout.of(
        "score",
        rubric=rubric,
        judge=f"https://me:{KEY}@host",
        model=KEY,
        config={"api_key": "hunter2", "nested": {"password": ["hunter2"]}, KEY: 1},
        options={"token": "hunter2"},
        data={"source": f"https://host/rows.jsonl?token={KEY}"},
    )
    with Journal.open(tmp_path, about) as journal:
        journal.finish()
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert KEY.encode() not in written
    assert b"hunter2" not in written
    assert RunFile(tmp_path).read_run()["judge"] == "https://***@host"


REPEATED = (
    "http://me:pw123456@host/v1 refuses the request (401): Incorrect API key: quite-unlike-a-key"
)


def refused(completion):
    raise PermissionError(REPEATED)


async def test_no_secret_that_an_endpoint_repeats_reaches_the_folder(tmp_path, monkeypatch):
    """Neither where a judge or a check failed, nor where nothing was generated."""
    monkeypatch.setenv("MISTRAL_API_KEY", "quite-unlike-a-key")
    await score_rows(Rubric([refused]), [{"completion": "x"}], folder=tmp_path / "scored")
    with Journal.open(tmp_path / "asked", RunAbout.of("evaluate")) as journal:
        journal.write(Row("http://me:pw@host", error=f"Refused: {REPEATED}"))
    [scored], [asked] = (list(Run.open(tmp_path / name).rows()) for name in ("scored", "asked"))
    said = "http://***@host/v1 refuses the request (401): Incorrect API key: ***"
    assert scored.errors == {"refused": f"PermissionError: {said}"}
    assert scored.report.errors == scored.errors
    assert (asked.example, asked.error) == ("http://me:pw@host", f"Refused: {said}")


async def test_what_a_rollout_says_is_kept_as_it_is(tmp_path, monkeypatch):
    """It is the user's own data, and what is scored must be what was written."""
    monkeypatch.setenv("MISTRAL_API_KEY", "quite-unlike-a-key")
    fields = {"completion": f"My key is {KEY}, or quite-unlike-a-key."}
    await score_rows(Rubric([refused]), [fields], folder=tmp_path)
    [row] = Run.open(tmp_path).rows()
    assert row.fields == fields


def test_a_path_in_a_variable_with_such_a_name_is_no_secret(monkeypatch):
    """`PWD` is the folder one is in, and messages name files there."""
    monkeypatch.setenv("PWD", "/home/ada/essays")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "~/account.json")
    said = "/home/ada/essays/rubric.yaml and ~/account.json"
    assert redact(said) == said


@pytest.mark.parametrize("piece", ["sk-", "eyJ-", "xai-", "://a", "?key", "-----BEGIN ", "Bearer "])
def test_a_text_made_of_beginnings_takes_no_more_than_linear_time(piece):
    """Hours, were it quadratic."""
    assert len(redact(piece * 300_000)) > 100


SENT = "quite-unlike-a-key-7"
"""A key, or the password of a login; not known by its look, only because a model is given it."""
ECHOES = {
    "in a refusal": {"faults": lambda call: Fault.refusing(f"Wrong key {SENT}", 401)},
    "at the cut": {"faults": lambda call: Fault.refusing("x" * 370 + SENT, 401)},
    "in an error that is sent as a success": {
        "faults": lambda call: Fault(
            "odd", body=json.dumps({"error": {"code": 401, "message": SENT}})
        )
    },
    "in a verdict": {
        "answer": json.dumps({"explanation": f"You sent {SENT}.", "criterion_status": "MET"})
    },
}
JUDGED = "- {requirement: Names the capital, weight: 2}\n"


@pytest.fixture(params=ECHOES)
def endpoint(request):
    """A model endpoint that repeats the credentials it was sent."""
    with ModelServer(**ECHOES[request.param]) as server:
        yield server


def with_login(server):
    return server.model.replace("://", f"://ada:{SENT}@")


def is_clean(said: object) -> bool:
    text = str(said)
    return bool(text) and SENT[:12] not in text


def ask(endpoint: ModelServer, grader: PerCriterionGrader) -> str:
    rubric = Rubric.from_dict([{"requirement": "Names the capital"}])
    try:
        report = rubric.grade_sync("Paris", grader)
    except GradingError as error:
        return f"{error} {error.report.to_dict()}"
    return str(report.to_dict())


LIMITS = Limits(attempts=1)


def test_errors_reports_and_logs_hold_none(endpoint, caplog):
    """Of a key that was passed, and of a login in the address."""
    for source, options in ((endpoint.model, {"api_key": SENT}), (with_login(endpoint), {})):
        model = model_of(source, limits=LIMITS, **options)
        assert is_clean(model.id)
        assert is_clean(ask(endpoint, PerCriterionGrader(model=model)))
    assert "@127.0.0.1" not in caplog.text
    assert is_clean(caplog.text or "nothing was logged")


def test_nor_do_they_through_a_client(endpoint):
    """Of the key that the client sends."""
    with openai.OpenAI(api_key=SENT, base_url=endpoint.url) as client:
        model = model_of(client, "test", limits=LIMITS)
        said = ask(endpoint, PerCriterionGrader(model=model))
    assert is_clean(said)


def test_nor_do_the_replies_of_a_reward_server(endpoint):
    """With the report, and in the form of each trainer."""
    model = model_of(endpoint.model, api_key=SENT, limits=LIMITS)
    rubric = Rubric.from_dict([{"requirement": "Names the capital"}])
    rubric.grader = PerCriterionGrader(model=model)
    bodies = {
        "/v1/score": {"rollouts": [{"completion": "Paris"}], "report": True},
        "/openrlhf": {"query": ["Capital?Paris"], "prompts": ["Capital?"], "labels": [""]},
        "/slime": {"prompt": "Capital?", "response": "Paris", "label": ""},
    }
    with RewardServer(rubric) as server:
        for path, body in bodies.items():
            request = urllib.request.Request(f"{server.url}{path}", json.dumps(body).encode())
            request.add_header("Content-Type", "application/json")
            try:
                with urllib.request.urlopen(request) as answer:
                    said = answer.read().decode()
            except urllib.error.HTTPError as error:
                with error:
                    said = error.read().decode()
            assert is_clean(said), path


def run(*arguments: str, folder: Path, **variables: str) -> str:
    """All that a command of ours prints."""
    usual = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
    done = subprocess.run(
        [sys.executable, "-m", "assay", *arguments],
        cwd=folder,
        env=usual | variables,
        capture_output=True,
        text=True,
    )
    assert done.returncode in (0, 1), done
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("endpoint", ["at the cut", "in a verdict"], indirect=True)
@pytest.mark.parametrize("by", ["key", "login"])
def test_nor_does_the_command_line_or_what_it_writes(endpoint, tmp_path, by):
    """Printed lines, the hint to go on, the run with its requests, its report, and the cache."""
    (tmp_path / "rubric.yaml").write_text(JUDGED)
    (tmp_path / "rollouts.jsonl").write_text('{"completion": "Paris"}\n')
    (tmp_path / "questions.jsonl").write_text('{"prompt": "Capital?"}\n')
    named = {"ASSAY_API_KEY": SENT} if by == "key" else {}
    model = endpoint.model if by == "key" else with_login(endpoint)
    keeps = {**named, "ASSAY_CACHE": str(tmp_path / "cache")}
    for typed in (
        ["grade", "--text", "Paris", "-r", "rubric.yaml", "--judge", model],
        [
            "score",
            "rollouts.jsonl",
            "-r",
            "rubric.yaml",
            "--judge",
            model,
            "-o",
            "run",
            "--save-requests",
        ],
        ["show", "run"],
        ["report", "run", "-o", "report.html"],
        [
            "eval",
            "questions.jsonl",
            "-r",
            "rubric.yaml",
            "-m",
            model,
            "--judge",
            model,
            "-o",
            "run2",
        ],
        ["cache", "export", "-o", "verdicts.jsonl"],
    ):
        said = run(*typed, folder=tmp_path, **keeps)
        assert is_clean(said or "nothing"), typed
    said = run("models", "list", folder=tmp_path, ASSAY_JUDGE=model)
    assert is_clean(said)
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"run.assay", "report.html"} <= {path.name for path in written}
    for path in written:
        assert is_clean(path.read_bytes().decode("utf-8", "replace") or "empty"), path


def test_every_log_of_ours_says_none():
    """Each logger of the package strikes secrets out, those of traces too."""
    for module in walk_packages(assay.__path__, "assay."):
        if "__main__" not in module.name:
            try:
                import_module(module.name)
            except ImportError:
                continue  # an extra that is not installed
    ours: list[Any] = [
        logger
        for name, logger in logging.root.manager.loggerDict.items()
        if name.partition(".")[0] == "assay" and isinstance(logger, logging.Logger)
    ]
    assert len(ours) > 3
    assert [logger.name for logger in ours if not logger.filters] == []


def test_a_trace_in_a_log_says_none(caplog, monkeypatch):
    """An error of others is logged with its trace, and without the key in it."""
    monkeypatch.setenv("MISTRAL_API_KEY", SENT)
    try:
        raise PermissionError(f"Bad key {SENT}")
    except PermissionError:
        get_logger("assay.server").exception("a request failed at %s", f"http://ada:{SENT}@host")
    assert "Bad key ***" in caplog.text
    assert is_clean(caplog.text)


def test_an_error_of_ours_says_none(monkeypatch):
    """Whatever it is made of."""
    monkeypatch.setenv("MISTRAL_API_KEY", SENT)
    assert str(Refused(f"http://ada:{SENT}@host refuses {SENT}")) == "http://***@host refuses ***"


def test_a_log_can_be_written_whatever_a_completion_holds(caplog):
    """Half an emoji is spelled out, since a log file in UTF-8 cannot hold it."""
    get_logger("assay").warning("the answer is %s", "\ud83d")
    assert caplog.messages == ["the answer is \\ud83d"]
