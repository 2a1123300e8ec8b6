"""A program that scores rows in a child process, kills it at random moments and goes on.

`killed.py FOLDER ROWS KILLS SEED [MODEL]`. Every call of the check is noted in FOLDER.calls, and after
each kill what was saved by then, so that a test can tell what was done twice.
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


def note(what: object) -> None:
    os.write(CALLS, json.dumps(what).encode() + b"\n")


def slow(n):
    note(n)
    time.sleep(0.001)
    return n % 5 / 4


def score():
    rows = ({"n": n, "completion": f"This is text number {n}."} for n in range(ROWS))
    if MODEL is None:
        work = score_rows(Rubric([slow]), rows, folder=FOLDER, resume=True)
    else:
        grader = PerCriterionGrader(model=model_of(MODEL))
        rubric = Rubric([{"requirement": "Is even"}], judge=grader)
        work = score_rows(rubric, rows, folder=FOLDER, resume=True, max_concurrent=8)
    return asyncio.run(work)


def saved():
    if not is_run(FOLDER) or not RunFile(FOLDER).holds_work:
        return []
    return [row.fields["n"] for row in Run.open(FOLDER).rows()]


def main():
    moments = random.Random(SEED)
    for _ in range(KILLS):
        before = os.fstat(CALLS).st_size
        child = os.fork()
        if child == 0:
            score()
            os._exit(0)
        # Kills are to meet the work, and a busy disk may take its time to open the run.
        ends = time.monotonic() + 2
        while MODEL is None and os.fstat(CALLS).st_size == before and time.monotonic() < ends:
            time.sleep(0.001)
        time.sleep(moments.uniform(0, 0.1 if MODEL is None else 0.2))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        note({"saved": saved()})
    sys.stdout.write(str(score().rollouts))


main()
