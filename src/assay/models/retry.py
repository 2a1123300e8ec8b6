"""Retry and rate-limit the calls to one endpoint, which is one address with one key.

An attempt waits for its turn, goes out, and is over at its timeout. What failed and may do better is
tried again after a pause, in which the place is free for others.
"""

import asyncio
import errno
import os
import random
import re
import socket
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, ClassVar, cast
from weakref import WeakSet

from assay.errors import DeadlineExceeded, ModelError, Overloaded, RateLimited, Refused
from assay.models.budgets import Ledger
from assay.models.limiter import CallRecord, CircuitBreaker, Limiter, Limits, Outcome, Turns
from assay.models.payload import RawReply
from assay.wording import described

REFUSING = frozenset({429, 503, 529})
"""The endpoint asks to be left alone for a while."""
FAILING = frozenset({408, 409, 425, 500, 502, 504, 520, 521, 522, 523, 524})
"""The endpoint failed; another try may do better."""
LONGEST = 30.0
"""Seconds between two tries at most, unless the endpoint asks for more."""
SOONEST, LATEST = 0.05, 1.0
"""Bounds for the first wait, in seconds."""
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

SendAttempt = Callable[[float], Awaitable[RawReply]]
"""Sends a request; a `TimeoutError` when no answer comes in so many seconds."""


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why an attempt did not do, and how long the endpoint asks to wait."""

    what: str
    outcome: Outcome
    error: type[ModelError]
    wait: float | None = None
    hopeless: bool = False
    """Whether another try cannot help."""
    answered: bool = False
    """Whether the endpoint itself said so, for which the request may be to blame."""


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
        self._typical: float | None = None
        """Seconds that an answered attempt takes, by and large."""
        self._health = 1.0
        """The share of recent attempts that were answered."""
        self._answering: set[str] = set()
        """The models that have answered here."""
        self._shut: dict[str, tuple[ModelError, float]] = {}
        """Why calls to a model end without being made, and until when; under "" why those to all do."""

    @classmethod
    def at(cls, where: str, key: str = "", limits: Limits | None = None) -> "Endpoint":
        """The endpoint of this address and key; new limits hold for all who ask it from now on."""
        with cls._lock:
            endpoint = cls._known.get((where, key))
            if endpoint is None:
                endpoint = cls._known[where, key] = cls(where, limits)
            elif limits is not None and limits != endpoint.limits:
                endpoint.limits = limits
                endpoint.limiter.bound(limits)
                endpoint.breaker.outage = limits.outage
            return endpoint

    @classmethod
    @contextmanager
    def sharing(cls, turns: Callable[[str, Limits], Turns]) -> Generator[None]:
        """Have every endpoint of this process take turns that many processes share."""
        before, cls._sharing = cls._sharing, turns
        try:
            yield
        finally:
            cls._sharing = before

    def renew(self) -> None:
        """Start anew: in a forked child no call comes back to leave the places of the parent's calls."""
        self.limiter = Limiter(self.limits)
        self.breaker = CircuitBreaker(self.where, self.limits.outage)

    def expect(self, calls: int) -> None:
        """Let so many calls go at once from the start, unless a limit says otherwise.

        They become fewer when the endpoint refuses some, as ever.
        """
        if self.limits.concurrency is None:
            self.limiter.expect(calls)

    async def ask(self, send: SendAttempt, tokens: int, model: str = "") -> tuple[RawReply, float]:
        """The answer and the seconds it took, after as many attempts as it needs.

        `tokens` is about how many it will read and write, `model` the name of the model that is asked. Raises
        `Refused` with the endpoint's complaint when another attempt cannot help.
        """
        ledger = Ledger.current()
        run_ends = ledger.deadline() if ledger is not None else NEVER
        ends = NEVER
        attempt = 1
        call = CallRecord()
        while True:
            turns = Endpoint._sharing(self.where, self.limits) if Endpoint._sharing else self.limiter
            turn = self._wait(turns, tokens, model, call, again=attempt > 1)
            probes = await (turn if run_ends == NEVER else self._in_time(turn, run_ends))
            start = time.monotonic()
            # From the first attempt on: how long a call has to wait for its turn is not its doing.
            ends = min(ends, run_ends, start + self.limits.deadline)
            result = await self._attempt(send, turns, start, ends, call, probes=probes)
            if isinstance(result, RawReply):
                self._answering.add(model)
                if self._shut:
                    self._shut.pop(model, None)
                    self._shut.pop("", None)
                return result, time.monotonic() - start
            if result.hopeless and not self._answering:
                raise self._shut_down(
                    "",
                    Overloaded(
                        f"{self.where} cannot be reached ({result.what}): see that it is up, and that "
                        "the address is right"
                    ),
                )
            # Others are answered, so that a call which is to blame itself need not spare the endpoint.
            health = 1.0 if call.to_blame else self._health
            wait = backoff(attempt, self._typical, health) if result.wait is None else result.wait
            if attempt >= self.limits.attempts or time.monotonic() + wait > ends:
                tried = "after one try" if attempt == 1 else f"after {attempt} tries"
                advice = f"it asks for {wait:.3g} s" if result.wait is not None else "try again later"
                raise result.error(f"{self.where} gave no answer {tried}: {result.what} ({advice})")
            await asyncio.sleep(wait)
            attempt += 1
            if ledger is not None:
                ledger.count(retries=1)

    def refused(self, error: Refused, model: str) -> None:
        """Take note of a refusal for good. One that holds for all calls ends those that wait.

        Only as the first word of an endpoint, or of a model there: what has answered others refuses
        this one call.
        """
        about_model = error.status in _FOR_MODEL and not _ABOUT_TEXT.search(str(error))
        if error.status in _FOR_ALL and not self._answering:
            self._shut_down("", error)
        elif about_model and model not in self._answering:
            self._shut_down(model, error)

    def _shut_down(self, model: str, error: ModelError) -> ModelError:
        self._shut[model] = error, time.monotonic() + SHUT_SECONDS
        return error

    def _refuse_if_shut(self, model: str) -> None:
        for name in ("", model) if self._shut else ():
            error, until = self._shut.get(name, (None, 0.0))
            if error is not None and time.monotonic() < until:
                # Another error of the same words: one object would gather the tracebacks of all calls.
                if isinstance(error, Refused):
                    raise Refused(str(error), error.status)
                raise type(error)(str(error))

    async def _wait(self, turns: Turns, tokens: int, model: str, call: CallRecord, *, again: bool) -> bool:
        """Wait until this endpoint may be asked; whether to probe if it is back."""
        while True:
            self._refuse_if_shut(model)
            probes = self.breaker.is_open and await self.breaker.admit(call)
            await turns.enter(tokens, again=again)
            try:
                self._refuse_if_shut(model)
            except ModelError:
                turns.leave(None)
                raise
            if probes or not self.breaker.is_open:
                return probes
            # It went down while this call waited for its place.
            turns.leave(None)

    async def _in_time(self, turn: Awaitable[bool], run_ends: float) -> bool:
        try:
            async with asyncio.timeout(run_ends - time.monotonic()):
                return await turn
        except TimeoutError:
            raise DeadlineExceeded(
                f"the run's time was up before {self.where} could be asked: give it more, or let more calls go at once"
            ) from None

    async def _attempt(
        self, send: SendAttempt, turns: Turns, start: float, ends: float, call: CallRecord, *, probes: bool
    ) -> RawReply | _Failure:
        """What came of one attempt. A turn is held, and given back here."""
        allowed = min(self.limits.timeout, ends - start)
        outcome: Outcome = "failed"
        try:
            result = _classified(await send(allowed))
            outcome = "answered" if isinstance(result, RawReply) else result.outcome
        except TimeoutError:
            result = _Failure(f"no answer in {allowed:.3g} s", "failed", DeadlineExceeded)
        except OSError as error:
            what = str(error) or described(error)
            result = _Failure(what, "failed", Overloaded, hopeless=is_hopeless(error))
        finally:
            # Also when it was cancelled.
            seconds = time.monotonic() - start
            turns.leave(outcome, seconds)
        self._learn(result, seconds, call, probes=probes)
        if isinstance(result, RawReply) and result.status != 200:
            raise Refused(f"{self.where} refuses the request ({result.status}): {result.text[:SHOWN]}", result.status)
        return result

    def _learn(self, result: RawReply | _Failure, seconds: float, call: CallRecord, *, probes: bool) -> None:
        self._health += MEMORY * (isinstance(result, RawReply) - self._health)
        if isinstance(result, _Failure) and result.outcome == "failed":
            self.breaker.failed(call, result.what, probed=probes, answered=result.answered)
            return
        self.breaker.succeeded()
        if isinstance(result, RawReply):
            known = self._typical
            self._typical = seconds if known is None else known + MEMORY * (seconds - known)


