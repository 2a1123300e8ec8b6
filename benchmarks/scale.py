"""Measure scoring by many workers: `python benchmarks/scale.py`.

It measures how much faster two workers are than one, and the overhead of a backend. Prints tables and
writes them into benchmarks/RESULTS.md.
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
from importlib.metadata import PackageNotFoundError, version
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
from pool_peer import CHECKS, WEIGHTS

from assay import MathRubric, Rubric, rows_of
from assay.backends import Processes, RayTasks, score_shards
from assay.backends.driver import TakeTask
from assay.backends.worker import Job, ShardResult, score_shard
from assay.runs import score_rows

# Score a file of rollouts with one backend, and print the time: `scale.py --worker scale BACKEND RUBRIC ROWS FOLDER`.

# BACKEND is `alone`, `processes:N` or `ray:N`; RUBRIC is `cheap`, `math` or `integers`. Prints JSON: wall seconds, and CPU
# seconds of this process, of the others, and of the backend's start.

TICKS = os.sysconf("SC_CLK_TCK")


def cheap() -> tuple[Rubric, None]:
    return Rubric(CHECKS[:3], weights=WEIGHTS[:3], name="cheap"), None


def math() -> tuple[Rubric, None]:
    return MathRubric(), None


FIVE = Rubric(CHECKS, weights=WEIGHTS, name="five")
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
        print(json.dumps(_score_with_ray(make, path, folder, int(workers))))
        return
    wall = time.perf_counter() - started
    driver = time.process_time() - before
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    figures = {
        "wall": wall,
        "driver": driver,
        "workers": children.ru_utime + children.ru_stime,
        "rows": summary.rollouts,
        "mean": summary.score.mean or 0.0,
    }
    print(json.dumps(figures))


def _score_with_ray(make: Any, path: str, folder: str, workers: int) -> Mapping[str, float]:
    """Start Ray, score with it, and return the seconds of the two separately."""
    import ray

    started = time.perf_counter()
    ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False)
    start_wall = time.perf_counter() - started
    start_cpu = _cpu_of_all_processes()

    driver_before = time.process_time()
    started = time.perf_counter()
    summary = score_shards(make, [path], folder, backend=RayTasks(workers=workers))
    wall = time.perf_counter() - started
    driver = time.process_time() - driver_before
    others = _cpu_of_all_processes() - start_cpu - driver
    ray.shutdown()
    return {
        "start_wall": start_wall,
        "start": start_cpu,
        "wall": wall,
        "driver": driver,
        "workers": others,
        "rows": summary.rollouts,
        "mean": summary.score.mean or 0.0,
    }


def _cpu_of_all_processes() -> float:
    """Return the CPU seconds of all processes in this namespace, and of their ended children."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            ticks += sum(map(int, stat.read_text().rpartition(")")[2].split()[11:15]))
        except OSError:
            continue  # it has just ended
    return ticks / TICKS


# Score files by `score_rows` and by `score_shards` in turn, and print the CPU seconds of each as JSON.

# `scale.py --worker shard RUBRIC FOLDER FILE...`. Both run in this process, a file each in turn, so that a slow moment of the
# machine affects both. With shards, everything is measured from cutting the file to merging the parts, except for the
# start of a worker and the pipe to it.


def score_main() -> None:
    """Run `assay score` with two workers, and print its CPU seconds and those of its workers."""
    data, output = sys.argv[1:]
    options = ["-r", "scale:FIVE", "-o", output, "-q", "--backend", "processes", "--workers", "2"]
    command = [sys.executable, "-m", "assay", "score", data, *options]
    subprocess.run(command, check=True, capture_output=True, cwd=HERE)
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(json.dumps({"cpu": usage.ru_utime + usage.ru_stime}))


class SameProcess:
    """A backend that scores shards in the process of the driver."""

    @contextmanager
    def open_workers(self) -> Generator[int]:
        yield 1

    def run(self, job: Job, take_task: TakeTask) -> Generator[ShardResult]:
        while (task := take_task()) is not None:
            yield score_shard(job, task)


