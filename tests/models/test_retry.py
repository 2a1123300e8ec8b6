"""Which failures are retried, and which are not."""

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from assay import DeadlineExceeded, Limits, Overloaded, RateLimited, Refused, Unreachable, budget
from assay.models import model_of, retry
from assay.models.retry import Endpoint, backoff, retry_after
from assay.models.wire_format import RawReply
from assay.testing import Fault, ModelServer

FAULTS = {
    "408": Fault.failing(408),
    "409": Fault.failing(409),
    "429": Fault.rate_limited(),
    "429 with a wait": Fault.rate_limited(0),
    "429 with milliseconds": Fault("ms", 429, {"Retry-After-Ms": "5"}, "{}"),
    "429 with a date": Fault.rate_limited("Thu, 01 Jan 1970 00:00:00 GMT"),
    "429 with nonsense": Fault.rate_limited("soon"),
    "500": Fault.failing(500),
    "502": Fault.failing(502),
    "503": Fault.failing(503),
    "504": Fault.failing(504),
    "529": Fault.failing(529),
    "a cut connection": Fault.cut_off(),
    "a success that is no JSON": Fault.garbage(),
    "a success that is an error": Fault("error", body='{"error": {"code": 429, "message": ""}}'),
    "a success that is an odd error": Fault("error", body='{"error": "provider returned error"}'),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_temporary_failures_are_retried(
    serve: Any, model_at: Any, make_request: Any, fault: Fault
) -> None:
    """The caller does not notice; the ledger counts them."""
    server = serve("hello", faults=[None, fault, fault])
    model = model_at(server)
    await model(make_request("how fast are you?"))
    with budget() as spent:
        reply = await model(make_request())
    assert (reply.text, len(server.requests)) == ("hello", 4)
    assert (spent.calls, spent.retries, spent.errors) == (1, 2, {})


async def test_a_call_that_hangs_is_retried_after_its_timeout(
    serve: Any, model_at: Any, make_request: Any
) -> None:
    server = serve("hello", faults=[Fault.hanging()])
    model = model_at(server, limits=Limits(timeout=0.2))
    assert (await model(make_request())).text == "hello"
    assert len(server.requests) == 2


async def test_a_call_that_always_hangs_is_an_error(
    serve: Any, model_at: Any, make_request: Any
) -> None:
    """After the allowed number of attempts."""
    server = serve(faults=lambda call: Fault.hanging())
    with pytest.raises(DeadlineExceeded, match=r"after 2 tries: no answer in 0\.1 s"):
        await model_at(server, limits=Limits(timeout=0.1, attempts=2))(make_request())


async def test_an_attempt_that_the_deadline_cuts_short_is_not_called_a_timeout(
    serve: Any, model_at: Any, make_request: Any
) -> None:
    """Its shortened time says nothing about the endpoint."""
    server = serve(faults=lambda call: Fault.hanging())
    with pytest.raises(DeadlineExceeded, match="the time for all tries together is over"):
        await model_at(server, limits=Limits(timeout=5, deadline=0.2))(make_request())


@pytest.mark.parametrize(
    ("fault", "error"), [(Fault.rate_limited(), RateLimited), (Fault.failing(), Overloaded)]
)
async def test_the_error_contains_the_last_failure(
    serve: Any, model_at: Any, make_request: Any, fault: Fault, error: type[Exception]
) -> None:
    """With the message of the endpoint."""
    server = serve(faults=lambda call: fault if call else None)
    model = model_at(server, limits=Limits(attempts=3))
    await model(make_request("how fast are you?"))
    with pytest.raises(error, match="after 3 tries"):
        await model(make_request())
    assert len(server.requests) == 4


async def test_a_retry_after_beyond_the_deadline_fails_immediately(
    serve: Any, model_at: Any, make_request: Any
) -> None:
    """The error says how long the endpoint asked to wait."""
    server = serve(faults=[Fault.rate_limited(3600)])
    with pytest.raises(RateLimited, match=r"it asks to wait 3\.6e"):
        await model_at(server)(make_request())


async def test_an_exhausted_account_is_not_retried_as_a_rate_limit(
    serve: Any, model_at: Any, make_request: Any
) -> None:
    """It is 429 as well, but waiting does not help."""
    broke = Fault("broke", 429, body='{"error": {"code": "insufficient_quota"}}')
    server = serve(faults=[broke] * 2)
    with pytest.raises(Refused, match="insufficient_quota"):
        await model_at(server)(make_request())
    assert len(server.requests) == 2  # one of them is a harmless request


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_refused_connection_is_an_error_immediately(make_request: Any, host: str) -> None:
    """No server is there, so there is no retry and no wait; all callers get the same error."""
    model = model_of(f"http://{host}:{free_port()}/v1#test", limits=Limits(concurrency=4))
    with budget() as spent:
        calls = [model(make_request(str(n))) for n in range(50)]
        errors = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(error) for error in errors} == {Unreachable}
    address = model.inner.endpoint.address
    for error in errors:
        assert str(error).startswith(f"{address}: connection refused: check that the server is up")
    assert spent.retries == 0


