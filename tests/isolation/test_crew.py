"""The crew: how many workers there are, what they are born with, and when they are replaced."""

import logging
import os
import signal
import sys

import pytest

from assay.isolation import Pool
from assay.isolation.pool import processors


def pid(pool):
    return pool.call("os:getpid", timeout=60).value


class TestSize:
    def test_it_grows_with_the_work_up_to_its_size(self):
        """One at a time needs one; a burst gets them all."""
        with Pool(max_workers=3) as pool:
            assert pool.stats().workers == 0
            assert pid(pool) == pid(pool)
            assert pool.stats().workers == 1
            tasks = [pool.submit("time:sleep", 0.05, timeout=60) for _ in range(9)]
            assert all(task.result().ok for task in tasks)
            assert (pool.stats().workers, pool.stats().started) == (3, 3)

    def test_it_shrinks_when_there_is_nothing_to_do(self, has_ended, monkeypatch):
        """Down to none; and grows again."""
        monkeypatch.setattr("assay.isolation.pool.IDLE_SECONDS", 0.05)
        with Pool(max_workers=2) as pool:
            first = pid(pool)
            assert has_ended(first)
            assert pid(pool) != first

    def test_it_has_a_worker_for_each_processor(self):
        """That this process may use."""
        allowed = len(os.sched_getaffinity(0))
        assert processors() == allowed

    @pytest.mark.parametrize(
        "wrong", [{"max_workers": 0}, {"recycle_after": 0}, {"memory": 0}], ids=str
    )
    def test_what_makes_no_sense_is_refused(self, wrong):
        """With its name and value."""
        [(name, value)] = wrong.items()
        with pytest.raises(ValueError, match=f"{name} is {value}: give"):
            Pool(**wrong)


class TestReplacement:
    def test_a_worker_is_replaced_after_so_many_tasks(self):
        """Whatever it may have gathered goes with it."""
        with Pool(max_workers=1, recycle_after=2) as pool:
            one, two, three, four = (pid(pool) for _ in range(4))
            assert one == two != three == four
            assert pool.stats().recycled >= 1

    def test_the_stats_add_up(self):
        """Of all that were started, those not killed or recycled are there."""
        with Pool(max_workers=1, recycle_after=2) as pool:
            for _ in range(3):
                assert pool.call("math:sqrt", 4, timeout=60).ok
            assert pool.call("time:sleep", 1000, timeout=0.05).kind == "timeout"
            assert pid(pool)
            stats = pool.stats()
            assert (stats.started, stats.killed, stats.recycled) == (3, 1, 1)
            assert (stats.workers, stats.running, stats.queued) == (1, 0, 0)


HAS_WAVE = "sys:modules.__contains__"


class TestPreload:
    def test_workers_are_born_with_what_is_preloaded(self):
        """And without what is not."""
        with Pool(max_workers=1, preload=["wave"]) as pool:
            assert pool.call(HAS_WAVE, "wave", timeout=60).value
            assert not pool.call(HAS_WAVE, "chunk", timeout=60).value

    def test_more_can_be_preloaded_later(self):
        """Tasks go on meanwhile, and workers that lack it are replaced when it is loaded."""
        with Pool(max_workers=1) as pool:
            assert not pool.call(HAS_WAVE, "wave", timeout=60).value
            pool.preload("wave", "wave")
            while not pool.call(HAS_WAVE, "wave", timeout=60).value:
                pass

    def test_a_long_task_is_not_disturbed_by_more_modules(self, report_pipe, report_and_hang):
        """It goes on to its end, in a worker that lacks them."""
        with Pool(max_workers=2) as pool:
            long = pool.submit(report_and_hang, report_pipe.path, timeout=60)
            report_pipe.read_pids()
            pool.preload("wave")
            while not pool.call(HAS_WAVE, "wave", timeout=60).value:
                pass
            assert long.running()
            pool.close()

    def test_modules_that_come_one_by_one_lose_no_task(self):
        """A task that waits for its first worker is done, however often the modules for it change meanwhile."""
        with Pool(max_workers=1) as pool:
            task = pool.submit("math:sqrt", 4, timeout=60)
            for module in ("wave", "colorsys", "calendar", "plistlib", "tabnanny", "zipapp"):
                while pool.template is None and not task.done():
                    pass
                pool.preload(module)
            assert task.result().value == 2

    def test_what_is_preloaded_already_changes_nothing(self):
        """No new template."""
        with Pool(max_workers=1, preload=["wave"]) as pool:
            template = pool.call("os:getppid", timeout=60).value
            pool.preload("wave")
            assert pool.call("os:getppid", timeout=60).value == template

    def test_a_module_that_cannot_be_preloaded_is_told_and_left_out(self, capfd):
        """A task that needs it fails with the same error."""
        with Pool(max_workers=1, preload=["no_such"]) as pool:
            assert pool.call("math:sqrt", 4, timeout=60).value == 2
        assert "'no_such' cannot be preloaded: ModuleNotFoundError" in capfd.readouterr().err

    @pytest.mark.parametrize("later", [False, True])
    def test_a_module_that_ends_the_template_is_done_without(
        self, later, caplog, tmp_path, monkeypatch
    ):
        """Workers come from a template that loads nothing, which is said."""
        monkeypatch.syspath_prepend(tmp_path)
        (tmp_path / "fatal.py").write_text("import os\nos._exit(1)\n")
        with (
            caplog.at_level(logging.WARNING, logger="assay"),
            Pool(max_workers=1, preload=() if later else ["fatal"]) as pool,
        ):
            if later:
                template = pool.call("os:getppid", timeout=60).value
                pool.preload("fatal")
                while pool.call("os:getppid", timeout=60).value == template:
                    pass
            assert pool.call("math:sqrt", 4, timeout=60).value == 2
        assert "workers are started without preloaded modules" in caplog.text


