"""Feel the pulse of the event loop while one subject checks a large batch.

Started in a fresh process by `subjects.py`; its only argument is the task as JSON: `subject`,
`pairs` and `probes` (JSON files), `door` (many or each), `timeout`. Prints one JSON line: the
longest silence of a heartbeat, and how long single checks took that were asked meanwhile.
"""

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

from math_checkers import Checker, Pairs, checker_of, leave

BEAT_SECONDS = 0.001
PROBE_SECONDS = 0.002


async def beat(gaps: list[float]) -> None:
    """Note how late each beat comes."""
    previous = time.perf_counter()
    while True:
        await asyncio.sleep(BEAT_SECONDS)
        now = time.perf_counter()
        gaps.append(now - previous - BEAT_SECONDS)
        previous = now


async def probe(checker: Checker, pairs: Pairs, asked: list[tuple[float, float]]) -> None:
    """Ask for one check after the other at a fixed pace, whether or not the last was answered."""

    async def ask(gold: str, answer: str) -> None:
        began = time.perf_counter()
        await checker.check(gold, answer)
        asked.append((began, time.perf_counter() - began))

    async with asyncio.TaskGroup() as group:
        for gold, answer in pairs:
            await asyncio.sleep(PROBE_SECONDS)
            group.create_task(ask(gold, answer))


async def measure(checker: Checker, pairs: Pairs, probes: Pairs, door: str) -> dict[str, Any]:
    """One batch, the heart beating and the probes asking beside it."""
    gaps: list[float] = []
    asked: list[tuple[float, float]] = []
    heart = asyncio.create_task(beat(gaps))
    await asyncio.sleep(0.1)
    gaps.clear()
    began = time.perf_counter()
    asking = asyncio.create_task(probe(checker, probes, asked))
    if door == "many":
        await checker.check_many(pairs)
    else:
        await asyncio.gather(*(checker.check(gold, answer) for gold, answer in pairs))
    ended = time.perf_counter()
    await asyncio.sleep(2 * BEAT_SECONDS)  # for the beat that may be waiting
    longest = max(gaps)
    await asking
    heart.cancel()
    # A probe asked after the batch has no crowd to fight.
    latencies = sorted(latency for when, latency in asked if when <= ended)
    return {
        "wall_seconds": ended - began,
        "longest_gap_seconds": longest,
        "p99_seconds": latencies[int(len(latencies) * 0.99)] if latencies else None,
        "probes": len(latencies),
    }


def main() -> None:
    task: dict[str, Any] = json.loads(sys.argv[1])
    pairs, probes = (json.loads(Path(task[name]).read_text()) for name in ("pairs", "probes"))
    checker = checker_of(task["subject"], timeout=task["timeout"])
    print(json.dumps(asyncio.run(measure(checker, pairs, probes, task["door"]))))
    leave(checker)


if __name__ == "__main__":
    main()
