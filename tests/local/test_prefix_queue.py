"""Who is next: those whose prompt begins like one that was just read."""

import asyncio

import pytest

from assay.local.local_model import PrefixQueue


@pytest.fixture
def turns():
    return PrefixQueue()


async def take(turns, beginning, order):
    await turns.enter(beginning)
    order.append(beginning)
    await asyncio.sleep(0)
    turns.leave()


async def test_those_that_begin_alike_follow_each_other(turns):
    """They come as A B C A B C A B C and go as AAA BBB CCC."""
    order = []
    await asyncio.gather(*(take(turns, beginning, order) for beginning in "ABC" * 3))
    assert "".join(order) == "AAABBBCCC"


async def test_one_that_comes_late_goes_before_strangers(turns):
    """B was read last but one and is remembered; Z was never read."""
    order = []
    await turns.enter("B")
    waiting = [asyncio.create_task(take(turns, "A", order))]
    await asyncio.sleep(0)
    turns.leave()
    waiting += [asyncio.create_task(take(turns, beginning, order)) for beginning in "ZB"]
    await asyncio.gather(*waiting)
    assert "".join(order) == "ABZ"


async def test_one_who_gives_up_leaves_the_place_to_others(turns):
    """Cancelled while waiting, and cancelled at the very moment of its turn."""
    order = []
    await turns.enter("A")
    first, second, third = (asyncio.create_task(take(turns, "A", order)) for _ in range(3))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    turns.leave()
    second.cancel()
    await asyncio.wait([first, second, third], timeout=60)
    assert third.done()
    assert order == ["A"]
