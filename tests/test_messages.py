"""Text, roles and tool calls out of messages of every make."""

from decimal import Decimal
from types import SimpleNamespace

import pytest

from assay.messages import (
    ToolCall,
    completion_text,
    find_last_with_role,
    get_content_text,
    get_role,
    message_text,
    question_text,
    read_completion,
    read_tool_calls,
    select_role,
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
    assert get_content_text(content) == text


def test_the_last_assistant_message_is_the_completion():
    """Whatever follows it."""
    assert completion_text(CHAT) == "It is 42"
    assert completion_text("as it is") == "as it is"
    assert completion_text([]) == completion_text(None) == ""
    assert question_text(CHAT) == "Thanks"


def test_roles():
    """By role, in order; a plain text has none."""
    assert len(select_role(CHAT, "assistant")) == 2
    assert find_last_with_role(CHAT, "tool") == {"role": "tool", "content": "42"}
    assert find_last_with_role("text", "user") is None
    assert select_role("text", "user") == []
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
    assert read_tool_calls(message) == [
        ToolCall("add", '{"a": 1}', "1"),
        ToolCall("sub", '{"a": 2}', "2"),
        ToolCall("mul", '{"a": 3}', "3"),
    ]
    assert read_tool_calls({"role": "assistant"}) == []


SAID = {"role": "assistant", "content": "4"}


@pytest.mark.parametrize(
    "completion",
    [
        "4",
        [SAID],
        (SAID,),
        SAID,
        [SAID, {"role": "user", "content": "ok"}],
        [{"role": "assistant", "content": ["a", {"type": "image_url"}]}],
        [{"role": "assistant", "content": {"text": "a"}}],
        [{"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f"}}]}],
        [{"role": "assistant", "content": None, "function_call": {"name": "f"}}],
    ],
)
def test_a_completion_that_can_be_read_is_left_as_it_is(completion):
    """A text, or messages of which the assistant's last has text, parts or calls."""
    assert read_completion(completion) is completion


@pytest.mark.parametrize(("number", "text"), [(4, "4"), (0.5, "0.5"), (Decimal("0.10"), "0.10")])
def test_a_number_is_read_as_its_text(number, text):
    """By itself, and as the content of the assistant's last message."""
    assert read_completion(number) == text
    before = {"role": "assistant", "content": "no"}
    assert read_completion([before, {"role": "assistant", "content": number}]) == [
        before,
        {"role": "assistant", "content": text},
    ]


@pytest.mark.parametrize(
    ("completion", "words"),
    [
        (None, "the completion is null, not text"),
        (True, "the completion is True, of the type bool, not text"),
        (float("nan"), "the completion is nan, of the type float, not text"),
        (b"4", "the completion is b'4', of the type bytes, not text"),
        ([{"role": "user", "content": "4"}], "one has the role 'assistant'"),
        (
            [{"role": "assistant", "content": None}],
            "last message is null, not text: give a text, or a list",
        ),
        ([{"role": "assistant", "content": True}], "last message is True, of the type bool"),
        ([{"role": "assistant", "content": b"4"}], "last message is b'4', of the type bytes"),
        (
            [{"role": "assistant", "content": {"image": 1}}],
            "last message is {'image': 1}, of the type dict",
        ),
        ([{"role": "assistant", "content": ["a", {"text": "b"}]}], "of the type list"),
    ],
)
def test_a_completion_without_text_is_refused(completion, words):
    """The message names what stood there, since an empty text would score as if the model had said nothing."""
    with pytest.raises(TypeError) as caught:
        read_completion(completion)
    assert words in str(caught.value)


def test_a_role_that_is_no_text_is_none():
    """Whether it is missing or of another kind."""
    assert [get_role(message) for message in ({"role": "user"}, {"role": 4}, {}, "user")] == [
        "user",
        "",
        "",
        "",
    ]