def shard_main() -> None:
    name, folder, *files = sys.argv[1:]
    make = RUBRICS[name]
    rubric, _ = make()

    seconds: dict[str, list[float]] = {"alone": [], "shard": []}
    for number, path in enumerate(files):
        run = Path(folder) / f"run-{number}"
        before = time.process_time()
        if number % 2 == 0:
            asyncio.run(score_rows(rubric, rows_of(path), folder=run))
            seconds["alone"].append(time.process_time() - before)
        else:
            score_shards(make, [path], run, backend=SameProcess())
            seconds["shard"].append(time.process_time() - before)
    print(json.dumps(seconds))


# Measure the gain of a second worker, and the cost of a backend.

# Every run is in a new process, with workers of its own, and CPU seconds are those of all its processes.
# One worker and two take turns, and the fastest round of each counts; shards take turns in one process.

HERE = Path(__file__).parent
SHARD = 10_000  # rows of a shard
POOL_ROWS = 100_000  # rollouts that are scored beside `multiprocessing.Pool`
# Runs a command in a network that has only the loopback: Ray listens on all interfaces.
ISOLATED = (
    "unshare",
    "-rnpf",
    "--mount-proc",
    "--kill-child",
    "sh",
    "-c",
    'ip link set lo up && exec "$0" "$@"',
)
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
Seconds: TypeAlias = Mapping[str, float]  # what the worker `scale` prints


@dataclass(frozen=True)
class Sizes:
    """How much to measure; the targets are for the defaults."""

    rows: int = 1_000_000  # cheap rollouts, for the gain of a second worker
    rounds: int = 3  # runs with one worker, and with two
    pairs: int = 16  # pairs of mathematical shards, for the overhead of a backend


QUICK = Sizes(rows=20_000, rounds=1, pairs=3)


@dataclass
class Results:
    """The results of a measure."""

    rows: list[Row | Check] = field(default_factory=list[Row | Check])
    tables: list[Table] = field(default_factory=list[Table])
    notes: list[str] = field(default_factory=list[str])


def gain(sizes: Sizes, say: Say) -> Results:
    """Compare two workers with one, and all backends on the same rollouts."""
    results = Results()
    fastest: dict[str, Seconds] = {}  # by backend
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), say)
        for backend in ("processes:1", "processes:2") * sizes.rounds + ("alone", "ray:2"):
            try:
                seconds = bench.run(backend, "cheap", sizes.rows)
            except RuntimeError as error:
                results.notes.append(f"{backend} was not measured: {error}")
                continue
            if backend not in fastest or seconds["wall"] < fastest[backend]["wall"]:
                fastest[backend] = seconds
    results.rows += [
        Row(
            f"{sizes.rows:,} cheap rollouts, two workers",
            sizes.rows / fastest["processes:2"]["wall"],
            sizes.rows / fastest["processes:1"]["wall"],
            "rollouts/s",
            against="one worker",
            target=Target(1.7, "at least"),
        ),
        Row(
            "the driver alone, cutting and joining, CPU",
            1e6 * fastest["processes:2"]["driver"] / sizes.rows,
            None,
            "µs a rollout",
        ),
    ]
    results.tables.append(_backend_table(fastest, sizes.rows))
    return results


def _backend_table(fastest: Mapping[str, Seconds], rows: int) -> Table:
    lines: list[tuple[str, ...]] = []
    for backend, seconds in fastest.items():
        cpu = seconds["driver"] + seconds["workers"]
        start = "in the others"
        if "start" in seconds:
            start = f"{seconds['start']:.2f}"
        lines.append(
            (
                backend,
                f"{seconds['wall']:.2f}",
                f"{seconds['driver']:.2f}",
                f"{seconds['workers']:.2f}",
                f"{1e6 * cpu / rows:.1f}",
                start,
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
    return Table(f"Time of {rows:,} cheap rollouts, by backend:", headings, tuple(lines))


def overhead(sizes: Sizes, say: Say) -> Results:
    """Measure the CPU that a backend adds to a shard of mathematics, without starting a worker."""
    results = Results()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), say)
        for rubric, answers in (("math", "answers of many forms"), ("integers", "integers only")):
            work, total = _time_shard(bench, rubric, sizes)
            percentage = 100 * (total - work) / work
            limit = Limit(10, "at most", "%") if rubric == "math" else None
            results.rows += [
                Row(f"a shard of {SHARD:,}, {answers}: the work alone", work, None, "CPU s"),
                Row("the same by a worker, part written and joined", total, None, "CPU s"),
                Row(f"backend overhead a shard, {answers}", percentage, None, "%", target=limit),
            ]
    return results