class TestNoWorkers:
    def test_an_interpreter_that_cannot_be_started(self, monkeypatch):
        """Is an outcome that says so; nobody waits for ever."""
        monkeypatch.setattr(sys, "executable", "/nowhere/python")
        with Pool(max_workers=1) as pool:
            outcomes = [pool.call("math:sqrt", 4, timeout=60) for _ in range(2)]
            assert [outcome.kind for outcome in outcomes] == ["lost", "lost"]
            assert "no worker could be started (FileNotFoundError" in outcomes[0].message
            monkeypatch.undo()
            assert pool.call("math:sqrt", 4, timeout=60).value == 2

    def test_a_template_that_ends_at_once(self, monkeypatch):
        """The same."""
        monkeypatch.setattr(sys, "executable", "/bin/false")
        with Pool(max_workers=1) as pool:
            outcome = pool.call("math:sqrt", 4, timeout=60)
            assert outcome.kind == "lost"
            assert "the process that forks workers ended" in outcome.message

    def test_workers_that_end_at_once(self, tmp_path, monkeypatch):
        """The same: a preloaded module sees to it that every fork ends."""
        monkeypatch.syspath_prepend(tmp_path)
        (tmp_path / "deadly.py").write_text(
            "import os\nos.register_at_fork(after_in_child=lambda: os._exit(9))\n"
        )
        with Pool(max_workers=1, preload=["deadly"]) as pool:
            outcome = pool.call("math:sqrt", 4, timeout=60)
            assert outcome.kind == "lost"
            assert "workers end as they start, with status 9" in outcome.message

    @pytest.mark.slow
    def test_a_module_that_never_loads_is_done_without(self, tmp_path, monkeypatch, caplog):
        """After a limit of its own."""
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setattr("assay.isolation.process.LOAD_SECONDS", 5.0)
        (tmp_path / "hangs.py").write_text("import time\ntime.sleep(1000)\n")
        with Pool(max_workers=1, preload=["hangs"]) as pool:
            assert pool.call("math:sqrt", 4, timeout=60).value == 2
        assert "(TimeoutError: a worker was asked for, and never came)" in caplog.text

    @pytest.mark.slow
    def test_a_template_that_hangs_is_replaced(self, monkeypatch, has_ended):
        """Here it is stopped; after a limit the task gets a worker of another."""
        with Pool(max_workers=1, recycle_after=1) as pool:
            template = pool.call("os:getppid", timeout=60).value
            monkeypatch.setattr("assay.isolation.process.LOAD_SECONDS", 5.0)
            os.kill(template, signal.SIGSTOP)
            assert pool.call("math:sqrt", 4, timeout=60).value == 2
            assert has_ended(template)

    def test_a_template_that_is_killed_while_nothing_runs(self, single_worker_pool, has_ended):
        """Is replaced when it is needed."""
        template = single_worker_pool.call("os:getppid", timeout=60).value
        os.kill(template, signal.SIGKILL)
        assert has_ended(template)
        assert single_worker_pool.call("math:sqrt", 4, timeout=60).value == 2
