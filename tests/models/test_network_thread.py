"""One event loop in one thread makes all calls, for callers on any thread and event loop."""

import asyncio
import subprocess
import sys
import threading
from contextvars import ContextVar

import pytest

from assay.models.network_thread import get_network_loop, run_on_network_thread

number: ContextVar[int] = ContextVar("number", default=0)


async def name_of_thread() -> str:
    return threading.current_thread().name


def test_all_callers_share_one_thread() -> None:
    names: list[str] = []

    def call() -> None:
        names.append(asyncio.run(run_on_network_thread(name_of_thread())))

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert names == ["assay-network"] * 4
    assert [thread.name for thread in threading.enumerate()].count("assay-network") == 1


def test_every_caller_gets_its_own_result() -> None:
    """Many calls at once, from several loops; every third one fails."""

    async def double(value: int) -> int:
        await asyncio.sleep(0.001 * (value % 3))
        if value % 3 == 0:
            raise ValueError(value)
        return 2 * value

    async def call_all(start: int) -> None:
        values = range(start, start + 100)
        calls = [run_on_network_thread(double(value)) for value in values]
        results = await asyncio.gather(*calls, return_exceptions=True)
        for value, result in zip(values, results, strict=True):
            if value % 3 == 0:
                assert isinstance(result, ValueError)
                assert result.args == (value,)
            else:
                assert result == 2 * value
        finished.append(start)

    finished: list[int] = []
    threads = [
        threading.Thread(target=lambda start=start: asyncio.run(call_all(start)))
        for start in (0, 1000, 2000)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(finished) == [0, 1000, 2000]


async def test_a_caller_can_be_cancelled_at_once() -> None:
    caller = asyncio.create_task(run_on_network_thread(asyncio.sleep(3600)))
    await asyncio.sleep(0)
    caller.cancel()
    await asyncio.wait([caller])
    assert caller.cancelled()
    assert await run_on_network_thread(name_of_thread()) == "assay-network"


async def test_a_call_on_the_thread_itself_does_not_wait_for_it() -> None:
    async def nested() -> str:
        return await run_on_network_thread(name_of_thread())

    assert await run_on_network_thread(nested()) == "assay-network"


async def test_context_variables_reach_the_coroutine() -> None:
    async def read() -> int:
        return number.get()

    token = number.set(7)
    try:
        assert await run_on_network_thread(read()) == 7
    finally:
        number.reset(token)
    assert await run_on_network_thread(read()) == 0


async def test_an_exception_reaches_the_caller() -> None:
    async def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await run_on_network_thread(fail())


async def test_a_call_that_exits_leaves_the_thread_running() -> None:
    async def leave() -> None:
        raise SystemExit(3)

    started = asyncio.run_coroutine_threadsafe(leave(), get_network_loop())
    assert isinstance(await asyncio.to_thread(started.exception, 60), SystemExit)
    assert await run_on_network_thread(name_of_thread()) == "assay-network"


async def test_cancelling_the_caller_cancels_the_coroutine() -> None:
    started, cancelled = threading.Event(), threading.Event()

    async def hang() -> None:
        started.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    caller = asyncio.create_task(run_on_network_thread(hang()))
    await asyncio.to_thread(started.wait, 60)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert await asyncio.to_thread(cancelled.wait, 60)


def test_the_loop_stays_the_same() -> None:
    assert get_network_loop() is get_network_loop()


def run_program(code: str) -> tuple[str, str, int]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout, done.stderr, done.returncode


def test_parent_and_forked_child_both_call_an_endpoint() -> None:
    """Before and after the fork, each over connections of its own."""
    code = """
import os
from assay import PerCriterionGrader, Rubric, model_of
from assay.testing import ModelServer

rubric = Rubric.from_dict([{"requirement": "Holds"}])
with ModelServer("MET") as server:
    grader = PerCriterionGrader(model=model_of(server.model))
    grade = lambda text: rubric.grade_sync(text, grader).score
    before = grade("before")
    child = os.fork()
    if child == 0:
        scores = [grade("child 1"), grade("child 2")]
        os._exit(0 if scores == [1.0, 1.0] else 1)
    in_parent = grade("parent")
    _, status = os.waitpid(child, 0)
    after = grade("after")
    print(before, in_parent, after, os.waitstatus_to_exitcode(status), server.calls)
"""
    assert run_program(code) == ("1.0 1.0 1.0 0 5\n", "", 0)


def test_a_program_ends_while_a_daemon_thread_waits_for_a_reply() -> None:
    """Without hanging, and without a warning about open connections."""
    code = """
import threading, time
from assay import PerCriterionGrader, Rubric, model_of
from assay.testing import Fault, ModelServer

rubric = Rubric.from_dict([{"requirement": "Holds"}])
server = ModelServer("MET", faults=lambda call: Fault.hanging() if call else None)
server.__enter__()
grader = PerCriterionGrader(model=model_of(server.model))
rubric.grade_sync("answered", grader)
threading.Thread(target=rubric.grade_sync, args=("hangs", grader), daemon=True).start()
while len(server.requests) < 2:
    time.sleep(0.01)
print("done")
"""
    assert run_program(code) == ("done\n", "", 0)
