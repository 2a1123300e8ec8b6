"""ModelServer: a model endpoint on 127.0.0.1 that answers by rule, and fails on demand."""

import asyncio
import inspect
import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias, cast
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel

from assay.errors import MissingExtraError
from assay.messages import ToolCall
from assay.testing.fakes import FakeModel
from assay.testing.faults import Fault, FaultPlan
from assay.testing.replies import Said, chat_completion, generate_content, message, prompts_of
from assay.wording import described

if TYPE_CHECKING:
    from aiohttp import web

TURNS = 10
"""Of the loop, until everything that came in has been seen."""
BLOCK = 64
"""Characters that are remembered together: 16 tokens, as inference servers do."""
CHARACTERS = 4
"""In a token."""

_Shape: TypeAlias = Callable[[Said, Mapping[str, Any]], dict[str, Any]]
_ROUTES = (
    (re.compile(r"(?:/v1|/v1beta/openai|/openai/deployments/[^/]+)/chat/completions"), chat_completion),
    (re.compile(r"/v1/messages"), message),
    (re.compile(r"/model/(?P<model>[^/]+)/invoke"), message),
    (re.compile(r".+/publishers/anthropic/models/(?P<model>[^/]+):rawPredict"), message),
    (re.compile(r"(?:/v1(?:beta)?|.+/publishers/google)/models/(?P<model>[^/]+):generateContent"), generate_content),
)
"""The paths of OpenAI, Gemini and Azure; of Anthropic, Bedrock and Vertex; of Gemini's own protocol."""


@dataclass(frozen=True)
class Asked:
    """One call that came in."""

    system: str
    user: str
    body: Mapping[str, Any]
    """The request as it was sent."""
    headers: Mapping[str, str]
    """Names in lower case."""
    path: str
    """Where it was posted, with the query."""
    fault: Fault | None = None
    """What went wrong with it on demand."""


class _Answer(NamedTuple):
    """What is sent back. A `cut` one loses its second half and the connection."""

    status: int
    body: bytes
    headers: Mapping[str, str] = {}
    cut: bool = False

    @classmethod
    def of(cls, value: Any, status: int = 200) -> "_Answer":
        """A value as JSON."""
        return cls(status, json.dumps(value).encode())


class Prefixes:
    """Remembers prompts by their starts.

    >>> prefixes = Prefixes()
    >>> prefixes.shared("x" * 640), prefixes.shared("x" * 640 + "y" * 64)
    (0, 160)
    """

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def shared(self, prompt: str) -> int:
        """How many tokens of a prompt were the start of an earlier one; it is remembered too."""
        known = True
        tokens = chain = 0
        for start in range(0, len(prompt) - BLOCK + 1, BLOCK):
            chain = hash((chain, prompt[start : start + BLOCK]))
            known = known and chain in self._seen
            if known:
                tokens += BLOCK // CHARACTERS
            else:
                self._seen.add(chain)
        return tokens