def _after_fork() -> None:
    Endpoint._lock = threading.Lock()  # pyright: ignore[reportPrivateUsage]
    for endpoint in list(Endpoint._all):  # pyright: ignore[reportPrivateUsage]
        endpoint.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _classified(reply: RawReply) -> RawReply | _Failure:
    """The answer, be it a refusal for good; or what was wrong with it, where another try may help."""
    error = _error_in(reply.data) if reply.status == 200 else None
    if error:
        # Some endpoints send errors as successes.
        code = _field(error, "code")
        status = code if isinstance(code, int) and 400 <= code < 600 else 500
        reply = reply._replace(status=status, text=str(error))
    if reply.status == 200:
        if reply.data is None:
            return _Failure(f"no JSON: {reply.text[:SHOWN]!r}", "failed", Overloaded)
        return reply
    if not _is_retriable(reply.status, reply.text):
        return reply
    what, wait = f"{reply.status}: {reply.text[:SHOWN]}", retry_after(reply.headers)
    if reply.status in REFUSING:
        return _Failure(what, "refused", RateLimited if reply.status == 429 else Overloaded, wait)
    return _Failure(what, "failed", Overloaded, wait, answered=reply.status == 500)


def _is_retriable(status: int, body: str) -> bool:
    """Whether another try can help: not with money that has run out, or a schema it cannot take."""
    hopeless = "insufficient_quota" in body or "response_format" in body
    return (status in REFUSING or status in FAILING) and not hopeless


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


