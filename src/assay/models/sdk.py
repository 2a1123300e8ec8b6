"""Send payloads through a client that the user made with an SDK, and speak the format of `google-genai`.

The clients of `openai` (Azure too), `anthropic` (Bedrock and Vertex too) and `google-genai`, sync or async.
"""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence, Set
from functools import reduce
from typing import Any, Literal, TypeAlias, cast

from assay.errors import Refused
from assay.media import Medium
from assay.models.model import Reply, Request, Token, Usage, json_schema
from assay.models.openai import NO_FIELDS, OpenAIFormat, Parameters, Payload, RawReply, optional
from assay.redaction import redacted, without
from assay.types import Message
from assay.wording import short_repr

CONNECTIONS = 1000  # that a client keeps open at most
_CONNECTION = ("APIConnectionError", "TransportError", "ClientConnectionError", "ClientPayloadError")
"""What the SDKs, and the HTTP clients under them, raise when there is no whole answer."""
Protocol: TypeAlias = Literal["openai", "anthropic", "genai"]
_METHODS: Mapping[Protocol, str] = {
    "openai": "chat.completions.create", "anthropic": "messages.create", "genai": "models.generate_content"
}  # fmt: skip


def creating(client: Any) -> tuple[Protocol, Callable[..., Any]] | None:
    """Which protocol a client speaks, and its method that asks; None when it is no client."""
    for protocol, path in _METHODS.items():
        method = reduce(lambda found, name: getattr(found, name, None), path.split("."), client)
        if callable(method):
            return protocol, method
    return None


def address_and_key_of(client: Any) -> tuple[str, str]:
    """The address that a client asks and the key that it sends, each empty when it does not say."""
    google = getattr(client, "_api_client", None)
    url = getattr(client, "base_url", None) or getattr(getattr(google, "_http_options", None), "base_url", None)
    key = getattr(client, "api_key", None) or getattr(google, "api_key", None)
    return str(url or "").rstrip("/"), str(key or "")


class SdkSend:
    """Asks through the client. A sync client waits in a thread, so few calls go at once."""

    def __init__(self, client: Any, timeout: float, secrets: Sequence[str] = (), method: str = "") -> None:
        """`secrets` are what the client sends, struck out where an answer repeats them; `method` is not the usual one."""
        options = getattr(client, "with_options", None)
        # Without the client's own retries, for ours count and are counted.
        self._client = client if options is None else options(max_retries=0, timeout=timeout)
        found = creating(self._client)
        if found is None:
            raise Refused(f"{short_repr(client)} is no client any more once its options are set")
        self._create = reduce(getattr, method.split("."), self._client) if method else found[1]
        self._secrets = secrets
        self._keepers: dict[asyncio.AbstractEventLoop, AsyncGenerator[None]] = {}
        self._names = keywords_of(self._create)
        marks = (self._create, getattr(client, "close", None), getattr(client, "aclose", None))
        self._is_async = any(inspect.iscoroutinefunction(mark) for mark in marks)

    async def __call__(self, payload: Payload, seconds: float) -> RawReply:
        body = dict(payload.body)
        if self._names and "extra_body" in self._names:
            # Endpoints take more fields than their SDKs name: `anthropic` 1.17 has no `temperature`.
            unnamed = {name: body.pop(name) for name in list(body) if name not in self._names}
            body |= {"extra_body": {**unnamed, **body.get("extra_body", {})}} if unnamed else {}
        try:
            async with asyncio.timeout(seconds):
                if self._is_async:
                    result = await self._awaited(body)
                else:
                    result = await asyncio.to_thread(self._create, **body)
        except Exception as error:
            status = getattr(error, "status_code", None) or getattr(error, "code", None)
            if isinstance(status, int) and 400 <= status < 600:
                headers = getattr(getattr(error, "response", None), "headers", None)
                return RawReply(status, cast("Mapping[str, str]", headers or {}), None, redacted(str(error)))
            if any(kind.__name__ in _CONNECTION for kind in type(error).__mro__):
                raise ConnectionError(str(error)) from error
            raise
        return RawReply(200, {}, without(self._secrets, _plain(result)), "")

    async def _awaited(self, body: Mapping[str, Any]) -> Any:
        """The result of an async client, which may hold connections of a loop that has ended."""
        loop = asyncio.get_running_loop()
        if loop not in self._keepers:
            self._keepers = {known: keeper for known, keeper in self._keepers.items() if not known.is_closed()}
            self._keepers[loop] = _until_the_loop_ends(self._client)
            await anext(self._keepers[loop])
        for _ in range(CONNECTIONS):
            try:
                return await self._create(**body)
            except RuntimeError as error:
                # The call that meets such a connection drops it, and finds another or makes one.
                if "loop is closed" not in str(error):
                    raise
        raise ConnectionError("the client holds only connections of an event loop that has ended")


async def _until_the_loop_ends(client: Any) -> AsyncGenerator[None]:
    """Have a loop close the client's connections that were made in it; a sync method runs one each time."""
    try:
        yield
    finally:
        # No SDK has a way to do this. Without it the next loop sends on a dead connection.
        google = getattr(client, "_api_client", None)
        http = getattr(client, "_client", None) or getattr(google, "_async_httpx_client", None)
        pool = getattr(getattr(http, "_transport", None), "_pool", None)
        for connection in getattr(pool, "connections", ()):
            if connection.is_idle():
                await connection.aclose()
        # Where aiohttp is installed, Google's client asks through a session for each loop.
        session = getattr(google, "_aiohttp_sessions", {}).get(asyncio.get_running_loop())
        if session is not None:
            await session.close()


