"""Load what the package `rubric` loads, with its error messages."""

import io
import json
import math
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from assay.compat.rubric import Criterion, Rubric

ONE = {"weight": 1.0, "requirement": "Names Paris"}
TWO = {"weight": -2.5, "requirement": "Names Rome"}


def listed(rubric: Rubric) -> list[dict[str, Any]]:
    return [{"weight": c.weight, "requirement": c.requirement} for c in rubric.rubric]


@pytest.mark.parametrize(
    "data",
    [
        [ONE, TWO],
        [{"title": "A", "criteria": [ONE]}, {"criteria": [TWO], "notes": 3}],
        [ONE, {"criteria": [TWO]}],
        {"sections": [{"criteria": [ONE, TWO]}]},
        {"sections": [ONE, TWO]},
        {"rubric": [ONE, TWO]},
        {"rubric": {"sections": [{"title": "A", "criteria": [ONE, TWO]}]}, "author": "me"},
        [{**ONE, "id": "c1", "points": 5, "required": True, "name": "n", "check": "x"}, TWO],
    ],
)
def test_shapes(data: Any) -> None:
    """Lists, sections and both mixed are read; unknown keys are dropped."""
    assert listed(Rubric.from_dict(data)) == [ONE, TWO]
    assert listed(Rubric.from_json(json.dumps(data))) == [ONE, TWO]
    assert listed(Rubric.from_yaml(json.dumps(data))) == [ONE, TWO]
    assert Rubric.validate_and_create_criteria(data) == [Criterion(**ONE), Criterion(**TWO)]


def test_a_known_key_is_dropped_too() -> None:
    """The package `rubric` has no vetoes, so `required` is ignored."""
    [criterion] = Rubric.from_dict([{**ONE, "required": True, "choices": ["a", "b"]}]).rubric
    assert (criterion.required, criterion.choices) == (False, ("UNMET", "MET"))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "No criteria found"),
        ([{"criteria": []}], "No criteria found"),
        ({"sections": []}, "No criteria found"),
        ({"criteria": [ONE]}, "Dict must contain either 'sections' or 'rubric' key"),
        ({"rubric": {"criteria": [ONE]}}, "Dict must contain either 'sections' or 'rubric' key"),
        ({"sections": "A"}, "Expected a list, got str"),
        (3, "Expected a list, got int"),
        (None, "Expected a list, got NoneType"),
        ([ONE, "two"], "Invalid item at index 1: expected a dictionary, got str"),
        ([{"criteria": "A"}], "Invalid section at index 0: 'criteria' must be a list"),
        ([{"criteria": ["A"]}], "Invalid criterion at index 0: expected a dictionary, got str"),
        ([ONE, {"weight": 1}], "Invalid criterion at index 1: requirement"),
        ([ONE, {"requirement": "x"}], "Invalid criterion at index 1: weight"),
        ([{**ONE, "weight": "heavy"}], "Invalid criterion at index 0: weight"),
        ([{**ONE, "weight": math.nan}], "Invalid criterion at index 0: weight"),
        ([{**ONE, "weight": math.inf}], "Invalid criterion at index 0: weight"),
        ([{**ONE, "requirement": " "}], "Invalid criterion at index 0: requirement"),
        ([{"criteria": [ONE]}, {"weight": 1}], "Invalid criterion at index 1"),
    ],
)
def test_error_messages(data: Any, message: str) -> None:
    """The error is a ValueError with the message of the package."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is the next line
        Rubric.from_dict(data)
    assert message in str(caught.value)


@pytest.mark.parametrize("weight", ["2.5", 2.5, True])
def test_a_weight_is_read_as_a_number(weight: Any) -> None:
    """Texts and booleans are converted."""
    assert Criterion(weight=weight, requirement="x").weight == float(weight)


def test_a_criterion_needs_both_fields() -> None:
    """It is frozen and hashable, and ignores unknown fields."""
    criterion = Criterion(weight=1, requirement="x", id=5)
    assert hash(criterion) == hash(Criterion(weight=1, requirement="x"))
    with pytest.raises(ValidationError):
        criterion.weight = 2
    for fields in ({"weight": 1}, {"requirement": "x"}):
        with pytest.raises(ValidationError):
            Criterion(**fields)


@pytest.mark.parametrize("name", ["r.json", "r.yaml", "r.yml", "R.JSON"])
def test_files(tmp_path: Path, name: str) -> None:
    """A str, a Path, and open files of text or bytes are read as UTF-8."""
    path = tmp_path / name
    path.write_text(json.dumps([{**ONE, "requirement": "Nennt Köln"}], ensure_ascii=False), "utf-8")
    with path.open(encoding="utf-8") as text, path.open("rb") as raw:
        for source in (str(path), path, text, raw):
            assert Rubric.from_file(source).rubric[0].requirement == "Nennt Köln"


def test_a_missing_file(tmp_path: Path) -> None:
    """The error is a FileNotFoundError."""
    with pytest.raises(FileNotFoundError, match="File not found"):
        Rubric.from_file(tmp_path / "none.json")


def test_a_file_of_another_kind(tmp_path: Path) -> None:
    """The message lists the supported formats."""
    path = tmp_path / "r.txt"
    path.write_text("[]")
    with path.open() as opened:
        for source in (path, opened):
            with pytest.raises(
                ValueError, match=r"Unsupported file format '\.txt'(.|\n)*Supported"
            ):
                Rubric.from_file(source)


def test_a_file_without_a_name() -> None:
    """Its format cannot be determined."""
    for source in (io.StringIO("[]"), _named("rubric"), _named(3)):
        with pytest.raises(ValueError, match="Cannot determine file format"):
            Rubric.from_file(source)


def _named(name: Any) -> io.StringIO:
    source = io.StringIO("[]")
    source.name = name
    return source


def test_a_source_of_a_wrong_type() -> None:
    """A number is refused."""
    with pytest.raises(ValueError, match="Invalid source type"):
        Rubric.from_file(3)


@pytest.mark.parametrize("text", ["{", "", "[1,]", "[" * 100_000])
def test_broken_json(tmp_path: Path, text: str) -> None:
    """The error names the format, for a text and for a file."""
    path = tmp_path / "r.json"
    path.write_text(text)
    for load in (lambda: Rubric.from_json(text), lambda: Rubric.from_file(path)):
        with pytest.raises(ValueError, match="Failed to parse JSON"):
            load()


@pytest.mark.parametrize(
    "text", ["a: [", "- x: 1\n y: 2", "d: 2023-99-99", "!!python/object:os.x {}"]
)
def test_broken_yaml(tmp_path: Path, text: str) -> None:
    """Tags that would run code are refused too."""
    path = tmp_path / "r.yaml"
    path.write_text(text)
    for load in (lambda: Rubric.from_yaml(text), lambda: Rubric.from_file(path)):
        with pytest.raises(ValueError, match="Failed to parse YAML"):
            load()
