"""Ask a model behind an endpoint, within its limits and the budget, and read its replies."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Set
from dataclasses import replace

from assay.errors import ModelError, NoReply, NotAsked, Refused, Unreadable
from assay.media import Medium
from assay.models.budgets import (
    count_call,
    count_here,
    is_dry_run,
    refuse_unpriced,
    reserve_dollars,
)
from assay.models.finish_reasons import check_complete
from assay.models.model import Model, Price, Reply, Request, Usage, parts_in, schema_text
from assay.models.network_thread import run_on_loop, run_on_network_thread
from assay.models.retry import Endpoint
from assay.models.structured import read_structured
from assay.models.unsupported_parameters import (
    find_unsupported_parameter,
    mentions_parameter,
    parameters_refused_by,
)
from assay.models.wire_format import Payload, RawReply, WireFormat, load_prompt

# Sends a payload to the endpoint; raises `TimeoutError` if no reply comes in this many seconds.
SendPayload = Callable[[Payload, float], Awaitable[RawReply]]


class EndpointModel:
    """A model behind an endpoint. A reply that cannot be read is asked for once more."""

    def __init__(
        self,
        identity: str,
        name: str,
        *,
        wire_format: WireFormat,
        send: SendPayload,
        endpoint: Endpoint,
        price: Price | None = None,
        sends_on_caller_loop: bool = False,
    ) -> None:
        """With `sends_on_caller_loop`, `send` runs on the event loop of the caller.

        The async client of an SDK needs this, because it belongs to the loop of its user.
        """
        self.id = identity
        self.name = name  # what the endpoint calls the model
        self.endpoint = endpoint
        self.price = price  # None if the price is not known
        self.media = frozenset[str]()  # the kinds of media that the model accepts
        # The maximum tokens of prompt and reply in one call; None if it is not known.
        self.window: int | None = None
        self.tokens = TokenEstimate(wire_format.maker)
        # The optional parts of a request that the model does not accept, as its name or its
        # complaints tell.
        self.left_out: Set[str] = parameters_refused_by(name)
        # The parts that it has just complained about. They are left out until it is known whether
        # that helps.
        self._suspected: Set[str] = frozenset()
        self._format = wire_format
        self._send = send
        self._sends_on_caller_loop = sends_on_caller_loop

    async def __call__(self, request: Request) -> Reply:
        try:
            refuse_unpriced([self])
            if is_dry_run():
                self._count_dry_run(request)
                raise NotAsked(f"{self.id} was not asked: this is a dry run")
            return await self._call(request)
        except ModelError as error:
            count_here(errors=type(error).__name__)
            raise

    async def _call(self, request: Request) -> Reply:
        """Hand a request over to the network thread and return the reply."""
        send = self._send
        if self._sends_on_caller_loop:
            send = _send_on_loop(asyncio.get_running_loop(), send)
        limiter = self.endpoint.limiter
        limiter.announce(1)
        try:
            return await run_on_network_thread(self._answer(request, send))
        finally:
            limiter.announce(-1)

    def _count_dry_run(self, request: Request) -> None:
        """Count the expected and the maximum cost of a request."""
        expected = self.tokens.estimate(request)
        # At most, the reply cannot be read and is asked for again, the endpoint complains about
        # each optional part, and every call needs all attempts.
        reply = Reply("x" * round(self.tokens.reply_tokens * self.tokens.characters_per_token))
        repair = _ask_again(request, reply, Unreadable("it cannot be read"))
        optional_parts = self._write_payload(request, frozenset()).used
        most_calls = (2 + len(optional_parts)) * self.endpoint.limits.attempts
        cost = None
        most_cost = 0.0
        if self.price is not None:
            cost = self.price.of(expected)
            most_cost = cost + self.price.of(self.tokens.estimate(repair))
        count_call(expected, cost)
        count_here(most_calls=most_calls, most_cost=most_cost)

    # Everything below runs on the network thread.

    async def _answer(self, request: Request, send: SendPayload) -> Reply:
        """Return the reply, and its value if the request has a schema."""
        first = await self._ask(request, send)
        if request.schema is None:
            return first
        try:
            return first._replace(value=read_structured(first.text, request))
        except Unreadable as error:
            repair = _ask_again(request, first, error)
        # Some endpoints write nothing under a schema, so after an empty reply the schema is only
        # described in words.
        without = frozenset[str]() if first.text.strip() else frozenset({"schema"})
        second = await self._ask(repair, send, without)
        try:
            value = read_structured(second.text, request)
        except Unreadable as error:
            raise type(error)(
                f"{self.id} was asked twice, and its reply cannot be used: {error}"
            ) from None
        cost = None
        if first.cost is not None and second.cost is not None:
            cost = first.cost + second.cost
        return second._replace(value=value, usage=first.usage + second.usage, cost=cost)

    async def _ask(
        self, request: Request, send: SendPayload, without: Set[str] = frozenset()
    ) -> Reply:
        """Return the reply to a request, leaving out the parts that the endpoint does not accept."""
        first_refusal: Refused | None = None
        used_parts: Set[str] = frozenset()

        async def send_once(seconds: float) -> RawReply:
            nonlocal used_parts
            # Written for each attempt: other calls may have learned what the endpoint refuses.
            payload = self._write_payload(request, without)
            used_parts = payload.used
            return await send(payload, seconds)

        while True:
            try:
                reply = await self._call_within_budget(request, send_once)
            except Refused as error:
                if first_refusal is None:
                    first_refusal = error
                refused_part = find_unsupported_parameter(error.status, str(error), used_parts)
                if refused_part is None:
                    # Leaving parts out did not help, so the first complaint was about something
                    # else.
                    self._suspected -= without
                    self.endpoint.availability.record_refusal(first_refusal, self.name)
                    raise first_refusal from None
                without = without | {refused_part}
                if mentions_parameter(str(error), refused_part):
                    # Spares the calls that are still to be sent the same complaint.
                    self._suspected |= {refused_part}
                continue
            if first_refusal is not None:
                # Leaving these parts out helped.
                self.left_out |= without
                self._suspected -= without
            return check_complete(reply, self.id, request)

    def _write_payload(self, request: Request, without: Set[str]) -> Payload:
        return self._format.write_request(
            request, self.name, self.left_out | self._suspected | without
        )

    async def _call_within_budget(
        self, request: Request, send_once: Callable[[float], Awaitable[RawReply]]
    ) -> Reply:
        """Return the reply to one call, for which the budget must have the dollars."""
        expected = self.tokens.estimate(request)
        expected_tokens = expected.prompt + expected.completion
        expected_cost = 0.0 if self.price is None else self.price.of(expected)
        async with reserve_dollars(expected_cost):
            raw_reply = await self.endpoint.ask(send_once, expected_tokens, self.name)
            try:
                reply = self._format.read_reply(raw_reply.data)
            except (KeyError, IndexError, TypeError, AttributeError) as error:
                raise NoReply(
                    f"{self.id} answered without a reply ({error!r}): {raw_reply.data!r:.200}"
                ) from None
            usage = reply.usage
            if not usage.prompt:
                # The endpoint does not count tokens.
                usage = self.tokens.estimate(request, reply.text)
            self.tokens.learn(request, usage)
            used_tokens = usage.prompt + usage.completion
            self.endpoint.limiter.tokens.take(used_tokens - expected_tokens)
            cost = None if self.price is None else self.price.of(usage)
            count_call(usage, cost, reply.model)
            return reply._replace(usage=usage, cost=cost)


def _send_on_loop(loop: asyncio.AbstractEventLoop, send: SendPayload) -> SendPayload:
    """Return a function that does the same as `send` on another event loop."""

    async def send_payload(payload: Payload, seconds: float) -> RawReply:
        return await send(payload, seconds)

    async def send_there(payload: Payload, seconds: float) -> RawReply:
        return await run_on_loop(loop, send_payload(payload, seconds))

    return send_there


class TokenEstimate:
    """Estimates tokens from the number of characters, and learns from what an endpoint counts."""

    LEARNING_RATE = 0.05  # the weight of one call in the moving averages

    def __init__(self, maker: str = "openai") -> None:
        self.maker = maker  # whose rules count the tokens of images, audio and files
        self.characters_per_token = 4.0  # at first as in English prose
        self.reply_tokens = 150.0  # at first two sentences of reasoning and a verdict

    def estimate(self, request: Request, reply: str | None = None) -> Usage:
        """Return about how many tokens a call will use, or has used if its `reply` is given."""
        if reply is not None:
            completion = len(reply) / self.characters_per_token
        elif request.max_tokens:
            completion = min(self.reply_tokens, request.max_tokens)
        else:
            completion = self.reply_tokens
        prompt_tokens = self._prompt_characters(request) / self.characters_per_token
        return Usage(prompt=round(prompt_tokens), completion=round(completion))

    def learn(self, request: Request, usage: Usage) -> None:
        """Adjust the averages to the tokens that an endpoint counted."""
        if usage.prompt > 0:
            ratio = self._prompt_characters(request) / usage.prompt
            self.characters_per_token += self.LEARNING_RATE * (ratio - self.characters_per_token)
        self.reply_tokens += self.LEARNING_RATE * (usage.completion - self.reply_tokens)

    def _prompt_characters(self, request: Request) -> float:
        """Return the characters of a prompt with its schema; media count by their tokens."""
        characters = 0.0
        for message in request.messages:
            for part in parts_in(message["content"]):
                if isinstance(part, Medium):
                    characters += part.tokens(self.maker) * self.characters_per_token
                else:
                    characters += len(str(part))
        if request.schema is not None:
            characters += len(schema_text(request.schema))
        return characters


def _ask_again(request: Request, reply: Reply, problem: Unreadable) -> Request:
    """Return the request that follows a reply that cannot be read, and says what was wrong."""
    schema = "" if request.schema is None else schema_text(request.schema)
    # `format` fills the template in one pass, so braces in the model's reply change nothing.
    complaint = load_prompt("again").format(problem=problem, schema=schema)
    messages = (
        *request.messages,
        {"role": "assistant", "content": reply.text or "(nothing)"},
        {"role": "user", "content": complaint},
    )
    return replace(request, messages=messages)


class Deduplicated:
    """A model that sends equal requests once if they are made at the same time.

    This holds within one event loop. All callers get the same reply, or the same error.
    """

    def __init__(self, model: Model) -> None:
        self.id = model.id
        self.inner = model
        self._in_flight: dict[tuple[asyncio.AbstractEventLoop, str], asyncio.Future[Reply]] = {}

    async def __call__(self, request: Request) -> Reply:
        loop = asyncio.get_running_loop()
        key = (loop, request.content)
        while key in self._in_flight:
            shared = self._in_flight[key]
            await asyncio.wait([shared])
            # If the caller that made the request was cancelled, another one has to make it.
            if not shared.cancelled():
                reply = shared.result()._replace(source="flight", cost=0.0)
                count_here(shared=1)
                return reply
        shared = loop.create_future()
        self._in_flight[key] = shared
        try:
            reply = await self.inner(request)
        except Exception as error:
            shared.set_exception(error)
            # Marks the exception as retrieved: there may be no other caller who waits for it.
            shared.exception()
            raise
        except BaseException:
            shared.cancel()
            raise
        else:
            shared.set_result(reply)
            return reply
        finally:
            del self._in_flight[key]
