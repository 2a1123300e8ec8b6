"""The number of calls in flight grows while the endpoint accepts them, and halves when it refuses most."""

import asyncio
from typing import Any

import pytest

from assay.models.limiter import (
    INITIAL_CONCURRENCY,
    MAX_CONCURRENCY,
    MIN_WINDOW_CALLS,
    AdaptiveLimit,
    Limiter,
    Limits,
)


def finish_window(limit: AdaptiveLimit, *, refused: int = 0, is_full: bool = True) -> int:
    """Finish one window of calls, of which this many are refused; return the new limit."""
    calls = max(MIN_WINDOW_CALLS, limit.limit)
    for number in range(calls):
        limit.record("busy" if number < refused else "answered", is_full=is_full)
    return limit.limit


def test_it_doubles_until_the_first_halving_up_to_the_maximum() -> None:
    limit = AdaptiveLimit(None)
    assert limit.limit == INITIAL_CONCURRENCY == 16
    assert [finish_window(limit) for _ in range(5)] == [32, 64, 128, 256, 256]
    assert MAX_CONCURRENCY == 256


def test_it_does_not_change_before_a_window_is_complete() -> None:
    limit = AdaptiveLimit(None)
    for _ in range(15):
        limit.record("answered", is_full=True)
    assert limit.limit == 16
    limit.record("answered", is_full=True)
    assert limit.limit == 32


def test_a_window_has_at_least_eight_calls() -> None:
    limit = AdaptiveLimit(2)
    for _ in range(7):
        limit.record("busy", is_full=True)
    assert limit.limit == 2
    limit.record("busy", is_full=True)
    assert limit.limit == 1


def test_a_configured_number_is_start_and_maximum() -> None:
    limit = AdaptiveLimit(64)
    assert (limit.limit, finish_window(limit)) == (64, 64)


def test_it_does_not_grow_when_no_call_is_waiting() -> None:
    limit = AdaptiveLimit(None)
    assert [finish_window(limit, is_full=False) for _ in range(3)] == [16, 16, 16]


def test_it_is_halved_when_more_than_half_of_the_calls_are_refused() -> None:
    """Exactly half is not enough: a gateway may refuse at random, and fewer calls do not help."""
    limit = AdaptiveLimit(64)
    assert finish_window(limit, refused=32) == 64
    assert finish_window(limit, refused=33) == 32
    assert finish_window(limit, refused=17) == 16


def test_after_the_first_halving_it_grows_by_one() -> None:
    limit = AdaptiveLimit(None)
    finish_window(limit, refused=9)
    assert [finish_window(limit) for _ in range(3)] == [9, 10, 11]


def test_failures_neither_raise_nor_lower_it() -> None:
    limit = AdaptiveLimit(None)
    for _ in range(100):
        limit.record("failed", is_full=True)
    assert limit.limit == 16


def test_it_never_falls_below_one() -> None:
    limit = AdaptiveLimit(16)
    assert [finish_window(limit, refused=16) for _ in range(6)] == [8, 4, 2, 1, 1, 1]


async def test_no_more_calls_are_in_flight_than_the_limit() -> None:
    """Waiting calls start in order."""
    limiter = Limiter(Limits(concurrency=2))
    order: list[int] = []

    async def call(number: int) -> None:
        await limiter.acquire()
        order.append(number)
        assert limiter.active <= 2
        await asyncio.sleep(0)
        limiter.release("answered")

    await asyncio.gather(*(call(number) for number in range(20)))
    assert (order, limiter.active) == (list(range(20)), 0)


async def test_a_limit_that_has_grown_lets_several_waiting_calls_go() -> None:
    limiter = Limiter(Limits())
    calls = [asyncio.create_task(limiter.acquire()) for _ in range(40)]
    await asyncio.sleep(0)
    for _ in range(16):
        limiter.release("answered")
    await asyncio.sleep(0)
    assert (limiter.limit, limiter.active) == (32, 24)
    assert all(call.done() for call in calls)


async def test_up_to_four_times_the_limit_may_have_started() -> None:
    limiter = Limiter(Limits(concurrency=2))
    limiter.announce(7)
    assert limiter.has_room
    limiter.announce(1)
    assert not limiter.has_room
    limiter.announce(-1)
    assert limiter.has_room


async def test_a_retry_goes_ahead_of_first_attempts() -> None:
    limiter = Limiter(Limits(concurrency=1))
    order: list[str] = []

    async def call(name: str, *, is_retry: bool) -> None:
        await limiter.acquire(is_retry=is_retry)
        order.append(name)
        limiter.release("answered")

    await limiter.acquire()
    names = {"first": False, "second": False, "retry": True}
    calls = [asyncio.ensure_future(call(name, is_retry=retry)) for name, retry in names.items()]
    await asyncio.sleep(0)
    limiter.release("busy")
    await asyncio.gather(*calls)
    assert order == ["retry", "first", "second"]


async def test_a_call_that_is_cancelled_while_it_waits_takes_no_slot() -> None:
    limiter = Limiter(Limits(concurrency=1))
    await limiter.acquire()
    waiting = asyncio.create_task(limiter.acquire())
    await asyncio.sleep(0)
    assert limiter.waiting == 1
    waiting.cancel()
    await asyncio.wait([waiting])
    assert limiter.waiting == 0
    limiter.release("answered")
    assert limiter.active == 0


async def test_a_call_that_is_cancelled_just_after_its_turn_returns_the_slot() -> None:
    limiter = Limiter(Limits(concurrency=1))
    await limiter.acquire()
    first, second = (asyncio.create_task(limiter.acquire()) for _ in range(2))
    await asyncio.sleep(0)
    limiter.release("answered")
    first.cancel()
    await asyncio.wait([first, second])
    assert (first.cancelled(), second.cancelled(), limiter.active) == (True, False, 1)


@pytest.mark.parametrize("capacity", [4])
async def test_calls_to_an_endpoint_with_little_capacity_are_all_answered(
    serve: Any, model_at: Any, make_request: Any, capacity: int
) -> None:
    server = serve("hello", capacity=capacity, latency=0.002)
    model = model_at(server, limits=Limits(concurrency=64, attempts=100))
    replies = await asyncio.gather(*(model(make_request(str(n))) for n in range(200)))
    assert {reply.text for reply in replies} == {"hello"}
    assert server.calls == 200
