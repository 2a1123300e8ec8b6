"""Tables of cases as parameters, and the texts that properties must hold for."""

import json
from pathlib import Path

import pytest

CASES = Path(__file__).parents[1] / "cases"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test marked `table(name)` its `text` and `expected` from that file, row by row."""
    for mark in metafunc.definition.iter_markers("table"):
        lines = (CASES / f"{mark.args[0]}.jsonl").read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines]
        metafunc.parametrize(
            ("text", "expected"),
            [pytest.param(row["text"], row["expected"], id=row["case"]) for row in rows],
        )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "table(name): one test a row of tests/cases/<name>.jsonl")