def count_tokens(text: str) -> int:
    """About how many tokens a text has; never none."""
    return max(1, len(text) // CHARACTERS)


class ModelServer:
    """An endpoint that speaks as OpenAI-compatible ones, Anthropic's and Gemini's do, over real sockets.

    It answers at `url`, where OpenAI-compatible endpoints are; the SDKs of Anthropic and Google, Bedrock,
    Vertex and Azure add paths of their own to `host`.

    `answer` is what `FakeModel` takes: a verdict, a number, a text, or a function of the two prompts; or
    a function of the `messages` alone, which returns a text or one or more `tool_call`s. It runs in a
    thread of its own while the block lasts.

    >>> import asyncio
    >>> from assay import PerCriterionGrader, Rubric
    >>> rubric = Rubric.from_dict([{"requirement": "Names Paris"}])
    >>> with ModelServer("MET", faults=[Fault.failing()]) as server:
    ...     score = rubric.grade_sync("Paris.", PerCriterionGrader(model=server.model)).score
    ...     print(score, server.calls, len(server.asked))
    1.0 1 2
    """

    def __init__(
        self,
        answer: Any = "MET",
        *,
        latency: float = 0.0,
        faults: FaultPlan = (),
        capacity: int | None = None,
        refuses: Sequence[str] = (),
        confidence: float = 0.9,
        name: str = "test",
    ) -> None:
        """`latency` is seconds an answer takes. Beyond `capacity` calls at once it answers 429.

        A call with one of the fields it `refuses`, such as `response_format`, is answered with 400.
        `confidence` is the probability of the verdict, for those who ask for log-probabilities.
        """
        self._fake = FakeModel(answer)
        self._dialogue = answer if _takes_messages(answer) else None
        self._faults = faults
        self._confidence = confidence
        self._refuses = refuses
        self.latency = latency
        self.capacity = capacity
        self.name = name
        self.reset()

    def reset(self) -> None:
        """Forget every call so far; the plan of faults starts again."""
        self.asked: list[Asked] = []
        """Every call that came in, in order."""
        self.calls = 0
        """Calls that were answered with a reply."""
        self.prompt_tokens = self.cached_tokens = self.completion_tokens = 0
        """Tokens of the calls that were answered; `cached` repeat the start of an earlier prompt."""
        self.user_tokens = self.user_cached_tokens = 0
        """The same of what follows the system prompt, which is one for all."""
        self.most_at_once = 0
        """Calls under way at the same time, at the highest."""
        self.outcomes: Counter[str] = Counter()
        """How many calls were answered, and how many met which fault."""
        self._prefixes = Prefixes()
        self._under_way = 0

    @property
    def model(self) -> str:
        """The name that `model_of` takes."""
        return f"{self.url}#{self.name}"

    def __enter__(self) -> Self:
        started: Future[None] = Future()
        self._thread = threading.Thread(target=self._serve, args=[started], name="assay-model-server")
        self._thread.start()
        started.result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _serve(self, started: "Future[None]") -> None:
        try:
            asyncio.run(self._run(started))
        except BaseException as error:
            # The block that waits for the start is told; later failures are printed by the thread.
            if started.done():
                raise
            started.set_exception(error)

    async def _run(self, started: "Future[None]") -> None:
        try:
            from aiohttp import web
        except ImportError:
            raise MissingExtraError("a ModelServer", package="aiohttp", extra="testing") from None
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        # A client that hangs up ends its call, as endpoints see to.
        http = web.Server(self._handle, handler_cancellation=True, access_log=None)
        server = await self._loop.create_server(http, "127.0.0.1", 0, backlog=1024)
        port = server.sockets[0].getsockname()[1]
        self.host = f"http://127.0.0.1:{port}"
        """Its address without a path, as the variables of the SDKs take it."""
        self.url = f"{self.host}/v1"
        """The endpoint's address."""
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
        from aiohttp import web

        answer = await self._answer_to(request)
        if not answer.cut:
            return web.Response(
                status=answer.status, body=answer.body, headers=answer.headers, content_type="application/json"
            )
        # The second half and the connection are lost.
        response = web.StreamResponse(headers={"Content-Length": str(len(answer.body))})
        await response.prepare(request)
        await response.write(answer.body[: len(answer.body) // 2])
        assert request.transport is not None
        request.transport.close()
        return response

    async def _answer_to(self, request: "web.BaseRequest") -> "_Answer":
        place = unquote(urlsplit(request.raw_path).path)
        for pattern, shape in _ROUTES:
            found = pattern.fullmatch(place)
            if found is not None:
                try:
                    return await self._completion(request, shape, found.groupdict())
                except Exception as error:  # noqa: BLE001 - a test's own rule may raise anything
                    return _Answer.of({"error": {"message": described(error)}}, 500)
        path = place.removeprefix("/v1")
        if path == "/models":
            return _Answer.of({"object": "list", "data": [{"id": self.name, "object": "model"}]})
        if path == "/stats":
            return _Answer.of(self.stats())
        if path == "/reset":
            self.reset()
            return _Answer.of({})
        return _Answer.of({"error": {"message": f"there is no {request.raw_path}"}}, 404)

    def stats(self) -> dict[str, Any]:
        """The counts so far, as `GET /v1/stats` gives them; `POST /v1/reset` forgets them."""
        return {
            "asked": len(self.asked),
            "calls": self.calls,
            "prompt_tokens": self.prompt_tokens,
            "cached_tokens": self.cached_tokens,
            "completion_tokens": self.completion_tokens,
            "user_tokens": self.user_tokens,
            "user_cached_tokens": self.user_cached_tokens,
            "most_at_once": self.most_at_once,
            "outcomes": dict(self.outcomes),
        }

    async def _completion(self, request: "web.BaseRequest", shape: _Shape, named: Mapping[str, str]) -> "_Answer":
        body = {**named, **json.loads(await request.content.read())}
        fault = self._fault(len(self.asked)) or self._complaint(body)
        headers = {name.lower(): value for name, value in request.headers.items()}
        asked = Asked(*prompts_of(body), body, headers, request.raw_path, fault)
        self.asked.append(asked)
        self._under_way += 1
        self.most_at_once = max(self.most_at_once, self._under_way)
        try:
            if self.capacity is not None and self._under_way > self.capacity:
                fault = Fault.rate_limited()
            self.outcomes["answered" if fault is None else fault.kind] += 1
            return await self._respond(asked, fault, shape)
        finally:
            self._under_way -= 1

    def _fault(self, number: int) -> Fault | None:
        if callable(self._faults):
            return self._faults(number)
        return self._faults[number] if number < len(self._faults) else None

    def _complaint(self, body: Mapping[str, Any]) -> Fault | None:
        refused = [name for name in self._refuses if name in body]
        return Fault.refusing(f"Unsupported parameter: {refused[0]}") if refused else None

    async def _respond(self, asked: Asked, fault: Fault | None, shape: _Shape) -> "_Answer":
        if fault is not None and fault.kind == "hanging":
            await asyncio.Event().wait()
        if fault is not None and fault.body is not None:
            return _Answer(fault.status, fault.body.encode(), fault.headers)
        await asyncio.sleep(self.latency)
        said = self._said(asked, fault, *await self._answer(asked, fault))
        if fault is None:
            self.calls += 1
        self.prompt_tokens += said.prompt_tokens
        self.cached_tokens += said.cached_tokens
        self.completion_tokens += said.completion_tokens
        system = count_tokens(asked.system)
        self.user_tokens += max(0, said.prompt_tokens - system)
        self.user_cached_tokens += max(0, said.cached_tokens - system)
        whole = _Answer.of(shape(said, asked.body))
        return whole._replace(cut=fault is not None and fault.kind == "cut_off")

    async def _answer(self, asked: Asked, fault: Fault | None) -> tuple[str, tuple[ToolCall, ...]]:
        """A text, and calls of tools."""
        if fault is not None and fault.text is not None:
            return fault.text, ()
        if self._dialogue is not None:
            answer = self._dialogue(asked.body["messages"])
            calls = _calls(answer)
            return ("", calls) if calls else (str(answer), ())
        answer = await self._fake(asked.system, asked.user)
        if isinstance(answer, BaseModel):
            return answer.model_dump_json(), ()
        return answer if isinstance(answer, str) else json.dumps(answer), ()

    def _said(self, asked: Asked, fault: Fault | None, text: str, calls: tuple[ToolCall, ...]) -> Said:
        prompt = f"{asked.system}\0{asked.user}"
        return Said(
            text,
            fault.finish_reason if fault is not None else "stop",
            f"{asked.body.get('model')}-2026-01-01",
            prompt_tokens=count_tokens(prompt),
            cached_tokens=self._prefixes.shared(prompt),
            completion_tokens=count_tokens(text),
            confidence=self._confidence,
            tool_calls=tuple(
                call._replace(id=call.id or f"call_{len(self.asked)}_{number}") for number, call in enumerate(calls)
            ),
        )


def _takes_messages(answer: Any) -> bool:
    return inspect.isroutine(answer) and [*inspect.signature(answer).parameters] == ["messages"]


def _calls(answer: object) -> tuple[ToolCall, ...]:
    listed = cast("list[object]", answer) if isinstance(answer, list) else [answer]
    return tuple(call for call in listed if isinstance(call, ToolCall))