def keywords_of(function: Callable[..., Any]) -> set[str] | None:
    """The keywords that a function takes, none when it does not say; None when it takes any."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        return set()
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters)
    return None if takes_any else {each.name for each in parameters if each.kind is not each.POSITIONAL_ONLY}


def _plain(value: Any) -> Any:
    """A client's objects as mappings and lists."""
    if callable(dump := getattr(value, "model_dump", None)):
        return dump()
    if isinstance(value, list | tuple):
        return [_plain(part) for part in cast("list[Any]", value)]
    fields = cast("Any", value) if isinstance(value, Mapping) else getattr(value, "__dict__", None)
    return cast("Any", value) if fields is None else {name: _plain(part) for name, part in fields.items()}


_STOPS = {"STOP": "stop", "MAX_TOKENS": "length", "FINISH_REASON_UNSPECIFIED": "stop"}
_FILTERED = frozenset({"SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"})
_PARAMETERS: Parameters = {
    "schema": lambda schema: {"response_mime_type": "application/json", "response_json_schema": json_schema(schema)},
    "temperature": lambda temperature: {"temperature": temperature},
    "seed": lambda seed: {"seed": seed},
    "logprobs": lambda alternatives: {"response_logprobs": True, "logprobs": alternatives},
}


class GeminiFormat(OpenAIFormat):
    """Writes the arguments of `generate_content` and reads what it returns; the client knows path and headers."""

    maker = "gemini"

    def __init__(self, *, timeout: float, **extra: Any) -> None:
        """`timeout` is seconds for one attempt; `extra` goes into the config of every call."""
        options = {"timeout": int(timeout * 1000), "retry_options": {"attempts": 1}}
        super().__init__()
        self.extra = {"http_options": options, **extra}

    def payload(self, request: Request, name: str, left_out: Set[str]) -> Payload:
        if request.tools:
            raise _unsupported("tools are not offered to a model through a client of google-genai", name)
        config, contents = dict(self.extra), list[dict[str, Any]]()
        for message in self.turns(request, left_out):
            role, parts = message["role"], _parts(message, name)
            if role == "system":
                config["system_instruction"] = [*config.get("system_instruction", ()), *parts]
            elif role in ("user", "assistant"):
                contents.append({"role": "user" if role == "user" else "model", "parts": parts})
            else:
                given = f"a message has the role {role!r}, which a client of google-genai does not take"
                raise _unsupported(given, name)
        if request.max_tokens is not None:
            config["max_output_tokens"] = request.max_tokens
        fields, used = optional(request, left_out, _PARAMETERS)
        return Payload({"model": name, "contents": contents, "config": config | fields}, used)

    def medium(self, medium: Medium) -> dict[str, Any]:
        return {"inline_data": {"mime_type": medium.media_type, "data": medium.data}}

    def reply(self, data: Mapping[str, Any]) -> Reply:
        """The first candidate of an answer. Thoughts are left out."""
        blocked = (data.get("prompt_feedback") or NO_FIELDS).get("block_reason") and not data.get("candidates")
        found: Mapping[str, Any] = {"finish_reason": "SAFETY"} if blocked else data["candidates"][0]
        parts: Sequence[Mapping[str, Any]] = (found.get("content") or NO_FIELDS).get("parts") or ()
        reason = found.get("finish_reason")
        ended = str(getattr(reason, "value", reason) or "STOP")
        usage = data.get("usage_metadata") or NO_FIELDS
        read, cached = usage.get("prompt_token_count") or 0, usage.get("cached_content_token_count") or 0
        written = (usage.get("candidates_token_count") or 0) + (usage.get("thoughts_token_count") or 0)
        return Reply(
            "".join(part.get("text") or "" for part in parts if not part.get("thought")),
            usage=Usage(read, cached, written),
            model=data.get("model_version") or "",
            finish_reason="content_filter" if ended in _FILTERED else _STOPS.get(ended, ended.lower()),
            logprobs=_logprobs(found.get("logprobs_result") or NO_FIELDS),
        )


def _unsupported(what: str, name: str) -> Refused:
    return Refused(f"{what}: name the model instead, as 'gemini/{name}'")


def _parts(message: Message, name: str) -> list[dict[str, Any]]:
    content: Any = message.get("content")
    parts: Any = [{"type": "text", "text": content}] if isinstance(content, str) else content or ()
    for part in parts:
        if part.get("type") != "text" and "inline_data" not in part:
            held = f"a message holds {short_repr(part)}, and a client of google-genai is sent texts and media only"
            raise _unsupported(held, name)
    return [part if "inline_data" in part else {"text": part["text"]} for part in parts]


def _logprobs(given: Mapping[str, Any]) -> tuple[Token, ...] | None:
    chosen = given.get("chosen_candidates")
    if not chosen:
        return None
    top: Sequence[Mapping[str, Any]] = given.get("top_candidates") or [NO_FIELDS] * len(chosen)
    candidates = [{one["token"]: one["log_probability"] for one in each.get("candidates") or ()} for each in top]
    pairs = zip(chosen, candidates, strict=True)
    return tuple(Token(one["token"], one["log_probability"], others) for one, others in pairs)
