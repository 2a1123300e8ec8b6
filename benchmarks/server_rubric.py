"""The rubrics that `assay serve` and FastAPI serve, and the expected reward of each rollout."""

import asyncio
import time

from assay import Rubric

CAPACITY = 4  # rollouts that the judge can handle at a time
SECONDS = 0.02  # the time that the judge needs for a rollout


def exact(completion: str, answer: str) -> float:
    return 1.0 if completion == answer else 0.0


def short(completion: str) -> float:
    return 1.0 if len(completion) < 250 else 0.0


def shows_work(completion: str) -> float:
    return 1.0 if "because" in completion else 0.0


class Judge:
    """A judge that is slow and has a limited capacity."""

    def __init__(self) -> None:
        self._semaphore: asyncio.Semaphore | None = None

    async def judged(self, completion: str) -> float:
        if self._semaphore is None:
            self._semaphore = asyncio.Semaphore(CAPACITY)
        async with self._semaphore:
            await asyncio.sleep(SECONDS)
        return 1.0


def busy(completion: str) -> float:
    """Use the CPU for as long as the judge needs for a rollout."""
    deadline = time.thread_time() + SECONDS
    while time.thread_time() < deadline:
        pass
    return 1.0


cheap = Rubric([exact, short, shows_work], weights=[2, 1, 0.5])
judged = Rubric([Judge().judged])
working = Rubric([busy])


def rollout(number: int) -> dict[str, str]:
    """Return a rollout that differs from those of other numbers."""
    answer = str(number % 7)
    completion = answer if number % 3 else f"It is {answer}, because {number} says so. " * 8
    return {"prompt": f"What is {number} modulo 7?", "completion": completion, "answer": answer}


def expected(number: int) -> float:
    """Return the reward of `cheap` for a rollout.

    It is 2 + 1 for the bare answer. The other completions show work, which is worth 0.5, and 1 more if
    they are short.
    """
    if number % 3:
        return 3.0
    is_short = len(rollout(number)["completion"]) < 250
    return 0.5 + is_short
