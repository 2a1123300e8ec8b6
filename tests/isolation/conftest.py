"""Pools of real processes, and ways to wait for them without sleeping."""

import os
import select
import subprocess
import sys

import pytest

from assay.isolation import Pool

PATIENCE = 60
"""Seconds after which a test gives up waiting."""


@pytest.fixture
def pool():
    """A pool of two workers that have imported cloudpickle."""
    with Pool(max_workers=2, preload=["cloudpickle"]) as made:
        yield made


@pytest.fixture
def single_worker_pool():
    """A pool of one worker, so that calls run one after the other."""
    with Pool(max_workers=1, preload=["cloudpickle"]) as made:
        yield made


@pytest.fixture
def run_script(tmp_path):
    """Run a program in a new interpreter; return what it printed, and fail if it failed."""

    def run(code):
        script = tmp_path / "script.py"
        script.write_text(code)
        # Some of these fork on purpose, and newer versions of Python warn about that.
        command = [sys.executable, "-W", "ignore::DeprecationWarning", script]
        completed = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        assert (completed.returncode, completed.stderr) == (0, "")
        return completed.stdout.split()

    return run


class ReportPipe:
    """A named pipe through which a worker reports its process ids."""

    def __init__(self, path):
        self.path = path
        os.mkfifo(path)

    def read_pids(self):
        """Wait for the report, and return the process ids."""
        return [int(pid) for pid in self.path.read_text().split()]


@pytest.fixture
def report_pipe(tmp_path):
    return ReportPipe(tmp_path / "report")


def _report_and_hang(path):
    import os
    import time

    path.write_text(f"{os.getpid()} {os.getppid()}")
    while True:
        time.sleep(1000)


@pytest.fixture
def report_and_hang():
    """A function that reports its process id and that of its template, and then never returns."""
    return _report_and_hang


def _wait_for_end(pid):
    try:
        process_fd = os.pidfd_open(int(pid))
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process_fd], [], [], PATIENCE)[0])
    finally:
        os.close(process_fd)


@pytest.fixture
def has_ended():
    """Wait for a process, and return whether it has ended."""
    return _wait_for_end
