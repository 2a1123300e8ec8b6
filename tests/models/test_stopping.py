"""Stopping: a run can be cancelled at any time, and leaves nothing behind."""

import asyncio
import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from assay import Limits, PerCriterionGrader, Rollout, Rubric
from assay.models.retry import Endpoint
from assay.testing import Fault

RUBRIC = Rubric.from_dict([{"requirement": f"Holds {n}"} for n in range(5)])
ROLLOUTS = [Rollout(prompt="q", completion=f"text {n}") for n in range(4)]

STAGES = {
    "in flight": lambda call: Fault.hanging(),
    "in a pause between attempts": lambda call: Fault.rate_limited(600),
    "in an outage": lambda call: Fault.failing(),
}


@pytest.mark.parametrize("stage", STAGES)
async def test_a_cancelled_run_sends_nothing_more_and_frees_its_slots(
    serve: Any, model_at: Any, stage: str
) -> None:
    """Whatever its calls were doing; the next run has all slots."""
    server = serve("MET", latency=0.02, faults=lambda call: server.fault(call))
    server.fault = STAGES[stage]
    limits = Limits(concurrency=3, deadline=3600, outage=3600)
    grader = PerCriterionGrader(model=model_at(server, limits=limits))
    run = asyncio.ensure_future(RUBRIC.score(ROLLOUTS, judge=grader))
    while len(server.requests) < 3:  # noqa: ASYNC110 - the server has a loop of its own
        await asyncio.sleep(0.005)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    limiter = Endpoint.at(server.url).limiter
    async with asyncio.timeout(60):
        while (limiter.active, limiter.waiting) != (0, 0):  # noqa: ASYNC110 - another thread's
            await asyncio.sleep(0.005)
    sent = len(server.requests)
    await asyncio.sleep(0.4)
    assert len(server.requests) == sent
    server.fault = lambda call: None
    reports = await RUBRIC.score(ROLLOUTS, judge=grader)
    assert [report.score for report in reports] == [1.0] * 4


def test_control_c_ends_a_program_at_once() -> None:
    """While calls hang that may take an hour."""
    code = """
import asyncio
from assay import Limits, PerCriterionGrader, Rollout, Rubric, model_of
from assay.testing import Fault, ModelServer

rubric = Rubric.from_dict([{"requirement": f"Holds {n}"} for n in range(5)])
with ModelServer(faults=lambda call: Fault.hanging()) as server:
    model = model_of(server.model, limits=Limits(timeout=3600, deadline=3600))

    async def main():
        async def tell():
            while len(server.requests) < 5:
                await asyncio.sleep(0.01)
            print("asking", flush=True)
        telling = asyncio.ensure_future(tell())
        await rubric.score([Rollout(prompt="q", completion="x")], judge=PerCriterionGrader(model=model))

    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        print("stopped", flush=True)
"""
    program = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert program.stdout is not None
    assert program.stdout.readline() == "asking\n"
    os.kill(program.pid, signal.SIGINT)
    out, err = program.communicate(timeout=60)
    assert (out, err, program.returncode) == ("stopped\n", "", 0)
