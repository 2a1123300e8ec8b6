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
from contextlib import contextmanager, nullcontext, suppress
from copy import copy
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, ClassVar, NamedTuple, cast

from assay.errors import CircuitOpen, DeadlineExceeded, ModelError, Overloaded, RateLimited, Refused
from assay.messages import field_of
from assay.models.budgets import Ledger, count_here
from assay.models.limiter import Limiter, Limits, Outcome
from assay.models.provider_formats import RawReply
from assay.wording import described

REFUSING = frozenset({429, 503, 529})  # the endpoint asks to be left alone for a while
FAILING = frozenset({408, 409, 425, 500, 502, 504, 520, 521, 522, 523, 524})  # another try may do better
LONGEST = 30.0  # seconds between two tries at most, unless the endpoint asks for more
SOONEST, LATEST = 0.05, 1.0  # bounds for the first wait, in seconds
MEMORY = 0.05  # how much one attempt counts in an average over recent ones
SHOWN = 400  # characters of an endpoint's complaint that go into a message
SHUT_SECONDS = 5.0  # how long no call goes to an endpoint that has refused one for a reason that holds for all
_FOR_ALL = frozenset({401, 402, 429})  # refusals, of a key or for want of credit, that hold for every call
_FOR_MODEL = frozenset({403, 404})  # refusals that hold for every call to a model: no access to it, or no such name
_ABOUT_TEXT = re.compile("moderation|flagged|safety|content.?(?:policy|filter)", re.IGNORECASE)
# How a reply ends that the endpoint itself broke off; another try may do better.
BROKEN_OFF = frozenset({"error", "abort", "aborted", "cancelled", "insufficient_system_resource"})
# Sends a request; a `TimeoutError` when no answer comes in so many seconds.
SendAttempt = Callable[[float], Awaitable[RawReply]]


class _Failure(NamedTuple):
    """Why an attempt did not do."""

    what: str
    outcome: Outcome
    error: type[ModelError]
    wait: float | None = None  # seconds that the endpoint asks for
    hopeless: bool = False  # whether another try cannot help


