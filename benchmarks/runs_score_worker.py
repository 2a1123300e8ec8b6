"""Score a file of rollouts into a run's folder: `runs_score_worker.py ROWS RUBRIC FOLDER [CALLS]`.

With CALLS, every rollout that is scored adds a byte to that file, and the folder is resumed.
"""

import asyncio
import os
import sys

from assay import Criterion, Rubric
from assay.runs import score_rows
from assay.tables import rows_of


def main() -> None:
    rows, file, folder, *noted = sys.argv[1:]
    rubric = Rubric.from_file(file)
    if noted:
        calls = os.open(noted[0], os.O_WRONLY | os.O_CREAT | os.O_APPEND)

        def counted() -> float:
            return os.write(calls, b".")

        metric = Criterion(check=counted, weight=0, name="counted")
        rubric = Rubric([*rubric.criteria, metric])
    asyncio.run(score_rows(rubric, rows_of(rows), folder=folder, resume=bool(noted)))


main()
