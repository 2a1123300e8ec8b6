"""ModelServer is a model endpoint on 127.0.0.1 that answers by rule, and fails as a test has planned."""

import asyncio
import inspect
import json
import math
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, Self, TypeAlias, cast
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel

from assay.concurrency import run_in_thread
from assay.errors import import_extra
from assay.messages import ToolCall
from assay.models.openai_chat import read_text
from assay.testing.fakes import FakeModel
from assay.wording import describe_error

if TYPE_CHECKING:
    from aiohttp import web

CLOSING_TURNS = 10  # turns of the event loop in which new connections are closed at the end
CHARACTERS_PER_TOKEN = 4  # roughly as in English text
# Prompts are cached in blocks of this many characters: 16 tokens, as inference servers do.
BLOCK_CHARACTERS = 64
# The attributes of a ModelServer that count tokens.
_TOKEN_COUNTS = (
    "prompt_tokens",
    "cached_tokens",
    "completion_tokens",
    "user_tokens",
    "user_cached_tokens",
)
# A function that takes an answer and the body of its request, and returns the body of the reply in the
# format of a provider.
_ReplyFormat: TypeAlias = "Callable[[Answer, Mapping[str, Any]], dict[str, Any]]"


@dataclass(frozen=True)
class Fault:
    """How one call fails. Make it with one of the methods below."""

    kind: str  # the name of the method
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)
    body: str | None = None  # the whole body of the reply; None for one in the provider's format
    text: str | None = None  # what the model says in that; None for its usual answer
    finish_reason: str = "stop"  # "length" if the token limit has cut the text off

    @classmethod
    def rate_limited(cls, retry_after: float | str | None = None) -> "Fault":
        """Return a 429; `retry_after` is in seconds, or a date."""
        headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
        return cls("rate_limited", 429, headers, '{"error": {"message": "slow down"}}')

    @classmethod
    def failing(cls, status: int = 500) -> "Fault":
        """Return an error of the endpoint, such as 500."""
        return cls("failing", status, body='{"error": {"message": "something broke"}}')

    @classmethod
    def refusing(cls, complaint: str, status: int = 400) -> "Fault":
        """Return an error that blames the request, such as 400."""
        return cls("refusing", status, body=f'{{"error": {{"message": "{complaint}"}}}}')

    @classmethod
    def hanging(cls) -> "Fault":
        """Never send a reply."""
        return cls("hanging")

    @classmethod
    def cut_off(cls) -> "Fault":
        """Close the connection in the middle of the reply."""
        return cls("cut_off")

    @classmethod
    def garbage(cls) -> "Fault":
        """Return a 200 whose body is not JSON."""
        return cls("garbage", body="<html>502 Bad Gateway</html>")

    @classmethod
    def saying(cls, text: str) -> "Fault":
        """Reply with this text in place of the answer."""
        return cls("saying", text=text)

    @classmethod
    def truncated(cls, text: str = '{"explanation": "It is pla') -> "Fault":
        """Reply with the beginning of a text, cut off by the token limit."""
        return cls("truncated", text=text, finish_reason="length")


# Which call fails, and how: a function that takes the number of a call, from 0, or a sequence with an
# entry per call. None says that the call does not fail.
FaultPlan: TypeAlias = Callable[[int], Fault | None] | Sequence[Fault | None]


def mixed(shares: Mapping[Fault, float], *, seed: int = 0) -> Callable[[int], Fault | None]:
    """Return a plan in which calls fail at random, the same ones for the same seed.

    `shares` holds the share of the calls that each fault has, such as 0.1; the others do not fail.
    """
    total = sum(shares.values())
    if total > 1:
        raise ValueError(f"the shares {list(shares.values())} add up to more than 1: lower them")
    faults = [*shares, None]
    weights = [*shares.values(), 1 - total]

    def draw_fault(call_number: int) -> Fault | None:
        # A generator per call, so that a fault does not depend on the order of concurrent calls.
        generator = random.Random(f"{seed}:{call_number}")
        return generator.choices(faults, weights)[0]

    return draw_fault


@dataclass(frozen=True)
class ReceivedRequest:
    """A request to the model that the server received."""

    system: str  # the system prompt
    user: str  # the user prompt; of a conversation, all messages after the system prompt
    body: Mapping[str, Any]  # the JSON as it was sent, with the parameters of the path
    headers: Mapping[str, str]  # names in lower case
    path: str  # with the query
    fault: Fault | None = None  # the fault that was planned for it


