"""A damaged run is either read as it was written or refused with an error: no wrong or repeated row is read."""

import asyncio
import random
import shutil

import pytest

from assay import Autograder, Criterion, CriterionReport, Rubric, Score
from assay.runs import Journal, Run, RunError, score_rows
from assay.runs.recovery import recover_run
from assay.runs.run_file import RunFile
from assay.runs.run_schema import FILE_NAME
from assay.runs.run_writer import RunWriter

SEEDS = range(200)


class Judge(Autograder):
    """A judge with votes, a scale and reasons that sometimes fails."""

    async def judge(self, to_grade, rubric, query=None):
        if "fail" in to_grade:
            raise ConnectionError("the judge is down")
        votes = [CriterionReport(name="one", value=1.0, verdict="good", reason="It is.")]
        return [
            Score(
                0.5, f"It says {to_grade!r}.", criterion.choices[-1], lines=votes, disagreement=0.5
            )
            for criterion in rubric
        ]


RUBRIC = Rubric(
    [
        Criterion(requirement="Is good", name="good", choices=("bad", "fair", "good")),
        Criterion(check=lambda completion: len(completion) < 9, name="short"),
    ],
    judge=Judge(),
)
ROWS = [{"id": f"e{n // 2}", "completion": f"text {n} " * 60, "info": {"n": n}} for n in range(60)]
FAILING_ROWS = [{**row, "completion": "fail"} if n in (3, 8) else row for n, row in enumerate(ROWS)]


@pytest.fixture(scope="module")
def undamaged_run(tmp_path_factory):
    """A run that was resumed, because two of its rows had an error."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    asyncio.run(score_rows(RUBRIC, FAILING_ROWS, folder=folder))
    asyncio.run(score_rows(RUBRIC, ROWS, folder=folder, resume=True))
    return folder


def truncate(data, generator):
    return data[: generator.randrange(len(data))]


def flip_bits(data, generator):
    changed = bytearray(data)
    for _ in range(generator.choice([1, 1, 2, 8])):
        changed[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
    return bytes(changed)


def overwrite(data, generator):
    start = generator.randrange(len(data))
    size = generator.randrange(1, 5000)
    noise = bytes(size) if generator.random() < 0.5 else generator.randbytes(size)
    return data[:start] + noise + data[start + size :]


DAMAGES = [truncate, flip_bits, overwrite]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_damaged_run_is_read_unchanged_or_refused(undamaged_run, tmp_path, seed):
    """By readers, by a writer that resumes it, and by the recovery."""
    generator = random.Random(seed)
    folder = shutil.copytree(undamaged_run, tmp_path / "run")
    data = (undamaged_run / FILE_NAME).read_bytes()
    for _ in range(generator.choice([1, 1, 3])):
        data = generator.choice(DAMAGES)(data, generator)
    (folder / FILE_NAME).write_bytes(data)
    expected = {row.key: row for row in Run.open(undamaged_run).rows()}
    refusals = []
    try:
        rows = list(Run.open(folder).rows())
        assert len({row.key for row in rows}) == len(rows)
        assert all(row.fields == expected[row.key].fields for row in rows)
    except RunError as error:
        refusals.append(str(error))
    try:
        with Journal.open(folder, Run.open(folder).about, resume=True) as journal:
            finished = [key for key in expected if journal.is_finished(key)]
            assert len(finished) <= len(expected)
            journal.finish()
    except RunError as error:
        refusals.append(str(error))
    assert all(str(folder) in message for message in refusals)
    try:
        with RunWriter(tmp_path / "new") as writer:
            saved, _ = recover_run(RunFile(folder), writer)
        rows = list(Run.open(tmp_path / "new").rows())
        assert len(rows) == saved
        assert all(row.fields == expected[row.key].fields for row in rows)
    except RunError as error:
        assert str(folder) in str(error)  # noqa: PT017 - the error names the run
