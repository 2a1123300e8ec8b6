"""What all tests share."""

import gc
import logging
import signal
import sys

import pytest

try:
    from hypothesis import settings
except ImportError:  # the environment of the trainers has none
    pass
else:
    # How long an example takes tells how busy the machine is, and nothing about the code.
    settings.register_profile("assay", deadline=None)
    settings.load_profile("assay")

# Whatever runs in the background, or under nohup, ignores these, and its children would too.
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
def _the_level_of_the_log():
    """What an example sets for the whole process does not reach the next test."""
    logger = logging.getLogger("assay")
    level, filters = logger.level, list(logger.filters)
    yield
    logger.setLevel(level)
    logger.filters[:] = filters


@pytest.fixture(autouse=True)
def _endpoints_are_forgotten():
    """A port that the system gives out again is a new endpoint, whatever the one before it refused."""
    yield
    retry = sys.modules.get("assay.models.retry")
    if retry is not None:
        retry.Endpoint._known.clear()


def _score(criterion, said):
    """The answer that was meant: a verdict, a number, an error, or a whole score."""
    from assay import Score

    if isinstance(said, Score):
        return said
    if isinstance(said, Exception):
        return Score.failed(said)
    if said == "N/A":
        return Score.not_applicable()
    if isinstance(said, str):
        return Score(criterion.values[said], f"it is {said}", said)
    return Score(float(said))


def _report(rubric, answers):
    """The report that these answers come to: checks and the judge give them, whatever the text is."""
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
    """Write a run: `rubric`, and rows of (example, {criterion: answer}) or with more fields.

    A row may be a mapping with `example`, `said`, and any of `sample`, `completion`, `prompt`, `error`.
    """

    from assay import Rubric
    from assay.runs import Journal, Run, RunAbout

    def make(name, rubric, rows):
        rubric = rubric if isinstance(rubric, Rubric) else Rubric.from_dict(rubric)
        with Journal.open(tmp_path / name, RunAbout.of("score", rubric=rubric)) as journal:
            for row in rows:
                journal.write(_row(rubric, row))
            journal.finish()
        return Run.open(tmp_path / name)

    return make


def _row(rubric, row):
    from assay.runs import Row

    if not isinstance(row, dict):
        row = {"example": row[0], "said": row[1]}
    example = str(row["example"])
    fields = {
        "prompt": row.get("prompt", f"question {example}"),
        "completion": row.get("completion", f"answer {example}"),
    }
    if "error" in row:
        return Row(example, row.get("sample", 0), fields, error=row["error"])
    answers = {c.name: _score(c, row["said"][c.name]) for c in rubric.criteria}
    report = _report(rubric, answers)
    return Row(example, row.get("sample", 0), fields, report)
