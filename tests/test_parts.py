"""The parts of a conversation, from the messages of every provider's SDK."""

import base64
import json
from hashlib import sha256
from typing import Any

import anthropic.types as anthropic
import google.genai.types as gemini
import openai.types.chat as chat
import openai.types.responses as responses
import pytest

from assay.messages import completion_text, read_completion, read_parts

PNG = b"\x89PNG\r\n\x1a\n" + bytes(60)
PNG_TEXT = base64.b64encode(PNG).decode()
CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "search_orders", "arguments": '{"customer": 7}'},
}


def table(prompt: Any, completion: Any) -> list[tuple[str, str, str, str]]:
    return [
        (part.address, part.kind, part.role, part.text) for part in read_parts(prompt, completion)
    ]


OPENAI_CHAT = [
    chat.ChatCompletionMessage(
        role="assistant", content="I look.", tool_calls=[CALL], reasoning_content="Which?"
    ),
    {"role": "tool", "tool_call_id": "call_1", "content": "order 12"},
    chat.ChatCompletionMessage(role="assistant", content="It is order 12."),
]
OPENAI_RESPONSES = [
    responses.ResponseReasoningItem(
        id="r", type="reasoning", summary=[{"type": "summary_text", "text": "Which?"}]
    ),
    responses.ResponseOutputMessage(
        id="o",
        type="message",
        role="assistant",
        status="completed",
        content=[{"type": "output_text", "text": "I look.", "annotations": []}],
    ),
    responses.ResponseFunctionToolCall(
        type="function_call", call_id="call_1", name="search_orders", arguments='{"customer": 7}'
    ),
    {"type": "function_call_output", "call_id": "call_1", "output": "order 12"},
    {"role": "assistant", "content": [{"type": "output_text", "text": "It is order 12."}]},
]
ANTHROPIC = [
    {
        "role": "assistant",
        "content": [
            anthropic.ThinkingBlock(type="thinking", thinking="Which?", signature="s"),
            anthropic.TextBlock(type="text", text="I look."),
            anthropic.ToolUseBlock(
                type="tool_use", id="call_1", name="search_orders", input={"customer": 7}
            ),
        ],
    },
    {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "order 12"}],
    },
    {"role": "assistant", "content": [anthropic.TextBlock(type="text", text="It is order 12.")]},
]
GEMINI = [
    gemini.Content(
        role="model",
        parts=[
            gemini.Part(text="Which?", thought=True),
            gemini.Part(text="I look."),
            gemini.Part(
                function_call=gemini.FunctionCall(
                    id="call_1", name="search_orders", args={"customer": 7}
                )
            ),
        ],
    ),
    gemini.Content(
        role="user",
        parts=[
            gemini.Part(
                function_response=gemini.FunctionResponse(
                    id="call_1", response={"output": "order 12"}
                )
            )
        ],
    ),
    gemini.Content(role="model", parts=[gemini.Part(text="It is order 12.")]),
]


def as_json(message: Any) -> Any:
    """A message as its JSON on the wire, where it is an SDK's object."""
    if isinstance(message, dict):
        return (
            message | {"content": [as_json(part) for part in message["content"]]}
            if "content" in message and isinstance(message["content"], list)
            else message
        )
    return json.loads(message.model_dump_json(by_alias=True, exclude_none=True))


@pytest.mark.parametrize("wire", [False, True])
@pytest.mark.parametrize(
    ("said", "call", "result"),
    [
        (OPENAI_CHAT, "m2.call1", "m3"),
        (OPENAI_RESPONSES, "m4.call1", "m5"),
        (ANTHROPIC, "m2.call1", "m3.result1"),
        (GEMINI, "m2.call1", "m3.result1"),
    ],
)
def test_every_provider_s_messages_are_the_same_parts(
    said: list[Any], call: str, result: str, wire: bool
) -> None:
    """Thought, text, call, result and answer, in order, as objects of the SDK and as JSON; the result names its call."""
    said = [as_json(message) for message in said] if wire else said
    parts = read_parts("Where is my order?", said)
    assert [part.kind for part in parts] == ["text", "thinking", "text", "call", "result", "text"]
    assert [part.text for part in parts[:4]] == [
        "Where is my order?",
        "Which?",
        "I look.",
        'search_orders({"customer": 7})',
    ]
    assert (parts[3].address, parts[4].address, parts[4].call) == (call, result, call)
    assert "order 12" in parts[4].text
    assert [part.in_prompt for part in parts] == [True] + 5 * [False]
    assert read_completion(said) is said
    assert completion_text(said) == parts[-1].text == "It is order 12."


