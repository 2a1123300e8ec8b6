"""Fixtures for all tests."""

import gc
import logging
import signal
import sys

import pytest

try:
    from hypothesis import settings
except ImportError:  # not installed in the environment of the trainers
    pass
else:
    # The time of an example depends on the load of the machine.
    settings.register_profile("assay", deadline=None)
    settings.load_profile("assay")

# Programs in the background, or under nohup, ignore these signals, and so would their children.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect without the garbage collector.

    The 14,000 tests are a million objects, which all stay until the end. Searching them for garbage
    again and again took half of the time of collecting, in every worker.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True)
def _restore_logging():
    """Undo changes that an example makes to the logger of the process."""
    logger = logging.getLogger("assay")
    level, filters = logger.level, list(logger.filters)
    yield
    logger.setLevel(level)
    logger.filters[:] = filters


@pytest.fixture(autouse=True)
def _forget_endpoints():
    """The system may assign a port again, and what its last server refused must be forgotten."""
    yield
    retry = sys.modules.get("assay.models.retry")
    if retry is not None:
        retry.Endpoint._known.clear()


def _make_score(criterion, answer):
    """Convert an expected answer into a score: a verdict, a number, an error, or a score itself."""
    from assay import Score

    if isinstance(answer, Score):
        return answer
    if isinstance(answer, Exception):
        return Score.failed(answer)
    if answer == "N/A":
        return Score.not_applicable()
    if isinstance(answer, str):
        return Score(criterion.values[answer], f"it is {answer}", answer)
    return Score(float(answer))


def _make_report(rubric, answers):
    """Return a report with these answers of checks and judge, whatever the text is."""
    from assay import Autograder, GradingError, Rubric

    class KnownAnswers(Autograder):
        async def judge(self, to_grade, rubric, query=None):
            return [answers[criterion.name] for criterion in rubric]

    def check_that_gives(answer):
        return lambda: answer

    criteria = [
        c if c.judged else c.with_fields(check=check_that_gives(answers[c.name]))
        for c in rubric.criteria
    ]
    known = Rubric(criteria, aggregation=rubric.aggregation, judge=KnownAnswers())
    try:
        return known.grade_sync("text")
    except GradingError as error:  # some answers are errors
        return error.report


@pytest.fixture
def make_run(tmp_path):
    """Write a run from a rubric and rows of (example, {criterion: answer}).

    A row may also be a mapping with `example`, `answers`, and any of `sample`, `completion`, `prompt`, `error`.
    """

    from assay import Rubric
    from assay.runs import Journal, Run, RunAbout

    def make(name, rubric, rows):
        rubric = rubric if isinstance(rubric, Rubric) else Rubric.from_dict(rubric)
        with Journal.open(tmp_path / name, RunAbout.of("score", rubric=rubric)) as journal:
            for row in rows:
                journal.write(_make_row(rubric, row))
            journal.finish()
        return Run.open(tmp_path / name)

    return make


def _make_row(rubric, row):
    from assay.runs import Row

    if not isinstance(row, dict):
        row = {"example": row[0], "answers": row[1]}
    example = str(row["example"])
    fields = {
        "prompt": row.get("prompt", f"question {example}"),
        "completion": row.get("completion", f"answer {example}"),
    }
    if "error" in row:
        return Row(example, row.get("sample", 0), fields, error=row["error"])
    answers = {c.name: _make_score(c, row["answers"][c.name]) for c in rubric.criteria}
    report = _make_report(rubric, answers)
    return Row(example, row.get("sample", 0), fields, report)
