"""Lifetime: nothing is left behind, however a pool or its process ends."""

import gc
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from assay.isolation import Pool, shared_pool

HEAD = "import os, signal, sys, threading, time\nfrom assay.isolation import Pool, shared_pool\n"
PIDS = "pool.call('os:getpid', timeout=60).value, pool.call('os:getppid', timeout=60).value"


def own_threads():
    return {t for t in threading.enumerate() if t.name.startswith("assay-isolation")}


def pids_of(pool):
    return [pool.call(f"os:{name}", timeout=60).value for name in ("getpid", "getppid")]


class TestOneProcess:
    def test_a_closed_pool_leaves_no_process_and_no_thread(self, has_ended):
        """When `close` returns there is none."""
        before = own_threads()
        pool = Pool(max_workers=2)
        pids = pids_of(pool)
        assert own_threads() - before
        pool.close()
        assert not own_threads() - before
        assert all(has_ended(pid) for pid in pids)
        with pytest.raises(ChildProcessError):  # not even a zombie
            os.waitpid(pids[1], 0)

    def test_no_file_stays_open(self):
        """Not one, after many pools, workers and kills."""
        with Pool(max_workers=1) as pool:
            pool.call("math:sqrt", 4, timeout=60)
        before = len([*Path("/proc/self/fd").iterdir()])
        for _ in range(3):
            with Pool(max_workers=2, recycle_after=1) as pool:
                for _ in range(4):
                    assert pool.call("math:sqrt", 4, timeout=60).value == 2
                assert pool.call("time:sleep", 1000, timeout=0.05).kind == "timeout"
        assert len([*Path("/proc/self/fd").iterdir()]) == before

    def test_a_pool_that_nobody_holds_goes(self, has_ended):
        """With all it had."""
        pool = Pool(max_workers=1)
        pids = pids_of(pool)
        del pool
        gc.collect()
        assert all(has_ended(pid) for pid in pids)

    def test_nothing_is_started_before_it_is_needed(self):
        """Not even a thread."""
        before = own_threads()
        pool = Pool(max_workers=1)
        assert pool.stats().started == 0
        assert not own_threads() - before


