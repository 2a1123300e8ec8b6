"""What was answered is not asked again; what was not, is."""

from typing import Any

import pytest

from assay import ModelError, PerCriterionGrader, Rollout, Rubric, budget
from assay.cache import VerdictCache
from assay.errors import CacheError
from assay.graders import PerCriterionOutput
from assay.models import model_of
from assay.testing import Fault

SCHEMA = {"schema": PerCriterionOutput}


async def test_the_second_time_nothing_is_asked(
    serve: Any, model_at: Any, question: Any, tmp_path: Any
) -> None:
    """The reply is the same, costs nothing and says where it is from."""
    server = serve("MET")
    model = model_at(server, cache=tmp_path)
    with budget() as spent:
        first = await model(question(logprobs=2, **SCHEMA))
        again = await model(question(logprobs=2, **SCHEMA))
    assert (server.calls, spent.calls, spent.hits) == (1, 1, 1)
    assert again._replace(cost=first.cost, source="model") == first
    assert (again.source, again.cost) == ("cache", 0.0)


async def test_another_process_finds_it(
    serve: Any, model_at: Any, question: Any, tmp_path: Any
) -> None:
    """Another cache object on the same place stands for it."""
    server = serve("MET")
    async with VerdictCache(tmp_path) as cache:
        await model_at(server, cache=cache)(question(**SCHEMA))
    async with VerdictCache(tmp_path) as cache:
        await model_at(server, cache=cache)(question(**SCHEMA))
    assert server.calls == 1


async def test_one_changed_criterion_is_asked_again_and_no_other(
    serve: Any, model_at: Any, tmp_path: Any
) -> None:
    """One of twenty, over three responses."""
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
async def test_what_failed_is_never_kept(
    serve: Any, model_at: Any, question: Any, tmp_path: Any, faults: list[Fault]
) -> None:
    """It would be answered for ever."""
    server = serve("MET", faults=faults)
    model = model_at(server, cache=tmp_path)
    with pytest.raises(ModelError):
        await model(question(**SCHEMA))
    assert (await model(question(**SCHEMA))).value.criterion_status == "MET"
    assert server.calls == 1


async def test_samples_models_and_settings_have_their_own(
    serve: Any, model_at: Any, question: Any, tmp_path: Any
) -> None:
    """Whatever may change the answer."""
    server = serve("MET")
    one = model_at(server, cache=tmp_path)
    other = model_of(f"{server.url}#other", cache=tmp_path)
    low = model_at(server, cache=tmp_path, reasoning_effort="low")
    for model in (one, other, low):
        for options in ({}, {"sample": 1}, {"temperature": 1.0}):
            await model(question(**SCHEMA, **options))
    assert server.calls == 9


async def test_a_label_of_another_criterion_is_checked_when_found(
    serve: Any, model_at: Any, question: Any, tmp_path: Any
) -> None:
    """What was on offer when it was kept may be no longer: then it is asked again."""
    server = serve("MET")
    model = model_at(server, cache=tmp_path)
    await model(question(**SCHEMA))
    with pytest.raises(ModelError, match="not any more"):
        await model(question(**SCHEMA, check=lambda value: "not any more"))
    assert server.calls == 3


async def test_an_answer_that_cannot_be_kept_is_not_lost(
    serve: Any, model_at: Any, question: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """It is paid for; the log says that it could not be cached."""

    class Full:
        async def get(self, key: Any) -> None:
            return None

        async def put_many(self, items: Any) -> None:
            raise CacheError("the disk is full")

    reply = await model_at(serve("MET"), cache=Full())(question(**SCHEMA))
    assert reply.value.criterion_status == "MET"
    assert "could not be cached: the disk is full" in caplog.text
