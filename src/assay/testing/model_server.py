"""ModelServer is a model endpoint on 127.0.0.1 that answers by rule and injects planned Faults."""

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

TURNS = 10  # of the loop, until everything that came in has been seen
BLOCK = 64  # characters that are remembered together: 16 tokens, as inference servers do
CHARACTERS = 4  # in a token
_TOKENS = (
    "prompt_tokens",
    "cached_tokens",
    "completion_tokens",
    "user_tokens",
    "user_cached_tokens",
)
_Shape: TypeAlias = "Callable[[Said, Mapping[str, Any]], dict[str, Any]]"


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong with one call. Make them with the methods below."""

    kind: str
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)
    body: str | None = None  # the whole body, in place of a reply
    text: str | None = None  # what the model says, in place of its answer
    finish_reason: str = "stop"

    @classmethod
    def rate_limited(cls, retry_after: float | str | None = None) -> "Fault":
        """429; with seconds or a date after which to come again."""
        headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
        return cls("rate_limited", 429, headers, '{"error": {"message": "slow down"}}')

    @classmethod
    def failing(cls, status: int = 500) -> "Fault":
        """The endpoint's own fault."""
        return cls("failing", status, body='{"error": {"message": "something broke"}}')

    @classmethod
    def refusing(cls, complaint: str, status: int = 400) -> "Fault":
        """The endpoint complains about the request."""
        return cls("refusing", status, body=f'{{"error": {{"message": "{complaint}"}}}}')

    @classmethod
    def hanging(cls) -> "Fault":
        """Nothing comes, ever."""
        return cls("hanging")

    @classmethod
    def cut_off(cls) -> "Fault":
        """The connection breaks in the middle of the answer."""
        return cls("cut_off")

    @classmethod
    def garbage(cls) -> "Fault":
        """A success whose body is not JSON."""
        return cls("garbage", body="<html>502 Bad Gateway</html>")

    @classmethod
    def saying(cls, text: str) -> "Fault":
        """A reply that is not what was asked for."""
        return cls("saying", text=text)

    @classmethod
    def truncated(cls, text: str = '{"explanation": "It is pla') -> "Fault":
        """A reply that ran into the limit of tokens."""
        return cls("truncated", text=text, finish_reason="length")


# The fault of each call, by its number from 0, or in order; None is none.
FaultPlan: TypeAlias = Callable[[int], Fault | None] | Sequence[Fault | None]


def mixed(shares: Mapping[Fault, float], *, seed: int = 0) -> Callable[[int], Fault | None]:
    """Return a plan of faults at random, each with its share of the calls; the same for the same seed."""
    if (total := sum(shares.values())) > 1:
        raise ValueError(f"the shares {list(shares.values())} come to more than 1")
    faults, weights = [*shares, None], [*shares.values(), 1 - total]
    return lambda call: random.Random(f"{seed}:{call}").choices(faults, weights)[0]


@dataclass(frozen=True)
class Asked:
    system: str
    user: str
    body: Mapping[str, Any]  # the request as it was sent
    headers: Mapping[str, str]  # names in lower case
    path: str  # where it was posted, with the query
    fault: Fault | None = None  # what went wrong with it on demand


