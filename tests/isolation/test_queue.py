"""The queue: fair, and open to threads, event loops and changes of mind."""

import asyncio
import threading
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait

import pytest

from assay.isolation import Pool


@pytest.fixture
def narrow():
    """One worker, so that tasks wait for it."""
    with Pool(max_workers=1) as made:
        yield made


class TestThreads:
    def test_many_threads_call_at_once(self, pool):
        """Each gets its own."""
        with ThreadPoolExecutor(16) as threads:
            outcomes = threads.map(lambda x: pool.call("math:sqrt", x * x, timeout=60), range(200))
            assert [outcome.value for outcome in outcomes] == [*range(200)]

    def test_a_callback_may_submit_more(self, narrow):
        """Though it runs in the one thread that does tasks."""
        more = []
        first = narrow.submit("math:sqrt", 4, timeout=60)
        submit_three = threading.Event()

        def submit(_):
            more.extend(narrow.submit("math:sqrt", x, timeout=60) for x in (1, 4, 9))
            submit_three.set()

        first.add_done_callback(submit)
        assert submit_three.wait(60)
        assert [task.result().value for task in more] == [1, 2, 3]


class TestCancellation:
    def test_a_task_in_the_queue_can_be_cancelled(self, narrow, report_pipe, report_and_hang):
        """Its place is free at once."""
        running = narrow.submit(report_and_hang, report_pipe.path, timeout=60)
        report_pipe.read_pids()
        for _ in range(3):
            queued = narrow.submit("math:sqrt", 4, timeout=60)
            assert queued.cancel()
            with pytest.raises(CancelledError):
                queued.result()
        assert not running.cancel()
        assert narrow.stats().queued == 0
        narrow.close()
        assert running.result().kind == "lost"

    async def test_a_call_under_way_ends_when_its_caller_is_cancelled(
        self, single_worker_pool, report_pipe, report_and_hang, has_ended
    ):
        """The worker is killed, and another does the next task."""
        call = asyncio.create_task(
            single_worker_pool.run(report_and_hang, report_pipe.path, timeout=600)
        )
        worker, _ = await asyncio.to_thread(report_pipe.read_pids)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert (await single_worker_pool.run("math:sqrt", 4, timeout=60)).value == 2
        assert has_ended(worker)

    async def test_a_caller_in_the_queue_is_cancelled(self, narrow, report_pipe, report_and_hang):
        """Its task is done by no worker."""
        running = asyncio.create_task(narrow.run(report_and_hang, report_pipe.path, timeout=600))
        await asyncio.to_thread(report_pipe.read_pids)
        others = [asyncio.create_task(narrow.run("math:sqrt", 4, timeout=60)) for _ in range(5)]
        while narrow.stats().queued < 5:  # noqa: ASYNC110 - nothing tells when they wait
            await asyncio.sleep(0)
        for call in others:
            call.cancel()
        await asyncio.wait(others)
        assert all(call.cancelled() for call in others)
        assert narrow.stats().queued == 0
        running.cancel()
        calls = [narrow.run("math:sqrt", x * x, timeout=60) for x in range(5)]
        assert [outcome.value for outcome in await asyncio.gather(*calls)] == [0, 1, 2, 3, 4]

    async def test_many_cancellations_at_any_moment_break_nothing(self, pool):
        """Each call is either cancelled or right."""

        async def one(number):
            call = asyncio.create_task(pool.run("math:sqrt", number * number, timeout=60))
            for _ in range(number % 7):
                await asyncio.sleep(0.001)
            if number % 3 == 0:
                call.cancel()
            await asyncio.wait([call])
            return call.cancelled() or call.result().value == number

        assert all(await asyncio.gather(*map(one, range(150))))
        assert (await pool.run("math:sqrt", 4, timeout=60)).value == 2


class TestEventLoops:
    async def test_the_loop_goes_on_while_workers_hang(self, pool):
        """Its heart beats through four deadlines."""
        beats = 0

        async def beat():
            nonlocal beats
            while True:
                beats += 1
                await asyncio.sleep(0.01)

        heart = asyncio.create_task(beat())
        calls = [pool.run(lambda: 9**9**9, timeout=0.1) for _ in range(4)]
        outcomes = await asyncio.gather(*calls)
        heart.cancel()
        assert [outcome.kind for outcome in outcomes] == ["timeout"] * 4
        assert beats > 3

    def test_several_loops_share_a_pool(self, pool):
        """One after another, and at the same time."""

        async def some(start):
            calls = [pool.run("math:sqrt", x * x, timeout=60) for x in range(start, start + 20)]
            return [outcome.value for outcome in await asyncio.gather(*calls)]

        assert asyncio.run(some(0)) == [*range(20)]
        with ThreadPoolExecutor(2) as threads:
            first, second = threads.map(lambda start: asyncio.run(some(start)), [100, 200])
        assert (first, second) == ([*range(100, 120)], [*range(200, 220)])

    def test_a_loop_that_is_closed_too_early(
        self, single_worker_pool, report_pipe, report_and_hang
    ):
        """Leaves nothing behind that could break the pool."""

        async def leave():
            call = asyncio.ensure_future(
                single_worker_pool.run(report_and_hang, report_pipe.path, timeout=600)
            )
            await asyncio.to_thread(report_pipe.read_pids)
            return call

        asyncio.run(leave())
        assert single_worker_pool.call("math:sqrt", 4, timeout=60).value == 2

    async def test_the_blocking_call_works_beside_a_running_loop(self, pool):
        """As in a notebook."""
        assert pool.call("math:sqrt", 4, timeout=60).value == 2


class TestClosing:
    def test_a_closed_pool_takes_no_calls(self):
        """And can be closed again."""
        pool = Pool(max_workers=1)
        assert pool.call("math:sqrt", 4, timeout=60).value == 2
        pool.close()
        pool.close()
        assert pool.closed
        with pytest.raises(RuntimeError, match="the pool is closed: make a new one"):
            pool.submit("math:sqrt", 4, timeout=60)

    def test_what_is_not_done_is_lost(self, report_pipe, report_and_hang):
        """Under way or in the queue: no caller waits for ever."""
        pool = Pool(max_workers=1)
        tasks = [pool.submit(report_and_hang, report_pipe.path, timeout=600)]
        report_pipe.read_pids()
        tasks += [pool.submit("math:sqrt", 4, timeout=60) for _ in range(2)]
        pool.close()
        assert [task.result().kind for task in tasks] == ["lost"] * 3

    def test_a_block_waits_for_its_tasks(self):
        """Unless it is left by an exception."""
        with Pool(max_workers=2) as pool:
            tasks = [pool.submit("math:sqrt", 4, timeout=60) for _ in range(20)]
        assert all(task.result().value == 2 for task in tasks)
        tasks.clear()

        def leave():
            with Pool(max_workers=1) as pool:
                tasks.append(pool.submit("time:sleep", 1000, timeout=2000))
                raise KeyError

        with pytest.raises(KeyError):
            leave()
        assert tasks[0].result().kind == "lost"

    def test_the_task_of_a_pool_that_nobody_holds_is_done(self):
        """The pool lives as long as somebody waits."""
        task = Pool(max_workers=1).submit("math:sqrt", 4, timeout=60)
        wait([task])
        assert task.result().value == 2
