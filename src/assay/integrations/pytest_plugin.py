"""The pytest fixture `grades`. Every test run with assay installed loads it, so it imports nothing before use."""

from argparse import ArgumentTypeError
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from assay.integrations.grading import Grades

_THRESHOLDS = {
    "fail_under": "its mean score is below this number between 0 and 1",
    "fail_interval_under": "the 95 %% interval of its mean score begins below this",
    "fail_rollout_under": "the score of any of its rollouts is below this",
}
_SHOWN = pytest.StashKey[list[str]]()


@pytest.fixture
def grades(request: pytest.FixtureRequest) -> "Callable[..., Grades]":
    """`assert_grades` with the thresholds of the command line, told in the summary of the tests."""
    from assay.integrations.grading import assert_grades

    def assert_here(*arguments: Any, **options: Any) -> "Grades":
        __tracebackhide__ = True
        for name in _THRESHOLDS:
            options.setdefault(name, request.config.getoption(f"assay_{name}"))
        found = assert_grades(*arguments, **options)
        request.config.stash[_SHOWN].append(f"{request.node.nodeid}: {found}")
        return found

    return assert_here


def pytest_addoption(parser: pytest.Parser) -> None:
    for name, what in _THRESHOLDS.items():
        told = f"fail a test that uses the `grades` fixture, and does not say it otherwise, when {what}"
        flag = f"--assay-{name.replace('_', '-')}"
        parser.getgroup("assay").addoption(
            flag, type=_threshold, default=None, metavar="SCORE", help=told
        )


def _threshold(text: str) -> float:
    from assay.runs.stats import threshold_of

    try:
        return threshold_of(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_SHOWN] = []


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if config.stash[_SHOWN]:
        terminalreporter.section("assay")
        for line in config.stash[_SHOWN]:
            terminalreporter.write_line(line)
