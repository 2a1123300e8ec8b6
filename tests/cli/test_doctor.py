"""`assay doctor`: settings with their sources, the judge, and what is installed."""

import json
from pathlib import Path
from typing import Any

import pytest

from assay.cli import main
from assay.testing import Fault


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache_folder: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("ASSAY_JUDGE", "ASSAY_BUDGET"):
        monkeypatch.delenv(name, raising=False)


def diagnose(capsys: Any, *arguments: str) -> tuple[int, dict[str, Any]]:
    code = main(["doctor", "-f", "json", *arguments])
    return code, json.loads(capsys.readouterr().out)


def test_every_setting_is_listed_with_its_source(
    serve: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """An option, a variable, the file, or the default; settings without a value are not listed."""
    server = serve("MET")
    Path("assay.toml").write_text("budget = 5\nfail-under = 0.7\njudge = 'openai/other'\n")
    monkeypatch.setenv("ASSAY_BUDGET", "3")
    code, found = diagnose(capsys, "--judge", server.model)
    assert code == 0
    settings = {name: (one["value"], one["from"]) for name, one in found["settings"].items()}
    assert settings["budget"] == ("3", "variable ASSAY_BUDGET")
    assert settings["judge"] == (server.model, "--judge")
    assert settings["fail-under"][0] == "0.7"
    assert settings["fail-under"][1].endswith("assay.toml")
    assert settings["samples"] == ("1", "default")
    assert settings["timeout"] == ("180", "default")
    assert "temperature" not in settings
    assert found["judge"]["from"] == "--judge"
    assert found["judge"]["state"].startswith("answers, in ")
    assert len(server.requests) == 1


def test_a_judge_that_does_not_answer_is_an_error(serve: Any, capsys: Any) -> None:
    server = serve("MET", faults=[Fault.hanging()])
    code, found = diagnose(capsys, "--judge", server.model, "--timeout", "0.2")
    assert code == 1
    assert "gave no answer after one try" in found["judge"]["state"]
    code, found = diagnose(capsys, "--judge", "openai/gpt-5-mini")
    assert code == 1
    assert "set OPENAI_API_KEY" in found["judge"]["state"]


def test_without_a_judge_the_output_says_how_to_name_one(capsys: Any) -> None:
    code, found = diagnose(capsys)
    assert code == 0
    assert found["judge"]["model"] is None
    assert "with --judge or ASSAY_JUDGE" in found["judge"]["state"]
    assert found["extras"]["cli"] == found["extras"]["judge"] == "installed"


def test_the_default_output_is_a_table(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """Without passwords."""
    monkeypatch.setenv("ASSAY_CACHE", "postgresql://me:s3cret@127.0.0.1/x")
    assert main(["doctor"]) == 0
    shown = capsys.readouterr().out
    assert "variable ASSAY_CACHE" in shown
    assert "s3cret" not in shown
