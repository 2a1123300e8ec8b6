"""Endpoint: one address with one key, and the limits that all who ask it share.

An attempt waits for its turn, goes out, and is over at its timeout. What failed and may do better is
tried again after a pause, in which the place is free for others.
"""

import asyncio
import os
import re
import threading
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, cast
from weakref import WeakSet

from assay.errors import DeadlineExceeded, ModelError, Overloaded, RateLimited, Refused
from assay.models.breaker import Breaker, Call
from assay.models.gate import Gate, Outcome
from assay.models.ledger import Ledger
from assay.models.limits import Limits
from assay.models.pace import Pace
from assay.models.retry import REFUSING, backoff, is_hopeless, is_retriable, retry_after
from assay.models.turns import Turns
from assay.models.wire import RawReply
from assay.wording import described

NEVER = float("inf")
MEMORY = 0.05
"""How much one attempt counts in an average over recent ones."""
SHOWN = 400
"""Characters of an endpoint's complaint that go into a message."""
SHUT_SECONDS = 5.0
"""How long no call goes to an endpoint that has refused one for a reason that holds for all."""
_FOR_ALL = frozenset({401, 402, 429})
"""Refusals, here of a key or for want of money, that hold for every call to an endpoint."""
_FOR_MODEL = frozenset({403, 404})
"""Refusals that hold for every call to a model: no access to it, or no such name."""
_ABOUT_TEXT = re.compile("moderation|flagged|safety|content.?(?:policy|filter)", re.IGNORECASE)

Send = Callable[[float], Awaitable[RawReply]]
"""Sends a request; a `TimeoutError` when no answer comes in so many seconds."""


@dataclass(frozen=True, slots=True)
class _Trouble:
    """Why an attempt did not do, and how long the endpoint asks to wait."""

    what: str
    outcome: Outcome
    error: type[ModelError]
    wait: float | None = None
    hopeless: bool = False
    """Whether another try cannot help."""
    answered: bool = False
    """Whether the endpoint itself said so, for which the request may be to blame."""


@dataclass(frozen=True, slots=True)
class _Shut:
    """What ended the calls to an endpoint, and until when none is made."""

    error: ModelError
    until: float

    def again(self) -> ModelError:
        """The same error for another call."""
        if isinstance(self.error, Refused):
            return Refused(str(self.error), self.error.status)
        return type(self.error)(str(self.error))


