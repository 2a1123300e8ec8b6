"""A parser reads a chat as well as a text: what the assistant said last."""

import pytest

from assay import MaybeThinkParser, Parser, ThinkParser, XMLParser

SAID = "<think>2 + 2</think><answer>4</answer>"
CHAT = [
    {"role": "assistant", "content": "<answer>3</answer>"},
    {"role": "user", "content": "<answer>5</answer>"},
    {"role": "assistant", "content": [{"type": "text", "text": SAID}]},
    {"role": "user", "content": "thanks"},
]


@pytest.mark.parametrize(
    "parser", [Parser(), ThinkParser(), MaybeThinkParser(), XMLParser(["think", "answer"])]
)
def test_a_chat_is_read_as_its_last_answer(parser):
    """In every way there is to read."""
    assert parser.parse(CHAT) == parser.parse(SAID)
    assert parser.parse([]) == parser.parse("")


def test_every_match_is_read_out_of_a_chat_too():
    """Of the last answer."""
    assert XMLParser(["answer"]).parse_all(CHAT).answer == ["4"]
