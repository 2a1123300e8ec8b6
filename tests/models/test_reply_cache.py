"""Saved verdicts are used again, and only missing ones are requested."""

from typing import Any

import pytest

from assay import ModelError, PerCriterionGrader, Rollout, Rubric, budget
from assay.cache import VerdictCache
from assay.errors import CacheError
from assay.graders import PerCriterionOutput
from assay.models import model_of
from assay.testing import Fault

SCHEMA = {"schema": PerCriterionOutput}


async def test_a_repeated_request_makes_no_call(
    serve: Any, model_at: Any, make_request: Any, tmp_path: Any
) -> None:
    """The reply is the same, costs nothing and says that it comes from the cache."""
    server = serve("MET")
    model = model_at(server, cache=tmp_path)
    with budget() as spent:
        first = await model(make_request(logprobs=2, **SCHEMA))
        again = await model(make_request(logprobs=2, **SCHEMA))
    assert (server.calls, spent.calls, spent.hits) == (1, 1, 1)
    assert again._replace(cost=first.cost, source="model") == first
    assert (again.source, again.cost) == ("cache", 0.0)


async def test_another_process_can_use_the_cached_reply(
    serve: Any, model_at: Any, make_request: Any, tmp_path: Any
) -> None:
    """A second cache object for the same path stands in for it."""
    server = serve("MET")
    async with VerdictCache(tmp_path) as cache:
        await model_at(server, cache=cache)(make_request(**SCHEMA))
    async with VerdictCache(tmp_path) as cache:
        await model_at(server, cache=cache)(make_request(**SCHEMA))
    assert server.calls == 1


async def test_only_a_changed_criterion_is_judged_again(
    serve: Any, model_at: Any, tmp_path: Any
) -> None:
    """One of twenty, for three responses."""
    server = serve("MET")
    grader = PerCriterionGrader(model=model_at(server, cache=tmp_path))
    rollouts = [Rollout(prompt="q", completion=f"text {n}") for n in range(3)]
    criteria = [{"requirement": f"Holds {n}"} for n in range(20)]
    for expected in (60, 0):
        server.reset()
        await Rubric.from_dict(criteria).score(rollouts, judge=grader)
        assert server.calls == expected
    server.reset()
    criteria[7] = {"requirement": "Holds something else"}
    await Rubric.from_dict(criteria).score(rollouts, judge=grader)
    assert server.calls == 3


FAULTS = {
    "truncated": [Fault.truncated()],
    "unreadable": [Fault.saying("no")] * 2,
    "off the menu": [Fault.saying('{"explanation": "", "criterion_status": "MAYBE"}')] * 2,
    "refused": [Fault.refusing("no", 413)],
}


@pytest.mark.parametrize("faults", FAULTS.values(), ids=FAULTS)
async def test_failures_are_not_cached(
    serve: Any, model_at: Any, make_request: Any, tmp_path: Any, faults: list[Fault]
) -> None:
    """They would be returned forever."""
    server = serve("MET", faults=faults)
    model = model_at(server, cache=tmp_path)
    with pytest.raises(ModelError):
        await model(make_request(**SCHEMA))
    assert (await model(make_request(**SCHEMA))).value.criterion_status == "MET"
    assert server.calls == 1


async def test_samples_models_and_settings_have_separate_entries(
    serve: Any, model_at: Any, make_request: Any, tmp_path: Any
) -> None:
    """As has everything that may change the reply."""
    server = serve("MET")
    one = model_at(server, cache=tmp_path)
    other = model_of(f"{server.url}#other", cache=tmp_path)
    low = model_at(server, cache=tmp_path, reasoning_effort="low")
    for model in (one, other, low):
        for options in ({}, {"sample": 1}, {"temperature": 1.0}):
            await model(make_request(**SCHEMA, **options))
    assert server.calls == 9


async def test_a_cached_verdict_that_is_no_longer_offered_is_requested_again(
    serve: Any, model_at: Any, make_request: Any, tmp_path: Any
) -> None:
    """The choices may have changed since it was saved."""
    server = serve("MET")
    model = model_at(server, cache=tmp_path)
    await model(make_request(**SCHEMA))
    with pytest.raises(ModelError, match="not any more"):
        await model(make_request(**SCHEMA, check=lambda value: "not any more"))
    assert server.calls == 3


async def test_a_reply_that_cannot_be_cached_is_still_returned(
    serve: Any, model_at: Any, make_request: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """It is paid for; a warning is logged."""

    class Full:
        async def get(self, key: Any) -> None:
            return None

        async def put_many(self, items: Any) -> None:
            raise CacheError("the disk is full")

    reply = await model_at(serve("MET"), cache=Full())(make_request(**SCHEMA))
    assert reply.value.criterion_status == "MET"
    assert "could not be cached: the disk is full" in caplog.text
