"""Calls through OpenAI's Responses API, over HTTP and its SDK, checked with the types of the SDK."""

import asyncio
import base64
import io
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import openai
import pytest
from aiohttp import web
from openai.types.responses import Response
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
from PIL import Image
from pydantic import TypeAdapter

from assay import (
    Limits,
    Overloaded,
    PerCriterionGrader,
    Refused,
    Rollout,
    Rubric,
    Truncated,
    Unreadable,
)
from assay.graders import PerCriterionOutput
from assay.models import Price, Request, model_of
from assay.models.model import Tool, media_of

LIMITS = Limits(timeout=5, attempts=1)
VERDICT = '{"explanation": "It is red.", "criterion_status": "MET"}'


def answer(**changes: Any) -> dict[str, Any]:
    """Return a reply of the API, as in the SDK."""
    message = {"type": "message", "id": "m", "role": "assistant", "status": "completed"}
    given = {
        "id": "r",
        "object": "response",
        "created_at": 0.0,
        "model": "test-2026-01-01",
        "status": "completed",
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "output": [
            {"type": "reasoning", "id": "t", "summary": []},
            {**message, "content": [{"type": "output_text", "text": VERDICT, "annotations": []}]},
        ],
        "usage": {
            "input_tokens": 100,
            "output_tokens": 20,
            "total_tokens": 120,
            "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }
    return Response.model_validate({**given, **changes}).model_dump(mode="json")


class Endpoint:
    """A server that records requests and returns the next scripted reply."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.answer = answer()
        self.url = ""

    async def handle(self, request: Any) -> Any:
        body = await request.json()
        self.asked.append((request.path, body))
        TypeAdapter(ResponseCreateParamsNonStreaming).validate_python(body)
        return web.json_response(self.answer)


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    made, loop, stop = Endpoint(), asyncio.new_event_loop(), asyncio.Event()
    started: Future[int] = Future()

    async def serve() -> None:
        runner = web.ServerRunner(web.Server(made.handle))
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        started.set_result(site._server.sockets[0].getsockname()[1])  # type: ignore[union-attr]
        await stop.wait()
        await runner.cleanup()

    thread = threading.Thread(target=loop.run_until_complete, args=[serve()])
    thread.start()
    made.url = f"http://127.0.0.1:{started.result()}/v1"
    yield made
    loop.call_soon_threadsafe(stop.set)
    thread.join()
    loop.close()


MAKERS: dict[str, Any] = {
    "address": lambda url, **more: model_of(f"{url}#test?api=responses", limits=LIMITS, **more),
    "option": lambda url, **more: model_of(f"{url}#test", api="responses", limits=LIMITS, **more),
    "OpenAI": lambda url, **more: model_of(
        openai.OpenAI(api_key="k", base_url=url), "test", api="responses", limits=LIMITS, **more
    ),
    "AsyncOpenAI": lambda url, **more: model_of(
        openai.AsyncOpenAI(api_key="k", base_url=url),
        "test",
        api="responses",
        limits=LIMITS,
        **more,
    ),
}


@pytest.mark.parametrize("kind", MAKERS)
async def test_a_verdict_is_returned_with_its_usage(endpoint: Endpoint, kind: str) -> None:
    """The types of the SDK accept the body, which has schema and limit in the fields of this API."""
    model = MAKERS[kind](endpoint.url, price=Price(1.0, 1.0))
    request = Request.of(
        "You judge.", "<response>4</response>", "Is it even?", schema=PerCriterionOutput
    )
    reply = await model(request)
    assert reply.value.criterion_status == "MET"
    assert (reply.usage.prompt, reply.usage.cached, reply.usage.completion, reply.model) == (
        100,
        60,
        20,
        "test-2026-01-01",
    )
    [(path, body)] = endpoint.asked
    assert path == "/v1/responses"
    assert [turn["content"] for turn in body["input"]] == [
        "You judge.",
        "<response>4</response>Is it even?",
    ]
    assert (body["text"]["format"]["type"], body["text"]["format"]["strict"], body["store"]) == (
        "json_schema",
        True,
        False,
    )
    assert "api" not in body
    assert model.id.endswith("?api='responses'")


async def test_images_and_pdfs_are_sent_in_the_format_of_the_api(endpoint: Endpoint) -> None:
    """In order; audio is an error of its criterion, since the API takes none."""
    file = io.BytesIO()
    Image.new("RGB", (4, 3), "red").save(file, "PNG")
    parts = [{"type": "image", "image": file.getvalue()}, {"type": "file", "file": b"%PDF-1.4"}]
    rubric = Rubric([{"requirement": "Names it", "name": "names"}])
    rubric.grader = PerCriterionGrader(
        model=MAKERS["address"](endpoint.url, media=("image", "file"))
    )
    prompts = [
        [{"role": "user", "content": each}]
        for each in (parts, [{"type": "audio", "audio": b"fLaC"}])
    ]
    reports = await rubric.score([Rollout(prompt=prompt, completion="Red.") for prompt in prompts])
    assert [report.score for report in reports] == [1.0, None]
    assert "cannot take m1.audio1" in reports[1].errors["names"]
    [(_, body)] = endpoint.asked
    content = body["input"][1]["content"]
    assert [part["type"] for part in content] == [
        "input_text",
        "input_image",
        "input_text",
        "input_file",
        "input_text",
        "input_text",
    ]
    assert (
        content[1]["image_url"]
        == f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
    )
    assert content[3]["filename"] == "m1.file1.pdf"


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        (
            {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
            Truncated,
        ),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, Refused),
        (
            {"status": "failed", "error": {"code": "server_error", "message": "no"}, "output": []},
            Overloaded,
        ),
        (
            {
                "output": [
                    {
                        "type": "message",
                        "id": "m",
                        "role": "assistant",
                        "status": "completed",
                        "content": [{"type": "refusal", "refusal": "No."}],
                    }
                ]
            },
            Unreadable,
        ),
    ],
)
async def test_an_incomplete_reply_is_an_error(
    endpoint: Endpoint, changes: Any, error: Any
) -> None:
    """Truncated, filtered, failed, or declined."""
    endpoint.answer = answer(**changes)
    with pytest.raises(error):
        await MAKERS["option"](endpoint.url)(
            Request.of("You judge.", "4", schema=PerCriterionOutput)
        )


async def test_unsupported_features_are_refused(endpoint: Endpoint) -> None:
    """Another API, another provider, and tools."""
    with pytest.raises(Refused, match="api is 'batch': give 'responses'"):
        model_of(f"{endpoint.url}#test", api="batch")
    with pytest.raises(Refused, match="api is 'responses': give 'responses', for OpenAI"):
        model_of("anthropic/claude-sonnet-5", api="responses", api_key="k")
    with pytest.raises(Refused, match="tools are not offered to test through the Responses API"):
        await MAKERS["option"](endpoint.url)(
            Request(({"role": "user", "content": "x"},), tools=(Tool("a", "b", "{}"),))
        )
    assert (
        media_of(model_of("openai/gpt-4o-audio-preview", api="responses", api_key="k"))
        == frozenset()
    )
