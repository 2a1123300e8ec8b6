"""Recorded verdicts of real models with labels of people. The data are no part of this repository."""

import csv
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VARIABLE = "ASSAY_DATA"
ADVERSARIAL = "LLMBar/Adversarial/"


class DataError(Exception):
    """The data are not where they were looked for."""


@dataclass(frozen=True)
class Recorded:
    """One verdict on a pair of responses: which one the judge prefers, and which one is better."""

    subset: str
    model: str
    strategy: str
    item: str
    label: str
    swapped: bool
    winner: str
    """Empty when the reply held no verdict."""


@dataclass(frozen=True)
class Voted:
    """One pair of responses, judged by three people and by a model: 1, 2 or a tie (0)."""

    item: str
    people: tuple[str, str, str]
    judge: str | None
    """None when the reply could not be read."""


def find_data(given: str | None) -> Path:
    """The folder with the data, by option or environment variable."""
    chosen = given or os.environ.get(VARIABLE)
    if not chosen:
        raise DataError(f"name the folder that holds judge/ with --data or in {VARIABLE}")
    folder = Path(chosen)
    for place in (folder, folder / "judge"):
        if (place / "llmbar").is_dir():
            return place
    raise DataError(f"there is no folder 'llmbar' in {folder} or {folder / 'judge'}")


def llmbar(folder: Path) -> list[Recorded]:
    """All verdicts that LLMBar's authors recorded."""
    path = _there(folder / "llmbar" / "recorded_verdicts.csv")
    with path.open(newline="", encoding="utf-8") as file:
        return [
            Recorded(
                row["subset"], row["model"], row["strategy"], row["idx"], row["label"],
                row["swapped"] == "1", row["winner"],
            )
            for row in csv.DictReader(file)
        ]  # fmt: skip


def pandalm(folder: Path) -> list[Voted]:
    """Three annotators and gpt-3.5-turbo on 999 pairs."""
    people = _json(folder / "pandalm" / "testset-v1.json")
    judged = {row["idx"]: row for row in _json(folder / "pandalm" / "gpt-3.5-turbo-testset-v1.json")}
    said = {"1": "1", "2": "2", "Tie": "0"}
    return [
        Voted(
            str(row["idx"]),
            (str(row["annotator1"]), str(row["annotator2"]), str(row["annotator3"])),
            said.get(str(judged[row["idx"]]["gpt_result"])),
        )
        for row in people
    ]


def prometheus(folder: Path) -> dict[str, list[list[int]]]:
    """The three scores, 1 to 5, that GPT-4 gave to each response, by set."""
    names = ("mt_bench", "vicuna")
    files = {name: _json(folder / "prometheus" / f"{name}_eval.json") for name in names}
    return {name: [row["gpt4_score"] for row in rows] for name, rows in files.items()}


def frank(folder: Path) -> list[dict[str, Any]]:
    """Annotated summaries: a share without error for each kind of error, and overall."""
    return _json(folder / "frank" / "human_annotations.json")


def _json(path: Path) -> list[dict[str, Any]]:
    """The rows of a list, or of one object a line."""
    text = _there(path).read_text(encoding="utf-8")
    if text.lstrip().startswith("["):
        return json.loads(text)
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def _there(path: Path) -> Path:
    if not path.is_file():
        raise DataError(f"{path} is not there: benchmarks/README.md names the sources")
    return path