async def test_an_unknown_host_name_is_an_error_immediately(make_request: Any) -> None:
    """A retry would not help."""
    with budget() as spent, pytest.raises(Unreachable, match="there is no host of this name"):
        await model_of("http://judge.invalid/v1#test")(make_request())
    assert spent.retries == 0


async def test_a_refused_connection_during_a_run_is_retried(make_request: Any) -> None:
    """The server is probably restarting."""
    with ModelServer("hello") as server:
        model = model_of(server.model, limits=Limits(attempts=3))
        assert (await model(make_request("one"))).text == "hello"
    with pytest.raises(Overloaded, match="after 3 tries"):
        await model(make_request("two"))


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_a_wrong_key_ends_all_calls_after_the_first_refusal(
    serve: Any, model_at: Any, make_request: Any, status: int
) -> None:
    """It is not sent 150 times: only calls in flight, and all callers get the message."""
    server = serve("MET", faults=lambda call: Fault.refusing("who are you?", status))
    model = model_at(server, limits=Limits(concurrency=4))
    calls = [model(make_request(str(n))) for n in range(150)]
    errors = await asyncio.gather(*calls, return_exceptions=True)
    assert {(type(error), getattr(error, "status", 0)) for error in errors} == {(Refused, status)}
    assert all("who are you?" in str(error) for error in errors)
    sent = len(server.requests)
    assert sent < 15  # four at once, a harmless request, and those that are sent meanwhile
    with pytest.raises(Refused, match="who are you"):
        await model(make_request("one more"))
    assert len(server.requests) == sent


async def test_an_unknown_model_name_does_not_affect_other_models(
    serve: Any, model_at: Any, make_request: Any
) -> None:
    server = serve("hello", faults=[Fault.refusing("there is no model of that name", 404)])
    with pytest.raises(Refused, match="no model of that name"):
        await model_at(server)(make_request())
    assert (await model_of(f"{server.url}#other")(make_request())).text == "hello"


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize(("bad", "probes"), [(0, 1), (1, 0)])
async def test_the_refusal_of_one_text_ends_no_other_call(
    serve: Any, model_at: Any, make_request: Any, status: int, bad: int, probes: int
) -> None:
    """A firewall refuses the first prompt, or a later one; a harmless request is answered."""
    faults = [None] * bad + [Fault.refusing("request blocked", status)]
    server = serve("hello", faults=faults)
    model = model_at(server, limits=Limits(concurrency=1))
    calls = [model(make_request(str(n))) for n in range(5)]
    replies = await asyncio.gather(*calls, return_exceptions=True)
    assert sum(isinstance(reply, Refused) for reply in replies) == 1
    assert len(server.requests) == 5 + probes