class TestExit:
    def test_the_interpreter_ends_with_a_pool_open(self, run_script, has_ended):
        """Idle, busy or with a queue; closed by nobody."""
        pids = run_script(
            HEAD + "pool = Pool(max_workers=1)\n"
            f"print(*({PIDS}))\n"
            "for _ in range(5): pool.submit('time:sleep', 1000, timeout=2000)\n"
        )
        assert len(pids) == 2
        assert all(has_ended(pid) for pid in pids)

    def test_and_with_the_shared_one(self, run_script, has_ended):
        """Which nobody ever closes."""
        pids = run_script(HEAD + f"pool = shared_pool()\nprint(*({PIDS}))\n")
        assert len(pids) == 2
        assert all(has_ended(pid) for pid in pids)

    def test_and_while_a_module_is_being_loaded(self, run_script, tmp_path):
        """It does not wait for that."""
        (tmp_path / "loads_for_ever.py").write_text("import time\ntime.sleep(1000)\n")
        run_script(
            HEAD
            + "pool = Pool(max_workers=1, preload=['loads_for_ever'])\npool.submit('math:sqrt', 4, timeout=60)\n"
        )

    @pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM"])
    def test_a_killed_process_leaves_no_orphans(self, name, has_ended):
        """Whether its workers are idle or busy."""
        code = (
            HEAD + "pool = Pool(max_workers=2)\n"
            f"print(*({PIDS}), flush=True)\n"
            "def hang():\n    print(os.getpid(), flush=True)\n    while True: pass\n"
            "pool.call(hang, timeout=2000)\n"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with process, process.stdout, process.stderr:
            pids = [*process.stdout.readline().split(), process.stderr.readline().strip()]
            process.send_signal(signal.Signals[name])
        assert len(pids) == 3
        assert all(has_ended(pid) for pid in pids)


class TestInterrupt:
    def test_ctrl_c_ends_the_wait_and_nothing_else(self, run_script):
        """The signal goes to the whole group; no worker dies of it and no traceback is printed."""
        out = run_script(
            HEAD + "os.setpgrp()\n"
            "pool = Pool(max_workers=1)\n"
            "started = os.pipe()\n"
            "before = pool.call('os:getppid', timeout=60).value\n"
            "threading.Thread(target=lambda: (\n"
            "    [None for _ in iter(lambda: pool.stats().running, 1)],\n"
            "    os.killpg(0, signal.SIGINT))).start()\n"
            "try:\n"
            "    pool.call('time:sleep', 1000, timeout=2000)\n"
            "except KeyboardInterrupt:\n"
            "    print('interrupted')\n"
            "print(pool.call('os:getppid', timeout=60).value == before)\n"
        )
        assert out == ["interrupted", "True"]


class TestFork:
    def test_a_forked_child_has_workers_of_its_own(self, run_script, has_ended):
        """And the parent keeps its own, whichever way the child ends."""
        out = run_script(
            HEAD + "pool = Pool(max_workers=1)\n"
            f"mine = {PIDS}\n"
            "for leave in (lambda: os._exit(0), sys.exit):\n"
            "    child = os.fork()\n"
            "    if child == 0:\n"
            f"        theirs = {PIDS}\n"
            "        print(len({*mine, *theirs}), *theirs, flush=True)\n"
            "        leave()\n"
            "    os.waitpid(child, 0)\n"
            f"    assert ({PIDS}) == mine\n"
        )
        assert [out[0], out[3]] == ["4", "4"]
        assert all(has_ended(pid) for pid in out if len(pid) > 1)

    def test_a_forked_child_that_uses_nothing_disturbs_nothing(self, run_script):
        """While tasks are under way."""
        out = run_script(
            HEAD + "pool = shared_pool()\n"
            "pool.call('math:sqrt', 4, timeout=60)\n"
            "tasks = []\n"
            "for number in range(20):\n"
            "    tasks.append(pool.submit('math:sqrt', number * number, timeout=60))\n"
            "    child = os.fork()\n"
            "    if child == 0:\n"
            "        sys.exit() if number % 2 else os._exit(0)\n"
            "    os.waitpid(child, 0)\n"
            "print(*(int(task.result().value) for task in tasks))\n"
        )
        assert out == [str(number) for number in range(20)]

    def test_a_child_that_outlives_its_parent_does_not_keep_workers_alive(self, has_ended):
        """Though it was born with the files by which they know that the parent is there."""
        code = (
            HEAD + "import ctypes\n"
            "pool = Pool(max_workers=1)\n"
            f"pids = {PIDS}\n"
            # Past Python, so that none of our hooks is run; PyDLL keeps the interpreter's lock, which
            # another thread could otherwise hold in the child for ever.
            "child = ctypes.PyDLL(None).fork()\n"
            "if child == 0:\n"
            "    os.closerange(0, 3)\n"
            "    time.sleep(1000)\n"
            "print(*pids, child, flush=True)\n"
            "os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        *pids, child = map(int, done.stdout.split())
        try:
            assert all(has_ended(pid) for pid in pids)
        finally:
            os.kill(child, signal.SIGKILL)

    def test_a_daemonic_process_may_have_a_pool(self, run_script):
        """Which may have no children of the usual kind."""
        out = run_script(
            "import multiprocessing\n"
            "from assay.isolation import shared_pool\n"
            "def use(queue):\n"
            "    queue.put(shared_pool().call('math:sqrt', 4, timeout=60).value)\n"
            "if __name__ == '__main__':\n"
            "    for method in ('fork', 'spawn'):\n"
            "        context = multiprocessing.get_context(method)\n"
            "        queue = context.Queue()\n"
            "        process = context.Process(target=use, args=[queue], daemon=True)\n"
            "        process.start()\n"
            "        print(queue.get(timeout=60))\n"
            "        process.join()\n"
        )
        assert out == ["2.0", "2.0"]

    def test_a_worker_may_have_a_pool(self, single_worker_pool, has_ended):
        """Its processes go when it does."""

        def use():
            from assay.isolation import shared_pool

            return shared_pool().call("os:getppid", timeout=60).value

        outcome = single_worker_pool.call(use, timeout=60)
        single_worker_pool.close()
        assert has_ended(outcome.value)


class TestShared:
    def test_there_is_one_a_process(self):
        """Made anew when it was closed."""
        pool = shared_pool()
        assert shared_pool() is pool
        assert pool.call("math:sqrt", 4, timeout=60).value == 2
        pool.close()
        assert shared_pool() is not pool
        assert shared_pool().call("math:sqrt", 9, timeout=60).value == 3
        shared_pool().close()
