"""Secrets are struck out before anything is written."""

import json

import pytest

from assay import Rubric
from assay.runs import Journal, Row, Run, RunAbout, score_rows
from assay.runs.secrets import struck

KEY = "sk-" + "a1B2" * 8


@pytest.mark.parametrize(
    "name",
    [
        "api_key", "OPENAI_API_KEY", "apiKey", "x-api-key", "token", "hf_token", "accessToken", "password",
        "db_passwd", "client_secret", "Authorization", "aws_secret_access_key", "auth", "credentials",
        "passphrase", "key", "cookie", "judgeKey", "MISTRAL_KEY", "x-auth-token",
    ],
)  # fmt: skip
def test_a_field_with_such_a_name_is_struck(name):
    """Whatever its value looks like."""
    assert struck({name: "harmless"}) == {name: "***"}
    assert struck({"headers": [{name: "harmless"}]}) == {"headers": [{name: "***"}]}


@pytest.mark.parametrize(
    "name",
    ["max_tokens", "tokens", "tokenizer", "keys", "monkey", "author", "prompt_tokens", "keyboard", "secretary", "eos_token", "sort_key", "answerKey"],
)  # fmt: skip
def test_a_field_that_only_sounds_so_is_kept(name):
    """These are settings."""
    assert struck({name: 5, "note": name}) == {name: 5, "note": name}


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
def test_a_value_that_looks_like_a_secret_is_struck(text, left):
    """Wherever it stands, and nothing around it."""
    assert struck({"note": [text]}) == {"note": [left]}


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
    written = "".join(path.read_text() for path in tmp_path.iterdir())
    assert KEY not in written
    assert "hunter2" not in written
    assert json.loads((tmp_path / "run.json").read_text())["judge"] == "https://***@host"


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
