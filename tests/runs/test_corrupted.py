"""A journal that was damaged is read as far as it is whole, or refused in a sentence; nothing counts twice."""

import asyncio
import random
import shutil

import pytest

from assay import Autograder, Criterion, CriterionReport, Rubric, Score
from assay.runs import Journal, Run, RunError, score_rows
from assay.viewer.row_index import RowIndex

SEEDS = range(300)


class Judge(Autograder):
    """Votes, a scale, reasons, and now and then no answer."""

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
    autograder=Judge(),
)
ROWS = [{"id": f"e{n // 2}", "completion": f"text {n}", "info": {"n": n}} for n in range(12)]
BROKEN = [{**row, "completion": "fail"} if n in (3, 8) else row for n, row in enumerate(ROWS)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that was resumed, so that two of its rows stand there with an error and again without."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    asyncio.run(score_rows(RUBRIC, BROKEN, folder=folder))
    asyncio.run(score_rows(RUBRIC, ROWS, folder=folder, resume=True))
    (folder / "summary.json").unlink()
    return folder


def lines_of(data: bytes) -> list[bytes]:
    return data.splitlines(keepends=True)


def truncated(data, chance):
    return data[: chance.randrange(len(data))]


def flipped(data, chance):
    changed = bytearray(data)
    for _ in range(chance.choice([1, 1, 2, 8])):
        changed[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def duplicated(data, chance):
    lines = lines_of(data)
    for line in chance.choices(lines, k=chance.choice([1, 3, 30])):
        lines.insert(chance.randrange(len(lines) + 1), line)
    return b"".join(lines)


def interleaved(data, chance):
    """As by two processes that wrote at once: lines in another order, or one in the middle of another."""
    lines = lines_of(data)
    chance.shuffle(lines)
    if chance.random() < 0.5 or len(lines) < 2:
        return b"".join(lines)
    one, other = lines.pop(), lines.pop()
    cut = chance.randrange(len(one))
    return b"".join([*lines, one[:cut], other, one[cut:]])


def overwritten(data, chance):
    start = chance.randrange(len(data))
    size = chance.randrange(1, 200)
    noise = bytes(size) if chance.random() < 0.5 else chance.randbytes(size)
    return data[:start] + noise + data[start + size :]


DAMAGES = [truncated, flipped, duplicated, interleaved, overwritten]


def looked_at(folder):
    """Every way to read a run."""
    run = Run.open(folder)
    rows = list(run.rows())
    for row in rows:
        assert row.report.metrics is not None
    summary = run.work_out()
    index = RowIndex(run)
    index.extend()
    shown = index.page(limit=-1)
    index.close()
    return rows, summary, len(run), shown["total"]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_damaged_journal_is_read_or_refused(whole, tmp_path, seed):
    """By every reader, and by the writer that resumes it."""
    chance = random.Random(seed)
    folder = shutil.copytree(whole, tmp_path / "run")
    data = (whole / "rollouts.jsonl").read_bytes()
    for _ in range(chance.choice([1, 1, 3])):
        data = chance.choice(DAMAGES)(data, chance) or b"\n"
    (folder / "rollouts.jsonl").write_bytes(data)
    refusals = []
    try:
        rows, summary, length, shown = looked_at(folder)
        keys = [row.key for row in rows]
        assert len(keys) == len(set(keys)) == summary.rollouts == length == shown
    except RunError as error:
        refusals.append(str(error))
    try:
        with Journal.open(folder, Run.open(folder).about, resume=True) as journal:
            assert len(journal.done) <= len(lines_of(data))
    except RunError as error:
        refusals.append(str(error))
    assert all(str(folder) in why for why in refusals)


@pytest.mark.parametrize("seed", range(20))
def test_lines_that_are_there_twice_or_in_another_order_change_nothing(whole, tmp_path, seed):
    """The summary and the rows are those of the journal as it was written."""
    chance = random.Random(seed)
    folder = shutil.copytree(whole, tmp_path / "run")
    lines = lines_of(duplicated((whole / "rollouts.jsonl").read_bytes(), chance))
    chance.shuffle(lines)
    (folder / "rollouts.jsonl").write_bytes(b"".join(lines))
    assert looked_at(folder) == looked_at(whole)
