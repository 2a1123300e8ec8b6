"""Score many rollouts by `RemoteRubric`, one a request, while somebody kills the server's workers.

Its only argument is the task as JSON: `url` and `count`. Prints how many were answered, unanswered and wrong.
"""

import asyncio
import json
import sys
import time

from server_rubric import expected, rollout

from assay import Rollout
from assay.server import RemoteRubric


async def main(url: str, count: int) -> dict[str, float]:
    remote = RemoteRubric(url, batch_size=1, at_once=32, patience=120)
    started = time.perf_counter()
    reports = await remote.score([Rollout(**rollout(number)) for number in range(count)])
    answered = [report for report in reports if report.scored]
    wrong = sum(report.scored and report.raw_score != expected(number) for number, report in enumerate(reports))
    return {
        "answered": len(answered),
        "unanswered": count - len(answered),
        "wrong": wrong,
        "seconds": time.perf_counter() - started,
    }


if __name__ == "__main__":
    task = json.loads(sys.argv[1])
    print(json.dumps(asyncio.run(main(task["url"], task["count"]))))
