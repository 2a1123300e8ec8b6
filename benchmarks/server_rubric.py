"""The rubrics that are served, here and by FastAPI, and the reward that each rollout should get."""

import asyncio
import time

from assay import Rubric

CAPACITY = 4
"""Rollouts that the judge takes at a time …"""
SECONDS = 0.02
"""… and how long it takes over each."""


def exact(completion: str, answer: str) -> float:
    return 1.0 if completion == answer else 0.0


def short(completion: str) -> float:
    return 1.0 if len(completion) < 250 else 0.0


def shows_work(completion: str) -> float:
    return 1.0 if "because" in completion else 0.0


class Judge:
    """Somebody who takes a while, and can only do so much at a time."""

    def __init__(self) -> None:
        self._places: asyncio.Semaphore | None = None

    async def judged(self, completion: str) -> float:
        self._places = self._places or asyncio.Semaphore(CAPACITY)
        async with self._places:
            await asyncio.sleep(SECONDS)
        return 1.0


def busy(completion: str) -> float:
    """Keeps the processor for as long as the judge takes over one."""
    ends = time.thread_time() + SECONDS
    while time.thread_time() < ends:
        pass
    return 1.0


cheap = Rubric([exact, short, shows_work], weights=[2, 1, 0.5])
judged = Rubric([Judge().judged])
working = Rubric([busy])


def rollout(number: int) -> dict[str, str]:
    """One of many rollouts, no two alike."""
    answer = str(number % 7)
    completion = answer if number % 3 else f"It is {answer}, because {number} says so. " * 8
    return {"prompt": f"What is {number} modulo 7?", "completion": completion, "answer": answer}


def expected(number: int) -> float:
    """What `cheap` gives for it: 2 + 1 for the bare answer, else 0.5, for it is long and shows work."""
    return 3.0 if number % 3 else 0.5 + (len(rollout(number)["completion"]) < 250)