@dataclass(eq=False, repr=False)
class ModelServer:
    """An endpoint that speaks as OpenAI-compatible ones, Anthropic's and Gemini's do, on real sockets, for one block.

    OpenAI-compatible clients use `url`; the SDKs of Anthropic and Google, Bedrock, Vertex and Azure add to `host`.
    `answer` is what `FakeModel` takes, or a function of the `messages` alone, which returns a text or `tool_call`s.

    >>> from assay import PerCriterionGrader, Rubric
    >>> with ModelServer("MET", faults=[Fault.failing()]) as server:
    ...     rubric = Rubric([{"requirement": "Names Paris"}], judge=server.model)
    ...     print(rubric.grade_sync("Paris.").score, server.calls, len(server.asked))
    1.0 1 2
    """

    answer: Any = "MET"
    _: KW_ONLY
    latency: float = 0.0  # seconds that an answer takes
    faults: FaultPlan = ()
    capacity: int | None = None  # calls at once beyond which the reply is 429
    refuses: Sequence[str] = ()  # fields of a request for which the reply is 400
    confidence: float = (
        0.9  # the probability of the verdict, for those who ask for log-probabilities
    )
    name: str = "test"
    port: int = 0  # 0 takes any free one

    def __post_init__(self) -> None:
        answer, self._fake = self.answer, FakeModel(self.answer)
        takes_messages = inspect.isroutine(answer) and [*inspect.signature(answer).parameters] == [
            "messages"
        ]
        self._dialogue: Any = answer if takes_messages else None
        self.reset()

    def reset(self) -> None:
        """Forget every call so far; the plan of faults starts again."""
        self.asked: list[Asked] = []  # every call that came in, in order
        self.calls = 0  # calls that were answered with a reply
        # Tokens of the calls that were answered; `cached` repeat the start of an earlier prompt.
        self.prompt_tokens = self.cached_tokens = self.completion_tokens = 0
        # The same of what follows the system prompt, which is one for all.
        self.user_tokens = self.user_cached_tokens = 0
        self.most_at_once = 0  # calls under way at the same time, at the highest
        self.outcomes: Counter[str] = (
            Counter()
        )  # how many calls were answered, and how many met which fault
        self._prefixes: set[int] = set()  # the hashes of all starts of prompts, block by block
        self._under_way = 0

    @property
    def model(self) -> str:
        """The name that `model_of` takes."""
        return f"{self.url}#{self.name}"

    def __enter__(self) -> Self:
        started: Future[None] = Future()
        self._served = run_in_thread(lambda: asyncio.run(self._run(started)))
        wait([started, self._served], return_when=FIRST_COMPLETED)
        if self._served.done():
            self._served.result()  # which raises what kept it from starting
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._served.result()

    async def _run(self, started: "Future[None]") -> None:
        self._web = import_extra("aiohttp.web", "a ModelServer", extra="judge")
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        # A client that hangs up ends its call, as endpoints see to.
        http = self._web.Server(self._handle, handler_cancellation=True, access_log=None)
        server = await self._loop.create_server(http, "127.0.0.1", self.port, backlog=1024)
        # Its address without a path, as the variables of the SDKs take it.
        self.host = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self.url = f"{self.host}/v1"  # the endpoint's address
        started.set_result(None)
        await self._stop.wait()
        for listening in server.sockets:
            self._loop.remove_reader(listening.fileno())
        # One that was accepted just now is known some turns later, and closed by the turn after. A
        # server that is closed before does not know what to do with it.
        for _ in range(TURNS):
            for connection in http.connections:
                if connection.transport is not None:
                    connection.transport.abort()
            await asyncio.sleep(0)
        server.close()
        await http.shutdown(timeout=0.001)  # 0 would be for ever

    async def _handle(self, request: "web.BaseRequest") -> "web.StreamResponse":
        place = unquote(urlsplit(request.raw_path).path)
        for pattern, shape in _ROUTES:
            if (found := pattern.fullmatch(place)) is not None:
                try:
                    return await self._completion(request, shape, found.groupdict())
                except Exception as error:  # noqa: BLE001 - a test's own rule may raise anything
                    return self._web.json_response(
                        {"error": {"message": describe_error(error)}}, status=500
                    )
        path = place.removeprefix("/v1")
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
        """The counts so far, as `GET /v1/stats` gives them; `POST /v1/reset` forgets them."""
        counts = {name: getattr(self, name) for name in ("calls", *_TOKENS, "most_at_once")}
        return {"asked": len(self.asked), **counts, "outcomes": dict(self.outcomes)}

    async def _completion(
        self, request: "web.BaseRequest", shape: _Shape, named: Mapping[str, str]
    ) -> "web.StreamResponse":
        body = {**named, **json.loads(await request.content.read())}
        number, refused = len(self.asked), [name for name in self.refuses if name in body]
        fault = (
            self.faults(number)
            if callable(self.faults)
            else next(iter(self.faults[number : number + 1]), None)
        )
        if fault is None and refused:
            fault = Fault.refusing(f"Unsupported parameter: {refused[0]}")
        headers = {name.lower(): value for name, value in request.headers.items()}
        asked = Asked(*prompts_of(body), body, headers, request.raw_path, fault)
        self.asked.append(asked)
        self._under_way += 1
        self.most_at_once = max(self.most_at_once, self._under_way)
        try:
            if self.capacity is not None and self._under_way > self.capacity:
                fault = Fault.rate_limited()
            self.outcomes["answered" if fault is None else fault.kind] += 1
            return await self._respond(request, asked, fault, shape)
        finally:
            self._under_way -= 1

    async def _respond(
        self, request: "web.BaseRequest", asked: Asked, fault: Fault | None, shape: _Shape
    ) -> "web.StreamResponse":
        if fault is not None and fault.kind == "hanging":
            await asyncio.Event().wait()
        if fault is not None and fault.body is not None:
            return self._web.Response(
                status=fault.status,
                text=fault.body,
                headers=fault.headers,
                content_type="application/json",
            )
        await asyncio.sleep(self.latency)
        text, calls = await self._answer(asked, fault)
        prompt = f"{asked.system}\0{asked.user}"
        finish, model = (
            fault.finish_reason if fault is not None else "stop",
            f"{asked.body.get('model')}-2026-01-01",
        )
        tokens = _count_tokens(prompt), self._shared(prompt), _count_tokens(text)
        named = (
            call._replace(id=call.id or f"call_{len(self.asked)}_{n}")
            for n, call in enumerate(calls)
        )
        said = Said(text, finish, model, *tokens, self.confidence, tuple(named))
        self.calls += fault is None
        system = _count_tokens(asked.system)
        self.prompt_tokens += said.prompt_tokens
        self.cached_tokens += said.cached_tokens
        self.completion_tokens += said.completion_tokens
        self.user_tokens += max(0, said.prompt_tokens - system)
        self.user_cached_tokens += max(0, said.cached_tokens - system)
        whole = shape(said, asked.body)
        if fault is None or fault.kind != "cut_off":
            return self._web.json_response(whole)
        # The second half and the connection are lost.
        data = json.dumps(whole).encode()
        response = self._web.StreamResponse(headers={"Content-Length": str(len(data))})
        await response.prepare(request)
        await response.write(data[: len(data) // 2])
        assert request.transport is not None
        request.transport.close()
        return response

    async def _answer(self, asked: Asked, fault: Fault | None) -> tuple[str, list[ToolCall]]:
        if fault is not None and fault.text is not None:
            return fault.text, []
        if self._dialogue is not None:
            answer: Any = self._dialogue(asked.body["messages"])
            listed = cast("list[object]", answer) if isinstance(answer, list) else [answer]
            calls = [call for call in listed if isinstance(call, ToolCall)]
            return ("", calls) if calls else (str(cast("object", answer)), [])
        reply = await self._fake(asked.system, asked.user)
        if isinstance(reply, BaseModel):
            return reply.model_dump_json(), []
        return reply if isinstance(reply, str) else json.dumps(reply), []

    def _shared(self, prompt: str) -> int:
        """How many tokens of a prompt were the start of an earlier one; it is remembered too."""
        known = True
        tokens = chain = 0
        for start in range(0, len(prompt) - BLOCK + 1, BLOCK):
            chain = hash((chain, prompt[start : start + BLOCK]))
            known = known and chain in self._prefixes
            tokens += known * BLOCK // CHARACTERS
            self._prefixes.add(chain)
        return tokens


def _count_tokens(text: str) -> int:
    return max(1, len(text) // CHARACTERS)


# Requests as they are read, and replies as endpoints write them.


@dataclass(frozen=True)
class Said:
    """A reply, before it has a shape."""

    text: str
    finish_reason: str
    model: str
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    confidence: float
    tool_calls: tuple[ToolCall, ...] = ()


def prompts_of(body: Mapping[str, Any]) -> tuple[str, str]:
    instruction: Mapping[str, Any] = body.get("systemInstruction") or {}
    system, user = read_text(body.get("system") or instruction.get("parts")), ""
    told: list[Mapping[str, Any]] = body.get("messages") or body.get("contents") or []
    for message in told:
        content = read_text(message.get("content") or message.get("parts"))
        if message.get("role") == "system":
            system += content
        else:
            user += content
    return system, user


def chat_completion(said: Said, body: Mapping[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": said.text}
    finish = said.finish_reason
    if said.tool_calls:
        message |= {
            "content": said.text or None,
            "tool_calls": [call.openai_entry for call in said.tool_calls],
        }
        finish = "tool_calls"
    logprobs = {"content": _tokens(said)} if body.get("logprobs") else None
    usage = {
        "prompt_tokens": said.prompt_tokens,
        "completion_tokens": said.completion_tokens,
        "total_tokens": said.prompt_tokens + said.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": said.cached_tokens},
    }
    choice = {"index": 0, "message": message, "finish_reason": finish, "logprobs": logprobs}
    told = {"id": "chatcmpl-test", "object": "chat.completion", "created": 0, "model": said.model}
    return {**told, "choices": [choice], "usage": usage}


def message(said: Said, body: Mapping[str, Any]) -> dict[str, Any]:
    """As Anthropic's endpoint answers: by the tool, where one has to be used."""
    part: dict[str, Any] = {"type": "text", "text": said.text}
    calls = [_tool_use(call.id, call.name, call.arguments) for call in said.tool_calls]
    stop = "max_tokens" if said.finish_reason == "length" else "end_turn"
    if body.get("tool_choice") and stop == "end_turn":
        part, stop = _tool_use("toolu_test", body["tool_choice"]["name"], said.text), "tool_use"
    usage = {
        "input_tokens": said.prompt_tokens - said.cached_tokens,
        "cache_read_input_tokens": said.cached_tokens,
        "cache_creation_input_tokens": 0,
        "output_tokens": said.completion_tokens,
    }
    told = {"id": "msg_test", "type": "message", "role": "assistant", "model": said.model}
    content = [part, *calls] if said.text or not calls else calls
    stopped = {"stop_reason": "tool_use" if calls else stop, "stop_sequence": None}
    return {**told, "content": content, **stopped, "usage": usage}


def generate_content(said: Said, body: Mapping[str, Any]) -> dict[str, Any]:
    candidate: dict[str, Any] = {
        "content": {"role": "model", "parts": [{"text": said.text}]},
        "finishReason": "MAX_TOKENS" if said.finish_reason == "length" else "STOP",
    }
    config: Mapping[str, Any] = body.get("generationConfig") or {}
    if config.get("responseLogprobs"):
        tokens = [
            [{"token": t["token"], "logProbability": t["logprob"]} for t in token["top_logprobs"]]
            for token in _tokens(said)
        ]
        candidate["logprobsResult"] = {
            "chosenCandidates": [alternatives[0] for alternatives in tokens],
            "topCandidates": [{"candidates": alternatives} for alternatives in tokens],
        }
    usage = {
        "promptTokenCount": said.prompt_tokens,
        "cachedContentTokenCount": said.cached_tokens,
        "candidatesTokenCount": said.completion_tokens,
    }
    return {"candidates": [candidate], "modelVersion": said.model, "usageMetadata": usage}


def _tool_use(number: str, name: str, text: str) -> dict[str, Any]:
    try:
        arguments = json.loads(text)
    except ValueError:
        arguments = {"text": text}
    return {"type": "tool_use", "id": number, "name": name, "input": arguments}


def _tokens(said: Said) -> list[dict[str, Any]]:
    """The text as tokens. A verdict is one, and its opposite has the rest of the confidence."""
    sure = math.log(said.confidence) if said.confidence else -20.0
    unsure = math.log(1 - said.confidence) if said.confidence < 1 else -20.0
    tokens: list[dict[str, Any]] = []
    for piece in re.findall(r"UNMET|MET|\w{1,4}|\s+|[^\w\s]", said.text):
        other = {"MET": "UNMET", "UNMET": "MET"}.get(piece)
        alternatives = {piece: sure if other else -0.01} | ({other: unsure} if other else {})
        shown = [{"token": t, "logprob": p, "bytes": None} for t, p in alternatives.items()]
        tokens.append({**shown[0], "top_logprobs": shown})
    return tokens


_ROUTES = (
    (
        re.compile(r"(?:/v1|/v1beta/openai|/openai/deployments/[^/]+)/chat/completions"),
        chat_completion,
    ),
    (re.compile(r"/v1/messages"), message),
    (re.compile(r"/model/(?P<model>[^/]+)/invoke"), message),
    (re.compile(r".+/publishers/anthropic/models/(?P<model>[^/]+):rawPredict"), message),
    (
        re.compile(
            r"(?:/v1(?:beta)?|.+/publishers/google)/models/(?P<model>[^/]+):generateContent"
        ),
        generate_content,
    ),
)  # the paths of OpenAI, Gemini and Azure; of Anthropic, Bedrock and Vertex; of Gemini's own protocol
