"""The pytest fixture `grades`.

Every test run with assay installed loads this plugin, so it imports nothing before it is used.
"""

from argparse import ArgumentTypeError
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from assay.integrations.grading import Grades

# The thresholds that can be given as options of pytest, with the condition under which a test fails.
_THRESHOLDS = {
    "fail_under": "the mean score is below this number between 0 and 1",
    "fail_interval_under": "the 95 %% interval of the mean score begins below this number",
    "fail_rollout_under": "the score of any rollout is below this number",
}
_RESULTS = pytest.StashKey[list[str]]()  # a line for each call of `grades` that passed


@pytest.fixture
def grades(request: pytest.FixtureRequest) -> "Callable[..., Grades]":
    """Return `assert_grades` with the thresholds of the command line as defaults.

    The result is shown in the summary of the test run.
    """
    from assay.integrations.grading import assert_grades

    def assert_with_options(*arguments: Any, **options: Any) -> "Grades":
        __tracebackhide__ = True
        for name in _THRESHOLDS:
            options.setdefault(name, request.config.getoption(f"assay_{name}"))
        result = assert_grades(*arguments, **options)
        request.config.stash[_RESULTS].append(f"{request.node.nodeid}: {result}")
        return result

    return assert_with_options


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("assay")
    for name, condition in _THRESHOLDS.items():
        group.addoption(
            f"--assay-{name.replace('_', '-')}",
            type=_read_threshold,
            default=None,
            metavar="SCORE",
            help=f"fail tests with the `grades` fixture if {condition}, unless they set their own",
        )


def _read_threshold(text: str) -> float:
    from assay.runs.stats import threshold_of

    try:
        return threshold_of(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_RESULTS] = []


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if config.stash[_RESULTS]:
        terminalreporter.section("assay")
        for line in config.stash[_RESULTS]:
            terminalreporter.write_line(line)
