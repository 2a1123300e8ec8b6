"""Answers out of free text, row by row."""

import json
from typing import Any

import pytest

from assay.parsers import (
    extract_boxed_answer,
    extract_code,
    extract_hash_answer,
    extract_json,
    extract_last_number,
    strip_non_numeric,
)


@pytest.mark.table("extract_boxed")
def test_boxed(text: str, expected: str) -> None:
    """The last whole box counts, strict or not."""
    assert extract_boxed_answer(text) == expected
    assert extract_boxed_answer(text, strict=True) == expected


@pytest.mark.parametrize("text", ["", "x = 4", r"\boxed{4", r"\boxed", "{4}", r"boxed{4}"])
def test_without_a_box(text: str) -> None:
    """The whole text is the answer, or nothing when strict (#1028)."""
    assert extract_boxed_answer(text) == text
    assert extract_boxed_answer(text, strict=True) == ""


@pytest.mark.parametrize(
    "text",
    [
        r"\boxed{10}, \boxed{11}, \boxed{12}",
        r"\boxed{3} \boxed{4}",
        r"x is \boxed{3} and y is \boxed{4}",
        r"\boxed{3} \boxed{}",
    ],
)
def test_several_boxes_that_differ_are_no_answer(text: str) -> None:
    """Nothing in the text says that the last one counts more than the others."""
    assert extract_boxed_answer(text) == text
    assert extract_boxed_answer(text, strict=True) == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2+2=4\n#### 4", "4"),
        ("#### 3\nno\n#### 4\nthat is it", "4"),
        ("####4\r\n", "4"),
        ("##### 4", "4"),
        ("#### $1,000 ", "$1,000"),
        ("####", ""),
        ("### 4", None),
        ("", None),
    ],
)
def test_hash(text: str, expected: str | None) -> None:
    """The rest of the line after the last mark; None without one."""
    assert extract_hash_answer(text) == expected


@pytest.mark.table("extract_number")
def test_last_number(text: str, expected: str | None) -> None:
    """The last number, as `float` reads it."""
    found = extract_last_number(text)
    assert found == expected
    assert found is None or float(found) is not None


@pytest.mark.table("extract_code")
def test_code(text: str, expected: str | None) -> None:
    """The last fenced block, as Markdown fences it."""
    assert extract_code(text) == expected


def test_code_of_a_language() -> None:
    """The first word after the fence is the language, in any case."""
    text = "```Python title=x\na\n```\n```\nb\n```\n~~~ sh\nc\n~~~"
    assert extract_code(text, language="python") == "a"
    assert extract_code(text, language="SH") == "c"
    assert extract_code(text, language="") == "b"
    assert extract_code(text, language="rust") is None


@pytest.mark.table("extract_json")
def test_json(text: str, expected: str | None) -> None:
    """The last whole object or array, a fenced one first."""
    assert extract_json(text) == (None if expected is None else json.loads(expected))


def test_json_that_python_cannot_hold() -> None:
    """Too deep to decode, or a number too long, is not JSON here; what stands before it still is."""
    assert extract_json("[1] " + "[" * 100_000 + "]" * 100_000) == [1]
    assert extract_json("[1] [" + "9" * 5000 + "]") == [1]
    assert extract_json("```\n" + "[" * 100_000 + "]" * 100_000 + "\n```") is None


@pytest.mark.parametrize(
    "value",
    [
        [],
        {},
        [[]],
        [{}, {"a": []}],
        {"a": None, "b": [True, False]},
        [-0.5, 1e300, 0, '\n\\"é\u2028'],
    ],
)
def test_json_of_every_kind(value: Any) -> None:
    """What Python writes is found between other words, indented or not."""
    for indent in (None, 2):
        assert extract_json(f"so: {json.dumps(value, indent=indent)}. [") == value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$1,250.50", "1250.50"),
        ("-5", "-5"),
        ("-$5", "-5"),
        ("$ -5 USD", "-5"),
        ("\u22125", "-5"),
        ("(-.5)", "-.5"),
        ("x-5", "5"),
        ("5-3", "53"),
        ("- none", ""),
        ("", ""),
    ],
)
def test_strip_non_numeric(text: str, expected: str) -> None:
    """Digits, dots and a leading minus stay; a hyphen after a letter is not a minus."""
    assert strip_non_numeric(text) == expected
