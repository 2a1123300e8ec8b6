"""Equal requests that are in flight at the same time are sent once."""

import asyncio
from typing import Any

import pytest

from assay import Overloaded, budget
from assay.models import Reply, Request
from assay.models.endpoint_model import Deduplicated


class PendingModel:
    """A model that answers when the test tells it to."""

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
async def pending_model() -> PendingModel:
    return PendingModel()


async def start_tasks(*coroutines: Any) -> list["asyncio.Task[Reply]"]:
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    for _ in range(3):
        await asyncio.sleep(0)
    return tasks


async def test_five_equal_requests_are_one_call(
    serve: Any, model_at: Any, make_request: Any
) -> None:
    """The others share its reply, and cost nothing."""
    server = serve("hello", latency=0.02)
    model = model_at(server)
    with budget() as spent:
        replies = await asyncio.gather(*(model(make_request()) for _ in range(5)))
    assert (server.calls, spent.calls, spent.shared) == (1, 1, 4)
    assert sorted(reply.source for reply in replies) == ["flight"] * 4 + ["model"]
    assert {reply.text for reply in replies} == {"hello"}


async def test_samples_are_not_deduplicated(serve: Any, model_at: Any, make_request: Any) -> None:
    """They are supposed to differ."""
    server = serve("hello", latency=0.02)
    model = model_at(server)
    await asyncio.gather(*(model(make_request(sample=n)) for n in range(3)))
    assert server.calls == 3


async def test_sequential_requests_are_two_calls(
    serve: Any, model_at: Any, make_request: Any
) -> None:
    """Deduplication is not a cache."""
    server = serve("hello")
    model = model_at(server)
    for _ in range(2):
        await model(make_request())
    assert server.calls == 2


async def test_if_the_first_caller_is_cancelled_the_next_one_calls(
    pending_model: PendingModel, make_request: Any
) -> None:
    """No other caller is cancelled with it."""
    model = Deduplicated(pending_model)
    first, second, third = await start_tasks(*(model(make_request()) for _ in range(3)))
    first.cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(pending_model.asked) == 2
    pending_model.answers[-1].set_result(Reply("late"))
    assert [(await second).text, (await third).text] == ["late", "late"]
    assert first.cancelled()


async def test_a_waiting_caller_can_be_cancelled_alone(
    pending_model: PendingModel, make_request: Any
) -> None:
    """The call continues for the others."""
    model = Deduplicated(pending_model)
    first, second = await start_tasks(model(make_request()), model(make_request()))
    second.cancel()
    await asyncio.sleep(0)
    pending_model.answers[0].set_result(Reply("here"))
    assert (await first).text == "here"
    assert second.cancelled()


async def test_a_failure_is_raised_for_all_callers(
    pending_model: PendingModel, make_request: Any
) -> None:
    """It is not remembered: the next request is sent again."""
    model = Deduplicated(pending_model)
    tasks = await start_tasks(model(make_request()), model(make_request()))
    pending_model.answers[0].set_exception(Overloaded("no"))
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results] == [Overloaded, Overloaded]
    [again] = await start_tasks(model(make_request()))
    pending_model.answers[-1].set_result(Reply("yes"))
    assert (await again).text == "yes"
