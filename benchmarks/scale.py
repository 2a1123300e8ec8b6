"""Measure scoring by many workers: `python benchmarks/scale.py`.

How much faster two workers are than one, and what a backend costs beside the work. Prints tables and writes them into benchmarks/RESULTS.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from operator import itemgetter
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

from harness import (
    Check,
    Limit,
    Peer,
    Row,
    Table,
    Target,
    add_options,
    as_table,
    plain_table,
    run_worker,
    save_results,
    say,
    worker,
)

from assay import MathRubric, Rubric, rows_of
from assay.backends import Processes, RayTasks, score_shards
from assay.backends.driver import Results, TakeTask
from assay.backends.worker import Job, score_shard
from assay.runs import Summary, score_rows

# Score a file of rollouts by one backend, and print what it took: `scale.py --worker scale BACKEND RUBRIC ROWS FOLDER`.

# BACKEND is `alone`, `processes:N` or `ray:N`; RUBRIC is `cheap`, `math` or `integers`. Prints JSON: wall seconds, and CPU
# seconds of this process, of the others, and of the backend's start.

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


def scale_main() -> None:
    backend, rubric, path, folder = sys.argv[1:]
    kind, _, workers = backend.partition(":")
    make = RUBRICS[rubric]
    before = time.process_time()
    started = time.perf_counter()
    if kind == "alone":
        summary = asyncio.run(score_rows(make()[0], rows_of(path), folder=folder))
    elif kind == "processes":
        summary = score_shards(make, [path], folder, backend=Processes(int(workers)))
    else:
        print(json.dumps(_by_ray(make, path, folder, int(workers))))
        return
    taken = {"wall": time.perf_counter() - started, "driver": time.process_time() - before}
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        json.dumps({**taken, "workers": children.ru_utime + children.ru_stime, **_found(summary)})
    )


def _by_ray(make: Any, path: str, folder: str, workers: int) -> Mapping[str, float]:
    """With a Ray that is there already, whose start is counted apart."""
    import ray

    started = time.perf_counter()
    ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False)
    start = {"start_wall": time.perf_counter() - started, "start": _all_cpu()}
    driver, began = time.process_time(), time.perf_counter()
    summary = score_shards(make, [path], folder, backend=RayTasks(workers=workers))
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


# Score files of rollouts in turn by one process's way and by a worker's, and print the CPU seconds of each as JSON.

# `scale.py --worker shard RUBRIC FOLDER FILE...`. Both ways run in this one process, a file each, so that a slow moment of
# the machine meets both. A worker's way is all of it, from cutting to joining, but for its start and the pipe.


class Here:
    """A backend that does the work itself."""

    @contextmanager
    def open_workers(self) -> Generator[int]:
        yield 1

    def run(self, job: Job, take: TakeTask) -> Results:
        while (task := take()) is not None:
            yield score_shard(job, task)


def shard_main() -> None:
    name, folder, *files = sys.argv[1:]
    make = RUBRICS[name]
    rubric, _ = make()

    def alone(path: str, run: Path) -> None:
        asyncio.run(score_rows(rubric, rows_of(path), folder=run))

    def by_shard(path: str, run: Path) -> None:
        score_shards(make, [path], run, backend=Here())

    ways: dict[str, Callable[[str, Path], None]] = {"alone": alone, "shard": by_shard}
    taken: dict[str, list[float]] = {way: [] for way in ways}
    for number, path in enumerate(files):
        way = list(ways)[number % 2]
        began = time.process_time()
        ways[way](path, Path(folder) / f"run-{number}")
        taken[way].append(time.process_time() - began)
    print(json.dumps(taken))


# What is measured of many workers: the gain of a second one, and the cost of a backend.

# Runs are in fresh processes of their own, with workers that are started for them, and CPU seconds are those of all
# processes. One worker and two take turns, and the fastest round of each counts; shards take turns in one process.

HERE = Path(__file__).parent
SHARD = 10_000
APART = (
    "unshare",
    "-rnpf",
    "--mount-proc",
    "--kill-child",
    "sh",
    "-c",
    'ip link set lo up && exec "$0" "$@"',
)
"""A network that has only the loopback: Ray listens on all interfaces."""
WORDS = (
    "the",
    "heat",
    "pump",
    "pays",
    "for",
    "itself",
    "in",
    "seven",
    "to",
    "nine",
    "years",
    "where",
    "winters",
    "are",
    "mild",
    "and",
    "power",
    "is",
    "cheap",
)

Say: TypeAlias = Callable[[str], None]
Taken: TypeAlias = Mapping[str, float]


@dataclass(frozen=True)
class Sizes:
    """How much; the defaults are what the targets speak of."""

    rows: int = 1_000_000
    """Cheap rollouts, for the gain of a second worker."""
    rounds: int = 3
    """Of each number of workers."""
    pairs: int = 16
    """Of mathematical shards, for what one costs beside its work."""


QUICK = Sizes(rows=20_000, rounds=1, pairs=3)


@dataclass
class Found:
    """What a measure comes to."""

    rows: list[Row | Check] = field(default_factory=list[Row | Check])
    tables: list[Table] = field(default_factory=list[Table])
    notes: list[str] = field(default_factory=list[str])


def gain(sizes: Sizes, say: Say) -> Found:
    """Two workers against one, and what each backend takes for the same rollouts."""
    found = Found()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), say)
        backends = ("processes:1", "processes:2") * sizes.rounds + ("alone", "ray:2")
        taken: dict[str, Taken] = {}
        for backend in backends:
            try:
                took = bench.run(backend, "cheap", sizes.rows)
                taken[backend] = min(took, taken.get(backend, took), key=itemgetter("wall"))
            except RuntimeError as error:
                found.notes.append(f"{backend} was not measured: {error}")
    rate = {backend: sizes.rows / took["wall"] for backend, took in taken.items()}
    found.rows.append(
        Row(
            f"{sizes.rows:,} cheap rollouts, two workers",
            rate["processes:2"],
            rate["processes:1"],
            "rollouts/s",
            against="one worker",
            target=Target(1.7, "at least"),
        )
    )
    driver = taken["processes:2"]["driver"] / sizes.rows * 1e6
    found.rows.append(
        Row("the driver alone, cutting and joining, CPU", driver, None, "µs a rollout")
    )
    found.tables.append(_backends(taken, sizes.rows))
    return found


def _backends(taken: Mapping[str, Taken], rows: int) -> Table:
    lines: list[tuple[str, ...]] = []
    for backend, took in taken.items():
        cpu = took["driver"] + took["workers"]
        figures = (took["wall"], took["driver"], took["workers"])
        lines.append(
            (
                backend,
                *(f"{figure:.2f}" for figure in figures),
                f"{1e6 * cpu / rows:.1f}",
                f"{took['start']:.2f}" if "start" in took else "in the others",
            )
        )
    headings = (
        "backend",
        "wall s",
        "CPU s driver",
        "CPU s workers",
        "CPU µs a rollout",
        "CPU s start",
    )
    return Table(f"What {rows:,} cheap rollouts take, by backend:", headings, tuple(lines))


def overhead(sizes: Sizes, say: Say) -> Found:
    """What a shard of mathematics costs beside the work, the start of a worker left out."""
    found = Found()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), say)
        for rubric, answers in (("math", "answers of many forms"), ("integers", "integers only")):
            work, whole = _a_shard(bench, rubric, sizes)
            share = 100 * (whole - work) / work
            limit = Limit(10, "at most", "%") if rubric == "math" else None
            found.rows += [
                Row(f"a shard of {SHARD:,}, {answers}: the work alone", work, None, "CPU s"),
                Row("the same by a worker, part written and joined", whole, None, "CPU s"),
                Row(f"backend overhead a shard, {answers}", share, None, "%", target=limit),
            ]
    return found


def _a_shard(bench: Bench, rubric: str, sizes: Sizes) -> tuple[float, float]:
    """CPU seconds of a shard by one process, and by a worker: that, and the median of what pairs differ by."""
    took = bench.shards(rubric, sizes.pairs)
    pairs = list(zip(took["alone"], took["shard"], strict=True))[1:]  # the first is to warm up
    work = median(alone for alone, _ in pairs)
    return work, work * median(shard / alone for alone, shard in pairs)


MEASURES: Mapping[str, Callable[[Sizes, Say], Found]] = {"gain": gain, "overhead": overhead}


class Bench:
    """Files of rollouts, and runs of them."""

    def __init__(self, folder: Path, say: Say) -> None:
        self._folder = folder
        self._say = say
        self._number = 0

    def run(self, backend: str, rubric: str, rows: int) -> Taken:
        """What scoring so many rollouts takes. Raises `RuntimeError` when it cannot be done."""
        self._number += 1
        run = self._folder / f"run-{self._number}"
        command = [sys.executable, *worker("scale.py:scale"), backend, rubric]
        command += [str(self._file(rows, of_many_forms=rubric == "math")), str(run)]
        took = _told([*APART, *command] if backend.startswith("ray") else command, self._say)
        if took["rows"] != rows:
            raise RuntimeError(f"{took['rows']} rows came of {rows}")
        subprocess.run(["rm", "-r", str(run)], check=True)
        return took

    def shards(self, rubric: str, pairs: int) -> Mapping[str, Sequence[float]]:
        """CPU seconds of shards that are scored in turn by one process's way and by a worker's."""
        of_many_forms = rubric == "math"
        rows = [SHARD + number for number in range(2 * pairs)]  # of other rows each
        files = [str(self._file(each, of_many_forms=of_many_forms)) for each in rows]
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            command = [sys.executable, *worker("scale.py:shard"), rubric, folder]
            return _told([*command, *files], self._say)

    def _file(self, rows: int, *, of_many_forms: bool) -> Path:
        path = self._folder / f"{rows}{'-of-many-forms' * of_many_forms}.jsonl"
        if not path.exists():
            _write(path, rows, _of_many_forms if of_many_forms else _integer)
        return path


def _told(command: Sequence[str], say: Say) -> Any:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=HERE)
    if done.returncode:
        last = (done.stderr.strip() or "it said nothing").splitlines()[-1]
        raise RuntimeError(f"exit code {done.returncode}: {last}")
    said = done.stdout.splitlines()[-1]
    say(f"{' '.join(command[command.index(sys.executable) + 1 :][:3])}: {said}")
    return json.loads(said)


def _integer(drawn: random.Random) -> tuple[str, str]:
    """The answer, and what the model says: the same in six cases of ten."""
    answer = drawn.randrange(1000)
    return str(answer), str(answer if drawn.random() < 0.6 else answer + 1)


def _of_many_forms(drawn: random.Random) -> tuple[str, str]:
    """The same, where both are written as mathematicians and models write."""
    n, d = drawn.randrange(2, 10_000), drawn.randrange(2, 100)
    said = n if drawn.random() < 0.6 else n + 1
    return drawn.choice(
        (
            (f"{n}", f"{said}"),
            (f"{n:,}", f"{said}"),
            (rf"\frac{{{n}}}{{{d}}}", rf"\dfrac{{{2 * said}}}{{{2 * d}}}"),
            (f"{n / 8}", rf"\frac{{{said}}}{{8}}"),
            (rf"{d}\sqrt{{{n}}}", rf"\sqrt{{{d * d * said}}}"),
            (f"({n}, {d})", rf"\left({said},{d}\right)"),
        )
    )


def _write(
    path: Path, rows: int, draw: Callable[[random.Random], tuple[str, str]] = _integer
) -> None:
    """Rollouts of about 450 bytes with an id each, the same each time."""
    drawn = random.Random(rows)
    words = partial(drawn.choices, WORDS)
    with path.open("w", encoding="utf-8") as file:
        for number in range(rows):
            answer, said = draw(drawn)
            prompt = f"{' '.join(words(k=15))}: what is {answer} + 0?"
            completion = f"{' '.join(words(k=40))}. The answer is \\boxed{{{said}}}."
            row = {"id": f"q-{number}", "prompt": prompt, "completion": completion}
            file.write(json.dumps({**row, "answer": answer}) + os.linesep)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    sizes = QUICK if options.quick else Sizes()
    if options.rows:
        sizes = Sizes(rows=options.rows)
        options.no_save = True
    rows: list[Row | Check] = []
    tables: list[Table] = []
    notes: list[str] = []
    try:
        for name in options.only or MEASURES:
            found = MEASURES[name](sizes, say)
            rows += found.rows
            tables += found.tables
            notes += found.notes
    except KeyboardInterrupt:
        say("stopped; nothing was saved")
        return 130
    tables = [as_table(rows), *tables]
    print("\n\n".join(map(plain_table, tables)))
    for note in notes:
        print(f"note: {note}")
    save_results("many workers", tables, notes, options, peers=_ray())
    return 0


def _ray() -> list[Peer]:
    """The Ray that was measured, for the facts of the section."""
    try:
        return [Peer("ray", version("ray"), ())]
    except PackageNotFoundError:
        return []


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scale.py", description=(__doc__ or "").strip())
    add_options(parser, list(MEASURES))
    parser.add_argument("--rows", type=int, help="so many rollouts instead of a million")
    return parser


if __name__ == "__main__":
    run_worker(sys.argv, {"scale": scale_main, "shard": shard_main})
    sys.exit(main())
