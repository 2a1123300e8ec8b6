"""What holds for every text: nothing raises, nothing hangs, and writing then reading loses nothing."""

import doctest
import importlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.parsers import (
    MaybeThinkParser,
    ThinkParser,
    XMLParser,
    extract_boxed_answer,
    extract_code,
    extract_hash_answer,
    extract_json,
    extract_last_number,
    strip_non_numeric,
)

XML = XMLParser(["think", ("tool", "answer")])

READERS: list[Callable[[str], Any]] = [
    XML.parse,
    XML.parse_all,
    XML.parse_answer,
    XML.format_score,
    ThinkParser().parse,
    ThinkParser().format_score,
    MaybeThinkParser().parse,
    extract_boxed_answer,
    extract_code,
    extract_hash_answer,
    extract_json,
    extract_last_number,
    strip_non_numeric,
]

ANY_CHARACTER = st.characters(exclude_categories=())
PIECES = st.sampled_from(
    [
        *("<think>", "</think>", "<answer>", "</answer>", "<tool>", "</tool>"),
        *("\\boxed{", "\\boxed ", "\\fbox{", "\\", "{", "}", "[", "]", '"', ",", ":", "\n"),
        *("```", "~~~", "```json\n", "####", "-", "1", "1,000", ".", "e", '{"a": [1]}', "\ud800"),
    ]
)
TEXTS = st.lists(PIECES | st.text(ANY_CHARACTER, max_size=5), max_size=25).map("".join)


@given(TEXTS)
def test_no_text_raises(text: str) -> None:
    """Every reader takes every text, lone surrogates included."""
    for read in READERS:
        read(text)


@given(TEXTS)
def test_format_scores_stay_in_range(text: str) -> None:
    """A format score is from 0 to 1."""
    assert 0 <= XML.format_score(text) <= 1
    assert ThinkParser().format_score(text) in (0.0, 1.0)


VALUES = st.text(ANY_CHARACTER).map(str.strip).filter(lambda text: "<" not in text) | PIECES.filter(
    lambda text: text == text.strip() and not XML._tag.search(text)
)


@given(think=VALUES, name=st.sampled_from(["tool", "answer"]), value=VALUES)
def test_parse_undoes_format(think: str, name: str, value: str) -> None:
    """What `format` writes is what `parse` reads, and it keeps the format."""
    text = XML.format(**{"think": think, name: value})
    absent = {"tool": "", "answer": ""}
    assert vars(XML.parse(text)) == {"think": think} | absent | {name: value}
    assert XML.format_score(text) == 1.0


@given(TEXTS)
def test_the_last_of_all_is_the_last(text: str) -> None:
    """`parse` gives the ends of what `parse_all` lists."""
    first, last = XML.parse(text, last=False), XML.parse(text)
    for name, contents in vars(XML.parse_all(text)).items():
        expected = (contents[0], contents[-1]) if contents else ("", "")
        assert (getattr(first, name), getattr(last, name)) == expected


VALUE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(VALUE, max_size=3) | st.dictionaries(TEXTS, VALUE, max_size=3), st.booleans())
def test_json_between_words_is_found(value: Any, ascii_only: bool) -> None:
    """An object or array that follows plain words is read back, whatever its strings hold."""
    assert extract_json(f"it's {json.dumps(value, ensure_ascii=ascii_only)}, isn't it") == value


HOSTILE: dict[Callable[[str], Any], list[str]] = {
    XML.parse: ["<answer>", "</answer>", "</answer><answer>", "<answer", "<think><answer>"],
    XML.parse_all: ["<answer>", "</answer>", "</answer><answer>", "<answer></tool>"],
    XML.format_score: ["<answer>", "</answer><answer>", "<answer></tool>", "<"],
    ThinkParser().parse: ["<think>", "</think>"],
    extract_boxed_answer: ["\\boxed{", "\\boxed ", "\\boxed", "\\boxed{}", "\\"],
    extract_hash_answer: ["####"],
    extract_last_number: ["1", "1,", "1,111", "-", ".1", "1e"],
    extract_code: ["```", "```\n", "~~~\n", "  ```\n", " ", "\n"],
    extract_json: ["{", "[", "]", "[1,", '["', '["a",', '{"a":', '{"a"', "[[]", '"', "```\n{"],
    strip_non_numeric: ["-", "1", "$"],
}


@pytest.mark.parametrize(
    ("read", "piece"),
    [
        pytest.param(read, piece, id=f"{read.__qualname__} {piece}")
        for read, pieces in HOSTILE.items()
        for piece in pieces
    ],
)
def test_hostile_text_takes_linear_time(read: Callable[[str], Any], piece: str) -> None:
    """A piece repeated to a megabyte is read at once; anything quadratic would hang here."""
    read(piece * (1_000_000 // len(piece)))


@pytest.mark.parametrize("module", ["extract", "text_parsers", "xml"])
def test_docstring_examples_run(module: str) -> None:
    """Every example in the parsers gives what it says."""
    failed, attempted = doctest.testmod(importlib.import_module(f"assay.parsers.{module}"))
    assert attempted > 0
    assert failed == 0