@dataclass(eq=False, repr=False)
class ModelServer:
    """A model endpoint on real sockets, in the formats of OpenAI, Anthropic and Gemini, for a `with` block.

    OpenAI-compatible clients use `url`; the SDKs of Anthropic, Google, Bedrock, Vertex and Azure use
    `host`. `answer` is what `FakeModel` takes, or a function whose only parameter is `messages` and
    that returns a text, a `tool_call`, or a list of tool calls.

    >>> from assay import PerCriterionGrader, Rubric
    >>> with ModelServer("MET", faults=[Fault.failing()]) as server:
    ...     rubric = Rubric([{"requirement": "Names Paris"}], judge=server.model)
    ...     print(rubric.grade_sync("Paris.").score, server.calls, len(server.requests))
    1.0 1 2
    """

    answer: Any = "MET"
    _: KW_ONLY
    latency: float = 0.0  # seconds that an answer takes
    faults: FaultPlan = ()
    capacity: int | None = None  # with more concurrent calls, the reply is 429
    refuses: Sequence[str] = ()  # fields of a request for which the reply is 400
    confidence: float = 0.9  # the probability of a verdict in the log-probabilities
    name: str = "test"
    port: int = 0  # 0 takes any free one

    def __post_init__(self) -> None:
        self._fake = FakeModel(self.answer)
        # A function that answers the whole conversation; None if the fake model answers.
        self._answer_messages: Any = None
        if inspect.isroutine(self.answer):
            parameters = list(inspect.signature(self.answer).parameters)
            if parameters == ["messages"]:
                self._answer_messages = self.answer
        self.reset()

    def reset(self) -> None:
        """Forget every call so far; the plan of faults starts again."""
        self.requests: list[ReceivedRequest] = []  # every request to the model, in order
        self.calls = 0  # requests that were answered without a fault
        # Tokens of the answered requests. Cached tokens repeat the start of an earlier prompt; they
        # count as prompt tokens, too.
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.completion_tokens = 0
        # The same without the system prompt, which all requests share.
        self.user_tokens = 0
        self.user_cached_tokens = 0
        self.most_at_once = 0  # the largest number of concurrent requests
        # How many requests were answered, under "answered", or failed, under the kind of fault.
        self.outcomes: Counter[str] = Counter()
        self._prefix_hashes: set[int] = set()  # of the starts of all prompts, see BLOCK_CHARACTERS
        self._requests_in_progress = 0

    @property
    def model(self) -> str:
        """The name of the model, for `model_of` or any `judge`."""
        return f"{self.url}#{self.name}"

    def __enter__(self) -> Self:
        """Start the server in a thread, and wait until it accepts connections."""
        started: Future[None] = Future()
        self._thread_result = run_in_thread(lambda: asyncio.run(self._run(started)))
        wait([started, self._thread_result], return_when=FIRST_COMPLETED)
        if self._thread_result.done():
            self._thread_result.result()  # raises the error that kept the server from starting
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the server at once, and wait until its thread has ended."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread_result.result()

    async def _run(self, started: "Future[None]") -> None:
        """Answer requests until `__exit__` sets `_stop`; set `started` when connections are accepted."""
        self._web = import_extra("aiohttp.web", "a ModelServer", extra="judge")
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        # If a client disconnects, its call is cancelled, as on real endpoints.
        http = self._web.Server(self._handle, handler_cancellation=True, access_log=None)
        server = await self._loop.create_server(http, "127.0.0.1", self.port, backlog=1024)
        # The address without a path, as the SDKs' environment variables expect it.
        self.host = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self.url = f"{self.host}/v1"  # the endpoint's address
        started.set_result(None)
        await self._stop.wait()
        for socket in server.sockets:  # accept no further connections
            self._loop.remove_reader(socket.fileno())
        # A connection that was accepted a moment ago appears in `connections` only some turns later,
        # and a closed server could not handle it any more.
        for _ in range(CLOSING_TURNS):
            for connection in http.connections:
                if connection.transport is not None:
                    connection.transport.abort()
            await asyncio.sleep(0)
        server.close()
        await http.shutdown(timeout=0.001)  # 0 would wait forever

    async def _handle(self, request: "web.BaseRequest") -> "web.StreamResponse":
        """Answer a request: a call of the model at a path of a provider, or a route of this server."""
        path = unquote(urlsplit(request.raw_path).path)
        for pattern, reply_format in _ROUTES:
            match = pattern.fullmatch(path)
            if match is None:
                continue
            try:
                return await self._handle_call(request, reply_format, match.groupdict())
            except Exception as error:  # noqa: BLE001 - a test's own rule may raise anything
                return self._web.json_response(
                    {"error": {"message": describe_error(error)}}, status=500
                )
        path = path.removeprefix("/v1")
        if path == "/models":
            return self._web.json_response(
                {"object": "list", "data": [{"id": self.name, "object": "model"}]}
            )
        if path == "/stats":
            return self._web.json_response(self.stats())
        if path == "/reset":
            self.reset()
            return self._web.json_response({})
        return self._web.json_response(
            {"error": {"message": f"there is no {request.raw_path}"}}, status=404
        )

    def stats(self) -> dict[str, Any]:
        """Return the counts so far. `GET /v1/stats` returns them too; `POST /v1/reset` resets them."""
        counts = {name: getattr(self, name) for name in ("calls", *_TOKEN_COUNTS, "most_at_once")}
        return {"requests": len(self.requests), **counts, "outcomes": dict(self.outcomes)}

    async def _handle_call(
        self,
        request: "web.BaseRequest",
        reply_format: _ReplyFormat,
        path_parameters: Mapping[str, str],
    ) -> "web.StreamResponse":
        """Record a call of the model, and answer it, or fail as planned.

        `path_parameters` are the parts of the path that some providers use as parameters, such as the
        name of the model.
        """
        body = {**path_parameters, **json.loads(await request.content.read())}
        fault = self._find_fault(body)
        headers = {name.lower(): value for name, value in request.headers.items()}
        system, user = prompts_of(body)
        received = ReceivedRequest(system, user, body, headers, request.raw_path, fault)
        self.requests.append(received)
        self._requests_in_progress += 1
        self.most_at_once = max(self.most_at_once, self._requests_in_progress)
        try:
            if self.capacity is not None and self._requests_in_progress > self.capacity:
                fault = Fault.rate_limited()
            self.outcomes["answered" if fault is None else fault.kind] += 1
            return await self._respond(request, received, fault, reply_format)
        finally:
            self._requests_in_progress -= 1

    def _find_fault(self, body: Mapping[str, Any]) -> Fault | None:
        """Return the fault of the next call; None if it is answered.

        That is the fault in the plan, or the refusal of a field of the request.
        """
        call_number = len(self.requests)
        fault = None
        if callable(self.faults):
            fault = self.faults(call_number)
        elif call_number < len(self.faults):
            fault = self.faults[call_number]
        if fault is not None:
            return fault
        for name in self.refuses:
            if name in body:
                return Fault.refusing(f"Unsupported parameter: {name}")
        return None

    async def _respond(
        self,
        request: "web.BaseRequest",
        received: ReceivedRequest,
        fault: Fault | None,
        reply_format: _ReplyFormat,
    ) -> "web.StreamResponse":
        """Answer a call of the model, or fail with this fault."""
        if fault is not None and fault.kind == "hanging":
            await asyncio.Event().wait()  # forever
        if fault is not None and fault.body is not None:
            return self._web.Response(
                status=fault.status,
                text=fault.body,
                headers=fault.headers,
                content_type="application/json",
            )
        await asyncio.sleep(self.latency)
        answer = await self._make_answer(received, fault)
        self._count_tokens_of(answer, received)
        if fault is None:
            self.calls += 1
        reply = reply_format(answer, received.body)
        if fault is None or fault.kind != "cut_off":
            return self._web.json_response(reply)
        # Send the first half, and close the connection.
        data = json.dumps(reply).encode()
        response = self._web.StreamResponse(headers={"Content-Length": str(len(data))})
        await response.prepare(request)
        await response.write(data[: len(data) // 2])
        assert request.transport is not None
        request.transport.close()
        return response

    async def _make_answer(self, received: ReceivedRequest, fault: Fault | None) -> "Answer":
        """Return the answer to a request, with its token counts."""
        text, calls = await self._find_answer(received, fault)
        # Ids that no other tool call of this server has.
        request_count = len(self.requests)
        tool_calls = [
            call._replace(id=call.id or f"call_{request_count}_{index}")
            for index, call in enumerate(calls)
        ]
        prompt = f"{received.system}\0{received.user}"
        return Answer(
            text=text,
            finish_reason="stop" if fault is None else fault.finish_reason,
            model=f"{received.body.get('model')}-2026-01-01",
            prompt_tokens=_count_tokens(prompt),
            cached_tokens=self._count_cached_tokens(prompt),
            completion_tokens=_count_tokens(text),
            confidence=self.confidence,
            tool_calls=tuple(tool_calls),
        )

    def _count_tokens_of(self, answer: "Answer", received: ReceivedRequest) -> None:
        """Add the tokens of an answer and its prompts to the counts of the server."""
        system_tokens = _count_tokens(received.system)
        self.prompt_tokens += answer.prompt_tokens
        self.cached_tokens += answer.cached_tokens
        self.completion_tokens += answer.completion_tokens
        self.user_tokens += max(0, answer.prompt_tokens - system_tokens)
        self.user_cached_tokens += max(0, answer.cached_tokens - system_tokens)

    async def _find_answer(
        self, received: ReceivedRequest, fault: Fault | None
    ) -> tuple[str, list[ToolCall]]:
        """Return the text of the answer, and its tool calls."""
        if fault is not None and fault.text is not None:
            return fault.text, []
        if self._answer_messages is not None:
            answer: Any = self._answer_messages(received.body["messages"])
            parts = cast("list[object]", answer) if isinstance(answer, list) else [answer]
            calls = [part for part in parts if isinstance(part, ToolCall)]
            if calls:
                return "", calls
            return str(cast("object", answer)), []
        reply = await self._fake(received.system, received.user)
        if isinstance(reply, BaseModel):
            return reply.model_dump_json(), []
        if isinstance(reply, str):
            return reply, []
        return json.dumps(reply), []

    def _count_cached_tokens(self, prompt: str) -> int:
        """Return how many tokens at the start of a prompt are those of an earlier prompt.

        Only whole blocks count. The blocks of this prompt are remembered for later ones.
        """
        is_cached = True  # until the first block that differs from all earlier prompts
        tokens = 0
        prefix_hash = 0  # of all blocks up to here, so that equal blocks elsewhere do not count
        for start in range(0, len(prompt) - BLOCK_CHARACTERS + 1, BLOCK_CHARACTERS):
            prefix_hash = hash((prefix_hash, prompt[start : start + BLOCK_CHARACTERS]))
            is_cached = is_cached and prefix_hash in self._prefix_hashes
            if is_cached:
                tokens += BLOCK_CHARACTERS // CHARACTERS_PER_TOKEN
            self._prefix_hashes.add(prefix_hash)
        return tokens


def _count_tokens(text: str) -> int:
    """Return about how many tokens a text has, at least 1."""
    return max(1, len(text) // CHARACTERS_PER_TOKEN)


@dataclass(frozen=True)
class Answer:
    """What the model answers, before it is written in the format of a provider."""

    text: str
    finish_reason: str  # "stop", or "length" if the token limit has cut the text off
    model: str
    prompt_tokens: int  # including cached ones
    cached_tokens: int
    completion_tokens: int
    confidence: float  # the probability of a verdict in the log-probabilities
    tool_calls: tuple[ToolCall, ...] = ()


def prompts_of(body: Mapping[str, Any]) -> tuple[str, str]:
    """Return the system prompt and the user prompt of a request in any of the formats.

    The user prompt is the text of all other messages.
    """
    instruction: Mapping[str, Any] = body.get("systemInstruction") or {}
    system = read_text(body.get("system") or instruction.get("parts"))
    user = ""
    messages: list[Mapping[str, Any]] = body.get("messages") or body.get("contents") or []
    for message in messages:
        content = read_text(message.get("content") or message.get("parts"))
        if message.get("role") == "system":
            system += content
        else:
            user += content
    return system, user


def chat_completion(answer: Answer, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer in the format of OpenAI's chat completions."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.text}
    finish_reason = answer.finish_reason
    if answer.tool_calls:
        message |= {
            "content": answer.text or None,
            "tool_calls": [call.openai_entry for call in answer.tool_calls],
        }
        finish_reason = "tool_calls"
    logprobs = {"content": _list_tokens(answer)} if body.get("logprobs") else None
    usage = {
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": answer.completion_tokens,
        "total_tokens": answer.prompt_tokens + answer.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": answer.cached_tokens},
    }
    choice = {
        "index": 0,
        "message": message,
        "finish_reason": finish_reason,
        "logprobs": logprobs,
    }
    return {
        "id": "chatcmpl-test",
        "object": "chat.completion",
        "created": 0,
        "model": answer.model,
        "choices": [choice],
        "usage": usage,
    }


def anthropic_message(answer: Answer, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer in Anthropic's format.

    If the request says that a tool must be used, the answer is the arguments of a call of that tool.
    """
    content = [_make_tool_use(call.id, call.name, call.arguments) for call in answer.tool_calls]
    stop_reason = "tool_use" if content else "end_turn"
    if answer.finish_reason == "length":
        stop_reason = "max_tokens"
    if stop_reason == "end_turn" and body.get("tool_choice"):
        stop_reason = "tool_use"
        content = [_make_tool_use("toolu_test", body["tool_choice"]["name"], answer.text)]
    elif answer.text or not content:
        content.insert(0, {"type": "text", "text": answer.text})
    usage = {
        "input_tokens": answer.prompt_tokens - answer.cached_tokens,
        "cache_read_input_tokens": answer.cached_tokens,
        "cache_creation_input_tokens": 0,
        "output_tokens": answer.completion_tokens,
    }
    return {
        "id": "msg_test",
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": usage,
    }


def gemini_content(answer: Answer, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer in Gemini's format, with log-probabilities if the request asks for them."""
    candidate: dict[str, Any] = {
        "content": {"role": "model", "parts": [{"text": answer.text}]},
        "finishReason": "MAX_TOKENS" if answer.finish_reason == "length" else "STOP",
    }
    config: Mapping[str, Any] = body.get("generationConfig") or {}
    if config.get("responseLogprobs"):
        chosen: list[dict[str, Any]] = []  # each token of the text
        top: list[dict[str, Any]] = []  # each token with the alternatives to it
        for token in _list_tokens(answer):
            candidates = [
                {"token": alternative["token"], "logProbability": alternative["logprob"]}
                for alternative in token["top_logprobs"]
            ]
            chosen.append(candidates[0])
            top.append({"candidates": candidates})
        candidate["logprobsResult"] = {"chosenCandidates": chosen, "topCandidates": top}
    usage = {
        "promptTokenCount": answer.prompt_tokens,
        "cachedContentTokenCount": answer.cached_tokens,
        "candidatesTokenCount": answer.completion_tokens,
    }
    return {"candidates": [candidate], "modelVersion": answer.model, "usageMetadata": usage}


def _make_tool_use(call_id: str, name: str, text: str) -> dict[str, Any]:
    """Return a call of a tool in Anthropic's format. `text` holds its arguments as JSON."""
    try:
        arguments = json.loads(text)
    except ValueError:
        arguments = {"text": text}
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


_OPPOSITES = {"MET": "UNMET", "UNMET": "MET"}
_IMPOSSIBLE = -20.0  # the log-probability of what is never said


def _list_tokens(answer: Answer) -> list[dict[str, Any]]:
    """Return the tokens of the text with their log-probabilities, in OpenAI's format.

    A verdict is one token. Its probability is the confidence of the answer, and the opposite verdict is
    an alternative with the rest of the probability.
    """
    confidence = answer.confidence
    verdict_logprob = math.log(confidence) if confidence else _IMPOSSIBLE
    opposite_logprob = math.log(1 - confidence) if confidence < 1 else _IMPOSSIBLE
    tokens: list[dict[str, Any]] = []
    for token in re.findall(r"UNMET|MET|\w{1,4}|\s+|[^\w\s]", answer.text):
        logprobs = {token: -0.01}
        if token in _OPPOSITES:
            logprobs = {token: verdict_logprob, _OPPOSITES[token]: opposite_logprob}
        alternatives = [
            {"token": text, "logprob": logprob, "bytes": None} for text, logprob in logprobs.items()
        ]
        tokens.append({**alternatives[0], "top_logprobs": alternatives})
    return tokens


# The paths of model calls, and the format of the reply. They are those of OpenAI, Gemini and Azure in
# OpenAI's format; of Anthropic, Bedrock and Vertex; and of Gemini's own format.
_ROUTES = (
    (
        re.compile(r"(?:/v1|/v1beta/openai|/openai/deployments/[^/]+)/chat/completions"),
        chat_completion,
    ),
    (re.compile(r"/v1/messages"), anthropic_message),
    (re.compile(r"/model/(?P<model>[^/]+)/invoke"), anthropic_message),
    (re.compile(r".+/publishers/anthropic/models/(?P<model>[^/]+):rawPredict"), anthropic_message),
    (
        re.compile(
            r"(?:/v1(?:beta)?|.+/publishers/google)/models/(?P<model>[^/]+):generateContent"
        ),
        gemini_content,
    ),
)
