"""Ask a model behind an endpoint, under its limits and the budget, and read its replies."""

import asyncio
from collections.abc import Awaitable, Callable, Set
from contextlib import nullcontext
from dataclasses import replace

from assay.errors import ModelError, NoReply, NotAsked, Refused, Unreadable
from assay.media import Medium
from assay.models.budgets import Ledger, count_call, count_here, without_a_price
from assay.models.finish_reasons import check_complete
from assay.models.model import Model, Price, Reply, Request, Usage, parts_in, schema_text
from assay.models.retry import Endpoint, SendAttempt
from assay.models.structured import read_structured
from assay.models.unsupported_parameters import (
    find_unsupported_parameter,
    mentions_parameter,
    parameters_refused_by,
)
from assay.models.wire_format import Payload, RawReply, WireFormat, load_prompt

# Sends a payload to the endpoint; a `TimeoutError` when no answer comes in so many seconds.
SendPayload = Callable[[Payload, float], Awaitable[RawReply]]


class EndpointModel:
    """Writes a request, sends it, reads the reply, and once asks again when it cannot be read."""

    def __init__(
        self,
        identity: str,
        name: str,
        *,
        wire_format: WireFormat,
        send: SendPayload,
        endpoint: Endpoint,
        price: Price | None = None,
    ) -> None:
        self.id = identity
        self.name = name  # what the endpoint calls the model
        self.endpoint = endpoint
        self.price = price  # None when it is not known
        self.media = frozenset[str]()  # the kinds of media that it takes
        self.window: int | None = (
            None  # tokens of prompt and reply that it takes in one call; None when not known
        )
        self.tokens = TokenEstimate(wire_format.maker)
        self.left_out: Set[str] = parameters_refused_by(
            name
        )  # what it does not take, by its name or what it said
        self._suspected: Set[str] = (
            frozenset()
        )  # what it has just complained about: left out until that helps or not
        self._format = wire_format
        self._send = send

    async def __call__(self, request: Request) -> Reply:
        try:
            first = await self._ask(request)
            try:
                return (
                    first
                    if request.schema is None
                    else first._replace(value=read_structured(first.text, request))
                )
            except Unreadable as error:
                again = _again(request, first, error)
            # Some endpoints write nothing under a schema, so an empty reply is asked for in words.
            second = await self._ask(again, frozenset() if first.text.strip() else {"schema"})
            try:
                value = read_structured(second.text, request)
            except Unreadable as error:
                raise type(error)(
                    f"{self.id} was asked twice, and its reply is of no use: {error}"
                ) from None
        except ModelError as error:
            count_here(errors=type(error).__name__)
            raise
        cost = None if first.cost is None or second.cost is None else first.cost + second.cost
        return second._replace(value=value, usage=first.usage + second.usage, cost=cost)

    async def _ask(self, request: Request, without: Set[str] = frozenset()) -> Reply:
        """The reply to a request, without the parts that the endpoint turns out not to take."""
        complaint: Refused | None = None
        used: Set[str] = frozenset()

        async def attempt(seconds: float) -> RawReply:
            nonlocal used
            # Written only now: while this call waited, another one may have learned what is refused.
            payload = self._payload(request, without)
            used = payload.used
            return await self._send(payload, seconds)

        while True:
            try:
                reply = await self._within_budget(request, attempt)
            except Refused as error:
                complaint = complaint or error
                part = find_unsupported_parameter(error.status, str(error), used)
                if part is None:
                    self._suspected -= without
                    self.endpoint.refused(complaint, self.name)
                    raise complaint from None
                without = without | {part}
                if mentions_parameter(str(error), part):
                    # All calls that are yet to go out are spared the same complaint.
                    self._suspected |= {part}
                continue
            if complaint is not None:
                # Remembered only now: the complaint may have been about something else.
                self.left_out |= without
                self._suspected -= without
            return check_complete(reply, self.id, request)

    def _payload(self, request: Request, without: Set[str]) -> Payload:
        return self._format.write_request(
            request, self.name, self.left_out | self._suspected | without
        )

    async def _within_budget(self, request: Request, attempt: SendAttempt) -> Reply:
        """The reply to one call, which the budget has to cover."""
        ledger, expected = Ledger.current(), self.tokens.expected(request)
        estimate = 0.0 if self.price is None else self.price.of(expected)
        if ledger is not None and self.price is None and ledger.needs_prices:
            raise without_a_price(self.id)
        if ledger is not None and ledger.is_dry_run:
            # At most: every retry, once more for a reply of the expected length that cannot be read, and once
            # more for a complaint about each part that may be left out.
            reply = Reply("x" * round(self.tokens.reply * self.tokens.characters))
            again = self.tokens.expected(_again(request, reply, Unreadable("it cannot be read")))
            most_calls = (
                2 + len(self._payload(request, frozenset()).used)
            ) * self.endpoint.limits.attempts
            most_cost = 0.0 if self.price is None else estimate + self.price.of(again)
            count_call(expected, None if self.price is None else estimate)
            count_here(most_calls=most_calls, most_cost=most_cost)
            raise NotAsked(f"{self.id} was not asked: this is a dry run")
        total = expected.prompt + expected.completion
        with (
            await ledger.reserve(estimate)
            if ledger and (estimate or ledger.needs_prices)
            else nullcontext()
        ):
            answer = await self.endpoint.ask(attempt, total, self.name)
            try:
                reply = self._format.read_reply(answer.data)
            except (KeyError, IndexError, TypeError, AttributeError) as error:
                raise NoReply(
                    f"{self.id} answered with no reply in it ({error!r}): {answer.data!r:.200}"
                ) from None
            usage = reply.usage if reply.usage.prompt else self.tokens.expected(request, reply.text)
            self.tokens.learn(request, usage)
            self.endpoint.limiter.tokens.take(usage.prompt + usage.completion - total)
            cost = None if self.price is None else self.price.of(usage)
            count_call(usage, cost, reply.model)
            return (
                reply
                if cost is None and usage is reply.usage
                else reply._replace(usage=usage, cost=cost)
            )