class Firewall(BaseHTTPRequestHandler):
    """Answer every prompt with "hello", but refuse those with the word "hostile"."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        is_hostile = b"hostile" in body
        message = {"role": "assistant", "content": "hello"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        reply = json.dumps({"error": "blocked"} if is_hostile else {"choices": [choice]}).encode()
        self.send_response(403 if is_hostile else 200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def firewall() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Firewall) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1#test"
        server.shutdown()


async def test_prompts_that_a_firewall_refuses_lose_no_clean_rollout(
    firewall: str, make_request: Any
) -> None:
    """Sixty-four of them come first, many concurrently."""
    model = model_of(firewall, limits=Limits(concurrency=16))
    prompts = [f"hostile {n}" for n in range(64)] + [f"clean {n}" for n in range(192)]
    calls = [model(make_request(prompt)) for prompt in prompts]
    replies = await asyncio.gather(*calls, return_exceptions=True)
    refused = [isinstance(reply, Refused) for reply in replies]
    assert refused == [True] * 64 + [False] * 192


def test_retry_after_is_parsed_as_seconds_milliseconds_or_date() -> None:
    """Invalid values are ignored."""
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    assert retry_after({"retry-after": "1.5"}) == 1.5
    assert retry_after({"retry-after-ms": "40", "retry-after": "9"}) == 0.04
    assert 90 < (retry_after({"retry-after": later}) or 0) <= 100
    for nonsense in ("soon", "-3", "nan", "inf", "Thu, 99 Foo"):
        assert retry_after({"retry-after": nonsense}) is None
    assert retry_after({}) is None


def test_waits_double_and_are_randomized() -> None:
    """Between half and all of 0.2, 0.4, 0.8 s, and never more than 30 s."""
    for doublings, longest in ((0, 0.2), (1, 0.4), (2, 0.8), (99, 30.0)):
        waits = {backoff(doublings, 0.2) for _ in range(50)}
        assert all(longest / 2 <= wait <= longest for wait in waits)
        assert len(waits) > 1


def test_the_first_pause_is_between_50_ms_and_one_second() -> None:
    """Whatever the latency; half a second if that is unknown."""
    for latency, longest in ((0.001, 0.05), (20.0, 1.0), (None, 0.5)):
        pauses = [backoff(0, latency) for _ in range(50)]
        assert all(longest / 2 <= pause <= longest for pause in pauses)


@pytest.mark.parametrize(("seconds", "asked"), [(4.9, 2), (5.0, 3)])
async def test_a_refusal_of_all_calls_holds_for_five_seconds(
    serve: Any, model_at: Any, make_request: Any, monkeypatch: Any, seconds: float, asked: int
) -> None:
    server = serve("hello", faults=[Fault.refusing("who are you?", 401)] * 2)
    model = model_at(server)
    with pytest.raises(Refused):
        await model(make_request("one"))  # it is sent, and then a harmless request
    availability = Endpoint.at(server.url).availability
    refused_at = availability._clock()
    monkeypatch.setattr(availability, "_clock", lambda: refused_at + seconds)
    with suppress(Refused):
        await model(make_request("two"))
    assert len(server.requests) == asked


@pytest.fixture
def doublings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of doublings of each pause. Nothing is waited for."""
    recorded: list[int] = []

    def record(doublings: int, latency: float | None) -> float:
        recorded.append(doublings)
        return 0.0

    monkeypatch.setattr(retry, "backoff", record)
    return recorded


async def answer(seconds: float) -> RawReply:
    return RawReply(200, {}, {"choices": []}, "")


async def fail(seconds: float) -> RawReply:
    return RawReply(500, {}, None, "no")


async def test_pauses_double_while_most_attempts_fail(doublings: list[int]) -> None:
    endpoint = Endpoint("somewhere", Limits(attempts=5))
    with pytest.raises(Overloaded, match="after 5 tries"):
        await endpoint.ask(fail, 0)
    assert doublings == [0, 1, 2, 3, 4]


async def test_pauses_stay_short_while_most_attempts_are_answered(doublings: list[int]) -> None:
    endpoint = Endpoint("somewhere", Limits(attempts=5))
    for _ in range(30):
        await endpoint.ask(answer, 0)
    with pytest.raises(Overloaded, match="after 5 tries"):
        await endpoint.ask(fail, 0)
    assert doublings == [0, 0, 0, 0, 0]


async def test_an_attempt_after_the_deadline_still_has_a_time_limit(
    doublings: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An outage may last beyond the deadline of a call; 0 would mean no limit."""
    endpoint = Endpoint("somewhere", Limits(attempts=2, deadline=0.05))
    time_limits: list[float] = []

    async def wait_until_up(*_: object, **__: object) -> bool:
        await asyncio.sleep(0.1 if time_limits else 0)
        return False

    async def fail_and_record(seconds: float) -> RawReply:
        time_limits.append(seconds)
        return await fail(seconds)

    monkeypatch.setattr(endpoint.availability, "wait_until_up", wait_until_up)
    with pytest.raises(Overloaded, match="after 2 tries"):
        await endpoint.ask(fail_and_record, 0)
    assert time_limits[0] == pytest.approx(0.05, abs=0.02)
    assert time_limits[1] == 0.001
