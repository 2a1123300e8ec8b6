"""Limits hold for an endpoint, whoever asks it."""

import asyncio
import threading
from typing import Any

import pytest

from assay import Limits, PerCriterionGrader, Rubric
from assay.models import model_of
from assay.models.limiter import RateLimit
from assay.models.retry import Endpoint


async def test_two_models_of_one_endpoint_share_its_limit(
    serve: Any, model_at: Any, question: Any
) -> None:
    """Five at once, over both."""
    server = serve("hello", latency=0.01)
    models = [model_at(server, limits=Limits(concurrency=5)), model_of(f"{server.url}#other")]
    await asyncio.gather(*(models[n % 2](question(str(n))) for n in range(40)))
    assert (server.calls, server.most_at_once) == (40, 5)


def test_loops_share_it_too(serve: Any, model_at: Any) -> None:
    """Sync doors run loops of their own, here in four threads."""
    server = serve("MET", latency=0.01)
    grader = PerCriterionGrader(model=model_at(server, limits=Limits(concurrency=3)))
    rubric = Rubric.from_dict([{"requirement": f"Holds {n}"} for n in range(5)])
    scores: list[float | None] = []

    def grade(text: str) -> None:
        scores.append(rubric.grade_sync(text, grader).score)

    threads = [threading.Thread(target=grade, args=(f"text {n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (scores, server.most_at_once) == ([1.0] * 4, 3)


async def test_another_key_is_another_endpoint(serve: Any, model_at: Any, question: Any) -> None:
    """Its limits are its own."""
    server = serve("hello")
    one, other = Endpoint.at(server.url), Endpoint.at(server.url, "key")
    assert one is not other
    assert Endpoint.at(server.url) is one


def test_new_limits_hold_from_now_on() -> None:
    """For everybody; who gives none changes none."""
    endpoint = Endpoint.at("http://limits.test", limits=Limits(concurrency=4))
    Endpoint.at("http://limits.test")
    assert endpoint.limiter.limit == 4
    Endpoint.at("http://limits.test", limits=Limits(concurrency=9))
    assert endpoint.limiter.limit == 9


def test_a_minute_has_so_many_requests() -> None:
    """60 a minute: seven at once after a rest, then one a second."""
    now = 0.0
    pace = RateLimit(60, clock=lambda: now)
    assert [pace.take(1) for _ in range(9)] == [0.0] * 7 + [1.0, 2.0]
    now = 10.0
    assert pace.take(1) == 0.0


def test_tokens_that_were_not_used_are_given_back() -> None:
    """6000 a minute are 100 a second. 1000 taken and 900 given back leave 100, one second."""
    pace = RateLimit(6000, clock=lambda: 0.0)
    pace.take(1000)
    assert pace.take(0) == 4.0
    pace.take(-900)
    assert pace.take(0) == 0.0


async def test_a_call_waits_for_its_minute(serve: Any, model_at: Any, question: Any) -> None:
    """At 600 a minute the 61st beyond the first burst has to wait; the wait is worked out, not slept."""
    server = serve("hello")
    model_at(server, limits=Limits(requests_per_minute=600))
    endpoint = Endpoint.at(server.url)
    waits = [endpoint.limiter.requests.take(1) for _ in range(100)]
    assert waits[:60] == [0.0] * 60
    assert waits[-1] == pytest.approx(3.9, abs=0.2)


@pytest.mark.parametrize(
    "wrong",
    [{"concurrency": 0}, {"attempts": 0}, {"timeout": 0}, {"requests_per_minute": -1}],
    ids=str,
)
def test_limits_that_are_none_are_refused(wrong: dict[str, Any]) -> None:
    """At construction."""
    with pytest.raises(ValueError, match="give"):
        Limits(**wrong)
