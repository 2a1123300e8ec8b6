"""How many calls go at once: more while that helps, half as many when refused."""

import asyncio
import threading
from typing import Any

import pytest

from assay import Limits
from assay.models.limiter import REST, START, Limiter


class Endpoint:
    """Time and outcomes by hand: all places in use, by calls that are served or refused."""

    def __init__(self, concurrency: int | None = None) -> None:
        self.now = 0.0
        self.limiter = Limiter(Limits(concurrency=concurrency), clock=lambda: self.now)

    def moment(self, served: int | None = None, *, refused: int = 0, seconds: float = 1.0) -> int:
        """Twice the time of a call, after which it looks back; the limit then.

        So many places serve calls, all of them when None; the others are refused at once.
        """
        limiter, places = self.limiter, int(self.limiter.limit)
        busy = min(places, places if served is None else served)
        limiter._window = type(limiter._window)(self.now, is_full=True)
        for _ in range(2):
            for outcome, calls in (("refused", refused), ("answered", busy)):
                limiter._count_held()
                limiter.active = busy
                self.now += seconds if outcome == "answered" else 0.0
                limiter._count_held()
                limiter.active = calls
                for _ in range(calls):
                    limiter.leave(outcome, seconds if outcome == "answered" else 0.0)
        return int(limiter.limit)


def test_it_grows_fast_until_it_is_told_off() -> None:
    """It doubles, up to the most that anybody needs."""
    endpoint = Endpoint()
    assert [endpoint.moment() for _ in range(6)] == [32, 64, 128, 256, 256, 256]


def test_a_given_number_is_where_it_starts_and_ends() -> None:
    """Who says 64 means 64."""
    endpoint = Endpoint(64)
    assert (endpoint.limiter.limit, endpoint.moment()) == (64, 64)


def test_it_does_not_grow_when_nobody_waits() -> None:
    """More would be of no use."""
    endpoint = Endpoint()
    for _ in range(100):
        endpoint.limiter.active += 1
        endpoint.now += 1.0
        endpoint.limiter.leave("answered", 1.0)
    assert endpoint.limiter.limit == START


def test_it_does_not_grow_when_calls_get_slower() -> None:
    """Twice as slow at twice as many is no gain."""
    endpoint = Endpoint()
    assert endpoint.moment(seconds=1.0) == 32
    assert endpoint.moment(seconds=3.0) == 32


def test_an_endpoint_that_is_full_halves_it_down_to_what_is_served() -> None:
    """It serves 8 at once and refuses nearly all else: 64, 32, 16, 8."""
    endpoint = Endpoint(64)
    assert [endpoint.moment(8, refused=100) for _ in range(4)] == [32, 16, 8, 8]


def test_after_a_rest_it_tries_one_more() -> None:
    """And the rest begins anew when that was one too many."""
    endpoint = Endpoint(16)
    assert endpoint.moment(8, refused=100) == 8
    assert [endpoint.moment() for _ in range(REST)] == [8] * (REST - 1) + [9]
    assert endpoint.moment(8, refused=100) == 8
    assert endpoint.moment() == 8


def test_refusals_at_random_leave_it_alone() -> None:
    """A third of all calls, while every place serves: half the places would serve half as many."""
    endpoint = Endpoint(64)
    assert [endpoint.moment(refused=32) for _ in range(5)] == [64] * 5


def test_refusals_of_a_few_calls_leave_it_alone() -> None:
    """12 of 64 places are in use and a third of the calls refused: it is not for want of places."""
    endpoint = Endpoint(64)
    assert [endpoint.moment(12, refused=4) for _ in range(5)] == [64] * 5


def test_refusals_that_come_before_the_first_answers_leave_it_alone() -> None:
    """20 are refused at once while 64 are under way, and a pause before says nothing of them."""
    now = 0.0
    limiter = Limiter(Limits(concurrency=64), clock=lambda: now)
    asyncio.run(entered(limiter, 1))
    limiter.leave("answered", 0.0)
    now = 100.0
    asyncio.run(entered(limiter, 64))
    for _ in range(20):
        now += 0.01
        limiter.leave("refused", 0.001)
        asyncio.run(entered(limiter, 1))
    assert limiter.limit == 64


async def entered(limiter: Limiter, calls: int) -> None:
    for _ in range(calls):
        await limiter.enter()