class Endpoint:
    """Limits, retries and the state of one address. Ask for it with `Endpoint.at`."""

    _known: ClassVar[dict[tuple[str, str], "Endpoint"]] = {}
    _all: ClassVar["WeakSet[Endpoint]"] = WeakSet()
    _lock: ClassVar[threading.Lock] = threading.Lock()
    _sharing: ClassVar[Callable[[str, Limits], Turns] | None] = None

    def __init__(self, where: str, limits: Limits | None = None) -> None:
        self.where = where
        self.limits = limits or Limits()
        self.renew()
        self._all.add(self)
        self.typical: float | None = None
        """Seconds that an answered attempt takes, by and large."""
        self.health = 1.0
        """The share of recent attempts that were answered."""
        self._answering: set[str] = set()
        """The models that have answered here."""
        self._shut: dict[str, _Shut] = {}
        """Why calls to a model end without being made; under "" why those to all models do."""

    @classmethod
    def at(cls, where: str, key: str = "", limits: Limits | None = None) -> "Endpoint":
        """The endpoint of this address and key; new limits hold for all who ask it from now on."""
        with cls._lock:
            endpoint = cls._known.get((where, key))
            if endpoint is None:
                endpoint = cls._known[where, key] = cls(where, limits)
            elif limits is not None and limits != endpoint.limits:
                endpoint.bound(limits)
            return endpoint

    def bound(self, limits: Limits) -> None:
        """Change the limits."""
        self.limits = limits
        self.gate.bound(limits.concurrency)
        self.requests.bound(limits.requests_per_minute)
        self.tokens.bound(limits.tokens_per_minute)
        self.breaker.outage = limits.outage

    def expect(self, calls: int) -> None:
        """Let so many calls go at once from the start, unless a limit says otherwise.

        They become fewer when the endpoint refuses some, as ever.
        """
        if self.limits.concurrency is None:
            self.gate.expect(calls)

    async def ask(self, send: Send, tokens: int, model: str = "") -> tuple[RawReply, float]:
        """The answer and the seconds it took, after as many attempts as it needs.

        `tokens` is about how many it will read and write, `model` the name of who is asked. Raises
        `Refused` with the endpoint's complaint when another attempt cannot help.
        """
        ledger = Ledger.current()
        run_ends = ledger.deadline() if ledger is not None else NEVER
        ends = NEVER
        attempt = 1
        call = Call()
        while True:
            looks = await self._turn(tokens, model, call, run_ends, again=attempt > 1)
            start = time.monotonic()
            # From the first attempt on: how long a call has to wait for its turn is not its doing.
            ends = min(ends, run_ends, start + self.limits.deadline)
            result = await self._attempt(send, start, ends, call, looks=looks)
            if isinstance(result, RawReply):
                self._answering.add(model)
                if self._shut:
                    self._shut.pop(model, None)
                    self._shut.pop("", None)
                return result, time.monotonic() - start
            if result.hopeless and not self._answering:
                raise self._shut_down("", self._unreachable(result))
            # Others are answered, so that a call which is to blame itself need not spare the endpoint.
            health = 1.0 if call.to_blame else self.health
            wait = backoff(attempt, self.typical, health) if result.wait is None else result.wait
            if attempt >= self.limits.attempts or time.monotonic() + wait > ends:
                raise self._given_up(result, attempt, wait)
            await asyncio.sleep(wait)
            attempt += 1
            if ledger is not None:
                ledger.count(retries=1)

    def refused(self, error: Refused, model: str) -> None:
        """Take note of a refusal for good. One that holds for all calls ends those that wait.

        Only as the first word of an endpoint, or of a model there: what has answered others refuses
        this one call.
        """
        if error.status in _FOR_ALL and not self._answering:
            self._shut_down("", error)
        elif _is_about_model(error) and model not in self._answering:
            self._shut_down(model, error)

    def _shut_down(self, model: str, error: ModelError) -> ModelError:
        self._shut[model] = _Shut(error, time.monotonic() + SHUT_SECONDS)
        return error

    def _refuse_if_shut(self, model: str) -> None:
        for name in ("", model) if self._shut else ():
            shut = self._shut.get(name)
            if shut is not None and time.monotonic() < shut.until:
                raise shut.again()

    def _turn(
        self, tokens: int, model: str, call: Call, run_ends: float, *, again: bool
    ) -> Awaitable[bool]:
        """Wait until this endpoint may be asked, in time for the run; whether to see if it is back."""
        turn = self._in_turn(tokens, model, call, again=again)
        return turn if run_ends == NEVER else self._in_time(turn, run_ends)

    async def _in_time(self, turn: Awaitable[bool], run_ends: float) -> bool:
        try:
            async with asyncio.timeout(run_ends - time.monotonic()):
                return await turn
        except TimeoutError:
            raise DeadlineExceeded(
                f"the run's time was up before {self.where} could be asked: give it more, or let "
                "more calls go at once"
            ) from None

    async def _in_turn(self, tokens: int, model: str, call: Call, *, again: bool) -> bool:
        self._refuse_if_shut(model)
        shared = self._shared_turns()
        pause = 0.0 if shared else max(self.requests.take(1), self.tokens.take(tokens))
        if pause:
            await asyncio.sleep(pause)
        while True:
            looks = self.breaker.is_open and await self.breaker.admit(call)
            if shared is None:
                await self.gate.enter(again=again)
            else:
                await shared.enter(tokens, again=again)
            try:
                self._refuse_if_shut(model)
            except ModelError:
                (shared or self.gate).leave(None)
                raise
            if looks or not self.breaker.is_open:
                return looks
            # It went down while this call waited for its place.
            (shared or self.gate).leave(None)

    def _shared_turns(self) -> Turns | None:
        """Who gives turns here for many processes; None when this one sees to its own."""
        return None if Endpoint._sharing is None else Endpoint._sharing(self.where, self.limits)

    @classmethod
    @contextmanager
    def sharing(cls, turns: Callable[[str, Limits], Turns]) -> Generator[None]:
        """Have every endpoint of this process take turns that others share."""
        before, cls._sharing = cls._sharing, turns
        try:
            yield
        finally:
            cls._sharing = before

    async def _attempt(
        self, send: Send, start: float, ends: float, call: Call, *, looks: bool
    ) -> RawReply | _Trouble:
        """What came of one attempt. A place at the gate is held, and given up here."""
        allowed = min(self.limits.timeout, ends - start)
        outcome: Outcome = "failed"
        try:
            result = found_in(await send(allowed))
            outcome = "answered" if isinstance(result, RawReply) else result.outcome
        except TimeoutError:
            result = _Trouble(f"no answer in {allowed:.3g} s", "failed", DeadlineExceeded)
        except OSError as error:
            what = str(error) or described(error)
            result = _Trouble(what, "failed", Overloaded, hopeless=is_hopeless(error))
        finally:
            # Also when it was cancelled.
            seconds = time.monotonic() - start
            (self._shared_turns() or self.gate).leave(outcome, seconds)
        self._learn(result, seconds, call, looks=looks)
        if isinstance(result, RawReply) and result.status != 200:
            raise Refused(
                f"{self.where} refuses the request ({result.status}): {result.text[:SHOWN]}",
                result.status,
            )
        return result

    def renew(self) -> None:
        """Start anew: in a forked child nobody comes back to leave the places of the parent's calls."""
        self.gate = Gate(self.limits.concurrency)
        self.requests = Pace(self.limits.requests_per_minute)
        self.tokens = Pace(self.limits.tokens_per_minute)
        self.breaker = Breaker(self.where, self.limits.outage)

    def _learn(
        self, result: RawReply | _Trouble, seconds: float, call: Call, *, looks: bool
    ) -> None:
        self.health += MEMORY * (isinstance(result, RawReply) - self.health)
        if isinstance(result, _Trouble) and result.outcome == "failed":
            self.breaker.failed(call, result.what, looked=looks, answered=result.answered)
            return
        self.breaker.succeeded()
        if isinstance(result, RawReply):
            known = self.typical
            self.typical = seconds if known is None else known + MEMORY * (seconds - known)

    def _unreachable(self, trouble: _Trouble) -> ModelError:
        return Overloaded(
            f"{self.where} cannot be reached ({trouble.what}): see that it is up, and that the address "
            "is right"
        )

    def _given_up(self, trouble: _Trouble, attempt: int, wait: float) -> ModelError:
        tried = "after one try" if attempt == 1 else f"after {attempt} tries"
        advice = f"it asks for {wait:.3g} s" if trouble.wait is not None else "try again later"
        return trouble.error(f"{self.where} gave no answer {tried}: {trouble.what} ({advice})")