def _time_shard(bench: Bench, rubric: str, sizes: Sizes) -> tuple[float, float]:
    """Return the CPU seconds of a shard without a backend, and with one.

    The second is the first times the median ratio of a pair, which varies less than the seconds.
    """
    seconds = bench.time_shards(rubric, sizes.pairs)
    pairs = list(zip(seconds["alone"], seconds["shard"], strict=True))
    del pairs[0]  # it includes warming up
    work = median(alone for alone, _ in pairs)
    ratio = median(shard / alone for alone, shard in pairs)
    return work, work * ratio


def pool(sizes: Sizes, say: Say) -> Results:
    """Compare the CPU of `assay score` with two workers and that of `multiprocessing.Pool`.

    Both score the same rollouts with the same five functions, in turn; the fastest round counts.
    """
    results = Results()
    data_rows = min(sizes.rows, POOL_ROWS)
    seconds: dict[str, list[float]] = {"assay": [], "lines": [], "tables": []}
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), say)
        for _ in range(sizes.rounds):
            for subject, measured in seconds.items():
                measured.append(bench.time_pool(subject, data_rows))
    assay = min(seconds["assay"])
    measure = f"{data_rows:,} rows, five checks, two workers"
    for form, against, target in (
        ("lines", "Pool that saves JSON Lines", Target(2, "at most")),
        ("tables", "Pool that saves two tables in SQLite", None),
    ):
        results.rows.append(
            Row(measure, assay, min(seconds[form]), "CPU s", against=against, target=target)
        )
    return results


MEASURES: Mapping[str, Callable[[Sizes, Say], Results]] = {
    "gain": gain,
    "overhead": overhead,
    "pool": pool,
}


class Bench:
    """Writes files of rollouts, and scores them in new processes."""

    def __init__(self, folder: Path, say: Say) -> None:
        self._folder = folder
        self._say = say
        self._number = 0

    def run(self, backend: str, rubric: str, rows: int) -> Seconds:
        """Score this many rollouts. Raise `RuntimeError` if that fails."""
        self._number += 1
        run = self._folder / f"run-{self._number}"
        command = [sys.executable, *worker("scale.py:scale"), backend, rubric]
        command += [str(self._file(rows, has_many_forms=rubric == "math")), str(run)]
        if backend.startswith("ray"):
            command = [*ISOLATED, *command]
        seconds = _run_command(command, self._say)
        if seconds["rows"] != rows:
            raise RuntimeError(f"{seconds['rows']} rows came of {rows}")
        subprocess.run(["rm", "-r", str(run)], check=True)
        return seconds

    def time_pool(self, subject: str, rows: int) -> float:
        """Return the CPU seconds of scoring with two workers, by `assay score` or by a pool."""
        self._number += 1
        data = str(self._file(rows, has_many_forms=False))
        output = str(self._folder / f"pool-{self._number}")
        if subject == "assay":
            command = [*worker("scale.py:score"), data, output]
        else:
            command = [str(HERE / "pool_peer.py"), subject, data, output]
        return float(_run_command([sys.executable, *command], self._say)["cpu"])

    def time_shards(self, rubric: str, pairs: int) -> Mapping[str, Sequence[float]]:
        """Return the CPU seconds of shards scored without a backend, and with one, in turn."""
        files = [
            # Files of different lengths have different rows.
            str(self._file(SHARD + number, has_many_forms=rubric == "math"))
            for number in range(2 * pairs)
        ]
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            command = [sys.executable, *worker("scale.py:shard"), rubric, folder]
            return _run_command([*command, *files], self._say)

    def _file(self, rows: int, *, has_many_forms: bool) -> Path:
        name, draw = f"{rows}", _draw_integer
        if has_many_forms:
            name, draw = f"{rows}-many-forms", _draw_form
        path = self._folder / f"{name}.jsonl"
        if not path.exists():
            _write_rollouts(path, rows, draw)
        return path


