"""Give hostile answers to one subject, and tell each verdict as it comes.

Started in a fresh process by `math_watch.py`, which may have to kill it; its only argument is the
task as JSON: `subject`, `pairs` (a JSON file), `timeout`, `way` and `limit`. Prints JSON lines:
`{"beat": s}` while the event loop lives, `{"case": n, "verdict": v, "seconds": s}` for each answer,
and a last line when all is done. The ways:

- `together`: all pairs at once in one event loop,
- `alone`: one after the other in one event loop,
- `apart`: each in a forked process of its own, killed after `limit` seconds.
"""

import asyncio
import contextlib
import json
import os
import resource
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from math_checkers import WARM_UP, Checker, Pairs, checker_of
from math_processes import descendants

BEAT_SECONDS = 0.25
LOOK_SECONDS = 0.02


def tell(**news: Any) -> None:
    """One line, at once: there may be no later."""
    print(json.dumps(news), flush=True)


async def beat() -> None:
    while True:
        tell(beat=time.monotonic())
        await asyncio.sleep(BEAT_SECONDS)


async def ask(checker: Checker, number: int, gold: str, answer: str) -> None:
    """One check; whatever it raises is told too."""
    began = time.perf_counter()
    try:
        verdict: Any = await checker.check(gold, answer)
    except Exception as error:  # noqa: BLE001 - the outcome is what is measured
        verdict = f"{type(error).__name__}: {error}"[:200]
    seconds = time.perf_counter() - began
    tell(case=number, verdict=verdict, seconds=seconds, words=checker.last)


async def together(checker: Checker, pairs: Pairs) -> None:
    heart = asyncio.create_task(beat())
    await asyncio.gather(*(ask(checker, n, *pair) for n, pair in enumerate(pairs)))
    heart.cancel()


async def alone(checker: Checker, pairs: Pairs) -> None:
    heart = asyncio.create_task(beat())
    for number, pair in enumerate(pairs):
        await ask(checker, number, *pair)
    heart.cancel()


def in_one_process(task: dict[str, Any], pairs: Pairs) -> None:
    """Ask them all, then close and count what stays."""
    threads = threading.active_count()
    checker = checker_of(task["subject"], timeout=task["timeout"])
    asyncio.run({"together": together, "alone": alone}[task["way"]](checker, pairs))
    checker.close()
    tell(peak_bytes=peak_bytes(), processes_left=len(descendants()), threads_left=threading.active_count() - threads)


def peak_bytes() -> int:
    """Of the largest process that was started and has ended; of this one when there was none."""
    started = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return 1024 * (started or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def apart(task: dict[str, Any], pairs: Pairs) -> None:
    """Fork for each pair once the packages are loaded; a fresh import each would take minutes."""
    subject, timeout, half = task["subject"], task["timeout"], len(WARM_UP) // 2
    checker_of(subject, timeout=timeout, warm_up=WARM_UP[:half]).close()
    for number, pair in enumerate(pairs):
        child = os.fork()
        if child == 0:
            os.setsid()
            # The other half: what the parent was asked may be remembered here.
            checker = checker_of(subject, timeout=timeout, warm_up=WARM_UP[half:])
            asyncio.run(ask(checker, number, *pair))
            os._exit(0)
        if not ended(child, task["limit"]):
            tell(case=number, verdict=f"no answer in {task['limit']} s", seconds=task["limit"])
        kill_group(child)
    tell(finished=True)


def ended(child: int, seconds: float) -> bool:
    """Whether the child ended by itself in time; it is gone afterwards in any case."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if os.waitpid(child, os.WNOHANG)[0]:
            return True
        time.sleep(LOOK_SECONDS)
    kill_group(child)
    os.waitpid(child, 0)
    return False


def kill_group(leader: int) -> None:
    """The child's own pool may outlive it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def main() -> None:
    task: dict[str, Any] = json.loads(sys.argv[1])
    pairs: Pairs = json.loads(Path(task["pairs"]).read_text())
    if task["way"] == "apart":
        apart(task, pairs)
    else:
        in_one_process(task, pairs)


if __name__ == "__main__":
    main()
