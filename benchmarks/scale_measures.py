"""What is measured of many workers: the gain of a second one, the cost of an engine, and the turns at a judge.

Runs are in fresh processes of their own, with workers that are started for them, and CPU seconds are those of all
processes. One worker and two take turns, and the fastest round of each counts; shards take turns in one process.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

from rows import Check, Limit, Row, Table, Target

HERE = Path(__file__).parent
SHARD = 10_000
APART = (
    "unshare", "-rnpf", "--mount-proc", "--kill-child", "sh", "-c", 'ip link set lo up && exec "$0" "$@"',
)  # fmt: skip
"""A network that has only the loopback: Ray listens on all interfaces."""
WORDS = (
    "the", "heat", "pump", "pays", "for", "itself", "in", "seven", "to", "nine", "years", "where",
    "winters", "are", "mild", "and", "power", "is", "cheap",
)  # fmt: skip

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
    turns: int = 20_000
    """That each of two clients takes."""


QUICK = Sizes(rows=20_000, rounds=1, pairs=3, turns=1_000)


@dataclass
class Found:
    """What a measure comes to."""

    rows: list[Row | Check] = field(default_factory=list[Row | Check])
    tables: list[Table] = field(default_factory=list[Table])
    notes: list[str] = field(default_factory=list[str])


def gain(sizes: Sizes, say: Say) -> Found:
    """Two workers against one, and what each engine takes for the same rollouts."""
    found = Found()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), say)
        engines = ("processes:1", "processes:2") * sizes.rounds + ("alone", "ray:2")
        taken: dict[str, Taken] = {}
        for engine in engines:
            try:
                took = bench.run(engine, "cheap", sizes.rows)
                taken[engine] = min(took, taken.get(engine, took), key=itemgetter("wall"))
            except RuntimeError as error:
                found.notes.append(f"{engine} was not measured: {error}")
    rate = {engine: sizes.rows / took["wall"] for engine, took in taken.items()}
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
    found.rows.append(Row("the driver alone, cutting and joining, CPU", driver, None, "µs a rollout"))
    found.tables.append(_engines(taken, sizes.rows))
    return found


def _engines(taken: Mapping[str, Taken], rows: int) -> Table:
    lines: list[tuple[str, ...]] = []
    for engine, took in taken.items():
        cpu = took["driver"] + took["workers"]
        figures = (took["wall"], took["driver"], took["workers"])
        lines.append(
            (
                engine,
                *(f"{figure:.2f}" for figure in figures),
                f"{1e6 * cpu / rows:.1f}",
                f"{took['start']:.2f}" if "start" in took else "in the others",
            )
        )
    headings = ("engine", "wall s", "CPU s driver", "CPU s workers", "CPU µs a rollout", "CPU s start")
    return Table(f"What {rows:,} cheap rollouts take, by engine:", headings, tuple(lines))


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
                Row(f"engine overhead a shard, {answers}", share, None, "%", target=limit),
            ]
    return found


def _a_shard(bench: "Bench", rubric: str, sizes: Sizes) -> tuple[float, float]:
    """CPU seconds of a shard by one process, and by a worker: that, and the median of what pairs differ by."""
    took = bench.shards(rubric, sizes.pairs)
    pairs = list(zip(took["alone"], took["shard"], strict=True))[1:]  # the first is to warm up
    work = median(alone for alone, _ in pairs)
    return work, work * median(shard / alone for alone, shard in pairs)


def permits(sizes: Sizes, say: Say) -> Found:
    """How many turns at a judge one driver can hand out."""
    told = _told([sys.executable, str(HERE / "scale_permits_worker.py"), str(sizes.turns)], say)
    return Found(
        rows=[
            Row("turns at a judge, handed out", 1e6 / told["server"], None, "turns/CPU s"),
            Row("a turn, CPU of the driver", told["server"], None, "µs"),
            Row("a turn, CPU of the worker", told["client"], None, "µs"),
        ]
    )


MEASURES: Mapping[str, Callable[[Sizes, Say], Found]] = {"gain": gain, "overhead": overhead, "permits": permits}


class Bench:
    """Files of rollouts, and runs of them."""

    def __init__(self, folder: Path, say: Say) -> None:
        self._folder = folder
        self._say = say
        self._number = 0

    def run(self, engine: str, rubric: str, rows: int) -> Taken:
        """What scoring so many rollouts takes. Raises `RuntimeError` when it cannot be done."""
        self._number += 1
        run = self._folder / f"run-{self._number}"
        command = [sys.executable, str(HERE / "scale_worker.py"), engine, rubric]
        command += [str(self._file(rows, of_many_forms=rubric == "math")), str(run)]
        took = _told([*APART, *command] if engine.startswith("ray") else command, self._say)
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
            command = [sys.executable, str(HERE / "scale_shard_worker.py"), rubric, folder]
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


def _write(path: Path, rows: int, draw: Callable[[random.Random], tuple[str, str]] = _integer) -> None:
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