class Endpoint:
    """Limits, retries and the state of one address. Ask for it with `Endpoint.at`."""

    _known: ClassVar[dict[tuple[str, str], "Endpoint"]] = {}
    _lock: ClassVar[threading.Lock] = threading.Lock()
    _share: ClassVar[tuple[int, int]] = (0, 1)  # which part of the limits this process has, and of how many

    def __init__(self, where: str, limits: Limits | None = None) -> None:
        self.where = where
        self.limits = limits or Limits()
        self.renew()
        self._typical: float | None = None  # seconds that an answered attempt takes, by and large
        self._health = 1.0  # the share of recent attempts that were answered
        self._answering: set[str] = set()  # the models that have answered here
        # Why calls to a model end without being made, and until when; under "" why those to all do.
        self._shut: dict[str, tuple[ModelError, float]] = {}

    @classmethod
    def at(cls, where: str, key: str = "", limits: Limits | None = None) -> "Endpoint":
        """The endpoint of this address and key; new limits hold for all who ask it from now on."""
        with cls._lock:
            endpoint = cls._known.get((where, key))
            if endpoint is None:
                endpoint = cls._known[where, key] = cls(where, limits)
            elif limits is not None and limits != endpoint.limits:
                endpoint.limits = limits
                endpoint.limiter.bound(limits.share(*cls._share))
                endpoint.breaker.outage = limits.outage
            return endpoint

    @classmethod
    @contextmanager
    def share(cls, part: int, parts: int) -> Generator[None]:
        """Inside the block this process is one of several that divide the limits of every endpoint evenly."""

        def divide(share: tuple[int, int]) -> None:
            if cls._share != share:
                cls._share = share
                for endpoint in list(cls._known.values()):
                    endpoint.limiter.bound(endpoint.limits.share(*share))

        before = cls._share
        divide((part, parts))
        try:
            yield
        finally:
            divide(before)

    @classmethod
    def least_concurrency(cls) -> int | None:
        """The fewest calls at once that an endpoint of this process takes; None where none has such a limit."""
        return min(
            (one.limits.concurrency for one in list(cls._known.values()) if one.limits.concurrency), default=None
        )

    def renew(self) -> None:
        """Start anew, with no call under way."""
        self.limiter = Limiter(self.limits.share(*self._share))
        self.breaker = CircuitBreaker(self.where, self.limits.outage)

    @classmethod
    def after_fork(cls) -> None:
        """Start all anew: in a forked child no call comes back to leave the places of the parent's calls."""
        cls._lock = threading.Lock()
        for endpoint in list(cls._known.values()):
            endpoint.renew()

    async def ask(self, send: SendAttempt, tokens: int, model: str = "") -> RawReply:
        """The answer of a `model`, after as many attempts as it needs; `Refused` when another cannot help."""
        ledger = Ledger.current()
        ends = run_ends = ledger.deadline if ledger is not None else float("inf")
        attempt, call = 1, CallRecord()
        while True:
            try:
                async with nullcontext() if run_ends == float("inf") else asyncio.timeout(run_ends - time.monotonic()):
                    probes = await self._turn(tokens, model, call, again=attempt > 1)
            except TimeoutError:
                why = "give it more, or let more calls go at once"
                raise DeadlineExceeded(f"the run's time was up before {self.where} could be asked: {why}") from None
            start = time.monotonic()
            # From the first attempt on: how long a call has to wait for its turn is not its doing.
            ends = min(ends, start + self.limits.deadline)
            result = await self._attempt(send, min(self.limits.timeout, ends - start), call, probes=probes)
            if isinstance(result, RawReply):
                self._answering.add(model)
                for name in (model, "") if self._shut else ():
                    self._shut.pop(name, None)
                return result
            if result.hopeless and not self._answering:
                why = "see that it is up, and that the address is right"
                raise self._shut_down("", Overloaded(f"{self.where} cannot be reached ({result.what}): {why}"))
            # Others are answered, so that a call which is to blame itself need not spare the endpoint.
            health = 1.0 if call.to_blame else self._health
            wait = backoff(attempt, self._typical, health) if result.wait is None else result.wait
            if attempt >= self.limits.attempts or time.monotonic() + wait > ends:
                tried = "after one try" if attempt == 1 else f"after {attempt} tries"
                advice = f"it asks for {wait:.3g} s" if result.wait is not None else "try again later"
                raise result.error(f"{self.where} gave no answer {tried}: {result.what} ({advice})")
            await asyncio.sleep(wait)
            attempt += 1
            count_here(retries=1)

    def refused(self, error: Refused, model: str) -> None:
        """Take note of a refusal for good. One that holds for all calls ends those that wait."""
        about_model = error.status in _FOR_MODEL and not _ABOUT_TEXT.search(str(error))
        # Only as the first word of an endpoint, or of a model there: what has answered others refuses this one call.
        if error.status in _FOR_ALL and not self._answering:
            self._shut_down("", error)
        elif about_model and model not in self._answering:
            self._shut_down(model, error)

    def _shut_down(self, model: str, error: ModelError) -> ModelError:
        self._shut[model] = error, time.monotonic() + SHUT_SECONDS
        return error

    def _error_if_shut(self, model: str) -> ModelError | None:
        if not self._shut:
            return None
        shut = [self._shut[name] for name in ("", model) if name in self._shut]
        return next((error for error, until in shut if time.monotonic() < until), None)

    async def _turn(self, tokens: int, model: str, call: "CallRecord", *, again: bool) -> bool:
        """Wait until this endpoint may be asked; whether to probe if it is back."""
        while (error := self._error_if_shut(model)) is None:
            probes = self.breaker.is_open and await self.breaker.admit(call)
            await self.limiter.enter(tokens, again=again)
            if (probes or not self.breaker.is_open) and self._error_if_shut(model) is None:
                return probes
            # It went down, or was shut, while this call waited for its place.
            self.limiter.leave(None)
        # Another error of the same words: one object would gather the tracebacks of all calls.
        raise copy(error)

    async def _attempt(
        self, send: SendAttempt, allowed: float, call: "CallRecord", *, probes: bool
    ) -> RawReply | _Failure:
        """What came of one attempt. A turn is held, and given back here."""
        start = time.monotonic()
        outcome: Outcome = "failed"
        try:
            result = _classified(await send(allowed))
            outcome = "answered" if isinstance(result, RawReply) else result.outcome
        except TimeoutError:
            result = _Failure(f"no answer in {allowed:.3g} s", "failed", DeadlineExceeded)
        except OSError as error:
            result = _Failure(str(error) or described(error), "failed", Overloaded, hopeless=_is_hopeless(error))
        finally:
            # Also when it was cancelled.
            seconds = time.monotonic() - start
            self.limiter.leave(outcome, seconds)
        self._health += MEMORY * (isinstance(result, RawReply) - self._health)
        if isinstance(result, _Failure) and result.outcome == "failed":
            self.breaker.failed(call, result.what, probed=probes)
        else:
            self.breaker.succeeded()
        if isinstance(result, RawReply):
            self._typical = seconds if self._typical is None else self._typical + MEMORY * (seconds - self._typical)
            if result.status != 200:
                why = f"{self.where} refuses the request ({result.status}): {result.text[:SHOWN]}"
                raise Refused(why, result.status)
        return result