class TokenEstimate:
    """Guesses by the number of characters, and learns from what an endpoint counts."""

    def __init__(self, maker: str = "openai") -> None:
        self.maker = maker  # whose rule counts the tokens of images, audio and files
        self.characters = (
            4.0  # in a token, by and large; as in English prose before one was counted
        )
        self.reply = 150.0  # tokens in a reply, by and large: at first a reason of two sentences and a verdict

    def expected(self, request: Request, text: str | None = None) -> Usage:
        """What a call will use, by and large; or has, for an endpoint that does not count, if this `text` came."""
        written = (
            min(self.reply, request.max_tokens or self.reply)
            if text is None
            else len(text) / self.characters
        )
        return Usage(
            prompt=round(self._length(request) / self.characters), completion=round(written)
        )

    def learn(self, request: Request, usage: Usage) -> None:
        """Take into account what was counted."""
        if usage.prompt > 0:
            self.characters += 0.05 * (self._length(request) / usage.prompt - self.characters)
        self.reply += 0.05 * (usage.completion - self.reply)

    def _length(self, request: Request) -> float:
        """Characters that are read, those of the schema included, and for media as many as their tokens come to."""
        said = 0.0
        for message in request.messages:
            for part in parts_in(message["content"]):
                said += (
                    part.tokens(self.maker) * self.characters
                    if isinstance(part, Medium)
                    else len(str(part))
                )
        return said + (0 if request.schema is None else len(schema_text(request.schema)))


def _again(request: Request, reply: Reply, problem: Unreadable) -> Request:
    """The request with the reply that did not do, and what was wrong with it."""
    schema = "" if request.schema is None else schema_text(request.schema)
    # What is put in is not looked at again, so no words of the model are taken for a place to fill.
    words = load_prompt("again").format(problem=problem, schema=schema)
    said = {"role": "assistant", "content": reply.text or "(nothing)"}
    return replace(request, messages=(*request.messages, said, {"role": "user", "content": words}))


class Deduplicated:
    """A model around another: a caller in the same event loop who asks what is being asked gets that reply too."""

    def __init__(self, model: Model) -> None:
        self.id, self.inner = model.id, model
        self._asked: dict[tuple[asyncio.AbstractEventLoop, str], asyncio.Future[Reply]] = {}

    async def __call__(self, request: Request) -> Reply:
        loop = asyncio.get_running_loop()
        key = (loop, request.content)
        while (asked := self._asked.get(key)) is not None:
            await asyncio.wait([asked])
            # One that was cancelled has to be asked anew.
            if not asked.cancelled():
                reply = asked.result()._replace(source="flight", cost=0.0)
                count_here(shared=1)
                return reply
        asked = self._asked[key] = loop.create_future()
        try:
            reply = await self.inner(request)
        except Exception as error:
            asked.set_exception(error)
            # Looked at here, for it is no loss when no other caller was waiting for it.
            asked.exception()
            raise
        except BaseException:
            asked.cancel()
            raise
        else:
            asked.set_result(reply)
            return reply
        finally:
            del self._asked[key]