def _is_about_model(error: Refused) -> bool:
    """Whether a refusal is about the model that was asked, and not about the text."""
    return error.status in _FOR_MODEL and not _ABOUT_TEXT.search(str(error))


def found_in(answer: RawReply) -> RawReply | _Trouble:
    """The answer, be it a refusal for good; or what was wrong with it, where another try may help."""
    answer = honest(answer)
    if answer.status == 200:
        if answer.data is None:
            return _Trouble(f"no JSON: {answer.text[:SHOWN]!r}", "failed", Overloaded)
        return answer
    if not is_retriable(answer.status, answer.text):
        return answer
    what, wait = f"{answer.status}: {answer.text[:SHOWN]}", retry_after(answer.headers)
    if answer.status in REFUSING:
        error = RateLimited if answer.status == 429 else Overloaded
        return _Trouble(what, "refused", error, wait)
    return _Trouble(what, "failed", Overloaded, wait, answered=answer.status == 500)


def honest(answer: RawReply) -> RawReply:
    """The answer with the status that it ought to have: some endpoints send errors as successes."""
    error = _error_in(answer.data) if answer.status == 200 else None
    if not error:
        return answer
    code = _field(error, "code")
    status = code if isinstance(code, int) and 400 <= code < 600 else 500
    return answer._replace(status=status, text=str(error))


BROKEN_OFF = frozenset({"error", "abort", "aborted", "cancelled", "insufficient_system_resource"})
"""How a reply ends that the endpoint itself broke off; another try may do better."""


def _error_in(data: Any) -> Any:
    """What went wrong by the body of a success, or by how its first choice ended; None when nothing."""
    choices = _field(data, "choices")
    first = cast("list[Any]", choices)[0] if isinstance(choices, list) and choices else None
    error = _field(data, "error") or _field(first, "error")
    reason = _field(first, "finish_reason")
    if not error and isinstance(reason, str) and reason.lower() in BROKEN_OFF:
        return f"the endpoint broke its reply off (finish_reason {reason!r})"
    return error


def _field(value: Any, name: str) -> Any:
    """A field of a JSON object; None of anything else."""
    return cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None


def _after_fork() -> None:
    Endpoint._lock = threading.Lock()  # pyright: ignore[reportPrivateUsage]
    for endpoint in list(Endpoint._all):  # pyright: ignore[reportPrivateUsage]
        endpoint.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