IMAGES = [
    {
        "role": "user",
        "content": [
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG_TEXT}"}}
        ],
    },
    {
        "role": "user",
        "content": [{"type": "input_image", "image_url": f"data:image/png;base64,{PNG_TEXT}"}],
    },
    {
        "role": "user",
        "content": [
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": PNG_TEXT},
            }
        ],
    },
    gemini.Content(role="user", parts=[gemini.Part.from_bytes(data=PNG, mime_type="image/png")]),
    {"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": PNG_TEXT}}]},
]


@pytest.mark.parametrize("message", IMAGES)
def test_one_image_is_the_same_part_from_every_provider(message: Any) -> None:
    """It is known by its type, its size and a digest of its bytes."""
    [part] = read_parts([message])
    assert (part.address, part.kind, part.role) == ("m1.image1", "image", "user")
    assert part.text == f"image/png, 68 bytes, sha256 {sha256(PNG).hexdigest()}"
    assert part.original is not None


@pytest.mark.parametrize(
    ("content", "kind", "words"),
    [
        (
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
            "audio",
            "3 bytes",
        ),
        (
            {"type": "file", "file": {"file_data": "AAAA", "filename": "a.pdf"}},
            "file",
            "filename a.pdf",
        ),
        ({"type": "input_file", "file_id": "file-9"}, "file", "file_id file-9"),
        (
            {"type": "document", "source": {"type": "url", "url": "https://host/a.pdf"}},
            "file",
            "https://host/a.pdf",
        ),
        (
            {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": "plain"},
            },
            "text",
            "plain",
        ),
        (
            {"type": "image_url", "image_url": {"url": "https://host/a.png"}},
            "image",
            "https://host/a.png",
        ),
        ({"fileData": {"mimeType": "audio/mp3", "fileUri": "gs://b/a"}}, "audio", "gs://b/a"),
        (
            {"type": "video_url", "video_url": {"url": "https://host/a.mp4"}},
            "file",
            "https://host/a.mp4",
        ),
        ({"type": "refusal", "refusal": "I will not."}, "text", "I will not."),
        ({"type": "redacted_thinking", "data": "xyz"}, "thinking", "(hidden by the provider)"),
        (
            {"type": "server_tool_use", "id": "1", "name": "web_search", "input": {"query": "a"}},
            "call",
            "web_search",
        ),
        (
            {"type": "tool_result", "tool_use_id": "1", "content": "no", "is_error": True},
            "result",
            "error: no",
        ),
        (
            {
                "type": "web_search_tool_result",
                "tool_use_id": "1",
                "content": [{"type": "web_search_result", "title": "Tides"}],
            },
            "result",
            '"title": "Tides"',
        ),
        (
            {
                "type": "code_execution_tool_result",
                "tool_use_id": "1",
                "content": {"type": "code_execution_result", "stdout": "42", "content": []},
            },
            "result",
            '"stdout": "42"',
        ),
        ({"type": "web_search_call", "action": {"query": "tides"}}, "call", "tides"),
        ({"type": "a_kind_of_next_year", "payload": {"seen": "all"}}, "text", '"seen": "all"'),
    ],
)
def test_no_kind_of_part_is_left_out(content: Any, kind: str, words: str) -> None:
    """What is of no known kind is shown as JSON."""
    [_, part] = read_parts([{"role": "user", "content": ["Look:", content]}])
    assert part.kind == kind
    assert words in part.text


def test_an_image_in_a_result_is_a_part_of_its_own() -> None:
    """The text of the result stays with the call."""
    image = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": PNG_TEXT},
    }
    held = [{"type": "text", "text": "the page"}, image]
    [result, picture] = read_parts(
        [
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "1", "content": held}],
            }
        ]
    )
    assert (result.kind, result.text, picture.address) == ("result", "the page", "m1.image1")


def test_addresses_go_through_prompt_and_completion() -> None:
    """The second text of a message has an address of its own, and a request's system prompt is a message."""
    request = {"system": "Be brief.", "messages": [{"role": "user", "content": ["a", "b"]}]}
    assert table(request, "c") == [
        ("m1", "text", "system", "Be brief."),
        ("m2", "text", "user", "a"),
        ("m2.text2", "text", "user", "b"),
        ("m3", "text", "assistant", "c"),
    ]


def test_a_conversation_without_a_prompt_opens_with_it() -> None:
    """What comes before the first reply is the prompt."""
    said = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "u"},
        {"role": "assistant", "content": "a"},
    ]
    assert [part.in_prompt for part in read_parts("", said)] == [True, True, False]
    assert [part.in_prompt for part in read_parts([], "a")] == [False]


def test_calls_that_are_no_messages_are_a_completion() -> None:
    """The Responses API may answer with a call alone, whose text is empty."""
    said = [{"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"}]
    assert read_completion(said) is said
    assert table("", said) == [("m1.call1", "call", "assistant", "f({})")]
