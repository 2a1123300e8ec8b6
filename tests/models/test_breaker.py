"""An outage: one call finds out whether it is over, the others wait, and then they fail at once."""

import asyncio
from typing import Any

import pytest

from assay import CircuitOpen, Limits, Overloaded
from assay.models.breaker import FAILURES, Breaker
from assay.models.endpoint import Endpoint
from assay.testing import Fault


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def down(clock: Clock) -> Breaker:
    """A breaker that has just opened."""
    breaker = Breaker("somewhere", 60.0, clock=clock)
    for _ in range(FAILURES):
        breaker.failed("500: no")
    return breaker


def test_failures_in_a_row_open_it(clock: Clock) -> None:
    """One answer among them is a sign of life."""
    breaker = Breaker("somewhere", 60.0, clock=clock)
    for _ in range(3 * FAILURES):
        for _ in range(FAILURES - 1):
            breaker.failed("500: no")
        breaker.succeeded()
    assert not breaker.is_open


async def test_one_call_at_a_time_finds_out(down: Breaker, clock: Clock) -> None:
    """After a pause, which doubles with every failure."""
    clock.now = 0.5
    assert await down.admit()
    assert not down._may_probe()
    down.failed("500: no")
    clock.now = 1.4
    assert not down._may_probe()
    clock.now = 1.5
    assert down._may_probe()


async def test_an_answer_lets_everybody_go(down: Breaker, clock: Clock) -> None:
    """Those who wait look again soon."""
    waiting = asyncio.create_task(down.admit())
    await asyncio.sleep(0)
    assert not waiting.done()
    down.succeeded()
    assert not await waiting


async def test_a_long_outage_fails_at_once(down: Breaker, clock: Clock) -> None:
    """With what went wrong last; but now and then one call finds out."""
    clock.now = 61.0
    await down.admit()
    with pytest.raises(CircuitOpen, match=r"somewhere has failed for 61 s.*500: no"):
        await down.admit()


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
