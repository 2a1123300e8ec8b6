"""Small requests that come together are scored together, and each gets what it would get alone."""

import asyncio
from contextvars import ContextVar

import pytest

from assay import Rubric
from assay.server import RemoteRubric, RewardServer
from assay.server.service import RubricService
from assay.testing import make_rollout


def length(completion):
    return float(len(completion))


def difficulty(difficulty):
    return difficulty


def counting():
    """A rubric that pays the length of a completion, and the list of the sizes of the batches that it has scored."""
    sizes = []

    def lengths(completions) -> list[float]:
        sizes.append(len(completions))
        return [float(len(completion)) for completion in completions]

    lengths.independent = True
    return Rubric([lengths]), sizes


async def test_requests_of_one_turn_are_one_batch_in_order():
    """Three requests of 1, 2 and 0 rollouts are scored by one call."""
    rubric, sizes = counting()
    service = RubricService(rubric, 60)
    asked = [[make_rollout("a")], [make_rollout("bb"), make_rollout("ccc")], []]
    found = await asyncio.gather(*map(service.reports, asked))
    assert [[report.raw_score for report in reports] for reports in found] == [
        [1.0],
        [2.0, 3.0],
        [],
    ]
    assert sizes == [3]


async def test_a_request_that_is_alone_waits_for_no_other():
    """It is scored when it comes, as others that are alone are."""
    rubric, sizes = counting()
    service = RubricService(rubric, 60)
    found = await asyncio.gather(
        *(service.reports([make_rollout(text)], alone=True) for text in ("a", "bb"))
    )
    assert [reports[0].raw_score for reports in found] == [1.0, 2.0]
    assert sizes == [1, 1]


LANGUAGE = ContextVar("language", default="none")


@pytest.mark.parametrize("at_once", [1, 4])
async def test_checks_see_the_context_that_a_server_was_started_in(at_once):
    """Alone and in a batch."""
    LANGUAGE.set("French")
    with RewardServer(Rubric([lambda completion: LANGUAGE.get() == completion])) as server:
        remote = RemoteRubric(server.url, batch_size=1, at_once=at_once)
        reports = await remote.score([make_rollout("French")] * 8)
    assert [report.raw_score for report in reports] == [1.0] * 8


async def test_what_raises_together_is_scored_alone():
    """One request raises; the other has its score, though the rubric raises what fails."""

    def length(completion):
        if completion == "bad":
            raise ValueError("bad")
        return float(len(completion))

    service = RubricService(Rubric([length], on_error="raise"), 60)
    [[bad], [good]] = await asyncio.gather(
        service.reports([make_rollout("bad")]), service.reports([make_rollout("good")])
    )
    assert bad.errors == {"length": "ValueError: bad"}
    assert good.raw_score == 4.0


async def test_a_cancelled_request_takes_nothing_from_the_others():
    """One is cancelled, and one waits on."""
    service = RubricService(Rubric([length]), 60)
    first = asyncio.create_task(service.reports([make_rollout("a")]))
    second = asyncio.create_task(service.reports([make_rollout("bb")]))
    await asyncio.sleep(0)
    first.cancel()
    [report] = await second
    assert report.raw_score == 2.0


async def test_a_field_that_one_request_lacks_is_its_own_affair():
    """The others have theirs, and the reports are those of each alone."""
    served = RubricService(Rubric([difficulty]), 60)
    rollouts = [
        make_rollout("x", difficulty=0.5),
        make_rollout("x"),
        make_rollout("x", difficulty=2.0),
    ]
    found = await asyncio.gather(*(served.reports([rollout]) for rollout in rollouts))
    assert [reports[0].raw_score if reports[0].scored else None for reports in found] == [
        0.5,
        None,
        2.0,
    ]
    assert "difficulty" in found[1][0].errors["difficulty"]


async def test_nobody_has_the_field():
    """Then every line says so, and nothing is raised."""
    [report] = await RubricService(Rubric([difficulty]), 60).reports([make_rollout("x")])
    assert "'difficulty'" in report.errors["difficulty"]


@pytest.mark.parametrize("count", [1, 33, 600])
async def test_any_number_of_rollouts_is_scored(count):
    """By whichever way."""
    rollouts = [make_rollout("x" * (number % 5)) for number in range(count)]
    reports = await RubricService(Rubric([length]), 60).reports(rollouts)
    assert [report.raw_score for report in reports] == [number % 5 for number in range(count)]


async def test_rollouts_that_are_compared_are_never_gathered():
    """Two requests, and in each the longest gets the point."""

    def longest(completions) -> list[float]:
        return [float(len(c) == max(map(len, completions))) for c in completions]

    served = RubricService(Rubric([longest]), 60)
    asked = [[make_rollout("a"), make_rollout("bb")], [make_rollout("ccc"), make_rollout("d")]]
    found = await asyncio.gather(*(served.reports(rollouts) for rollouts in asked))
    assert [[report.raw_score for report in reports] for reports in found] == [
        [0.0, 1.0],
        [1.0, 0.0],
    ]