os.register_at_fork(after_in_child=Endpoint.after_fork)


def _classified(reply: RawReply) -> RawReply | _Failure:
    """The answer, be it a refusal for good; or what was wrong with it, where another try may help."""
    status, text = reply.status, reply.text
    if status == 200:
        if reply.data is None:
            return _Failure(f"no JSON: {text[:SHOWN]!r}", "failed", Overloaded)
        error = _error_in(reply.data)
        if not error:
            return reply
        # Some endpoints send errors as successes.
        code = field_of(error, "code")
        status, text = code if isinstance(code, int) and 400 <= code < 600 else 500, str(error)
    # Another try does not help with credit that has run out, or a schema it cannot take.
    is_final = "insufficient_quota" in text or "response_format" in text
    if is_final or status not in REFUSING | FAILING:
        return reply._replace(status=status, text=text)
    what, wait = f"{status}: {text[:SHOWN]}", retry_after(reply.headers)
    if status in REFUSING:
        return _Failure(what, "refused", RateLimited if status == 429 else Overloaded, wait)
    return _Failure(what, "failed", Overloaded, wait)


def _error_in(data: Any) -> Any:
    """What went wrong by the body of a success, or by how its first choice ended; None when nothing."""
    choices = field_of(data, "choices")
    first = cast("list[Any]", choices)[0] if isinstance(choices, list) and choices else None
    error, reason = field_of(data, "error") or field_of(first, "error"), field_of(first, "finish_reason")
    if not error and isinstance(reason, str) and reason.lower() in BROKEN_OFF:
        return f"the endpoint broke its reply off (finish_reason {reason!r})"
    return error


_UNKNOWN = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})


