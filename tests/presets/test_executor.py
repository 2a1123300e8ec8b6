"""The executor of a MathRubric: the shared worker processes, behind the usual interface."""

import copy
import math
import operator
import os
import pickle
import time
from concurrent.futures import as_completed

import pytest

from assay import MathRubric


@pytest.fixture
def executor():
    return MathRubric(timeout_seconds=5, max_workers=2).executor


def test_what_is_submitted_runs_in_another_process(executor):
    """With arguments by position and by name."""
    assert executor.submit(os.getpid).result() != os.getpid()
    assert executor.submit(math.isclose, 1.0, 1.1, rel_tol=0.5).result() is True


def test_map_keeps_the_order(executor):
    """Of more calls than there are places."""
    assert list(executor.map(operator.add, range(20), range(20))) == [2 * n for n in range(20)]


def test_every_future_comes_to_an_end(executor):
    """In whatever order."""
    futures = [executor.submit(math.factorial, n) for n in range(10)]
    assert sorted(future.result() for future in as_completed(futures)) == sorted(
        math.factorial(n) for n in range(10)
    )


def test_what_a_function_raises_is_raised_here(executor):
    """In words."""
    with pytest.raises(RuntimeError, match="math domain error"):
        executor.submit(math.sqrt, -1.0).result()


def test_what_cannot_be_sent_is_said(executor):
    """To whoever waits for it."""
    with pytest.raises(TypeError):
        executor.submit(len, (open,), (n for n in range(3))).result()


def test_what_works_too_long_is_stopped():
    """At the rubric's own limit."""
    executor = MathRubric(timeout_seconds=0.2).executor
    with pytest.raises(TimeoutError):
        executor.submit(time.sleep, 60).result()
    assert executor.submit(math.sqrt, 16.0).result() == 4.0


def test_after_shutdown_nothing_is_taken(executor):
    """Other rubrics go on."""
    future = executor.submit(math.sqrt, 16.0)
    executor.shutdown()
    assert future.done()
    with pytest.raises(RuntimeError, match="shutdown"):
        executor.submit(math.sqrt, 16.0)
    with MathRubric().executor as another:
        assert another.submit(math.sqrt, 16.0).result() == 4.0


def test_what_waits_can_be_cancelled():
    """What runs cannot."""
    executor = MathRubric(timeout_seconds=1, max_workers=1).executor
    running = executor.submit(time.sleep, 0.5)
    waiting = [executor.submit(time.sleep, 60) for _ in range(3)]
    executor.shutdown(cancel_futures=True)
    assert all(future.cancelled() for future in waiting)
    assert running.result() is None


def test_a_rubric_has_one_executor():
    """And a copy has its own."""
    rubric = MathRubric()
    assert rubric.executor is rubric.executor
    for twin in (copy.deepcopy(rubric), pickle.loads(pickle.dumps(rubric))):
        assert twin.executor is not rubric.executor
