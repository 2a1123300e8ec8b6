"""Rubrics for the tests of several trainers."""

import pytest

from assay import Criterion, Rubric


def exact(completion, answer):
    return str(completion).strip() == str(answer)


def short(completion):
    return len(completion) <= 5


def judge_is_down(completion):
    if "judge me" in completion:
        raise ConnectionError("the judge is down")
    return 1.0


@pytest.fixture
def rubric():
    """Two checks, worth 1 and 0.5."""
    return Rubric([exact, short], weights=[1.0, 0.5], name="sums")


@pytest.fixture
def failing_rubric():
    """Like `rubric`, with a third check that fails for completions that contain `judge me`."""
    checks = [exact, short, Criterion(check=judge_is_down, name="judged")]
    return Rubric(checks, weights=[1.0, 0.5, 1.0], name="sums")
