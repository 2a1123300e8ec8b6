"""Errors in custom price tables are explained."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from assay.cli import main
from assay.models.known_models import PriceTableError, price_of


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[openai]\n"m" = { prompt = 1, output = 2 }', "has the key 'prompt': "),
        ('[openai]\n"m" = { input = 1 }', "openai.\"m\" has no 'output'"),
        ('[openai]\n"m" = { input = -1, output = 2 }', "input is -1, not an amount"),
        ('[openai]\n"m" = { input = true, output = 2 }', "input is true, not an amount"),
        ('[openai]\n"m" = { input = "1", output = 2 }', "input is '1', not an amount"),
        ('[openai]\n"m" = { input = nan, output = 2 }', "input is nan, not an amount"),
        ('[openai]\n"m" = 3', 'openai."m" is 3, not { input = …, output = … }'),
        ("openai = 3", "openai is 3, not a table of models"),
        ('{"m": [1, 2]}', "Invalid statement"),
    ],
)
def test_an_invalid_table_is_refused_with_a_reason(
    text: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "prices.toml"
    path.write_text(text)
    monkeypatch.setenv("ASSAY_PRICES", str(path))
    with pytest.raises(PriceTableError) as raised:
        price_of("openai", "m")
    message = str(raised.value).casefold()
    assert problem.casefold() in message
    assert str(path).casefold() in message
    assert "assay models prices" in message


def test_a_missing_table_is_an_error_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """The command prints the error, with exit code 2."""
    (tmp_path / "rows.jsonl").write_text('{"completion": "Paris"}\n')
    (tmp_path / "rubric.yaml").write_text("- requirement: Is polite\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASSAY_PRICES", "none.toml")
    monkeypatch.setenv("OPENAI_API_KEY", "s3cret")
    command = [
        "score",
        "rows.jsonl",
        "-r",
        "rubric.yaml",
        "--judge",
        "openai/gpt-5-mini",
        "--dry-run",
    ]
    assert main(command) == 2
    assert "none.toml, which ASSAY_PRICES names, cannot be read: No such file" in (
        capsys.readouterr().err
    )


def test_the_printed_prices_are_a_valid_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """It can be edited and used."""
    assert main(["models", "prices"]) == 0
    printed = capsys.readouterr().out
    assert tomllib.loads(printed)["openai"]["gpt-5-mini"]["output"] == 2.0
    path = tmp_path / "prices.toml"
    path.write_text(printed.replace("[openai]", '[openai]\n"mine" = { input = 1, output = 2 }'))
    monkeypatch.setenv("ASSAY_PRICES", str(path))
    price = price_of("openai", "mine")
    assert price is not None
    assert (price.input, price.output) == (1.0, 2.0)
