"""The examples in the help of every command run as printed."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from assay.cache import CachedVerdict, VerdictKey, open_store
from assay.cli import main
from assay.cli.root import root

READY = (
    "init",
    "grade",
    "score",
    "eval",
    "show",
    "math",
    "lint",
    "rubric",
    "models",
    "cache",
    "completion",
    "help",
)
"""Commands whose examples need only the files below; the examples of other commands are tested elsewhere."""

NEEDS_A_NETWORK = {"models pull"}


def examples(group: Any = root, names: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    """Return the name of every command and group, with its example."""
    found = [(" ".join(names), group.example)]
    if isinstance(group, click.Group):
        ctx = click.Context(group)
        for name in group.list_commands(ctx) if names else READY:
            found += examples(group.get_command(ctx, name), (*names, name))
    return found


@pytest.fixture
def folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache_folder: Path, serve: Any, capsys: Any
) -> Path:
    """A folder with what a reader of the help would have: a rubric, rollouts, questions, a run, a cache, a key."""
    monkeypatch.chdir(tmp_path)
    server = serve("7")
    monkeypatch.setenv("OPENAI_API_KEY", "s3cret")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    main(["init"])
    lines = (tmp_path / "rollouts.jsonl").read_text().splitlines()
    asked = [{"question": json.loads(x)["prompt"], "answer": "7"} for x in lines]
    (tmp_path / "questions.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in asked))
    for prompt in ("a.yaml", "b.yaml"):
        (tmp_path / prompt).write_text('user: "{question}"')
    (tmp_path / "assay.toml").write_text(
        '[models.small]\nmodel = "openai/gpt-5-mini"\n[models.big]\nmodel = "openai/gpt-5"\n'
    )
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text("user: '{question}'\n")
    models = "".join(f"[models.{name}]\nmodel = 'openai/{name}'\n" for name in ("small", "big"))
    (tmp_path / "assay.toml").write_text(models)
    store = open_store(cache_folder)
    store.put_many([(VerdictKey("q", "t", "openai/x", "1"), CachedVerdict("MET"))])
    store.close()
    main(["cache", "export", "-o", "verdicts.jsonl"])
    return tmp_path


@pytest.mark.parametrize(("command", "example"), examples(), ids=lambda value: value[:30])
def test_an_example_runs_as_printed(command: str, example: str, folder: Path, capsys: Any) -> None:
    """Exit code 0."""
    if command in NEEDS_A_NETWORK:
        pytest.skip("it downloads")
    for run in ("run", "runs/monday"):
        if run in example.split() and command != "score" and command != "eval":
            main(["score", "rollouts.jsonl", "-r", "rubric.yaml", "-o", run])
    if ">" in example or "$(" in example:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(["bash", "-c", example], env={**os.environ, "PATH": path}, timeout=60)
        assert done.returncode == 0
        return
    for line in example.splitlines():
        words = shlex.split(line)
        assert words[0] == "assay"
        assert main(words[1:]) == 0, capsys.readouterr().err
