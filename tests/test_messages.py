"""Text, roles and tool calls out of messages of every make."""

from types import SimpleNamespace

import pytest

from assay.messages import (
    ToolCall,
    completion_text,
    last_with_role,
    message_text,
    question_text,
    text_of,
    tool_calls,
    with_role,
)

CHAT = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Hello"},
    {"role": "assistant", "content": None, "tool_calls": []},
    {"role": "tool", "content": "42"},
    {"role": "assistant", "content": [{"type": "text", "text": "It is"}, {"text": "42"}]},
    {"role": "user", "content": "Thanks"},
]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("plain", "plain"),
        (None, ""),
        ([], ""),
        ([{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {}}], "a"),
        (["a", "b"], "a b"),
        ([SimpleNamespace(type="text", text="a")], "a"),
        ({"type": "text", "text": "a"}, "a"),
        (42, ""),
    ],
)
def test_the_text_of_any_content(content, text):
    """Parts are joined, None is empty, and nothing becomes its Python repr."""
    assert text_of(content) == text


def test_the_last_assistant_message_is_the_completion():
    """Whatever follows it."""
    assert completion_text(CHAT) == "It is 42"
    assert completion_text("as it is") == "as it is"
    assert completion_text([]) == completion_text(None) == ""
    assert question_text(CHAT) == "Thanks"


def test_roles():
    """By role, in order; a plain text has none."""
    assert len(with_role(CHAT, "assistant")) == 2
    assert last_with_role(CHAT, "tool") == {"role": "tool", "content": "42"}
    assert last_with_role("text", "user") is None
    assert with_role("text", "user") == []
    assert message_text(SimpleNamespace(role="user", content="hi")) == "hi"


def test_tool_calls_of_every_make():
    """Mappings, objects and JSON text; what cannot be read is left out."""
    message = {
        "role": "assistant",
        "tool_calls": [
            {"id": "1", "function": {"name": "add", "arguments": '{"a": 1}'}},
            SimpleNamespace(id="2", function=SimpleNamespace(name="sub", arguments='{"a": 2}')),
            '{"id": "3", "function": {"name": "mul", "arguments": {"a": 3}}}',
            "not json",
            {"function": {}},
        ],
    }
    assert tool_calls(message) == [
        ToolCall("add", '{"a": 1}', "1"),
        ToolCall("sub", '{"a": 2}', "2"),
        ToolCall("mul", '{"a": 3}', "3"),
    ]
    assert tool_calls({"role": "assistant"}) == []
