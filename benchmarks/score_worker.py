"""Score states with one subject and print its cost as one JSON line.

Started in a fresh process by `subjects.py`; its only argument is the task as JSON:
`subject`, `measure` (cpu, bare or memory), `checks` (sync or async), `batch`, `batches`, `repeats`.
"""

import asyncio
import gc
import importlib
import json
import math
import sys
import time
from typing import Any

from gauges import cpu_seconds, peak_growth
from workloads import CHECKS, WEIGHTS, State, build_states, call_bare, expected_rewards


def rubric_of(task: dict[str, Any]) -> Any:
    """The subject's own `Rubric`; assay and verifiers spell the constructor alike."""
    module = importlib.import_module(task["subject"])
    return module.Rubric(funcs=list(CHECKS[task["checks"]]), weights=list(WEIGHTS))


async def score_batches(rubric: Any, batches: list[list[State]]) -> None:
    """One `score_group` after another, in one event loop."""
    for batch in batches:
        await rubric.score_group(batch)


async def measure_cpu(task: dict[str, Any]) -> dict[str, float]:
    """The cheapest of several rounds, each on fresh states."""
    rubric = rubric_of(task)
    costs: list[float] = []
    for _ in range(task["repeats"]):
        batches = build_batches(task)
        costs.append(await cpu_seconds(score_batches(rubric, batches)))
        assert_scored(batches)
    return {"cpu_seconds": min(costs), "rollouts": task["batch"] * task["batches"]}


async def measure_bare(task: dict[str, Any]) -> dict[str, float]:
    """Scoring and the bare loop in turn, in one process, so that both meet the same machine."""
    rubric = rubric_of(task)
    scored: list[float] = []
    bare: list[float] = []
    for _ in range(task["repeats"]):
        batches = build_batches(task)
        scored.append(await cpu_seconds(score_batches(rubric, batches)))
        assert_scored(batches)
        bare.append(bare_seconds(build_batches(task)))
    return {"cpu_seconds": min(scored), "bare_cpu_seconds": min(bare), "rollouts": task["batch"] * task["batches"]}


async def measure_memory(task: dict[str, Any]) -> dict[str, float]:
    """The peak of one round; a second would reuse memory the first had freed."""
    rubric = rubric_of(task)
    batches = build_batches(task)
    growth = await peak_growth(score_batches(rubric, batches))
    assert_scored(batches)
    return {"peak_bytes": growth}


def bare_seconds(batches: list[list[State]]) -> float:
    """CPU seconds of the checks alone."""
    gc.collect()
    start = time.process_time()
    for batch in batches:
        call_bare(batch)
    return time.process_time() - start


def build_batches(task: dict[str, Any]) -> list[list[State]]:
    """Fresh states, cut into batches of the size asked for."""
    size: int = task["batch"]
    states = build_states(size * task["batches"])
    return [states[start : start + size] for start in range(0, len(states), size)]


def assert_scored(batches: list[list[State]]) -> None:
    """Refuse a figure for work that was not done, or done differently."""
    for batch in batches:
        for state, expected in zip(batch, expected_rewards(batch), strict=True):
            if not math.isclose(state["reward"], expected):
                raise ValueError(f"reward {state['reward']!r}, expected {expected!r}: {state!r}")


MEASURES = {"cpu": measure_cpu, "bare": measure_bare, "memory": measure_memory}


def main() -> None:
    task: dict[str, Any] = json.loads(sys.argv[1])
    print(json.dumps(asyncio.run(MEASURES[task["measure"]](task))))


if __name__ == "__main__":
    main()
