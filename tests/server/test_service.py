"""`RubricService` scores the rollouts of each request as the rubric itself would."""

import asyncio
from contextvars import ContextVar

import pytest

from assay import Rubric
from assay.server import RemoteRubric, RewardServer
from assay.server.service import RubricService
from assay.testing import make_rollout

LANGUAGE = ContextVar("language", default="none")


def length(completion):
    return float(len(completion))


def difficulty(difficulty):
    return difficulty


@pytest.mark.parametrize("at_once", [1, 4])
async def test_checks_run_in_the_context_in_which_the_server_was_started(at_once):
    """Context variables are visible with one request at a time and with several."""
    LANGUAGE.set("French")
    with RewardServer(Rubric([lambda completion: LANGUAGE.get() == completion])) as server:
        remote = RemoteRubric(server.url, batch_size=1, at_once=at_once)
        reports = await remote.score([make_rollout("French")] * 8)
    assert [report.raw_score for report in reports] == [1.0] * 8


async def test_an_error_in_one_rollout_does_not_affect_the_others():
    """The rubric raises errors, but only the report of the failed rollout contains one."""

    def length(completion):
        if completion == "bad":
            raise ValueError("bad")
        return float(len(completion))

    service = RubricService(Rubric([length], on_error="raise"), 60)
    bad, good = await service.score([make_rollout("bad"), make_rollout("good")])
    assert bad.errors == {"length": "ValueError: bad"}
    assert good.raw_score == 4.0


async def test_cancelling_one_request_does_not_affect_another():
    """The first of two requests is cancelled, and the second still gets its score."""

    async def waits(completion):
        await asyncio.sleep(0.01)
        return float(len(completion))

    service = RubricService(Rubric([waits]), 60)
    first = asyncio.create_task(service.score([make_rollout("a")]))
    second = asyncio.create_task(service.score([make_rollout("bb")]))
    await asyncio.sleep(0)
    first.cancel()
    [report] = await second
    assert report.raw_score == 2.0


async def test_a_missing_field_is_an_error_of_that_rollout_only():
    """The other rollouts have the field and get their scores."""
    service = RubricService(Rubric([difficulty]), 60)
    rollouts = [
        make_rollout("x", difficulty=0.5),
        make_rollout("x"),
        make_rollout("x", difficulty=2.0),
    ]
    first, second, third = await service.score(rollouts)
    assert (first.raw_score, third.raw_score) == (0.5, 2.0)
    assert not second.scored
    assert "difficulty" in second.errors["difficulty"]


@pytest.mark.parametrize("count", [0, 1, 33, 600])
async def test_reports_are_in_the_order_of_the_rollouts(count):
    """Completions have 0 to 4 characters."""
    rollouts = [make_rollout("x" * (number % 5)) for number in range(count)]
    reports = await RubricService(Rubric([length]), 60).score(rollouts)
    assert [report.raw_score for report in reports] == [number % 5 for number in range(count)]


async def test_rollouts_with_their_own_rubric_keep_their_position():
    """The rubric of the second rollout gives 1 point to a text that contains an a."""
    row_rubric = [{"check": {"contains": "a"}}]
    rollouts = [make_rollout("bb"), make_rollout("a", rubric=row_rubric), make_rollout("ccc")]
    reports = await RubricService(Rubric([length]), 60).score(rollouts)
    assert [report.raw_score for report in reports] == [2.0, 1.0, 3.0]


async def test_rollouts_are_compared_only_within_their_request():
    """In each of two requests the longest completion gets the point."""

    def longest(completions) -> list[float]:
        return [float(len(c) == max(map(len, completions))) for c in completions]

    service = RubricService(Rubric([longest]), 60)
    requests = [[make_rollout("a"), make_rollout("bb")], [make_rollout("ccc"), make_rollout("d")]]
    first, second = await asyncio.gather(*(service.score(rollouts) for rollouts in requests))
    assert [report.raw_score for report in first] == [0.0, 1.0]
    assert [report.raw_score for report in second] == [1.0, 0.0]
