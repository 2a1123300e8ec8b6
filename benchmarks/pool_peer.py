"""Score a file of rollouts with `multiprocessing.Pool`: `python pool_peer.py FORM DATA OUTPUT`.

The peer of `assay score --backend processes` in scale.py. FORM is `lines`, which saves JSON Lines, or
`tables`, which saves the tables of rollouts and verdicts that assay saves. It uses the standard library
alone, has two workers, and prints its CPU seconds, including those of the workers, as JSON.
"""

from __future__ import annotations

import json
import resource
import sqlite3
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from multiprocessing import Pool
from pathlib import Path
from typing import Any, TypeAlias

WORKERS = 2
CHUNK = 1_000  # lines that a worker scores at once

Scored: TypeAlias = tuple[dict[str, Any], dict[str, float], float]  # row, values, reward


def contains(completion: str, answer: str) -> bool:
    return answer in completion


def is_short(completion: str) -> bool:
    return len(completion) < 400


def is_boxed(completion: str) -> bool:
    return "\\boxed{" in completion


def ends_a_sentence(completion: str) -> bool:
    return completion.endswith(".")


def word_share(completion: str) -> float:
    return min(1.0, len(completion.split()) / 50)


CHECKS = (contains, is_short, is_boxed, ends_a_sentence, word_share)
WEIGHTS = (1.0, 0.5, 0.5, 0.25, 0.25)


def score_line(line: str) -> Scored:
    row = json.loads(line)
    completion = row["completion"]
    values = {
        "contains": float(contains(completion, row["answer"])),
        "is_short": float(is_short(completion)),
        "is_boxed": float(is_boxed(completion)),
        "ends_a_sentence": float(ends_a_sentence(completion)),
        "word_share": word_share(completion),
    }
    reward = sum(map(float.__mul__, WEIGHTS, values.values()))
    return row, values, reward


def make_lines(lines: list[str]) -> list[str]:
    """Score a chunk, and return it as JSON Lines."""
    scored = map(score_line, lines)
    return [json.dumps({**row, **values, "reward": reward}) for row, values, reward in scored]


def make_rows(lines: list[str]) -> list[tuple[str, str, float, list[tuple[int, str, float]]]]:
    """Score a chunk, and return the rows of the two tables."""
    rows: list[tuple[str, str, float, list[tuple[int, str, float]]]] = []
    for row, values, reward in map(score_line, lines):
        data = json.dumps({**row, **values, "reward": reward})
        verdicts = [(index, name, value) for index, (name, value) in enumerate(values.items())]
        rows.append((row["id"], data, reward, verdicts))
    return rows


def chunks_of(lines: Iterable[str]) -> Iterator[list[str]]:
    lines = iter(lines)
    while chunk := list(islice(lines, CHUNK)):
        yield chunk


def save_lines(data: str, output: str) -> None:
    with Pool(WORKERS) as pool, Path(data).open() as source, Path(output).open("w") as target:
        for lines in pool.imap(make_lines, chunks_of(source)):
            target.write("\n".join(lines) + "\n")
        pool.close()
        pool.join()


def save_tables(data: str, output: str) -> None:
    connection = sqlite3.connect(output, isolation_level=None)
    connection.executescript("""
        PRAGMA journal_mode = WAL;
        PRAGMA synchronous = NORMAL;
        CREATE TABLE rollouts (
            id INTEGER PRIMARY KEY, example TEXT NOT NULL, sample INTEGER NOT NULL,
            row INTEGER NOT NULL, reward REAL, data TEXT NOT NULL, UNIQUE (example, sample)
        );
        CREATE INDEX rollouts_by_row ON rollouts (row);
        CREATE TABLE verdicts (
            rollout INTEGER NOT NULL, position INTEGER NOT NULL, criterion TEXT NOT NULL,
            value REAL, PRIMARY KEY (rollout, position)
        ) WITHOUT ROWID;
    """)
    number = 0
    with Pool(WORKERS) as pool, Path(data).open() as source:
        for rows in pool.imap(make_rows, chunks_of(source)):
            rollouts: list[tuple[Any, ...]] = []
            verdicts: list[tuple[Any, ...]] = []
            for example, text, reward, values in rows:
                number += 1
                rollouts.append((number, example, 0, number - 1, reward, text))
                verdicts += [(number, *value) for value in values]
            connection.execute("BEGIN")
            connection.executemany("INSERT INTO rollouts VALUES (?, ?, ?, ?, ?, ?)", rollouts)
            connection.executemany("INSERT INTO verdicts VALUES (?, ?, ?, ?)", verdicts)
            connection.execute("COMMIT")
        pool.close()
        pool.join()
    connection.close()


def main() -> None:
    form, data, output = sys.argv[1:]
    save = {"lines": save_lines, "tables": save_tables}[form]
    save(data, output)
    seconds = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(who)
        seconds += usage.ru_utime + usage.ru_stime
    print(json.dumps({"cpu": seconds}))


if __name__ == "__main__":
    main()
