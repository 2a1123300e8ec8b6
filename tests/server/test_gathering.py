"""Small requests that come together are scored together, and each gets what it would get alone."""

import asyncio

import pytest

from assay import Rubric
from assay.server.gathering import FEW, Gathering
from assay.server.served import Served
from assay.testing import make_rollout


class Counting:
    """Scores with a rubric, and keeps the sizes of the batches."""

    def __init__(self, rubric):
        self.rubric = rubric
        self.sizes = []

    async def __call__(self, rollouts):
        self.sizes.append(len(rollouts))
        return await self.rubric.score(rollouts)


def length(completion):
    return float(len(completion))


def difficulty(difficulty):
    return difficulty


async def test_those_of_one_turn_are_one_batch_in_order():
    """Three requests of 1, 2 and 0 rollouts."""
    score = Counting(Rubric([length]))
    gathering = Gathering(score, score)
    asked = [[make_rollout("a")], [make_rollout("bb"), make_rollout("ccc")], []]
    found = await asyncio.gather(*map(gathering.reports, asked))
    assert [[report.raw_score for report in reports] for reports in found] == [
        [1.0],
        [2.0, 3.0],
        [],
    ]
    assert score.sizes == [3]


async def test_what_fails_together_is_asked_alone():
    """One request raises; the other has its scores."""

    async def score(rollouts):
        if any(rollout.completion == "bad" for rollout in rollouts):
            raise ValueError("bad")
        return await Rubric([length]).score(rollouts)

    async def alone(rollouts):
        try:
            return await score(rollouts)
        except ValueError:
            return ["failed"]

    gathering = Gathering(score, alone)
    found = await asyncio.gather(
        gathering.reports([make_rollout("bad")]), gathering.reports([make_rollout("good")])
    )
    assert found[0] == ["failed"]
    assert found[1][0].raw_score == 4.0


async def test_a_request_that_fails_alone_too_is_told_and_the_next_is_scored():
    """None of them waits for ever."""

    async def score(rollouts):
        if any(rollout.completion == "bad" for rollout in rollouts):
            raise ValueError("bad")
        return await Rubric([length]).score(rollouts)

    gathering = Gathering(score, score)
    asked = [[make_rollout("bad")], [make_rollout("good")]]
    first, second = await asyncio.gather(*map(gathering.reports, asked), return_exceptions=True)
    assert isinstance(first, ValueError)
    assert second[0].raw_score == 4.0


async def test_one_who_gives_up_takes_nothing_from_the_others():
    """A cancelled request and one that waits on."""
    score = Counting(Rubric([length]))
    gathering = Gathering(score, score)
    first = asyncio.create_task(gathering.reports([make_rollout("a")]))
    second = asyncio.create_task(gathering.reports([make_rollout("bb")]))
    await asyncio.sleep(0)
    first.cancel()
    [report] = await second
    assert report.raw_score == 2.0


async def test_a_field_that_one_request_lacks_is_its_own_affair():
    """The others have theirs, and the reports are those of each alone."""
    served = Served(Rubric([difficulty]))
    rollouts = [
        make_rollout("x", difficulty=0.5),
        make_rollout("x"),
        make_rollout("x", difficulty=2.0),
    ]
    found = await asyncio.gather(*(served.reports([rollout], 60) for rollout in rollouts))
    assert [reports[0].raw_score if reports[0].scored else None for reports in found] == [
        0.5,
        None,
        2.0,
    ]
    assert "difficulty" in found[1][0].errors["difficulty"]


async def test_nobody_has_the_field():
    """Then every line says so, and nothing is raised."""
    [report] = await Served(Rubric([difficulty])).reports([make_rollout("x")], 60)
    assert "needs an argument 'difficulty'" in report.errors["difficulty"]


@pytest.mark.parametrize("count", [1, FEW, FEW + 1, 600])
async def test_any_number_of_rollouts_is_scored(count):
    """By whichever way."""
    rollouts = [make_rollout("x" * (number % 5)) for number in range(count)]
    reports = await Served(Rubric([length])).reports(rollouts, 60)
    assert [report.raw_score for report in reports] == [number % 5 for number in range(count)]


async def test_rollouts_that_are_compared_are_never_gathered():
    """Two requests, and in each the longest gets the point."""

    def longest(completions) -> list[float]:
        return [float(len(c) == max(map(len, completions))) for c in completions]

    served = Served(Rubric([longest]))
    asked = [[make_rollout("a"), make_rollout("bb")], [make_rollout("ccc"), make_rollout("d")]]
    found = await asyncio.gather(*(served.reports(rollouts, 60) for rollouts in asked))
    assert [[report.raw_score for report in reports] for reports in found] == [
        [0.0, 1.0],
        [1.0, 0.0],
    ]
