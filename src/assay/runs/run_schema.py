"""The tables of a run's SQLite file, and the records that are saved in them.

`docs/concepts/runs.md` describes the tables for users.
"""

import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

FILE_NAME: Final = "run.assay"
FILE_ENDING: Final = ".assay"
APPLICATION_ID: Final = 0x61737361  # "assa" in ASCII; marks the file as a run
SCHEMA_VERSION: Final = 1
LARGEST_INTEGER: Final = 2**63 - 1  # the largest that SQLite can store

SCHEMA: Final = """
CREATE TABLE run (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    kind TEXT NOT NULL,
    started TEXT NOT NULL,
    rubric TEXT,
    rubric_version TEXT,
    data TEXT,
    model TEXT,
    judge TEXT,
    about TEXT NOT NULL,
    summary TEXT,
    complete INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE rollouts (
    id INTEGER PRIMARY KEY,
    example TEXT NOT NULL,
    sample INTEGER NOT NULL,
    row INTEGER NOT NULL,
    task TEXT NOT NULL,
    score REAL,
    reward REAL,
    error TEXT,
    model TEXT,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cost REAL,
    seconds REAL,
    data TEXT NOT NULL,
    checksum INTEGER NOT NULL,
    prompt TEXT GENERATED ALWAYS AS (json_extract(data, '$.fields.prompt')) VIRTUAL,
    completion TEXT GENERATED ALWAYS AS (json_extract(data, '$.fields.completion')) VIRTUAL,
    UNIQUE (example, sample)
);
CREATE INDEX rollouts_by_row ON rollouts (row);
CREATE TABLE verdicts (
    rollout INTEGER NOT NULL REFERENCES rollouts (id),
    position INTEGER NOT NULL,
    criterion TEXT NOT NULL,
    value REAL,
    verdict TEXT,
    reason TEXT,
    error TEXT,
    judge TEXT,
    disagreement REAL,
    tags TEXT,
    PRIMARY KEY (rollout, position)
) WITHOUT ROWID;
CREATE TABLE calls (
    rollout INTEGER NOT NULL REFERENCES rollouts (id),
    position INTEGER NOT NULL,
    role TEXT NOT NULL,
    model TEXT,
    request TEXT,
    reply TEXT,
    input_tokens INTEGER,
    output_tokens INTEGER,
    cost REAL,
    data TEXT NOT NULL,
    PRIMARY KEY (rollout, position)
) WITHOUT ROWID;
CREATE TABLE generations (
    example TEXT NOT NULL,
    sample INTEGER NOT NULL,
    data TEXT NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (example, sample)
);
CREATE TABLE spending (
    session INTEGER PRIMARY KEY,
    started TEXT NOT NULL,
    calls INTEGER NOT NULL,
    cache_hits INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cost REAL,
    unpriced_calls INTEGER NOT NULL,
    reserved REAL NOT NULL
);
CREATE TABLE labels (
    example TEXT NOT NULL,
    sample INTEGER NOT NULL,
    criterion TEXT NOT NULL,
    rater TEXT NOT NULL COLLATE NOCASE,
    verdict,
    note TEXT,
    time TEXT,
    guideline TEXT,
    text_hash TEXT,
    PRIMARY KEY (example, sample, criterion, rater)
);
"""

LABEL_COLUMNS: Final = (
    "example",
    "sample",
    "criterion",
    "rater",
    "verdict",
    "note",
    "time",
    "guideline",
    "text_hash",
)
# The columns of `rollouts` that are written, and how. A rollout that is done again keeps its id.
ROLLOUT_COLUMNS: Final = (
    "id, example, sample, row, task, score, reward, error, model, input_tokens, output_tokens, "
    "cost, seconds, data, checksum"
)
COPIED_ROLLOUT_COLUMNS: Final = ROLLOUT_COLUMNS.removeprefix("id, ")


class SavedVerdict(NamedTuple):
    """The answer to one criterion of a rollout: a row of the table `verdicts`."""

    position: int  # the place of the criterion in its rubric, from 0
    criterion: str
    value: float | None = None
    verdict: str | None = None
    reason: str | None = None
    error: str | None = None
    judge: str | None = None  # the model that answered; None if code did, or if several did
    disagreement: float | None = None  # of the judges or samples, if there are several
    tags: str | None = None  # of a criterion that only this rollout has, as a JSON list


# The answer of a check that is a number, True or False: position, criterion, value and verdict.
# All other columns of its row in the table `verdicts` are empty.
SavedNumber: TypeAlias = tuple[int, str, float, str | None]


class SavedCall(NamedTuple):
    """One call of a model for a rollout: a row of the table `calls`."""

    position: int
    role: str  # `judge`, or `model` for the model under test
    model: str | None
    request: str | None  # what was sent, as JSON
    reply: str | None
    input_tokens: int | None
    output_tokens: int | None
    cost: float | None
    data: str  # the whole record, as JSON


class SavedRollout(NamedTuple):
    """One finished rollout: a row of the table `rollouts`, with its verdicts and calls."""

    example: str
    sample: int
    row: int | None  # its place in the data, from 0; None puts it behind all others
    task: str
    score: float | None
    reward: float | None
    error: str | None
    model: str | None
    input_tokens: int
    output_tokens: int
    cost: float | None
    seconds: float | None
    data: str  # the whole row, as JSON
    verdicts: Sequence[SavedVerdict] = ()
    numbers: Sequence[SavedNumber] = ()  # the verdicts that are only a number
    calls: Sequence[SavedCall] = ()


class RolloutData(NamedTuple):
    """A saved rollout as it is read."""

    id: int
    data: bytes  # the whole row, as JSON
    calls: Sequence[dict[str, Any]]  # the calls of models that were kept for it


def find_run_file(path: str | os.PathLike[str]) -> Path:
    """Return the file of a run that is named by its folder or by the file itself."""
    path = Path(path)
    if path.name.endswith(FILE_ENDING) and not path.is_dir():
        return path
    return path / FILE_NAME


def is_run(path: str | os.PathLike[str]) -> bool:
    """Return whether a run is saved in this folder or file."""
    file = find_run_file(path)
    # While a run is started, its file is empty for a moment.
    return file.is_file() and file.stat().st_size > 0


def is_intact(data: Any, checksum: Any) -> bool:
    """Return whether the JSON of a saved record matches its checksum.

    A damaged file may hold values of any type in both columns.
    """
    if isinstance(data, str):
        data = data.encode()
    return isinstance(data, bytes) and zlib.crc32(data) == checksum
