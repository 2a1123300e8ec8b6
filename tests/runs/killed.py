"""Score rows in a child process, kill it at random moments, and resume.

`killed.py FOLDER ROWS KILLS SEED [MODEL]`. FOLDER.calls records every call of the check and, after each
kill, the rows saved so far, so that a test can tell which rows were scored twice.
"""

import asyncio
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from assay import PerCriterionGrader, Rubric
from assay.models import model_of
from assay.runs import Run, score_rows
from assay.runs.run_file import RunFile
from assay.runs.run_schema import is_run

FOLDER, ROWS, KILLS, SEED = Path(sys.argv[1]), *map(int, sys.argv[2:5])
MODEL = sys.argv[5] if len(sys.argv) > 5 else None
CALLS = os.open(f"{FOLDER}.calls", os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def append_to_log(entry: object) -> None:
    os.write(CALLS, json.dumps(entry).encode() + b"\n")


def slow_check(n):
    append_to_log(n)
    time.sleep(0.001)
    return n % 5 / 4


def score():
    rows = ({"n": n, "completion": f"This is text number {n}."} for n in range(ROWS))
    if MODEL is None:
        work = score_rows(Rubric([slow_check]), rows, folder=FOLDER, resume=True)
    else:
        grader = PerCriterionGrader(model=model_of(MODEL))
        rubric = Rubric([{"requirement": "Is even"}], judge=grader)
        work = score_rows(rubric, rows, folder=FOLDER, resume=True, max_concurrent=8)
    return asyncio.run(work)


def read_saved_rows():
    if not is_run(FOLDER) or not RunFile(FOLDER).holds_work:
        return []
    return [row.fields["n"] for row in Run.open(FOLDER).rows()]


def main():
    moments = random.Random(SEED)
    for _ in range(KILLS):
        size_before = os.fstat(CALLS).st_size
        child = os.fork()
        if child == 0:
            score()
            os._exit(0)
        # Do not kill before the first call: opening the run may take a while on a busy disk.
        deadline = time.monotonic() + 2
        while (
            MODEL is None and os.fstat(CALLS).st_size == size_before and time.monotonic() < deadline
        ):
            time.sleep(0.001)
        time.sleep(moments.uniform(0, 0.1 if MODEL is None else 0.2))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        append_to_log({"saved": read_saved_rows()})
    sys.stdout.write(str(score().rollouts))


main()