def is_hopeless(error: BaseException | None) -> bool:
    """Whether nothing is there to connect to: a port that refuses, a name or a certificate that is wrong."""
    while error is not None:
        refused = isinstance(error, ConnectionRefusedError | ssl.SSLCertVerificationError)
        unknown = isinstance(error, socket.gaierror) and error.errno in _UNKNOWN
        # Of a name with several addresses all errors stand in one text.
        numbers = set(re.findall(r"\[Errno (\d+)\]", str(error)))
        if refused or unknown or numbers == {str(errno.ECONNREFUSED)}:
            return True
        error = error.__cause__ or error.__context__
    return False


_UNKNOWN = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})


def backoff(attempt: int, typical: float | None, health: float = 0.0) -> float:
    """Seconds to wait after so many tries: about the time of a call, doubling, with jitter.

    `health` is the share of recent attempts, of everybody, that were answered. Where most are, a call
    that had no luck gains nothing by waiting long: it doubles only as failures outnumber answers.
    Half of the wait is at random, or all who failed together come back together.
    """
    first = min(LATEST, max(SOONEST, typical if typical is not None else LATEST / 2))
    failures = (1 - health) / max(health, 0.001)
    needed = first * max(1.0, failures**2)
    longest = min(LONGEST, needed, first * 2.0 ** (attempt - 1))
    return longest * random.uniform(0.5, 1.0)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds that the endpoint asks to wait; None when it does not say, or not readably.

    >>> retry_after({"retry-after-ms": "250"}), retry_after({"retry-after": "2"})
    (0.25, 2.0)
    >>> retry_after({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"})
    0.0
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    asked = headers.get("retry-after")
    seconds = _number(asked)
    if seconds is not None or asked is None:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(asked).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text is not None else None
    except ValueError:
        return None
    return number if number is not None and 0 <= number < 1e9 else None
