"""Score a file of rollouts by one engine, and print what it took: `scale_worker.py ENGINE RUBRIC ROWS FOLDER`.

ENGINE is `alone`, `processes:N` or `ray:N`; RUBRIC is `cheap`, `math` or `integers`. Prints JSON: wall seconds, and CPU
seconds of this process, of the others, and of the engine's start.
"""

import asyncio
import json
import os
import resource
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assay import MathRubric, Rubric
from assay.backends import Processes, RayTasks, score_shards
from assay.runs import Summary, score_rows
from assay.tables import rows_of

TICKS = os.sysconf("SC_CLK_TCK")


def contains(completion: str, answer: str) -> bool:
    return answer in completion


def is_short(completion: str) -> bool:
    return len(completion) < 400


def is_boxed(completion: str) -> bool:
    return "\\boxed{" in completion


def cheap() -> tuple[Rubric, None]:
    return Rubric([contains, is_short, is_boxed], weights=[1, 0.5, 0.5], name="cheap"), None


def math() -> tuple[Rubric, None]:
    return MathRubric(), None


RUBRICS = {"cheap": cheap, "math": math, "integers": math}


def main() -> None:
    engine, rubric, path, folder = sys.argv[1:]
    kind, _, workers = engine.partition(":")
    make = RUBRICS[rubric]
    before = time.process_time()
    started = time.perf_counter()
    if kind == "alone":
        summary = asyncio.run(score_rows(make()[0], rows_of(path), folder=folder))
    elif kind == "processes":
        summary = score_shards(make, [path], folder, engine=Processes(int(workers)))
    else:
        print(json.dumps(_by_ray(make, path, folder, int(workers))))
        return
    taken = {"wall": time.perf_counter() - started, "driver": time.process_time() - before}
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(json.dumps({**taken, "workers": children.ru_utime + children.ru_stime, **_found(summary)}))


def _by_ray(make: Any, path: str, folder: str, workers: int) -> Mapping[str, float]:
    """With a Ray that is there already, whose start is counted apart."""
    import ray

    started = time.perf_counter()
    ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False)
    start = {"start_wall": time.perf_counter() - started, "start": _all_cpu()}
    driver, began = time.process_time(), time.perf_counter()
    summary = score_shards(make, [path], folder, engine=RayTasks(workers=workers))
    taken = {"wall": time.perf_counter() - began, "driver": time.process_time() - driver}
    others = _all_cpu() - start["start"] - taken["driver"]
    ray.shutdown()
    return {**start, **taken, "workers": others, **_found(summary)}


def _found(summary: Summary) -> dict[str, float]:
    return {"rows": summary.rollouts, "mean": summary.score.mean or 0.0}


def _all_cpu() -> float:
    """CPU seconds of every process that is seen here, and of those that they have buried."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            ticks += sum(map(int, stat.read_text().rpartition(")")[2].split()[11:15]))
        except OSError:
            continue  # it has just ended
    return ticks / TICKS


if __name__ == "__main__":
    main()
