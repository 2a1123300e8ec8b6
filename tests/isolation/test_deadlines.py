"""Deadlines count work, hold against anything, and know nothing of queues and load."""

import subprocess
import sys

import pytest

from assay.isolation import Pool, process
from assay.isolation.pool import processors


def burn(seconds):
    """Use the processor for so long."""
    import time

    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
    return "done"


HANGS = {
    "a loop": lambda: [None for _ in iter(int, 1)],
    "one long operation in C": lambda: 9**9**9,
    "a pattern": lambda: __import__("re").search("(a+)+$", "a" * 50 + "b"),
    "a sleep": lambda: __import__("time").sleep(1000),
    "a lock": lambda: [lock.acquire() for lock in [__import__("threading").Lock()] * 2],
    "deaf to signals": lambda: (
        [
            __import__("signal").signal(number, __import__("signal").SIG_IGN)
            for number in (2, 15, 14, 27)
        ],
        __import__("time").sleep(1000),
    ),
    "catches everything": lambda: exec("while True:\n try: 1/0\n except BaseException: pass"),
}


@pytest.mark.parametrize("name", HANGS)
def test_whatever_hangs_is_stopped(single_worker_pool, name):
    """And the next task is done, by another worker."""
    outcome = single_worker_pool.call(HANGS[name], timeout=0.1)
    assert (outcome.ok, outcome.kind) == (False, "timeout")
    assert outcome.message == "TimeoutError: still working after 0.1 s, and stopped"
    assert outcome.seconds >= 0.1
    assert single_worker_pool.call(lambda: 5, timeout=60).value == 5
    assert single_worker_pool.stats().killed == 1


def test_an_async_function_that_hangs_is_stopped(single_worker_pool):
    """Asleep or at work."""

    async def hangs():
        import asyncio

        await asyncio.sleep(1000)

    assert single_worker_pool.call(hangs, timeout=0.1).kind == "timeout"


def test_a_hard_timeout_ends_what_has_time_left(single_worker_pool):
    """It counts from the start of the work, come what may."""
    outcome = single_worker_pool.call("time:sleep", 1000, timeout=1000, hard_timeout=0.1)
    assert outcome.kind == "timeout"
    assert outcome.message.startswith("TimeoutError: not done 0.1 s after it began")


def test_what_took_too_long_is_late_even_if_it_is_done(single_worker_pool):
    """Else it would depend on who looked first."""
    outcome = single_worker_pool.call("time:sleep", 0.11, timeout=0.1)
    assert (outcome.kind, outcome.value) == ("timeout", None)


@pytest.mark.slow
def test_waiting_in_the_queue_does_not_count(single_worker_pool):
    """Twenty tasks of 0.1 s, one after another, with 1 s each."""
    tasks = [single_worker_pool.submit("time:sleep", 0.1, timeout=1) for _ in range(20)]
    assert [task.result().kind for task in tasks] == [None] * 20


def test_loading_a_function_does_not_count(single_worker_pool, tmp_path, monkeypatch):
    """Nor does importing what its arguments are made of."""
    monkeypatch.syspath_prepend(tmp_path)
    slow = "import time\ntime.sleep(0.3)\n"
    (tmp_path / "slow_to_import.py").write_text(f"{slow}def answer(thing=None): return 42\n")
    (tmp_path / "slow_argument.py").write_text(f"{slow}class Thing: pass\n")
    thing = __import__("slow_argument").Thing()
    assert single_worker_pool.call("slow_to_import:answer", thing, timeout=0.2).value == 42


def test_a_function_that_never_loads_is_given_up(single_worker_pool, tmp_path, monkeypatch):
    """After a limit of its own."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "never_loads.py").write_text("import time\ntime.sleep(1000)\n")
    assert single_worker_pool.call("math:sqrt", 4, timeout=60).ok
    monkeypatch.setattr(process, "LOAD_SECONDS", 0.1)
    outcome = single_worker_pool.call("never_loads:f", timeout=1000)
    assert outcome.kind == "timeout"
    assert outcome.message == "TimeoutError: never_loads:f was not loaded within 0.1 s"


@pytest.mark.slow
def test_load_changes_no_verdict(pool):
    """0.4 s of work have 1 s, while so many want the processors that it takes far longer."""
    loop = [sys.executable, "-c", "while True: pass"]
    busy = [subprocess.Popen(loop) for _ in range(8 * processors())]
    try:
        done = [pool.submit(burn, 0.4, timeout=1) for _ in range(4)]
        hung = pool.submit(lambda: burn(1000), timeout=0.4)
        outcomes = [task.result() for task in done]
        assert [outcome for outcome in outcomes if outcome.value != "done"] == []
        assert hung.result().kind == "timeout"
    finally:
        for process in busy:
            process.kill()
            process.wait()


@pytest.mark.slow
def test_five_hundred_tasks_with_three_that_hang(pool):
    """All others are right, wherever they stood."""
    hanging = {7, 250, 499}
    tasks = [
        pool.submit(
            HANGS["a sleep"] if i in hanging else lambda x: x * x,
            *[i] * (i not in hanging),
            timeout=0.5,
        )
        for i in range(500)
    ]
    outcomes = [task.result() for task in tasks]
    assert {i for i, outcome in enumerate(outcomes) if not outcome.ok} == hanging
    assert all(outcomes[i].value == i * i for i in range(500) if i not in hanging)
    assert pool.stats().killed == 3


class TestOtherClocks:
    """Where the kernel does not count the wait for a processor."""

    @pytest.mark.slow
    def test_processor_time_is_counted_and_sleep_has_a_ceiling(self, monkeypatch):
        """What is not done after four times as long is ended."""
        monkeypatch.setattr("assay.isolation.pool.counts_waiting", lambda: False)
        with Pool(max_workers=1) as pool:
            assert pool.call(burn, 0.05, timeout=10).value == "done"
            for name in ("a loop", "one long operation in C", "a sleep"):
                assert pool.call(HANGS[name], timeout=0.1).kind == "timeout"
            assert pool.call(lambda: 5, timeout=60).value == 5
