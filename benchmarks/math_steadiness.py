"""Whether the event loop keeps its pulse, workers come back, and load leaves verdicts alone."""

import random
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

from math_data import SEED, Pair
from math_found import MILLI, Figures, Found, figure
from math_peers import PROCESSES, THREADS
from math_rates import TIMEOUT
from math_sets import Sets
from rows import Limit, Row, Table
from subjects import Subjects

BUSY_LOOPS = 4
# Right, and one to two seconds of work for a symbolic engine: the first to change when time is
# counted by the clock on the wall.
_SLOW = [
    Pair(r"\frac{\pi}{2}", r"\int_0^{\infty} \frac{1}{1+x^2} \, dx"),
    Pair(r"\frac{\pi}{4}", r"\int_0^{\infty} \frac{1}{4+x^2} \, dx"),
    Pair(r"\frac{\pi}{6}", r"\int_0^{\infty} \frac{1}{9+x^2} \, dx"),
    Pair(r"\frac{1}{2}", r"\int_0^{\infty} e^{-x} \sin x \, dx"),
]


def measure_loop(subjects: Subjects, sets: Sets) -> Found:
    """A heartbeat beside a large batch, and single checks asked meanwhile."""
    batch = large_batch(sets)
    files = {"pairs": sets.file(batch), "probes": sets.file(probes(sets))}

    def beside(subject: str, door: str = "many") -> Figures:
        worker = "math_loop_worker.py"
        return subjects.measure(subject, worker, **files, door=door, timeout=TIMEOUT)

    ours, each, *theirs = (beside("assay"), beside("assay", "each"), beside(THREADS), beside(PROCESSES))
    size = f"{len(batch):,} checks"
    rows: list[Row] = []
    for peer, figures in zip((THREADS, PROCESSES), theirs, strict=True):
        rows += [
            Row(
                f"longest silence of the event loop, {size}",
                figure(ours, "longest_gap_seconds", times=MILLI),
                figure(figures, "longest_gap_seconds", times=MILLI),
                "ms",
                peer,
                Limit(20, "at most", "ms"),
            ),
            Row(
                f"one check while {size} run, p99",
                figure(ours, "p99_seconds", times=MILLI),
                figure(figures, "p99_seconds", times=MILLI),
                "ms",
                peer,
                Limit(50, "at most", "ms"),
            ),
        ]
    rows.append(
        Row(
            f"longest silence, {size} by verify_async at once",
            figure(each, "longest_gap_seconds", times=MILLI),
            None,
            "ms",
        )
    )
    return Found(rows)


def large_batch(sets: Sets) -> list[Pair]:
    """All real answers, filled up with GSM8K answers against the next problems' golds."""
    real = [pair for rated in (sets.gsm8k, sets.qwen, sets.passed, sets.mixed) for pair in rated.pairs]
    golds = [pair.gold for pair in sets.gsm8k.pairs]
    shifted = [Pair(golds[(position + 4) % len(golds)], pair.answer) for position, pair in enumerate(sets.gsm8k.pairs)]
    batch = (real + shifted * sets.sizes.batch)[: sets.sizes.batch]
    random.Random(SEED).shuffle(batch)
    return batch


def probes(sets: Sets) -> list[Pair]:
    """Equal pairs that need no symbolic tier."""
    cheap = [pair for pair in sets.good if r"\int" not in pair.answer]
    return cheap[: sets.sizes.probes]


def measure_replacement(subjects: Subjects, sets: Sets) -> Found:
    """Kill all workers; the next verdict must wait for a new one."""
    ours, theirs = (
        subjects.measure(subject, "math_replace_worker.py", times=sets.sizes.kills, timeout=TIMEOUT)
        for subject in ("assay", PROCESSES)
    )
    rows = [
        Row(
            "workers killed, time to the next symbolic verdict",
            figure(ours, "replace_seconds", times=MILLI),
            None,
            "ms",
            target=Limit(50, "at most", "ms"),
        ),
        Row("the same check with its workers alive", figure(ours, "check_seconds", times=MILLI), None, "ms"),
    ]
    line = ("right after all workers were killed", _of(ours), _of(theirs))
    table = Table("Workers killed, then one right answer, several times:", ("", "assay", PROCESSES), (line,))
    return Found(rows, [table])


def _of(figures: Figures) -> str:
    return "not measured" if figures is None else f"{figures['right']} of {figures['times']} right"


def measure_load(subjects: Subjects, sets: Sets) -> Found:
    """The same batch on an idle machine and beside busy loops."""
    pairs = mixed_batch(sets)
    file = sets.file(pairs)

    def verdicts(subject: str) -> str | None:
        figures = subjects.measure(subject, "math_rate_worker.py", pairs=file, timeout=TIMEOUT)
        return None if figures is None else figures["verdicts"]

    idle = {subject: verdicts(subject) for subject in ("assay", THREADS, PROCESSES)}
    with busy_loops():
        busy = {subject: verdicts(subject) for subject in idle}
    changed = {subject: _changed(idle[subject], busy[subject]) for subject in idle}
    label = f"verdicts changed by {BUSY_LOOPS} busy loops, {len(pairs)} answers"
    return Found(
        [
            Row(label, changed["assay"], changed[peer], "", peer, Limit(0, "at most", ""))
            for peer in (THREADS, PROCESSES)
        ]
    )


def mixed_batch(sets: Sets) -> list[Pair]:
    """A third each of numbers, model output and hard expressions, and a few slow ones."""
    rng = random.Random(SEED)
    share = sets.sizes.mixed // 3
    parts = [rng.sample(rated.pairs, min(share, len(rated.pairs))) for rated in (sets.gsm8k, sets.mixed, sets.hard)]
    batch = [*_SLOW, *(pair for part in parts for pair in part)]
    rng.shuffle(batch)
    return batch


@contextmanager
def busy_loops() -> Generator[None]:
    """So many processes that do nothing but want a processor."""
    command = (sys.executable, "-c", "while True: pass")
    loops = [subprocess.Popen(command) for _ in range(BUSY_LOOPS)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def _changed(before: str | None, after: str | None) -> int | None:
    if before is None or after is None:
        return None
    return sum(one != other for one, other in zip(before, after, strict=True))
