"""The format reward of tagged fields, worked out by hand in fifths."""

import json
from typing import Any

import pytest

from assay.parsers import XMLParser

PARSER = XMLParser(["reasoning", "answer"])
WELL = "<reasoning>r</reasoning><answer>4</answer>"


def said(content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content}


@pytest.mark.table("xml_format")
def test_format_score(text: str, expected: float) -> None:
    """0.4 for fields, 0.2 each for pairing, start and end; the same for a text and a message."""
    reward = PARSER.get_format_reward_func()
    assert reward(text) == pytest.approx(expected)
    assert reward(completion=[said(text)], answer="4") == pytest.approx(expected)


def test_a_full_score_is_exactly_one() -> None:
    """No rounding keeps a well-formed text from 1."""
    assert PARSER.format_score(WELL) == 1.0


def test_the_mean_is_over_assistant_messages() -> None:
    """Each reply counts alike and other roles not at all: (1 + 0.6 + 0) / 3."""
    chat = [said(WELL), {"role": "user", "content": WELL}, said("<answer>4</answer>"), said(None)]
    assert PARSER.format_score(chat) == pytest.approx(1.6 / 3)


def test_no_assistant_message_scores_zero() -> None:
    """Nothing said keeps no format."""
    assert PARSER.format_score([]) == 0.0
    assert PARSER.format_score(None) == 0.0
    assert PARSER.format_score([{"role": "user", "content": WELL}]) == 0.0


def test_parts_are_read_as_text() -> None:
    """A message of parts scores like its text."""
    parts = [{"type": "text", "text": "<reasoning>r</reasoning>"}, {"text": "<answer>4</answer>"}]
    assert PARSER.format_score([said(parts)]) == 1.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<think>t</think><answer>4</answer>", 1.0),
        ("<plan>t</plan><tool>4</tool>", 1.0),
        ("<think>t</think><tool>4</tool><answer>4</answer>", 1.0),
        # 0.2 present, 0.2 paired, 0.2 starts: an alternative of the last field starts nothing.
        ("<think>t</think><plan>t</plan>", 0.6),
        ("<tool>4</tool><answer>4</answer>", 0.6),
    ],
)
def test_any_alternative_fills_its_field(text: str, expected: float) -> None:
    """One name of a field is enough, and counts for that field alone."""
    parser = XMLParser([("think", "plan"), ("tool", "answer")])
    assert parser.format_score(text) == pytest.approx(expected)


def test_one_name_may_begin_another() -> None:
    """`a` and `ab` are different tags."""
    assert XMLParser(["a", "ab", "a.b"]).format_score("<a>1</a><ab>2</ab><a.b>3</a.b>") == 1.0
    assert XMLParser(["a.b"]).format_score("<axb>3</axb>") == 0.0


def test_what_format_writes_scores_one() -> None:
    """The parser keeps its own format."""
    assert PARSER.format_score(PARSER.format(reasoning=json.dumps({}), answer="")) == 1.0
