"""Spending is counted over all sessions of a run, also for rollouts that failed."""

import os
import signal
import subprocess
import sys
import time

import pytest

from assay import PerCriterionGrader, Rubric
from assay.models import Limits, Price, budget, model_of
from assay.runs import Journal, Row, Run, RunAbout, Spending, score_rows
from assay.testing import ModelServer

RUBRIC = Rubric.from_dict([{"requirement": f"Holds {n}"} for n in range(4)])
EXPENSIVE = Price(input=1000.0, output=1000.0)


def rows(count):
    return [{"id": f"e{n}", "completion": f"text {n:03}"} for n in range(count)]


def judge_at(server, **limits):
    model = model_of(server.model, price=EXPENSIVE, limits=Limits(attempts=1, **limits), cache=None)
    return PerCriterionGrader(model=model)


async def test_spending_on_failed_rollouts_still_counts_after_they_are_repeated(tmp_path):
    """Five of ten rollouts fail after some of their calls, and are paid for again."""
    broken = True

    def answer(system, user):
        return "no verdict" if broken and "Holds 3" in user and "text 00" in user else "MET"

    with ModelServer(answer) as server:
        data = rows(5) + [{"id": f"f{n}", "completion": f"other {n}"} for n in range(5)]
        first = await score_rows(RUBRIC, data, folder=tmp_path, judge=judge_at(server))
        assert (first.unscored, first.spent.calls) == (5, server.calls)
        broken = False
        before = server.calls
        last = await score_rows(RUBRIC, data, folder=tmp_path, judge=judge_at(server), resume=True)
        assert (last.unscored, server.calls - before) == (0, 20)
        assert last.spent.calls == server.calls
        assert last.spent.cost == pytest.approx(
            (server.prompt_tokens + server.completion_tokens) / 1000
        )
    run = Run.open(tmp_path)
    assert run.work_out().spent == run.spent() == last.spent


async def test_spending_on_a_resumed_group_is_counted(tmp_path):
    """Its first rollout was finished before, and is not written again."""

    def longest(completions):
        return [float(len(text) == max(map(len, completions))) for text in completions]

    fails = True

    def answer(system, user):
        return "no verdict" if fails and "bb" in user else "MET"

    rubric = Rubric([longest, *Rubric.from_dict([{"requirement": "Is polite"}]).criteria])
    data = [{"id": "x", "completion": text} for text in ("a", "bb")]
    with ModelServer(answer) as server:
        await score_rows(rubric, data, folder=tmp_path, judge=judge_at(server))
        fails = False
        last = await score_rows(rubric, data, folder=tmp_path, judge=judge_at(server), resume=True)
        assert sum(row.spent.calls for row in Run.open(tmp_path).rows()) > 1
        assert last.spent.calls == server.calls


PROGRAM = """
import asyncio, json, sys
from assay import PerCriterionGrader, Rubric, budget
from assay.models import Limits, Price, model_of
from assay.runs import score_rows

url, folder, dollars = sys.argv[1], sys.argv[2], float(sys.argv[3])
rubric = Rubric.from_dict([{"requirement": f"Holds {n}"} for n in range(4)])
rows = [{"id": f"e{n}", "completion": f"text {n:03}"} for n in range(200)]
limits, price = Limits(concurrency=8, attempts=1), Price(input=1000.0, output=1000.0)
model = model_of(url, price=price, limits=limits, cache=None)
with budget(dollars=dollars):
    asyncio.run(score_rows(rubric, rows, folder=folder, judge=PerCriterionGrader(model=model)))
"""


def test_spending_before_a_kill_is_counted(tmp_path):
    """Including calls that the endpoint may have answered when the kill came."""
    with ModelServer("MET", latency=0.002) as server:
        command = [sys.executable, "-c", PROGRAM, server.model, str(tmp_path / "run"), "100000"]
        process = subprocess.Popen(command, env=os.environ | {"ASSAY_CACHE": str(tmp_path)})
        deadline = time.monotonic() + 60
        while len(server.requests) < 100 and time.monotonic() < deadline:
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        process.wait()
        spent = Run.open(tmp_path / "run").spent()
        dollars = (server.prompt_tokens + server.completion_tokens) / 1000
    assert len(server.requests) >= 100
    assert spent.cost >= dollars - 1e-6
    rows_alone = sum(row.spent.cost for row in Run.open(tmp_path / "run").rows())
    assert rows_alone < spent.cost


def spending_so_far(run):
    return {"spent": run.spent().cost, "rollout": run.dearest()}


async def test_a_budget_is_spent_on_whole_rollouts(tmp_path):
    """With a larger budget the run can be resumed, until that is spent too."""
    with ModelServer("MET", latency=0.001) as server:
        single = await score_rows(RUBRIC, rows(1), judge=judge_at(server))
        before = server.calls
        dollars = 0.0
        for session in range(1, 4):
            dollars = (4 * session - 0.5) * single.spent.cost
            earlier = {} if session == 1 else spending_so_far(Run.open(tmp_path))
            with budget(dollars=dollars, **earlier):
                summary = await score_rows(
                    RUBRIC, rows(20), folder=tmp_path, judge=judge_at(server), resume=True
                )
            assert summary.spent.cost <= dollars
            assert summary.spent.calls == server.calls - before
            # The budgets suffice for 3.5, 7.5 and 11.5 rollouts.
            assert summary.scored == (3, 7, 11)[session - 1]
            assert summary.spent.calls == 4 * summary.scored
        unscored = [row for row in Run.open(tmp_path).rows() if not row.scored]
        assert all(len(row.errors) == 4 for row in unscored)


def test_spending_is_summed_over_rows_without_a_spending_log(tmp_path):
    """Of a rollout that was repeated, only the final row counts."""
    spent = Spending(calls=2, prompt=10, completion=2, cost=0.5)
    with Journal.open(tmp_path, RunAbout.of("score")) as journal:
        journal.write(Row("a", error="Overloaded: try later", spent=spent, timing={"scoring": 1.0}))
        journal.write(Row("a", spent=spent, timing={"scoring": 2.0}))
    assert Run.open(tmp_path).work_out().spent == Run.open(tmp_path).spent() == spent
