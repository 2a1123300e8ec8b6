"""An outage: one call at a time probes the endpoint, the others wait, and then they fail."""

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
def down(clock: Clock) -> Availability:
    """The state of an endpoint whose outage has just begun."""
    availability = Availability("somewhere", clock=clock)
    fail(availability, OUTAGE_CALLS)
    return availability


async def wait_until_up(availability: Availability, call: Any = None) -> bool:
    """Whether the call has to probe; the outage may last 60 seconds."""
    call = call or availability.start_call()
    return await availability.wait_until_up(call, model="m", outage_seconds=60.0)


def test_eight_different_calls_that_fail_are_an_outage(clock: Clock) -> None:
    availability = Availability("somewhere", clock=clock)
    fail(availability, 7)
    assert not availability.is_down
    fail(availability, 1)
    assert availability.is_down


def test_a_reply_in_between_starts_the_count_anew(clock: Clock) -> None:
    availability = Availability("somewhere", clock=clock)
    for _ in range(3):
        fail(availability, 7)
        availability.record_reply()
    fail(availability, 7)
    assert not availability.is_down


def test_many_attempts_of_seven_calls_are_no_outage(clock: Clock) -> None:
    availability = Availability("somewhere", clock=clock)
    calls = [availability.start_call() for _ in range(7)]
    for _ in range(10):
        for call in calls:
            availability.record_failure(call, "500: no")
    assert not availability.is_down


def test_calls_that_keep_failing_while_others_are_answered_are_no_outage(clock: Clock) -> None:
    """Even if they are many, and the only ones that are left."""
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
    down: Availability, clock: Clock
) -> None:
    pauses: list[float] = []
    for _ in range(6):
        start = clock.now
        probe = asyncio.create_task(wait_until_up(down))
        while not probe.done():
            await asyncio.sleep(0.06)
            clock.now += 0 if probe.done() else 0.125
        assert await probe
        pauses.append(clock.now - start)
        down.record_failed_probe("500: no")
    assert pauses == [0.25, 0.5, 1.0, 2.0, 2.0, 2.0]


async def test_only_one_call_at_a_time_probes(down: Availability, clock: Clock) -> None:
    clock.now = 0.25
    assert await wait_until_up(down)
    other = asyncio.create_task(wait_until_up(down))
    await asyncio.sleep(0)
    assert not other.done()
    other.cancel()


async def test_failures_that_are_no_probes_do_not_lengthen_the_pause(
    down: Availability, clock: Clock
) -> None:
    fail(down, 100)
    clock.now = 0.25
    assert await wait_until_up(down)


async def test_a_reply_ends_the_outage_for_all(down: Availability) -> None:
    waiting = asyncio.create_task(wait_until_up(down))
    await asyncio.sleep(0)
    assert not waiting.done()
    down.record_reply()
    assert not await waiting
    assert not down.is_down


@pytest.mark.parametrize(("seconds", "fails"), [(59.9, False), (60.0, True)])
async def test_when_an_outage_has_lasted_too_long_waiting_calls_fail(
    down: Availability, clock: Clock, seconds: float, fails: bool
) -> None:
    call = down.start_call()
    clock.now = seconds
    down.record_failed_probe("500: no")
    waiting = asyncio.create_task(wait_until_up(down, call))
    await asyncio.sleep(0)
    assert waiting.done() == fails
    if fails:
        with pytest.raises(CircuitOpen, match=r"somewhere has been down for 60 s.*500: no"):
            await waiting
    waiting.cancel()


async def test_in_a_long_outage_a_new_call_waits_for_one_more_probe(
    down: Availability, clock: Clock
) -> None:
    clock.now = 61.0
    assert await wait_until_up(down)
    waiting = asyncio.create_task(wait_until_up(down))
    await asyncio.sleep(0)
    assert not waiting.done()
    down.record_failed_probe("500: no")
    with pytest.raises(CircuitOpen):
        await waiting


async def test_an_endpoint_that_is_down_stops_being_asked(
    serve: Any, model_at: Any, question: Any
) -> None:
    """Forty calls at once, and no outage is put up with: eight failures, and those under way."""
    server = serve(faults=lambda call: Fault.failing())
    model = model_at(server, limits=Limits(concurrency=4, outage=0.0))
    results = await asyncio.gather(
        *(model(question(str(n))) for n in range(40)), return_exceptions=True
    )
    assert all(isinstance(result, Overloaded) for result in results)
    assert any(isinstance(result, CircuitOpen) for result in results)
    assert len(server.requests) < 16


async def test_an_endpoint_that_comes_back_answers_everybody(
    serve: Any, model_at: Any, question: Any
) -> None:
    """Twelve failures in a row open the breaker; nothing is lost."""
    server = serve("hello", faults=[None] + [Fault.failing()] * 12)
    model = model_at(server)
    await model(question("how fast are you?"))
    replies = await asyncio.gather(*(model(question(str(n))) for n in range(20)))
    assert {reply.text for reply in replies} == {"hello"}


def verdict(system: str, user: str) -> str:
    """A judge that cannot read one text."""
    if "unbearable" in user:
        raise RuntimeError("this text breaks the server")
    return "MET"


RUBRIC = Rubric.from_dict([{"requirement": "Holds"}])


@pytest.mark.parametrize("bad", [2, 20])
async def test_texts_that_always_fail_take_no_other_with_them(serve: Any, bad: int) -> None:
    """Neither in their own batch, nor in the next."""
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


async def test_after_an_outage_the_next_batch_is_answered(
    serve: Any, model_at: Any, question: Any
) -> None:
    """All of it: no call is given up for what was, without one more look."""
    server = serve("hello", faults=lambda call: None if server.well else Fault.failing())
    server.well = False
    model = model_at(server, limits=Limits(concurrency=4, outage=0.0))
    calls = [model(question(str(n))) for n in range(40)]
    errors = await asyncio.gather(*calls, return_exceptions=True)
    assert any(isinstance(error, CircuitOpen) for error in errors)
    server.well = True
    replies = await asyncio.gather(*(model(question(f"next {n}")) for n in range(40)))
    assert {reply.text for reply in replies} == {"hello"}


async def test_a_burst_of_errors_causes_one_short_pause(
    serve: Any, model_at: Any, question: Any
) -> None:
    """Sixteen calls at once fail; a harmless request is answered, and then all others are."""
    server = serve("hello", faults=[Fault.failing()] * 16)
    model = model_at(server, limits=Limits(concurrency=16))
    replies = await asyncio.gather(*(model(question(str(n))) for n in range(64)))
    assert {reply.text for reply in replies} == {"hello"}
    assert len(server.requests) <= 64 + 16 + 1


@pytest.mark.parametrize("bad", [64, 250])
async def test_bad_texts_at_the_start_take_no_other_with_them(serve: Any, bad: int) -> None:
    """No text of theirs is taken for a sign that the endpoint is down."""
    server = serve(verdict)
    model = model_of(server.model, limits=Limits(attempts=3, outage=3.0))
    grader = PerCriterionGrader(model=model)
    wrong = [Rollout(prompt="q", completion=f"unbearable {n}") for n in range(bad)]
    clean = [Rollout(prompt="q", completion=f"text {n}") for n in range(256 - bad)]
    reports = await RUBRIC.score([*wrong, *clean], judge=grader)
    assert [report.scored for report in reports] == [False] * bad + [True] * (256 - bad)
