"""An outage: one call finds out whether it is over, the others wait, and then they fail at once."""

import asyncio
from typing import Any

import pytest

from assay import CircuitOpen, Limits, Overloaded, PerCriterionGrader, Rollout, Rubric, model_of
from assay.models.retry import FAILURES, FIRST_PAUSE, CallRecord, CircuitBreaker, Endpoint
from assay.testing import Fault


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def down(clock: Clock) -> CircuitBreaker:
    """A breaker that has just opened."""
    breaker = CircuitBreaker("somewhere", 60.0, clock=clock)
    for _ in range(FAILURES):
        breaker.failed(CallRecord(), "500: no")
    return breaker


def test_different_calls_that_fail_open_it(clock: Clock) -> None:
    """One answer among them is a sign of life."""
    breaker = CircuitBreaker("somewhere", 60.0, clock=clock)
    for _ in range(3 * FAILURES):
        for _ in range(FAILURES - 1):
            breaker.failed(CallRecord(), "500: no")
        breaker.succeeded()
    assert not breaker.is_open


def test_the_tries_of_few_calls_do_not_open_it(clock: Clock) -> None:
    """However often they fail."""
    breaker = CircuitBreaker("somewhere", 60.0, clock=clock)
    calls = [CallRecord() for _ in range(FAILURES - 1)]
    for _ in range(10):
        for call in calls:
            breaker.failed(call, "500: no")
    assert not breaker.is_open


def test_calls_that_fail_while_others_are_answered_do_not_open_it(clock: Clock) -> None:
    """Also when they are many, and the only ones that are left."""
    breaker = CircuitBreaker("somewhere", 60.0, clock=clock)
    calls = [CallRecord() for _ in range(3 * FAILURES)]
    for call in calls:
        breaker.failed(call, "500: no")
        breaker.succeeded()
    for _ in range(10):
        for call in calls:
            breaker.failed(call, "500: no")
    assert not breaker.is_open


async def test_one_call_at_a_time_finds_out(down: CircuitBreaker, clock: Clock) -> None:
    """After a pause, which doubles with every look that fails, and up to two seconds."""
    waits: list[float] = []
    for _ in range(6):
        began = clock.now
        while not down.may_probe():
            clock.now += 0.125
        assert not down.may_probe()
        waits.append(clock.now - began)
        down.failed(CallRecord(), "500: no", probed=True)
    assert waits == [0.25, 0.5, 1.0, 2.0, 2.0, 2.0]


async def test_calls_that_were_under_way_do_not_lengthen_the_pause(
    down: CircuitBreaker, clock: Clock
) -> None:
    """A burst of errors says once that it is down."""
    for _ in range(100):
        down.failed(CallRecord(), "500: no")
    clock.now = 0.25
    assert await down.admit(CallRecord())


async def test_an_answer_lets_everybody_go(down: CircuitBreaker, clock: Clock) -> None:
    """Those who wait look again soon."""
    waiting = asyncio.create_task(down.admit(CallRecord()))
    await asyncio.sleep(0)
    assert not waiting.done()
    down.succeeded()
    assert not await waiting


async def test_in_a_long_outage_a_call_fails_after_one_more_look(
    down: CircuitBreaker, clock: Clock
) -> None:
    """With what went wrong last; before that look, nobody knows that it is still down."""
    clock.now = 61.0
    assert await down.admit(CallRecord())
    waiting = asyncio.create_task(down.admit(CallRecord()))
    await asyncio.sleep(0)
    assert not waiting.done()
    down.failed(CallRecord(), "500: no", probed=True)
    with pytest.raises(CircuitOpen, match=r"somewhere has failed for 61 s.*500: no"):
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
    assert len(server.asked) < 16


async def test_an_endpoint_that_comes_back_answers_everybody(
    serve: Any, model_at: Any, question: Any
) -> None:
    """Twelve failures in a row open the breaker; nothing is lost."""
    server = serve("hello", faults=[None] + [Fault.failing()] * 12)
    model = model_at(server)
    await model(question("how fast are you?"))
    replies = await asyncio.gather(*(model(question(str(n))) for n in range(20)))
    assert {reply.text for reply in replies} == {"hello"}
    assert not Endpoint.at(server.url).breaker.is_open


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
    reports = await RUBRIC.score([*wrong, *clean], autograder=grader)
    assert [report.scored for report in reports] == [False] * bad + [True] * 254
    assert all("after 4 tries: 500" in str(report.errors) for report in reports[:bad])
    again = [Rollout(prompt="q", completion=f"other {n}") for n in range(64)]
    assert all(report.scored for report in await RUBRIC.score(again, autograder=grader))


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


async def test_a_burst_of_errors_does_not_lay_an_endpoint_idle(
    serve: Any, model_at: Any, question: Any
) -> None:
    """Sixteen calls at once fail; after one pause of a quarter of a second all are answered."""
    server = serve("hello", faults=[Fault.failing()] * 16)
    model = model_at(server, limits=Limits(concurrency=16))
    replies = await asyncio.gather(*(model(question(str(n))) for n in range(64)))
    assert {reply.text for reply in replies} == {"hello"}
    assert Endpoint.at(server.url).breaker.pause == FIRST_PAUSE
