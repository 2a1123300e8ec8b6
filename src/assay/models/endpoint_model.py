"""Ask a model behind an endpoint, within its limits and the budget, and read its replies."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Set
from dataclasses import replace
from functools import partial

from assay.errors import ModelError, NoReply, NotAsked, Refused, Unreadable
from assay.media import Medium
from assay.models.budgets import (
    count_call,
    count_here,
    is_dry_run,
    raise_if_price_unknown,
    reserve_dollars,
)
from assay.models.finish_reasons import check_complete
from assay.models.model import (
    Model,
    Price,
    Reply,
    Request,
    Usage,
    note_sent_body,
    parts_in,
    schema_text,
)
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


# The probe of an endpoint that does not answer, or refuses its first call.
HARMLESS_REQUEST = Request(({"role": "user", "content": "Reply with the word OK."},))


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
        # The optional parameters that the model does not accept, known from its name or from the
        # errors of its endpoint.
        self.refused_parameters: Set[str] = parameters_refused_by(name)
        # The parameters that an error has just mentioned. They are omitted until it is known
        # whether that helps.
        self._suspected_parameters: Set[str] = frozenset()
        self._format = wire_format
        self._send = send
        self._sends_on_caller_loop = sends_on_caller_loop
        # Makes the model in another process; None if that is impossible, as with a client.
        self.remake: Callable[[], Model] | None = None

    def __reduce__(self) -> tuple[Callable[[], Model], tuple[()]]:
        """Pickle the name and the options of the model, and not its connections."""
        if self.remake is None:
            raise TypeError(
                f"{self.id} cannot be sent to another process, because it was made with a client "
                "or a key: give the name of the model, and set its key in the environment"
            )
        return self.remake, ()

    async def __call__(self, request: Request) -> Reply:
        """Return the reply; in a dry run count the request and raise `NotAsked`."""
        try:
            raise_if_price_unknown([self])  # a budget in dollars needs the price of every call
            if is_dry_run():
                self._count_dry_run(request)
                raise NotAsked(f"{self.id} was not asked: this is a dry run")
            send = self._send
            if self._sends_on_caller_loop:
                send = _send_on_loop(asyncio.get_running_loop(), send)
            # The limiter counts the calls that have started, even those that wait for a slot. By
            # this count the callers decide whether to start more (see `Limiter.has_room`).
            limiter = self.endpoint.limiter
            limiter.announce(1)
            try:
                return await run_on_network_thread(self._answer(request, send))
            finally:
                limiter.announce(-1)
        except ModelError as error:
            count_here(errors=type(error).__name__)
            raise

    def _count_dry_run(self, request: Request) -> None:
        """Count what a request is expected to cost, and the calls and dollars in the worst case.

        In the worst case the reply cannot be read, so that a repair has to be asked for; the
        endpoint refuses each optional parameter once; and every request needs all its attempts.
        """
        expected = self.tokens.estimate(request)
        expected_cost = None
        most_cost = 0.0
        if self.price is not None:
            expected_cost = self.price.of(expected)
            repair = self.tokens.estimate(self._expected_repair(request))
            # Only answered requests cost something: the first one, and the repair.
            most_cost = expected_cost + self.price.of(repair)
        answered_requests = 2
        payload = self._write_payload(request, omitted=frozenset())
        refused_requests = len(payload.optional_parameters)
        most_requests = answered_requests + refused_requests
        count_call(expected, expected_cost)
        count_here(
            most_calls=most_requests * self.endpoint.limits.attempts,
            most_cost=most_cost,
        )

    def _expected_repair(self, request: Request) -> Request:
        """Return the request that would follow a reply of the usual length that cannot be read."""
        reply_characters = self.tokens.reply_tokens * self.tokens.characters_per_token
        reply = Reply("x" * round(reply_characters))
        return _make_repair_request(request, reply, Unreadable("it cannot be read"))

    # Everything below runs on the network thread.

    async def _answer(self, request: Request, send: SendPayload) -> Reply:
        """Return the reply, and its value if the request has a schema.

        A reply that does not fit the schema is asked for once more.
        """
        first = await self._ask(request, send)
        if request.schema is None:
            return first
        try:
            return first._replace(value=read_structured(first.text, request))
        except Unreadable as error:
            repair = _make_repair_request(request, first, error)
        omitted = frozenset[str]()
        if not first.text.strip():
            # Some endpoints write nothing if they are sent a schema. Without the parameter, the
            # schema is described in words.
            omitted = frozenset({"schema"})
        second = await self._ask(repair, send, omitted)
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
        self, request: Request, send: SendPayload, omitted: Set[str] = frozenset()
    ) -> Reply:
        """Return the reply to a request, sent without the optional parameters in `omitted`.

        A request that is refused because of an optional parameter, such as the temperature, is sent
        again without it. This is repeated until the request is answered, or is refused for another
        reason. In that case the first refusal is raised.
        """
        first_refusal: Refused | None = None
        sent_parameters: Set[str] = frozenset()  # the optional ones of the latest attempt

        async def send_once(seconds: float) -> RawReply:
            nonlocal sent_parameters
            # The payload is written for each attempt, because another call may have found out in
            # the meantime which parameters the endpoint refuses.
            payload = self._write_payload(request, omitted)
            sent_parameters = payload.optional_parameters
            note_sent_body(payload.body)
            return await send(payload, seconds)

        while True:
            try:
                reply = await self._call_within_budget(request, send_once, send)
            except Refused as error:
                if first_refusal is None:
                    first_refusal = error
                parameter = find_unsupported_parameter(error.status, str(error), sent_parameters)
                if parameter is None:
                    # The refusal has another cause, so the model may accept the parameters.
                    self._suspected_parameters -= omitted
                    await self.endpoint.record_refusal(
                        first_refusal, self.name, partial(self._send_probe, send)
                    )
                    raise first_refusal from None
                omitted = omitted | {parameter}
                if mentions_parameter(str(error), parameter):
                    # Other calls omit it from now on, so that they are not refused too.
                    self._suspected_parameters |= {parameter}
                continue
            if first_refusal is not None:
                # The request was answered without the omitted parameters, so they were the cause
                # of the refusals. All further requests to this model omit them too.
                self.refused_parameters |= omitted
                self._suspected_parameters -= omitted
            return check_complete(reply, self.id, request)

    def _write_payload(self, request: Request, omitted: Set[str]) -> Payload:
        """Write a request without these parameters and those that the model does not accept."""
        all_omitted = self.refused_parameters | self._suspected_parameters | omitted
        return self._format.write_request(request, self.name, all_omitted)

    async def _send_probe(self, send: SendPayload, seconds: float) -> RawReply:
        """Send a harmless request, to find out whether the endpoint answers at all."""
        payload = self._write_payload(HARMLESS_REQUEST, omitted=frozenset())
        raw_reply = await send(payload, seconds)
        if raw_reply.status == 200:
            usage = self.tokens.estimate(HARMLESS_REQUEST, "OK")
            cost = None if self.price is None else self.price.of(usage)
            count_call(usage, cost)
        return raw_reply

    async def _call_within_budget(
        self,
        request: Request,
        send_once: Callable[[float], Awaitable[RawReply]],
        send: SendPayload,
    ) -> Reply:
        """Make one call, within the budget and the rate limit, and count what it used.

        `send_once` makes one attempt to send the request. `send` sends any payload to the same
        endpoint: it is for probes, which find out whether the endpoint answers.
        """
        expected = self.tokens.estimate(request)
        expected_tokens = expected.prompt + expected.completion
        expected_cost = 0.0 if self.price is None else self.price.of(expected)
        async with reserve_dollars(expected_cost):
            raw_reply = await self.endpoint.ask(
                send_once, expected_tokens, self.name, partial(self._send_probe, send)
            )
            try:
                reply = self._read_reply(raw_reply)
            except NoReply:
                # It was answered, so it is paid for: about as much as was expected.
                count_call(expected, None if self.price is None else expected_cost)
                raise
            usage = reply.usage
            if not usage.prompt:
                # The endpoint does not count tokens.
                usage = self.tokens.estimate(request, reply.text)
            self.tokens.learn(request, usage)
            # The expected tokens were taken from the rate limit before the call: correct that.
            used_tokens = usage.prompt + usage.completion
            self.endpoint.limiter.tokens.take(used_tokens - expected_tokens)
            cost = None if self.price is None else self.price.of(usage)
            count_call(usage, cost, reply.model)
            return reply._replace(usage=usage, cost=cost)

    def _read_reply(self, raw_reply: RawReply) -> Reply:
        """Return the reply in an answer. Raise `NoReply` if the answer has an unexpected form."""
        try:
            reply = self._format.read_reply(raw_reply.data)
        except ValueError as error:
            raise NoReply(f"{self.id} gave an answer that cannot be used: {error}") from None
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise NoReply(
                f"{self.id} answered without a reply ({error!r}): {raw_reply.data!r:.200}"
            ) from None
        problem = reply.find_wrong_type()
        if problem is not None:
            raise NoReply(f"{self.id} gave an answer that cannot be used: {problem}")
        return reply


def _send_on_loop(loop: asyncio.AbstractEventLoop, send: SendPayload) -> SendPayload:
    """Return a function that calls `send` on another event loop."""

    # `run_on_loop` needs a coroutine; `send` may return any awaitable.
    async def call_send(payload: Payload, seconds: float) -> RawReply:
        return await send(payload, seconds)

    async def send_on_loop(payload: Payload, seconds: float) -> RawReply:
        return await run_on_loop(loop, call_send(payload, seconds))

    return send_on_loop


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
        """Move the averages towards the tokens that an endpoint counted."""
        if usage.prompt > 0:
            characters_per_token = self._prompt_characters(request) / usage.prompt
            difference = characters_per_token - self.characters_per_token
            self.characters_per_token += self.LEARNING_RATE * difference
        self.reply_tokens += self.LEARNING_RATE * (usage.completion - self.reply_tokens)

    def _prompt_characters(self, request: Request) -> float:
        """Return the length of a prompt and its schema in characters.

        A medium counts as many characters as a text of the same number of tokens.
        """
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


def _make_repair_request(request: Request, reply: Reply, problem: Unreadable) -> Request:
    """Return the request for another reply, which tells the model what was wrong with the first."""
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

    def __reduce__(self) -> tuple[type[Deduplicated], tuple[Model]]:
        return Deduplicated, (self.inner,)  # without the requests in flight

    async def __call__(self, request: Request) -> Reply:
        """Return the reply to an equal request in flight, if there is one; otherwise ask."""
        loop = asyncio.get_running_loop()
        key = (loop, request.content)
        while key in self._in_flight:
            shared_reply = self._in_flight[key]
            await asyncio.wait([shared_reply])
            # If the caller that made the request was cancelled, another one has to make it.
            if not shared_reply.cancelled():
                reply = shared_reply.result()._replace(source="flight", cost=0.0)
                count_here(shared=1)
                return reply
        shared_reply = loop.create_future()
        self._in_flight[key] = shared_reply
        try:
            reply = await self.inner(request)
        except Exception as error:
            shared_reply.set_exception(error)
            # asyncio warns about exceptions that are not read, and maybe no other caller waits.
            shared_reply.exception()
            raise
        except BaseException:
            shared_reply.cancel()
            raise
        else:
            shared_reply.set_result(reply)
            return reply
        finally:
            del self._in_flight[key]