def test_refusals_that_take_their_time_halve_it() -> None:
    """A third of all calls, each as long as an answer: a third of the time goes into them."""
    now = 0.0
    limiter = Limiter(Limits(concurrency=64), clock=lambda: now)
    asyncio.run(entered(limiter, 64))
    for call in range(192):
        now += 1 / 64
        limiter.leave("refused" if call % 3 == 0 else "answered", 1.0)
        if limiter.active < limiter.limit:
            asyncio.run(entered(limiter, 1))
    assert limiter.limit < 64


def test_it_never_falls_below_one() -> None:
    """Somebody has to find out when it gets better."""
    endpoint = Endpoint(16)
    assert [endpoint.moment(0, refused=10) for _ in range(5)][-1] >= 1


async def test_nobody_gets_in_beyond_the_limit() -> None:
    """And whoever waits gets in, in order."""
    limiter = Limiter(Limits(concurrency=2))
    order: list[int] = []

    async def pass_through(number: int) -> None:
        await limiter.enter()
        order.append(number)
        assert limiter.active <= 2
        await asyncio.sleep(0)
        limiter.leave("answered", 0.0)

    await asyncio.gather(*(pass_through(number) for number in range(20)))
    assert (order, limiter.active) == (list(range(20)), 0)


async def test_there_is_room_for_four_times_as_many_as_may_go_in() -> None:
    """Two inside, three in line and two announced are 7 of 8; the eighth is one too many."""
    limiter = Limiter(Limits(concurrency=2))
    limiter.announce(2)
    waiting = [asyncio.ensure_future(limiter.enter()) for _ in range(5)]
    await asyncio.sleep(0)
    assert (limiter.active, limiter.waiting, limiter.has_room) == (2, 3, True)
    limiter.announce(1)
    assert not limiter.has_room
    limiter.announce(-3)
    assert limiter.has_room
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)


async def test_who_comes_again_goes_first() -> None:
    """A call that was inside before, and is tried once more."""
    limiter = Limiter(Limits(concurrency=1))
    order: list[str] = []

    async def pass_through(name: str, *, again: bool) -> None:
        await limiter.enter(again=again)
        order.append(name)
        limiter.leave("answered", 0.0)

    await limiter.enter()
    names = {"first": False, "second": False, "again": True}
    waiting = [asyncio.ensure_future(pass_through(n, again=a)) for n, a in names.items()]
    await asyncio.sleep(0)
    limiter.leave("refused", 0.0)
    await asyncio.gather(*waiting)
    assert order == ["again", "first", "second"]


async def test_who_is_cancelled_while_waiting_leaves_no_gap() -> None:
    """Neither before nor after having been served."""
    limiter = Limiter(Limits(concurrency=1))
    await limiter.enter()
    waiting = [asyncio.create_task(limiter.enter()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    limiter.leave("answered", 0.0)
    waiting[1].cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert [task.cancelled() for task in waiting] == [True, True, False]
    limiter.leave("answered", 0.0)
    assert limiter.active == 0


def test_loops_in_threads_share_it() -> None:
    """Never more than the limit inside, over all of them, and all of them get through."""
    limiter = Limiter(Limits(concurrency=3))
    most: list[int] = []

    async def pass_through() -> None:
        await limiter.enter()
        most.append(limiter.active)
        await asyncio.sleep(0.001)
        limiter.leave("answered", 0.001)

    async def many() -> None:
        await asyncio.gather(*(pass_through() for _ in range(30)))

    threads = [threading.Thread(target=lambda: asyncio.run(many())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(most), limiter.active) == (120, 0)
    assert max(most) <= 3


def test_a_loop_that_ended_holds_nothing() -> None:
    """Whoever waited in it is gone; the next loop gets in."""
    limiter = Limiter(Limits(concurrency=1))

    async def leave_waiting() -> None:
        await limiter.enter()
        waiting = asyncio.ensure_future(limiter.enter())
        await asyncio.sleep(0)
        assert limiter.waiting == 1
        limiter.leave("answered", 0.0)
        waiting.cancel()

    async def get_in() -> int:
        await limiter.enter()
        return limiter.active

    asyncio.run(leave_waiting())
    assert asyncio.run(get_in()) == 1


@pytest.mark.parametrize("capacity", [4])
async def test_against_an_endpoint_that_bears_few(
    serve: Any, model_at: Any, question: Any, capacity: int
) -> None:
    """Every call is answered in the end, and fewer go at once than were allowed."""
    server = serve("hello", capacity=capacity, latency=0.002)
    model = model_at(server, limits=Limits(concurrency=64, attempts=100))
    replies = await asyncio.gather(*(model(question(str(n))) for n in range(200)))
    assert {reply.text for reply in replies} == {"hello"}
    assert server.calls == 200
