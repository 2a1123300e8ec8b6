"""What hostile answers do to a subject and to the good answers beside them."""

import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from math_data import SEED, Pair
from math_found import MILLI, Found
from math_peers import PROCESSES, THREADS
from math_rates import TIMEOUT
from math_sets import Sets
from math_watch import Watched, watch
from rows import Limit, Row, Table
from subjects import Subjects

WORKER = "math_hostile_worker.py"
DEADLINE = 1.0
"""Seconds of work that assay gives each hostile answer here. verifiers has its default of five."""
APART_SECONDS = 12.0
"""How long a single answer may take: more than twice verifiers' own limit."""
MEBIBYTE = 1 << 20

# One of each kind that stops somebody, most telling first.
SAMPLE = (
    "tower of three nines",
    "a sum of k to the k",
    "nested parentheses, 100",
    "factorial of a million",
    "100,000 spaces inside",
    "a symbolic determinant of seven",
    "nested braces, 2,000",
    "50,000 decimals",
    "a union of forty intervals",
    "final answer without end",
    "tiny powers of two apart",
    "the Gaussian integral",
)


def measure_hostile(subjects: Subjects, sets: Sets) -> Found:
    """One by one, then together with good answers, then a few of them apart for everybody."""
    return _one_by_one(subjects, sets) + _together(subjects, sets) + _apart(subjects, sets)


def _one_by_one(subjects: Subjects, sets: Sets) -> Found:
    """All of the table through assay: the time each takes beyond its deadline."""
    cases = sets.hostile[:: max(1, len(sets.hostile) // sets.sizes.alone)]
    pairs = [Pair(case.gold, case.answer) for case in cases]
    seen = _watched(subjects, sets, pairs, ("assay",), way="alone", total=900)["assay"]
    fooled = [
        case.name
        for number, case in enumerate(cases)
        if seen.verdicts.get(number) is True and case.expected is not True
    ]
    notes = [f"hostile answers that assay called equal: {', '.join(fooled)}"] if fooled else []
    slowest = max(seen.seconds_of.values(), default=0.0)
    label = f"{len(cases)} hostile answers one by one"
    beyond = f"{label}, the slowest beyond its deadline of {DEADLINE:.0f} s"
    return Found(
        [
            _counted(f"{label}, answered", len(seen.verdicts), least=len(cases)),
            Row(beyond, max(slowest - DEADLINE, 0.0) * MILLI, None, "ms", target=Limit(300, "at most", "ms")),
            _counted(f"{label}, wrongly called equal", len(fooled), most=0),
        ],
        [],
        notes,
    )


def _together(subjects: Subjects, sets: Sets) -> Found:
    """A shuffled batch of hostile and good answers, asked at once in one event loop."""
    rng = random.Random(SEED)
    cases = rng.sample(sets.hostile, min(sets.sizes.hostile, len(sets.hostile)))
    batch = [Pair(case.gold, case.answer) for case in cases] + sets.good[: sets.sizes.hostile]
    rng.shuffle(batch)
    total = sets.sizes.patience
    ours = _watched(subjects, sets, batch, ("assay",), way="together", total=900)
    peers = _watched(subjects, sets, batch, (THREADS, PROCESSES), way="together", total=total)
    seen = ours | peers
    good = [number for number, pair in enumerate(batch) if pair.label]
    right = {subject: sum(watched.verdicts.get(number) is True for number in good) for subject, watched in seen.items()}
    lines = {
        "answered": [f"{len(watched.verdicts)} of {len(batch)}" for watched in seen.values()],
        "good answers right": [f"{right[subject]} of {len(good)}" for subject in seen],
        "its end": [_end(watched) for watched in seen.values()],
        "longest silence of the event loop": [f"{w.silence:.1f} s" for w in seen.values()],
        "peak memory of a worker": [_memory(watched) for watched in seen.values()],
        "processes and threads left": [_left(watched) for watched in seen.values()],
    }
    table = Table(
        f"{len(batch) - len(good)} hostile and {len(good)} good answers at once:",
        ("", *seen),
        tuple((name, *cells) for name, cells in lines.items()),
    )
    left = sum(seen["assay"].remains) if seen["assay"].remains else None
    return Found(
        [
            _counted("good answers right beside hostile ones", right["assay"], least=len(good)),
            _counted("processes and threads left behind", left, most=0),
            Row(
                "peak memory of a worker, hostile answers",
                seen["assay"].last.get("peak_bytes", 0) / MEBIBYTE or None,
                None,
                "MiB",
                target=Limit(1024, "at most", "MiB"),
            ),
        ],
        [table],
    )


def _apart(subjects: Subjects, sets: Sets) -> Found:
    """A few cases, each in a process of its own."""
    by_name = {case.name: case for case in sets.hostile}
    cases = [by_name[name] for name in SAMPLE[: sets.sizes.apart]]
    pairs = [Pair(case.gold, case.answer) for case in cases]
    ours = _watched(subjects, sets, pairs, ("assay",), way="apart", total=900)
    peers = _watched(subjects, sets, pairs, (THREADS, PROCESSES), way="apart", total=900)
    seen = ours | peers
    truth = {True: "equal", False: "different", None: "none"}
    lines = [
        (case.name, truth[case.expected], *(_told(watched, number) for watched in seen.values()))
        for number, case in enumerate(cases)
    ]
    title = "Single hostile answers, each in a process of its own:"
    return Found([], [Table(title, ("answer", "truth", *seen), tuple(lines))])


def _watched(
    subjects: Subjects, sets: Sets, pairs: list[Pair], names: tuple[str, ...], *, way: str, total: float
) -> dict[str, Watched]:
    """Each subject that can be run, side by side: what happens is of interest, not what it costs."""
    file = sets.file(pairs)

    def one(subject: str) -> Watched:
        subjects.say(f"{WORKER} {subject}: {len(pairs)} pairs, {way}")
        task: dict[str, Any] = {
            "subject": subject,
            "pairs": file,
            "timeout": DEADLINE if subject == "assay" else TIMEOUT,
            "way": way,
            "limit": APART_SECONDS,
        }
        return watch(subjects.interpreters[subject], WORKER, task, quiet=60, total=total)

    known = [subject for subject in names if subject in subjects.interpreters]
    with ThreadPoolExecutor() as threads:
        return dict(zip(known, threads.map(one, known), strict=True))


def _counted(label: str, count: int | None, *, least: int = 0, most: int | None = None) -> Row:
    limit = Limit(least, "at least", "") if most is None else Limit(most, "at most", "")
    return Row(label, count, None, "", target=limit)


def _end(watched: Watched) -> str:
    words = {"ended": "by itself", "frozen": "frozen, killed from outside", "late": "unfinished, killed from outside"}
    return f"{words[watched.end]} after {watched.seconds:.0f} s"


def _memory(watched: Watched) -> str:
    peak = watched.last.get("peak_bytes")
    return "not known" if peak is None else f"{peak / MEBIBYTE:.0f} MiB"


def _left(watched: Watched) -> str:
    return "{} and {}".format(*watched.remains) if watched.remains else "not known"


def _told(watched: Watched, number: int) -> str:
    verdict = watched.verdicts.get(number, "died")
    if isinstance(verdict, str):
        return verdict
    words = watched.words.get(number, "equal" if verdict else "not equal")
    return f"{words}, {watched.seconds_of[number]:.2f} s"
