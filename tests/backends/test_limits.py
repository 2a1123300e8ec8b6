"""Limits and budgets of one process hold for all workers together."""

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
"""A price for a million tokens: each token costs a dollar."""


@pytest.mark.parametrize(
    ("calls", "parts", "shares"), [(3, 2, [2, 1]), (8, 4, [2, 2, 2, 2]), (1, 3, [1, 1, 1])]
)
def test_the_shares_of_workers_add_up_to_the_limit(calls, parts, shares):
    """With more workers than calls each gets one call; rates are divided exactly."""
    divided = [
        Limits(concurrency=calls, requests_per_minute=30).share(part, parts)
        for part in range(parts)
    ]
    assert [share.concurrency for share in divided] == shares
    assert [share.requests_per_minute for share in divided] == [30 / parts] * parts


def make_judged_rubric(url, limits, price):
    """Return a rubric and a grader that calls a server."""
    model = model_of(url, limits=Limits(**limits), price=price and Price(**price))
    return Rubric.from_dict([{"requirement": "Says yes"}]), PerCriterionGrader(model=model)


class JudgedRubricMaker:
    """A function that makes the rubric, and that can be sent to workers."""

    def __init__(self, url, price=None, **limits):
        self.arguments = (url, limits, price)

    def __call__(self):
        return make_judged_rubric(*self.arguments)


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"completion": f"text {n}"}) + "\n" for n in range(60)))
    return path


@pytest.mark.slow
class TestWorkers:
    def test_the_concurrency_limit_holds_for_all_workers_together(self, rows, tmp_path):
        """Three calls at a time, by two workers with sixty rows. Progress counts the calls."""
        seen = []

        async def answer(system, user):
            while judge.most_at_once < 3:  # noqa: ASYNC110 - until both workers have called
                await asyncio.sleep(0.01)
            return "MET"

        with ModelServer(answer, latency=0.02) as judge:
            summary = score_shards(
                JudgedRubricMaker(judge.model, concurrency=3),
                [rows],
                tmp_path / "run",
                backend=Processes(2),
                rows=10,
                on_progress=seen.append,
            )
            assert (summary.rollouts, summary.score.mean, summary.spent.calls) == (60, 1.0, 60)
            assert judge.most_at_once == 3
        assert (seen[-1].done, seen[-1].calls) == (60, 60)

    def test_a_limit_below_the_number_of_workers_holds(self, rows, tmp_path):
        """One call at a time for two workers, one of which is killed."""
        killed = []

        def answer(system, user):
            if len(judge.requests) == 10 and not killed:
                killed.append(active_children()[0].pid)
                os.kill(killed[0], signal.SIGKILL)
            return "MET"

        with ModelServer(answer) as judge:
            summary = score_shards(
                JudgedRubricMaker(judge.model, concurrency=1),
                [rows],
                tmp_path / "run",
                backend=Processes(2),
                rows=10,
            )
            assert judge.most_at_once == 1
        assert killed
        assert (summary.rollouts, summary.unscored, summary.score.mean) == (60, 0, 1.0)

    def test_spending_of_a_killed_worker_is_counted(self, rows, tmp_path):
        """Its calls were answered, but its rows were not yet written; calls in flight are counted as well."""
        price, killed = {"input": DOLLAR, "output": DOLLAR}, []

        def answer(system, user):
            if len(judge.requests) >= 4 and not killed:
                killed.append(active_children()[0].pid)
                os.kill(killed[0], signal.SIGKILL)
            return "MET"

        with ModelServer(answer) as judge, budget(dollars=5000.0) as spent:
            summary = score_shards(
                JudgedRubricMaker(judge.model, price=price),
                [rows],
                tmp_path / "run",
                backend=Processes(1),
                rows=60,
            )
            tokens = judge.prompt_tokens + judge.completion_tokens
        assert killed
        assert tokens <= spent.cost <= 5000
        assert summary.spent.cost == pytest.approx(spent.cost)

    def test_a_budget_holds_for_all_workers_together(self, rows, tmp_path):
        """Every token costs a dollar. Rows beyond the budget are counted as errors."""
        price = {"input": DOLLAR, "output": DOLLAR}
        with ModelServer("MET") as judge, budget(dollars=5000.0) as spent:
            summary = score_shards(
                JudgedRubricMaker(judge.model, price=price),
                [rows],
                tmp_path / "run",
                backend=Processes(2),
                rows=10,
            )
            tokens = judge.prompt_tokens + judge.completion_tokens
        assert spent.cost == pytest.approx(tokens)
        assert spent.cost <= 5000
        assert 0 < summary.scored < 60
        assert summary.errors == {"BudgetExceeded": summary.unscored}
        assert spent.errors["BudgetExceeded"] == summary.unscored
