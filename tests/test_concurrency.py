"""Side by side, in order, and stopped together."""

import asyncio

import pytest

from assay.concurrency import run_concurrently, run_sync


async def test_results_come_in_order_whoever_finishes_first():
    """The last item finishes first here."""
    gates = [asyncio.Event() for _ in range(20)]

    async def work(place):
        if place < 19:
            await gates[place + 1].wait()
        gates[place].set()
        return place * 10

    assert await run_concurrently(work, range(20)) == [place * 10 for place in range(20)]


async def test_no_more_than_the_limit_are_under_way():
    """And no fewer, once there is waiting to do."""
    under_way, most = 0, 0

    async def work(_):
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        for _ in range(20):
            await asyncio.sleep(0)
        under_way -= 1

    await run_concurrently(work, range(100), limit=7)
    assert most == 7


async def test_what_has_no_room_is_not_begun():
    """Room for two: never more than those and the two that were let in last are under way."""
    under_way, most, done = 0, 0, []

    async def work(item):
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.001)
        under_way -= 1
        done.append(item)

    await run_concurrently(work, range(20), has_room=lambda: under_way < 2)
    assert sorted(done) == list(range(20))
    assert most <= 4


async def test_work_that_never_waits_starts_no_task():
    """Everything happens in the caller's own task."""
    tasks = set()

    async def work(_):
        tasks.add(asyncio.current_task())

    await run_concurrently(work, range(50))
    assert tasks == {asyncio.current_task()}


@pytest.mark.parametrize("place", [0, 3, 9])
async def test_the_first_error_cancels_the_rest_and_is_raised_as_it_is(place):
    """In the caller's share and in anyone else's."""
    cancelled = []

    async def work(item):
        try:
            await asyncio.sleep(0 if item == place else 3600)
        except asyncio.CancelledError:
            cancelled.append(item)
            raise
        raise KeyError(item)

    with pytest.raises(KeyError, match=str(place)):
        await run_concurrently(work, range(10))
    assert place not in cancelled
    assert asyncio.current_task().cancelling() == 0


async def test_work_that_cancels_itself_is_not_a_result():
    """A missing result must not pass for None."""

    async def work(item):
        await asyncio.sleep(0)
        if item == 5:
            raise asyncio.CancelledError
        return item

    with pytest.raises(asyncio.CancelledError):
        await run_concurrently(work, range(10))


async def test_nothing_to_do():
    """No items, no results."""

    async def work(item):
        return item

    assert await run_concurrently(work, []) == []
    assert await run_concurrently(work, [1]) == [1]


async def test_two_calls_side_by_side_cancel_the_other_when_one_fails():
    """Either way round."""
    stopped = []

    async def forever(name):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.append(name)
            raise

    async def fails():
        for _ in range(3):  # the other one has begun by then
            await asyncio.sleep(0)
        raise KeyError("x")

    with pytest.raises(KeyError):
        await run_concurrently(lambda ask: ask(), [lambda: forever("first"), fails])
    with pytest.raises(KeyError):
        await asyncio.wait_for(
            run_concurrently(lambda ask: ask(), [fails, lambda: forever("second")]), 10
        )
    assert stopped == ["first", "second"]


def test_run_sync_raises_what_the_coroutine_raises():
    """Outside a loop and inside one."""

    async def fails():
        raise KeyError("x")

    async def inside():
        with pytest.raises(KeyError):
            run_sync(fails())
        return True

    with pytest.raises(KeyError):
        run_sync(fails())
    assert asyncio.run(inside())