def _run_command(command: Sequence[str], say: Say) -> Any:
    """Return the JSON that a command prints. Raise `RuntimeError` if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=HERE)
    if done.returncode:
        message = (done.stderr.strip() or "no message").splitlines()[-1]
        raise RuntimeError(f"exit code {done.returncode}: {message}")
    last_line = done.stdout.splitlines()[-1]
    arguments = command[command.index(sys.executable) + 1 :]
    say(f"{' '.join(arguments[:3])}: {last_line}")
    return json.loads(last_line)


def _draw_integer(rng: random.Random) -> tuple[str, str]:
    """Return the answer and the model's response, which is right in six of ten cases."""
    answer = rng.randrange(1000)
    is_right = rng.random() < 0.6
    response = answer if is_right else answer + 1
    return str(answer), str(response)


def _draw_form(rng: random.Random) -> tuple[str, str]:
    """Return the same, both written in one of the forms that mathematicians and models use."""
    n = rng.randrange(2, 10_000)
    d = rng.randrange(2, 100)
    is_right = rng.random() < 0.6
    m = n if is_right else n + 1
    return rng.choice(
        (
            (f"{n}", f"{m}"),
            (f"{n:,}", f"{m}"),
            (rf"\frac{{{n}}}{{{d}}}", rf"\dfrac{{{2 * m}}}{{{2 * d}}}"),
            (f"{n / 8}", rf"\frac{{{m}}}{{8}}"),
            (rf"{d}\sqrt{{{n}}}", rf"\sqrt{{{d * d * m}}}"),
            (f"({n}, {d})", rf"\left({m},{d}\right)"),
        )
    )


def _write_rollouts(
    path: Path, rows: int, draw: Callable[[random.Random], tuple[str, str]]
) -> None:
    """Write rollouts of about 450 bytes with an id, the same ones in every run of the benchmark."""
    rng = random.Random(rows)
    with path.open("w", encoding="utf-8") as file:
        for number in range(rows):
            answer, response = draw(rng)
            prompt = f"{' '.join(rng.choices(WORDS, k=15))}: what is {answer} + 0?"
            completion = (
                f"{' '.join(rng.choices(WORDS, k=40))}. The answer is \\boxed{{{response}}}."
            )
            row = {"id": f"q-{number}", "prompt": prompt, "completion": completion}
            file.write(json.dumps({**row, "answer": answer}) + "\n")


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
            results = MEASURES[name](sizes, say)
            rows += results.rows
            tables += results.tables
            notes += results.notes
    except KeyboardInterrupt:
        say("stopped; nothing was saved")
        return 130
    tables = [as_table(rows), *tables]
    print("\n\n".join(map(plain_table, tables)))
    for note in notes:
        print(f"note: {note}")
    save_results("many workers", tables, notes, options, peers=_ray_peer())
    return 0


def _ray_peer() -> list[Peer]:
    """Return the version of Ray that was measured; empty if it is not installed."""
    try:
        return [Peer("ray", version("ray"), ())]
    except PackageNotFoundError:
        return []


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scale.py", description=(__doc__ or "").strip())
    add_options(parser, list(MEASURES))
    parser.add_argument("--rows", type=int, help="the number of rollouts; by default a million")
    return parser


if __name__ == "__main__":
    run_worker(sys.argv, {"scale": scale_main, "score": score_main, "shard": shard_main})
    sys.exit(main())
