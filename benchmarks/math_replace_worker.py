"""Kill a subject's worker processes and see how soon, and whether, it answers again.

Started in a fresh process by `subjects.py`; its only argument is the task as JSON: `subject`,
`times`, `timeout`. Prints one JSON line: milliseconds from the kill to the next verdict and the
same check with all workers alive, each the middle one, and how many verdicts were right.
"""

import asyncio
import json
import os
import signal
import sys
import time
from statistics import median
from typing import Any

from math_checkers import Checker, checker_of, leave
from math_processes import descendants


def starters() -> set[int]:
    """Processes that only start others, which has to be asked while those are alive."""
    alive = descendants()
    return {process.pid for process in alive} & {process.parent for process in alive}


def pair(number: int) -> tuple[str, str]:
    """A sum that was not asked before, so that it must be worked out; cheap for every engine."""
    return str(number * (number + 1) // 2), rf"\sum_{{k=1}}^{{{number}}} k"


async def measure(checker: Checker, times: int) -> dict[str, Any]:
    """Checks with all workers alive, then each right after all of them were killed."""
    spared = starters()
    undisturbed = [await timed(checker, number) for number in range(101, 101 + times)]
    disturbed: list[tuple[float, bool]] = []
    for number in range(501, 501 + times):
        for process in descendants():
            if process.pid not in spared:
                os.kill(process.pid, signal.SIGKILL)
        disturbed.append(await timed(checker, number))
    return {
        "check_seconds": median(seconds for seconds, _ in undisturbed),
        "replace_seconds": median(seconds for seconds, _ in disturbed),
        "right": sum(right for _, right in disturbed),
        "times": times,
    }


async def timed(checker: Checker, number: int) -> tuple[float, bool]:
    began = time.perf_counter()
    verdict = await checker.check(*pair(number))
    return time.perf_counter() - began, verdict is True


def main() -> None:
    task: dict[str, Any] = json.loads(sys.argv[1])
    checker = checker_of(task["subject"], timeout=task["timeout"])
    print(json.dumps(asyncio.run(measure(checker, task["times"]))))
    leave(checker)


if __name__ == "__main__":
    main()
