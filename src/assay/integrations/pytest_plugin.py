"""pytest: the `grades` fixture, and `--assay-fail-under` for every test that uses it.

Loaded at the start of every test run where assay is installed, so it imports nothing of it until a
test asks.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from assay.integrations.grading import Grades

_SHOWN = pytest.StashKey[list[str]]()


@pytest.fixture
def grades(request: pytest.FixtureRequest) -> "Callable[..., Grades]":
    """`assert_grades` with the threshold of `--assay-fail-under`, told in the summary of the tests."""
    from assay.integrations.grading import assert_grades

    def assert_here(*arguments: Any, **options: Any) -> "Grades":
        __tracebackhide__ = True
        options.setdefault("fail_under", request.config.getoption("assay_fail_under"))
        found = assert_grades(*arguments, **options)
        request.config.stash[_SHOWN].append(f"{request.node.nodeid}: {found}")
        return found

    return assert_here


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("assay").addoption(
        "--assay-fail-under",
        type=float,
        default=0.0,
        metavar="SCORE",
        help="fail a test that uses the `grades` fixture when its mean score is surely below this",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_SHOWN] = []


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if config.stash[_SHOWN]:
        terminalreporter.section("assay")
        for line in config.stash[_SHOWN]:
            terminalreporter.write_line(line)