def _is_hopeless(error: BaseException | None) -> bool:
    """Whether nothing is there to connect to: a port that refuses, a name or a certificate that is wrong."""
    while error is not None:
        unknown = isinstance(error, socket.gaierror) and error.errno in _UNKNOWN
        # Of a name with several addresses all errors stand in one text.
        refused = set(re.findall(r"\[Errno (\d+)\]", str(error))) == {str(errno.ECONNREFUSED)}
        if unknown or refused or isinstance(error, ConnectionRefusedError | ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False


def backoff(attempt: int, typical: float | None, health: float = 0.0) -> float:
    """Seconds to wait after so many tries; `health` is the share of recent attempts that were answered."""
    first = min(LATEST, max(SOONEST, typical if typical is not None else LATEST / 2))
    # Where most are answered, a call that had no luck gains nothing by waiting long.
    needed = first * max(1.0, ((1 - health) / max(health, 0.001)) ** 2)
    # Half of the wait is at random, or all who failed together come back together.
    return min(LONGEST, needed, first * 2.0 ** (attempt - 1)) * random.uniform(0.5, 1.0)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds that the endpoint asks to wait; None when it does not say, or not readably."""
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        with suppress(ValueError):
            number = float(headers.get(name, ""))
            if 0 <= number < 1e9:
                return number / unit
    try:
        return max(0.0, parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None


FAILURES = 8  # so many different calls that fail, with no answer to any call between, are an outage
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 2.0  # seconds between two probes of whether the endpoint is back
GLANCE = 0.05  # seconds between two looks of a waiting call at what was found out


@dataclass(eq=False, slots=True)
class CallRecord:
    """One call with all its attempts, as the circuit breaker tells it from others."""

    answers_before: int | None = None  # how many answers the endpoint had given when this call first failed
    to_blame: bool = False  # whether it has failed again after others were answered
    probes_before: int | None = None  # how many probes had failed when this call first waited for one


class CircuitBreaker:
    """Holds calls back while an endpoint is down; one at a time probes whether it is back.

    It is down when different calls fail and none is answered. A call that fails while others are answered is to blame.
    """

    def __init__(self, where: str, outage: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.where, self.outage, self._clock = where, outage, clock
        self._lock = threading.Lock()
        self._answers = 0
        self._failing: set[CallRecord] = set()  # the calls that have failed since the last answer
        self.is_open = False  # whether the endpoint is taken to be down
        self._down_since = self._next_probe = 0.0
        self.pause = FIRST_PAUSE
        self._failed_probes = 0
        self._last_failure = ""

    def succeeded(self) -> None:
        """An answer came, be it a refusal: the endpoint is there."""
        with self._lock:
            self._answers += 1
            if self._failing or self.is_open:
                self._failing.clear()
                self.is_open, self.pause = False, FIRST_PAUSE

    def failed(self, call: CallRecord, why: str, *, probed: bool = False) -> None:
        """No answer, or one such as 500; `probed` when it was a probe."""
        with self._lock:
            self._last_failure = why
            if call.answers_before is None:
                call.answers_before = self._answers
            elif call.answers_before < self._answers:
                call.to_blame = True
                return
            if not self.is_open:
                self._failing.add(call)
                if len(self._failing) >= FAILURES:
                    self.is_open, self._down_since = True, self._clock()
                    self._next_probe = self._down_since + self.pause
            elif probed:
                # Only these: calls that were under way when it went down say nothing new.
                self._failed_probes += 1
                self.pause = min(LONGEST_PAUSE, self.pause * 2)
                self._next_probe = self._clock() + self.pause

    async def admit(self, call: CallRecord) -> bool:
        """Wait until the endpoint may be asked; whether to probe if it is back."""
        if call.probes_before is None:
            call.probes_before = self._failed_probes
        while self.is_open:
            if self.may_probe():
                return True
            lasts = self._clock() - self._down_since
            # One more probe has to fail since this call began to wait: it may be back.
            if lasts > self.outage and self._failed_probes > call.probes_before:
                told = f"{self.where} has failed for {lasts:.0f} s, and is not asked for now"
                raise CircuitOpen(f"{told}; it was {self._last_failure}: see whether it is up, and run again")
            await asyncio.sleep(GLANCE)
        return False

    def may_probe(self) -> bool:
        """Whether it is this call's turn to find out."""
        with self._lock:
            if self._clock() < self._next_probe:
                return False
            # Also when this one is never heard of again: the next has its turn then.
            self._next_probe = self._clock() + self.pause
            return True
