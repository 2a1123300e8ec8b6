"""An outage: one call at a time probes the endpoint, the others wait, and finally fail."""

import asyncio
from typing import Any

import pytest

from assay import CircuitOpen, Limits, Overloaded, PerCriterionGrader, Rollout, Rubric, model_of
from assay.models.retry import OUTAGE_CALLS, Availability
from assay.testing import Fault


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def fail(availability: Availability, calls: int) -> None:
    for _ in range(calls):
        availability.record_failure(availability.start_call(), "500: no")


@pytest.fixture
def unavailable(clock: Clock) -> Availability:
    """The state of an endpoint whose outage has just begun."""
    availability = Availability("somewhere", clock=clock)
    fail(availability, OUTAGE_CALLS)
    return availability


async def wait_until_up(availability: Availability, call: Any = None) -> bool:
    """Return whether the call has to probe; the outage may last 60 seconds."""
    call = call or availability.start_call()
    return await availability.wait_until_up(call, model="m", outage_seconds=60.0)


def test_eight_different_calls_that_fail_are_an_outage(clock: Clock) -> None:
    availability = Availability("somewhere", clock=clock)
    fail(availability, 7)
    assert not availability.is_down
    fail(availability, 1)
    assert availability.is_down


def test_a_reply_resets_the_failure_count(clock: Clock) -> None:
    availability = Availability("somewhere", clock=clock)
    for _ in range(3):
        fail(availability, 7)
        availability.record_reply()
    fail(availability, 7)
    assert not availability.is_down


def test_many_failed_attempts_of_seven_calls_are_not_an_outage(clock: Clock) -> None:
    availability = Availability("somewhere", clock=clock)
    calls = [availability.start_call() for _ in range(7)]
    for _ in range(10):
        for call in calls:
            availability.record_failure(call, "500: no")
    assert not availability.is_down


def test_failures_are_not_an_outage_while_other_calls_are_answered(clock: Clock) -> None:
    """Even if there are many, and only they remain."""
    availability = Availability("somewhere", clock=clock)
    calls = [availability.start_call() for _ in range(3 * OUTAGE_CALLS)]
    for call in calls:
        availability.record_failure(call, "500: no")
        availability.record_reply()
    for _ in range(10):
        for call in calls:
            availability.record_failure(call, "500: no")
    assert not availability.is_down


async def test_pauses_between_probes_double_up_to_two_seconds(
    unavailable: Availability, clock: Clock
) -> None:
    pauses: list[float] = []
    for _ in range(6):
        start = clock.now
        probe = asyncio.create_task(wait_until_up(unavailable))
        while not probe.done():
            await asyncio.sleep(0.06)
            clock.now += 0 if probe.done() else 0.125
        assert await probe
        pauses.append(clock.now - start)
        unavailable.record_failed_probe("500: no")
    assert pauses == [0.25, 0.5, 1.0, 2.0, 2.0, 2.0]


async def test_only_one_call_at_a_time_probes(unavailable: Availability, clock: Clock) -> None:
    clock.now = 0.25
    assert await wait_until_up(unavailable)
    other = asyncio.create_task(wait_until_up(unavailable))
    await asyncio.sleep(0)
    assert not other.done()
    other.cancel()


async def test_only_failed_probes_lengthen_the_pause(
    unavailable: Availability, clock: Clock
) -> None:
    fail(unavailable, 100)
    clock.now = 0.25
    assert await wait_until_up(unavailable)


async def test_a_reply_ends_the_outage_for_all_calls(unavailable: Availability) -> None:
    waiting = asyncio.create_task(wait_until_up(unavailable))
    await asyncio.sleep(0)
    assert not waiting.done()
    unavailable.record_reply()
    assert not await waiting
    assert not unavailable.is_down


@pytest.mark.parametrize(("seconds", "fails"), [(59.9, False), (60.0, True)])
async def test_waiting_calls_fail_when_an_outage_lasts_too_long(
    unavailable: Availability, clock: Clock, seconds: float, fails: bool
) -> None:
    call = unavailable.start_call()
    clock.now = seconds
    unavailable.record_failed_probe("500: no")
    waiting = asyncio.create_task(wait_until_up(unavailable, call))
    await asyncio.sleep(0)
    assert waiting.done() == fails
    if fails:
        with pytest.raises(CircuitOpen, match=r"somewhere has been down for 60 s.*500: no"):
            await waiting
    waiting.cancel()


