"""Equal requests that are under way at the same time are asked once."""

import asyncio
from typing import Any

import pytest

from assay import Overloaded, budget
from assay.models import Reply, Request
from assay.models.endpoint_model import Deduplicated


class Slow:
    """A model that answers when it is told to."""

    id = "slow"

    def __init__(self) -> None:
        self.asked: list[Request] = []
        self.answers: list[asyncio.Future[Reply]] = []

    async def __call__(self, request: Request) -> Reply:
        self.asked.append(request)
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self.answers.append(answer)
        return await answer


@pytest.fixture
async def slow() -> Slow:
    return Slow()


async def started(*coroutines: Any) -> list["asyncio.Task[Reply]"]:
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    for _ in range(3):
        await asyncio.sleep(0)
    return tasks


async def test_five_equal_requests_are_one_call(serve: Any, model_at: Any, question: Any) -> None:
    """The others take over its reply, and pay nothing."""
    server = serve("hello", latency=0.02)
    model = model_at(server)
    with budget() as spent:
        replies = await asyncio.gather(*(model(question()) for _ in range(5)))
    assert (server.calls, spent.calls, spent.shared) == (1, 1, 4)
    assert sorted(reply.source for reply in replies) == ["flight"] * 4 + ["model"]
    assert {reply.text for reply in replies} == {"hello"}


async def test_samples_are_asked_each(serve: Any, model_at: Any, question: Any) -> None:
    """They are there to differ."""
    server = serve("hello", latency=0.02)
    model = model_at(server)
    await asyncio.gather(*(model(question(sample=n)) for n in range(3)))
    assert server.calls == 3


async def test_one_after_the_other_are_two_calls(serve: Any, model_at: Any, question: Any) -> None:
    """It is no cache."""
    server = serve("hello")
    model = model_at(server)
    for _ in range(2):
        await model(question())
    assert server.calls == 2


async def test_when_the_first_is_cancelled_the_next_asks(slow: Slow, question: Any) -> None:
    """Nobody else is cancelled with it."""
    model = Deduplicated(slow)
    first, second, third = await started(*(model(question()) for _ in range(3)))
    first.cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(slow.asked) == 2
    slow.answers[-1].set_result(Reply("late"))
    assert [(await second).text, (await third).text] == ["late", "late"]
    assert first.cancelled()


async def test_who_waits_can_be_cancelled_alone(slow: Slow, question: Any) -> None:
    """The call goes on for the others."""
    model = Deduplicated(slow)
    first, second = await started(model(question()), model(question()))
    second.cancel()
    await asyncio.sleep(0)
    slow.answers[0].set_result(Reply("here"))
    assert (await first).text == "here"
    assert second.cancelled()


async def test_a_failure_is_everybodys(slow: Slow, question: Any) -> None:
    """And is not kept: the next one asks again."""
    model = Deduplicated(slow)
    tasks = await started(model(question()), model(question()))
    slow.answers[0].set_exception(Overloaded("no"))
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results] == [Overloaded, Overloaded]
    [again] = await started(model(question()))
    slow.answers[-1].set_result(Reply("yes"))
    assert (await again).text == "yes"
