"""Limits apply to an endpoint, for all of its callers together."""

import asyncio
import threading
from typing import Any

import pytest

from assay import Limits, PerCriterionGrader, Rubric
from assay.models import model_of
from assay.models.limiter import RateLimit
from assay.models.retry import Endpoint


async def test_two_models_of_one_endpoint_share_its_limit(
    serve: Any, model_at: Any, make_request: Any
) -> None:
    """Five calls at a time, for both together."""
    server = serve("hello", latency=0.01)
    models = [model_at(server, limits=Limits(concurrency=5)), model_of(f"{server.url}#other")]
    await asyncio.gather(*(models[n % 2](make_request(str(n))) for n in range(40)))
    assert (server.calls, server.most_at_once) == (40, 5)


def test_event_loops_share_the_limit(serve: Any, model_at: Any) -> None:
    """Synchronous calls use loops of their own, here in four threads."""
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


async def test_another_key_has_its_own_limits(serve: Any, model_at: Any, make_request: Any) -> None:
    server = serve("hello")
    one, other = Endpoint.at(server.url), Endpoint.at(server.url, "key")
    assert one is not other
    assert Endpoint.at(server.url) is one


def test_new_limits_apply_immediately() -> None:
    """For all callers; passing no limits changes nothing."""
    endpoint = Endpoint.at("http://limits.test", limits=Limits(concurrency=4))
    Endpoint.at("http://limits.test")
    assert endpoint.limiter.limit == 4
    Endpoint.at("http://limits.test", limits=Limits(concurrency=9))
    assert endpoint.limiter.limit == 9


def test_requests_per_minute_are_limited() -> None:
    """60 a minute: seven at once after a pause, then one a second."""
    now = 0.0
    pace = RateLimit(60, clock=lambda: now)
    assert [pace.take(1) for _ in range(9)] == [0.0] * 7 + [1.0, 2.0]
    now = 10.0
    assert pace.take(1) == 0.0


def test_unused_tokens_are_returned() -> None:
    """6000 a minute are 100 a second. 1000 taken and 900 returned leave 100, one second."""
    pace = RateLimit(6000, clock=lambda: 0.0)
    pace.take(1000)
    assert pace.take(0) == 4.0
    pace.take(-900)
    assert pace.take(0) == 0.0


async def test_a_call_above_the_rate_waits(serve: Any, model_at: Any, make_request: Any) -> None:
    """At 600 a minute the 61st call after the first burst waits; the wait is computed, not slept."""
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
def test_invalid_limits_are_refused(wrong: dict[str, Any]) -> None:
    """At construction."""
    with pytest.raises(ValueError, match="give"):
        Limits(**wrong)