async def test_in_a_long_outage_a_new_call_waits_for_one_more_probe(
    unavailable: Availability, clock: Clock
) -> None:
    clock.now = 61.0
    assert await wait_until_up(unavailable)
    waiting = asyncio.create_task(wait_until_up(unavailable))
    await asyncio.sleep(0)
    assert not waiting.done()
    unavailable.record_failed_probe("500: no")
    with pytest.raises(CircuitOpen):
        await waiting


async def test_an_unavailable_endpoint_is_not_called_again(
    serve: Any, model_at: Any, make_request: Any
) -> None:
    """With forty calls and no patience for outages: eight failures, and the calls in flight."""
    server = serve(faults=lambda call: Fault.failing())
    model = model_at(server, limits=Limits(concurrency=4, outage=0.0))
    results = await asyncio.gather(
        *(model(make_request(str(n))) for n in range(40)), return_exceptions=True
    )
    assert all(isinstance(result, Overloaded) for result in results)
    assert any(isinstance(result, CircuitOpen) for result in results)
    assert len(server.requests) < 16


async def test_all_calls_are_answered_after_a_short_outage(
    serve: Any, model_at: Any, make_request: Any
) -> None:
    """Twelve failures in a row open the breaker; no call is lost."""
    server = serve("hello", faults=[None] + [Fault.failing()] * 12)
    model = model_at(server)
    await model(make_request("how fast are you?"))
    replies = await asyncio.gather(*(model(make_request(str(n))) for n in range(20)))
    assert {reply.text for reply in replies} == {"hello"}


def verdict(system: str, user: str) -> str:
    """Judge, but fail for one text."""
    if "unbearable" in user:
        raise RuntimeError("this text breaks the server")
    return "MET"


RUBRIC = Rubric.from_dict([{"requirement": "Holds"}])


@pytest.mark.parametrize("bad", [2, 20])
async def test_texts_that_always_fail_do_not_affect_others(serve: Any, bad: int) -> None:
    """Neither in their batch nor in the next one."""
    server = serve(verdict)
    model = model_of(server.model, limits=Limits(attempts=4))
    grader = PerCriterionGrader(model=model)
    clean = [Rollout(prompt="q", completion=f"text {n}") for n in range(254)]
    wrong = [Rollout(prompt="q", completion=f"unbearable {n}") for n in range(bad)]
    reports = await RUBRIC.score([*wrong, *clean], judge=grader)
    assert [report.scored for report in reports] == [False] * bad + [True] * 254
    assert all("after 4 tries: 500" in str(report.errors) for report in reports[:bad])
    again = [Rollout(prompt="q", completion=f"other {n}") for n in range(64)]
    assert all(report.scored for report in await RUBRIC.score(again, judge=grader))


async def test_the_next_batch_after_an_outage_is_answered(
    serve: Any, model_at: Any, make_request: Any
) -> None:
    """Completely: no call fails because of the past outage without a new attempt."""
    server = serve("hello", faults=lambda call: None if server.well else Fault.failing())
    server.well = False
    model = model_at(server, limits=Limits(concurrency=4, outage=0.0))
    calls = [model(make_request(str(n))) for n in range(40)]
    errors = await asyncio.gather(*calls, return_exceptions=True)
    assert any(isinstance(error, CircuitOpen) for error in errors)
    server.well = True
    replies = await asyncio.gather(*(model(make_request(f"next {n}")) for n in range(40)))
    assert {reply.text for reply in replies} == {"hello"}


async def test_a_burst_of_errors_causes_one_short_pause(
    serve: Any, model_at: Any, make_request: Any
) -> None:
    """Sixteen concurrent calls fail; a harmless request is answered, and then all others are."""
    server = serve("hello", faults=[Fault.failing()] * 16)
    model = model_at(server, limits=Limits(concurrency=16))
    replies = await asyncio.gather(*(model(make_request(str(n))) for n in range(64)))
    assert {reply.text for reply in replies} == {"hello"}
    assert len(server.requests) <= 64 + 16 + 1


@pytest.mark.parametrize("bad", [64, 250])
async def test_failing_texts_at_the_start_do_not_affect_others(serve: Any, bad: int) -> None:
    """Their failures do not count as an outage."""
    server = serve(verdict)
    model = model_of(server.model, limits=Limits(attempts=3, outage=3.0))
    grader = PerCriterionGrader(model=model)
    wrong = [Rollout(prompt="q", completion=f"unbearable {n}") for n in range(bad)]
    clean = [Rollout(prompt="q", completion=f"text {n}") for n in range(256 - bad)]
    reports = await RUBRIC.score([*wrong, *clean], judge=grader)
    assert [report.scored for report in reports] == [False] * bad + [True] * (256 - bad)
