"""Deaths: of workers, of the template, by their own hand or by another's."""

import os
import signal

import pytest

from assay.isolation import Pool


def killed_by(number):
    return lambda: __import__("os").kill(__import__("os").getpid(), number)


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE"])
def test_a_crash_is_an_outcome_that_names_the_signal(single_worker_pool, name):
    """And is not tried again."""
    outcome = single_worker_pool.call(killed_by(signal.Signals[name]), timeout=60)
    assert (outcome.kind, outcome.value) == ("crashed", None)
    assert outcome.message == f"RuntimeError: the worker died of {name}"
    assert single_worker_pool.call(lambda: 5, timeout=60).value == 5
    assert single_worker_pool.stats().started == 2


def test_a_real_crash(single_worker_pool):
    """In C, by reading where nothing is."""
    outcome = single_worker_pool.call("ctypes:string_at", 0, timeout=60)
    assert (outcome.kind, outcome.message) == (
        "crashed",
        "RuntimeError: the worker died of SIGSEGV",
    )


def test_a_worker_that_ends_itself(single_worker_pool):
    """With the status it gave."""
    outcome = single_worker_pool.call("os:_exit", 3, timeout=60)
    assert outcome.kind == "crashed"
    assert outcome.message == "RuntimeError: the worker ended itself, with exit status 3"


def test_a_worker_that_closes_its_pipe(single_worker_pool):
    """It cannot answer any more; that is found out."""
    outcome = single_worker_pool.call("os:closerange", 3, 100, timeout=60)
    assert outcome.kind == "crashed"
    assert single_worker_pool.call(lambda: 5, timeout=60).value == 5


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM", "SIGHUP"])
def test_what_is_killed_each_time_has_crashed(single_worker_pool, name):
    """After a second try: the first might have been an accident."""
    outcome = single_worker_pool.call(killed_by(signal.Signals[name]), timeout=60)
    assert outcome.kind == "crashed"
    assert f"ended by {name}, and so was a second one" in outcome.message
    assert single_worker_pool.stats().started == 2


def test_a_task_whose_worker_is_killed_from_outside_is_done_by_another(
    single_worker_pool, tmp_path
):
    """Once more, from the start."""
    done_before = tmp_path / "done_before"

    def killed_the_first_time(path):
        import os
        import signal

        if not path.exists():
            path.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return "done"

    assert single_worker_pool.call(killed_the_first_time, done_before, timeout=60).value == "done"


def test_the_worker_of_a_task_is_killed_in_the_middle(
    single_worker_pool, report_pipe, report_and_hang
):
    """By hand, twice."""
    task = single_worker_pool.submit(report_and_hang, report_pipe.path, timeout=60)
    for _ in range(2):
        worker, _template = report_pipe.read_pids()
        os.kill(worker, signal.SIGKILL)
    assert task.result().kind == "crashed"
    assert single_worker_pool.call(lambda: 5, timeout=60).value == 5


def test_the_template_is_killed_in_the_middle_of_a_task(
    single_worker_pool, report_pipe, report_and_hang, has_ended
):
    """Its workers go with it; the task is begun once more, by a worker of a new one."""
    task = single_worker_pool.submit(report_and_hang, report_pipe.path, timeout=60)
    seen = []
    for _ in range(2):
        worker, template = report_pipe.read_pids()
        os.kill(template, signal.SIGKILL)
        assert has_ended(worker)
        assert has_ended(template)
        seen += [worker, template]
    assert len(set(seen)) == 4
    outcome = task.result()
    assert outcome.kind == "lost"
    assert outcome.message == "RuntimeError: its worker was lost, and so was a second one"
    assert single_worker_pool.call(lambda: 5, timeout=60).value == 5


def test_an_idle_worker_that_dies_costs_nobody_anything(single_worker_pool):
    """Its next task is done by another, and counts as begun once."""
    for _ in range(3):
        os.kill(single_worker_pool.call("os:getpid", timeout=60).value, signal.SIGKILL)
        assert single_worker_pool.call(lambda: 5, timeout=60).value == 5


def test_what_a_worker_has_started_ends_with_it(single_worker_pool, report_pipe, has_ended):
    """Else a hanging compiler would outlive its deadline."""

    def starts_another(path):
        import subprocess
        import time

        child = subprocess.Popen(["sleep", "1000"])
        path.write_text(str(child.pid))
        time.sleep(1000)

    task = single_worker_pool.submit(starts_another, report_pipe.path, timeout=0.2)
    [child] = report_pipe.read_pids()
    assert task.result().kind == "timeout"
    assert has_ended(child)


class TestMemory:
    def test_too_much_is_an_outcome_of_its_own(self, single_worker_pool):
        """Neither a crash nor a zero."""
        outcome = single_worker_pool.call(lambda: len(b"x" * (2 << 30)), timeout=60)
        assert outcome.kind == "memory"
        assert outcome.message.startswith(
            "MemoryError: it needed more than the 1,073,741,824 bytes"
        )

    def test_bit_by_bit_too(self):
        """Until there is no more."""
        with Pool(max_workers=1, memory=50 << 20) as pool:
            hoard = lambda: [b"x" * (1 << 16) + bytes(1) for _ in iter(int, 1)]  # noqa: E731
            assert pool.call(hoard, timeout=60).kind == "memory"
            assert pool.call(lambda: 5, timeout=60).value == 5

    def test_the_limit_can_be_set(self):
        """It counts from what the worker has when its function is loaded."""
        with Pool(max_workers=1, memory=50 << 20) as pool:
            assert pool.call(lambda: len(b"x" * (30 << 20)), timeout=60).ok
            assert pool.call(lambda: len(b"x" * (70 << 20)), timeout=60).kind == "memory"

    def test_there_need_not_be_one(self):
        """The worker's limit is then that of this process."""
        limit = "resource:getrlimit"
        with Pool(max_workers=1, memory=None) as pool:
            here = __import__("resource")
            assert pool.call(limit, here.RLIMIT_AS, timeout=60).value == here.getrlimit(
                here.RLIMIT_AS
            )

    def test_a_worker_that_keeps_much_is_replaced(self):
        """From half of its limit on."""
        kept = []
        with Pool(max_workers=1, memory=100 << 20) as pool:
            hoard = lambda size: kept.append(b"x" * size) or __import__("os").getpid()  # noqa: E731
            one, two, three = (pool.call(hoard, 30 << 20, timeout=60).value for _ in range(3))
            assert one == two != three
            assert pool.stats().recycled == 1


def test_a_worker_with_a_thread_left_behind_is_replaced(single_worker_pool):
    """It would take time from the tasks that follow."""

    def leaves_a_thread():
        import os
        import threading
        import time

        threading.Thread(target=time.sleep, args=[1000], daemon=True).start()
        return os.getpid()

    assert (
        single_worker_pool.call(leaves_a_thread, timeout=60).value
        != single_worker_pool.call("os:getpid", timeout=60).value
    )
