"""Pools with real processes, and ways to wait for them that need no sleep."""

import os
import select
import subprocess
import sys

import pytest

from assay.isolation import Pool

PATIENCE = 60
"""Seconds after which something that should have happened will not."""


@pytest.fixture
def pool():
    """A pool of two workers."""
    with Pool(max_workers=2) as made:
        yield made


@pytest.fixture
def lone():
    """A pool of one worker, so that tasks follow each other."""
    with Pool(max_workers=1) as made:
        yield made


@pytest.fixture
def run(tmp_path):
    """Runs a program in a fresh interpreter; gives what it printed, and fails if it did."""

    def run(code):
        script = tmp_path / "script.py"
        script.write_text(code)
        done = subprocess.run(
            [sys.executable, script], capture_output=True, text=True, timeout=PATIENCE
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.split()

    return run


class Whisper:
    """A named pipe, by which a worker says that it has come so far."""

    def __init__(self, path):
        self.path = path
        os.mkfifo(path)

    def heard(self):
        """The process ids that were said; waits for them."""
        return [int(pid) for pid in self.path.read_text().split()]


@pytest.fixture
def whisper(tmp_path):
    return Whisper(tmp_path / "whisper")


def _say_and_hang(path):
    import os
    import time

    path.write_text(f"{os.getpid()} {os.getppid()}")
    while True:
        time.sleep(1000)


@pytest.fixture
def say_and_hang():
    """A function that says its process id and its template's in a whisper, then never ends."""
    return _say_and_hang


def _gone(pid):
    try:
        watched = os.pidfd_open(int(pid))
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([watched], [], [], PATIENCE)[0])
    finally:
        os.close(watched)


@pytest.fixture
def gone():
    """Whether a process has ended; waits for it."""
    return _gone
