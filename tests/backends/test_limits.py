"""Limits and budgets are divided: what holds for one process holds for all workers together."""

import asyncio
import json
import os
import signal
from multiprocessing import active_children

import pytest

from assay import PerCriterionGrader, Price, Rubric
from assay.backends import Processes, score_shards
from assay.models import Limits, budget, model_of
from assay.testing import ModelServer

DOLLAR = 1_000_000.0
"""A price a million tokens: each token costs a dollar."""


@pytest.mark.parametrize(
    ("calls", "parts", "shares"), [(3, 2, [2, 1]), (8, 4, [2, 2, 2, 2]), (1, 3, [1, 1, 1])]
)
def test_shares_add_up_to_the_limit(calls, parts, shares):
    """Unless there are more workers than calls, when each has one; rates are divided to the fraction."""
    divided = [
        Limits(concurrency=calls, requests_per_minute=30).share(part, parts)
        for part in range(parts)
    ]
    assert [one.concurrency for one in divided] == shares
    assert [one.requests_per_minute for one in divided] == [30 / parts] * parts


def judged(url, limits, price):
    """What workers make: a rubric that a server judges."""
    model = model_of(url, limits=Limits(**limits), price=price and Price(**price))
    return Rubric.from_dict([{"requirement": "Says yes"}]), PerCriterionGrader(model=model)


class Making:
    """A `Make` that travels."""

    def __init__(self, url, price=None, **limits):
        self.arguments = (url, limits, price)

    def __call__(self):
        return judged(*self.arguments)


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"completion": f"text {n}"}) + "\n" for n in range(60)))
    return path


@pytest.mark.slow
class TestWorkers:
    def test_a_limit_is_one_for_all_workers(self, rows, tmp_path):
        """Three at once, though two workers have sixty rows to ask for. Progress tells of the calls."""
        seen = []

        async def answer(system, user):
            while judge.most_at_once < 3:  # noqa: ASYNC110 - so that both workers are there
                await asyncio.sleep(0.01)
            return "MET"

        with ModelServer(answer, latency=0.02) as judge:
            found = score_shards(
                Making(judge.model, concurrency=3),
                [rows],
                tmp_path / "run",
                backend=Processes(2),
                rows=10,
                on_progress=seen.append,
            )
            assert (found.rollouts, found.score.mean, found.spent.calls) == (60, 1.0, 60)
            assert judge.most_at_once == 3
        assert (seen[-1].done, seen[-1].calls) == (60, 60)

    def test_a_limit_below_the_number_of_workers_holds_too(self, rows, tmp_path):
        """One call at once, though there are two workers to ask for it; and one of them is killed."""
        killed = []

        def answer(system, user):
            if len(judge.asked) == 10 and not killed:
                killed.append(active_children()[0].pid)
                os.kill(killed[0], signal.SIGKILL)
            return "MET"

        with ModelServer(answer) as judge:
            found = score_shards(
                Making(judge.model, concurrency=1),
                [rows],
                tmp_path / "run",
                backend=Processes(2),
                rows=10,
            )
            assert judge.most_at_once == 1
        assert killed
        assert (found.rollouts, found.unscored, found.score.mean) == (60, 0, 1.0)

    def test_what_a_killed_worker_has_spent_is_spent(self, rows, tmp_path):
        """Its calls were answered, though their rows were not yet written; a call under way may have been."""
        price, killed = {"input": DOLLAR, "output": DOLLAR}, []

        def answer(system, user):
            if len(judge.asked) >= 4 and not killed:
                killed.append(active_children()[0].pid)
                os.kill(killed[0], signal.SIGKILL)
            return "MET"

        with ModelServer(answer) as judge, budget(dollars=5000.0) as spent:
            found = score_shards(
                Making(judge.model, price=price),
                [rows],
                tmp_path / "run",
                backend=Processes(1),
                rows=60,
            )
            tokens = judge.prompt_tokens + judge.completion_tokens
        assert killed
        assert tokens <= spent.cost <= 5000
        assert found.spent.cost == pytest.approx(spent.cost)

    def test_money_is_one_sum_for_all_workers(self, rows, tmp_path):
        """Every token costs a dollar. What is left unasked is an error, and counted."""
        price = {"input": DOLLAR, "output": DOLLAR}
        with ModelServer("MET") as judge, budget(dollars=5000.0) as spent:
            found = score_shards(
                Making(judge.model, price=price),
                [rows],
                tmp_path / "run",
                backend=Processes(2),
                rows=10,
            )
            tokens = judge.prompt_tokens + judge.completion_tokens
        assert spent.cost == pytest.approx(tokens)
        assert spent.cost <= 5000
        assert 0 < found.scored < 60
        assert found.errors == {"BudgetExceeded": found.unscored}
        assert spent.errors["BudgetExceeded"] == found.unscored
